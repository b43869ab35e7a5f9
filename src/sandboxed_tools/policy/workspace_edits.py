"""Whether a host call only edits ordinary files of the workspace, which ``accept-edits`` allows."""

from __future__ import annotations

import os

from sandboxed_tools.policy.path_rules import touched_path
from sandboxed_tools.policy.placement import Placement
from sandboxed_tools.policy.rules import Scope
from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.tool import AnyTool, Flags, ToolInput
from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.protected import protected_reason
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["edits_only_the_workspace"]


def edits_only_the_workspace(
    tool: AnyTool,
    tool_input: ToolInput,
    flags: Flags,
    placement: Placement,
    policy: Policy,
    scope: Scope,
) -> bool:
    """Whether everything that the call says it writes is in the workspace and not protected.

    It holds only for a trusted tool's own Python code on the host that states its ``paths_written``
    and reaches nothing beyond this machine. Never raises; in doubt, no.
    """
    if (
        placement.where != "host"
        or tool.runs_commands
        or flags.is_open_world
        or scope.workspace is None
        or "paths_written" not in tool.stated
    ):
        return False
    try:
        paths = tool.paths_written(tool_input)
    except (Exception, SystemExit):  # noqa: BLE001  (an author's code: nothing is known of this call)
        return False
    return bool(paths) and all(_is_ordinary(path, policy, scope) for path in paths)


def _is_ordinary(path: os.PathLike[str], policy: Policy, scope: Scope) -> bool:
    workspace = os.fspath(scope.workspace) if scope.workspace is not None else ""
    touched = touched_path(os.fspath(path), workspace=scope.workspace, cwd=scope.cwd)
    if touched.climbs:
        return False
    for spelling in touched.spellings:
        if not spelling.startswith(workspace.rstrip("/") + "/"):
            return False
        names = os.fsencode(spelling[len(workspace.rstrip("/")) + 1 :])
        change = Change(names, "modified", before=None, after=None)

        def is_there(parts: Parts, edited: bytes = names) -> bool:
            # Whatever is asked about a virtual environment counts against the path.
            path = b"/".join(parts)
            return (
                parts[-1] == b"pyvenv.cfg"
                or (edited + b"/").startswith(path + b"/")
                or os.path.lexists(os.path.join(os.fsencode(workspace), path))
            )

        reason = protected_reason(
            change,
            was_there=lambda _: False,
            is_there=is_there,
            extra=policy.protected_paths,
        )
        if reason is not None:
            return False
    return True
