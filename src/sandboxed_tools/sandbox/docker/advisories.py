"""Known holes of engines and runtimes that matter to a sandbox, and from which version they are
closed.

A distribution closes holes without changing the upstream version, so an old version with a
distribution's mark is *unknown*, not *affected*. Versions are from the advisories of the projects
(github.com/opencontainers/runc/security, github.com/moby/moby/security,
github.com/containerd/containerd/security).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sandboxed_tools.sandbox.contract import Capability

__all__ = ["Advisory", "check_advisories"]

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Advisory:
    """A hole: in which component, closed from which version on each branch, and what we do.

    ``fixed``: the first good version of each branch, oldest first; a branch is ``major.minor``.
    Older branches than the first are affected, newer ones than the last are not.
    ``kept_out``: why it is out of reach here although the component is affected. ``patched``: a
    pattern of the distributions' builds of older versions that have the fix, from their changelogs.
    """

    ids: str
    component: str
    fixed: tuple[Version, ...]
    what: str
    kept_out: str
    patched: str | None = None


ADVISORIES = (
    Advisory(
        "CVE-2019-5736",
        "runc",
        ((1, 0, 0),),
        "the container overwrites the host's runc",
        "containers never run as user 0",
    ),
    Advisory(
        "CVE-2024-21626",
        "runc",
        ((1, 1, 12),),
        "a working directory of /proc/self/fd/N leaves the container",
        "the working directory never comes from a command or an image",
        patched=r"1\.1\.5\+ds1-1\+deb12u[1-9]\d*",
    ),
    Advisory(
        "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        "runc",
        ((1, 2, 8), (1, 3, 3), (1, 4, 0)),
        "races while paths are masked and /dev/console is mounted",
        "containers have a read-only root, no terminal, and never run as user 0",
    ),
    Advisory(
        "CVE-2020-15257",
        "containerd",
        ((1, 3, 9), (1, 4, 3)),
        "the shim's socket can be reached from the host's network namespace",
        "containers never share the host's network",
    ),
    Advisory(
        "CVE-2026-41567, CVE-2026-41568, CVE-2026-42306",
        "engine",
        ((29, 5, 1),),
        "copying files into and out of a container runs or mounts what the container chose",
        "files are never copied through the engine",
    ),
)


def check_advisories(versions: Mapping[str, str]) -> tuple[Capability, ...]:
    """One entry for each advisory whose component has a known version. Pure.

    ``versions`` has the keys ``engine``, ``runc``, ``containerd``.
    """
    return tuple(
        _judge(advisory, versions[advisory.component])
        for advisory in ADVISORIES
        if versions.get(advisory.component)
    )


def _judge(advisory: Advisory, text: str) -> Capability:
    name = f"{advisory.ids} ({advisory.component})"
    version = _parse(text)
    if version is None:
        return Capability(name, "unknown", f"the version {text!r} cannot be read")
    is_patched = advisory.patched is not None and re.fullmatch(advisory.patched, text)
    if is_patched or _is_fixed(version, advisory.fixed):
        return Capability(name, "enforced", f"{advisory.component} {text} has the fix")
    said = f"{advisory.component} {text} is older than the fix: {advisory.what}"
    shield = f"{said}; out of reach here: {advisory.kept_out}"
    first = ".".join(map(str, advisory.fixed[-1]))
    if re.search(r"[+~]|-\d", text.partition(" ")[0]):
        return Capability(
            name,
            "unknown",
            f"{shield}; the distribution may have closed it in this build",
            f"see the changelog of the package {advisory.component}",
        )
    return Capability(name, "weaker", shield, f"update {advisory.component} to {first} or newer")


def _parse(text: str) -> Version | None:
    match = re.match(r"v?(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5}))?", text)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _is_fixed(version: Version, fixed: tuple[Version, ...]) -> bool:
    for first in fixed:
        if version[:2] == first[:2]:
            return version >= first
    return version > fixed[-1]
