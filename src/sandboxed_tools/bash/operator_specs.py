"""Programs that an operator adds to the table, from plain data such as a TOML file.

Adding is all that can be done: a name of the table, of a builtin, or of anything that starts other
programs is refused, so no check can be replaced or weakened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from sandboxed_tools.bash.options import Spec
from sandboxed_tools.bash.table import NEVER, TABLE
from sandboxed_tools.errors import ConfigurationError

__all__ = ["load_specs"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_LONG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class _SpecModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    short: str = Field(default="", pattern=r"^[A-Za-z0-9?@#%,.:]*$")
    short_value: str = Field(default="", pattern=r"^[A-Za-z0-9]*$")
    short_optional: str = Field(default="", pattern=r"^[A-Za-z0-9]*$")
    long: list[str] = []
    long_value: list[str] = []
    long_optional: list[str] = []
    requires: list[str] = []
    attached: bool = True
    cluster: bool = True
    numeric: bool = False
    max_operands: int | None = Field(default=None, ge=0)
    permute: bool = True
    plus: bool = False
    at: bool = False
    unknown: Literal["never", "operand"] = "never"

    def spec(self) -> Spec:
        """The same as the table holds it."""
        return Spec(
            short=self.short,
            short_value=self.short_value,
            short_optional=self.short_optional,
            long=frozenset(self.long),
            long_value=frozenset(self.long_value),
            long_optional=frozenset(self.long_optional),
            requires=frozenset(self.requires),
            attached=self.attached,
            cluster=self.cluster,
            numeric=self.numeric,
            max_operands=self.max_operands,
            permute=self.permute,
            plus=self.plus,
            at=self.at,
            unknown=self.unknown,
        )

    @field_validator("long", "long_value", "long_optional")
    @classmethod
    def _whole_names(cls, value: list[str]) -> list[str]:
        for name in value:
            if not _LONG.fullmatch(name):
                raise ValueError(f"{name!r} is not a long option's name without its dashes")
        return value


def load_specs(data: Mapping[str, object]) -> dict[str, Spec]:
    """Specs by program name, for ``classify(extra_specs=…)``.

    ``data`` maps a program's plain name to the fields of :class:`Spec` (``short``, ``short_value``,
    ``long``, ``max_operands``, …; not ``anything``, and ``unknown`` is ``never`` or ``operand``).
    Without fields a program takes known operands and no option.

    Raises:
        ConfigurationError: a name that is built in or can never be read-only, or a field that is
            unknown or malformed; the message names the program and each field.
    """
    specs: dict[str, Spec] = {}
    for name, fields in data.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r} is not the plain name of a program.")
        if name in TABLE:
            raise ConfigurationError(
                f"{name!r} has a built-in rule, which can not be replaced. Remove it."
            )
        if name in NEVER:
            raise ConfigurationError(
                f"{name!r} writes, connects or runs other programs, so it can never count as"
                " read-only. Remove it."
            )
        try:
            model = _SpecModel.model_validate(fields)
        except ValidationError as error:
            detail = "; ".join(
                f"{name}.{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
                for item in error.errors()
            )
            raise ConfigurationError(f"The program specs cannot be used: {detail}.") from error
        specs[name] = model.spec()
    return specs
