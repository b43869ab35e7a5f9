"""The layer that comes from variables: ``SANDBOXED_TOOLS_MODE``, ``SANDBOXED_TOOLS_DENY``, …

Lists are JSON (``SANDBOXED_TOOLS_DENY='["Bash(rm:*)"]'``); a limit of the ceiling or of the
admission is written with two underscores (``SANDBOXED_TOOLS_CEILING__MEMORY_BYTES=512m``).
"""

from __future__ import annotations

import difflib
import os
from typing import Final

from pydantic import ValidationError

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.admission import AdmissionPolicy
from sandboxed_tools.policy.layers import Layer
from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.tool import Limits, for_terminal
from sandboxed_tools.tool.state import STATE_DIR_VARIABLE

__all__ = ["PREFIX", "environment_layer"]

PREFIX: Final = "SANDBOXED_TOOLS_"
_OTHERS: Final = frozenset({STATE_DIR_VARIABLE})
"""Variables with our prefix that are no part of the policy."""


def environment_layer() -> Layer | None:
    """What the process's environment says now; ``None`` when it says nothing.

    Raises:
        ConfigurationError: a variable with our prefix that does not exist (with the nearest one
            that does), or a value that cannot be used.
    """
    found = [name for name in os.environ if name.upper().startswith(PREFIX) and name not in _OTHERS]
    if not found:
        return None
    known = _known()
    for name in found:
        if name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigurationError(
                f"There is no variable {for_terminal(name[:100], one_line=True)}.{hint}"
            )
    # Imported late: most programs have no such variable, and it takes longer than a call.
    from pydantic_settings import SettingsError

    from sandboxed_tools.policy.environment_settings import EnvironmentPolicy

    try:
        stated = EnvironmentPolicy()
    except SettingsError as error:
        raise ConfigurationError(
            f"A variable is not the JSON that its field needs: {error}. Lists are JSON."
        ) from None
    except ValidationError as error:
        parts = "; ".join(
            f"{PREFIX}{'__'.join(str(place) for place in item['loc']).upper()}: "
            f"{item['msg'].removeprefix('Value error, ')}"
            for item in error.errors(include_url=False, include_input=False)[:20]
        )
        raise ConfigurationError(
            f"The policy in the environment cannot be used: {for_terminal(parts, one_line=True)}"
        ) from None
    return Layer("environment", "environment", stated)


def _known() -> frozenset[str]:
    fields = {f"{PREFIX}{name.upper()}" for name in Policy.model_fields}
    limits = {f"{PREFIX}CEILING__{name.upper()}" for name in Limits.model_fields}
    admission = {f"{PREFIX}ADMISSION__{name.upper()}" for name in AdmissionPolicy.model_fields}
    return frozenset(fields | limits | admission | _OTHERS)
