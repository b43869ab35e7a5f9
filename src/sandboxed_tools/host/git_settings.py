"""Settings under which git runs no program that the repository names.

They apply on top of the operator's word that the workspace is trusted. What they cannot turn off
are filters (``filter.*.clean``) and text conversions: no setting of git does that for all of them.
A program that is run all the same is in the gate like everything else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["git_settings"]

_VARIABLES: Final[Mapping[str, str]] = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
}

# The command line of git is the caller's; GIT_CONFIG_COUNT has the same rank as -c (git-config(1)).
_OVERRIDES: Final = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "/bin/false"),
    ("core.pager", "cat"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.autoRefreshIndex", "false"),
    ("gpg.program", "/bin/false"),
    ("gpg.ssh.program", "/bin/false"),
    ("gpg.x509.program", "/bin/false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
)

# Makes git diff fail instead of running the program that the repository names. No value means
# "none", so it would fail in every other repository as well: it is set only where it is needed.
_NO_EXTERNAL_DIFF: Final = ("diff.external", "/bin/false")

_MAX_CONFIG_BYTES: Final = 1 << 20


def git_settings(workspace: Path) -> dict[str, str]:
    """The variables for git in a workspace that the operator trusts."""
    # The command may run as another user than the owner of the repository (CVE-2022-24765).
    pairs = [*_OVERRIDES, ("safe.directory", str(workspace))]
    if _may_name_an_external_diff(workspace):
        pairs.append(_NO_EXTERNAL_DIFF)
    variables = {**_VARIABLES, "GIT_CONFIG_COUNT": str(len(pairs))}
    for index, (key, value) in enumerate(pairs):
        variables[f"GIT_CONFIG_KEY_{index}"] = key
        variables[f"GIT_CONFIG_VALUE_{index}"] = value
    return variables


def _may_name_an_external_diff(workspace: Path) -> bool:
    """Whether the configuration mentions one, or mentions other files, or cannot be read."""
    try:
        if not stat.S_ISDIR(os.lstat(workspace / ".git").st_mode):
            return True
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(workspace / ".git" / "config", flags)
    except OSError:
        return True
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return True
        content = file.read(_MAX_CONFIG_BYTES + 1)
    if len(content) > _MAX_CONFIG_BYTES:
        return True
    # Names of sections and variables cannot be quoted or continued (git-config(1)).
    return any(word in content.lower() for word in (b"external", b"include", b"worktreeconfig"))
