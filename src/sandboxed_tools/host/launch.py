"""Starting the supervisor of one host run: what it is told, and the process itself."""

from __future__ import annotations

import functools
import math
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.host.landlock import (
    READ,
    WRITE_BELOW,
    PathRule,
    handled_attributes,
    scope_attributes,
)
from sandboxed_tools.host.scratch import Scratch
from sandboxed_tools.host.seccomp_rules import REFUSED, WATCHED
from sandboxed_tools.host.spare import Supervisor, compiled, supervisor
from sandboxed_tools.host.syscalls import NUMBERS, Machine, number_of
from sandboxed_tools.tool.limits import Limits

__all__ = ["GatePlan", "Identity", "Launch", "launched"]

NOBODY: Final = 65534
CAP_DAC_READ_SEARCH: Final = 2


@dataclass(frozen=True, slots=True)
class GatePlan:
    """What of the gate is the same for every run on this machine.

    ``file_rights`` are those that Landlock decides about; the filter makes up for the others.
    """

    machine: Machine
    landlock_abi: int
    file_rights: int
    notify: bool
    seccomp_filter: bytes
    system_rules: tuple[PathRule, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that the command runs as; ``None`` keeps the client's own.

    A root client's commands run as ``nobody`` and keep one capability, CAP_DAC_READ_SEARCH, where
    the client has it: it passes over the mode of files, so that a workspace below ``/root`` can be
    read, while Landlock decides which files those are. Writing would need a capability that they do
    not have, as well as a right that Landlock does not give.
    """

    uid: int | None
    gid: int | None
    capabilities: int
    permitted: int

    @classmethod
    def for_client(cls) -> Identity:
        if os.geteuid() != 0:
            return cls(None, None, 0, 0)
        permitted = _permitted_capabilities()
        return cls(NOBODY, NOBODY, (1 << CAP_DAC_READ_SEARCH) & permitted, permitted)


def _permitted_capabilities() -> int:
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("CapPrm:"):
                return int(line.split()[1], 16)
    return 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One run, as the supervisor is to start it. Descriptors stay the caller's.

    ``folders`` are open folders that may be read: the workspace and the read roots. ``cwd`` is one
    more descriptor, ``script`` another or -1.
    """

    argv: tuple[bytes, ...]
    env: Mapping[bytes, bytes]
    scratch: Scratch
    folders: Sequence[int]
    cwd: int
    script: int
    limits: Limits
    identity: Identity


@contextmanager
def launched(
    plan: GatePlan, launch: Launch, *, stdin: int, stdout: int, stderr: int
) -> Iterator[Supervisor]:
    """Have a supervisor start the command; yields the supervisor. Blocking for about a millisecond.

    At the end the supervisor is gone: the caller is to wait for the last line of its report before
    that, for whatever still lives when it is killed lives on.

    Raises:
        OSError: the supervisor could not be started, or was lost at once.
    """
    descriptors = [stdin, stdout, stderr, launch.cwd, *launch.folders]
    if launch.script >= 0:
        descriptors.append(launch.script)
    with supervisor() as taken:
        taken.tell(_told(plan, launch), descriptors)
        yield taken


def _told(plan: GatePlan, launch: Launch) -> dict[str, object]:
    """What a supervisor is told; descriptors travel beside it, in the order of ``launched``."""
    abi, handled = plan.landlock_abi, plan.file_rights
    rules = [
        *plan.system_rules,
        PathRule(os.fsencode(launch.scratch.tmp), WRITE_BELOW),
        PathRule(os.fsencode(launch.scratch.home), READ),
    ]
    return {
        "landlock": handled_attributes(abi, rights=handled),
        "scope": scope_attributes(abi),
        "folders": len(launch.folders),
        "folder_rights": READ,
        "path_rules": [(rule.path, rule.rights & handled) for rule in rules],
        "filter": plan.seccomp_filter,
        "notify": plan.notify,
        "calls": _calls(plan.machine),
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "uid": launch.identity.uid,
        "gid": launch.identity.gid,
        "capabilities": launch.identity.capabilities,
        "permitted": launch.identity.permitted,
        "rlimits": _resource_limits(launch.limits, launch.identity),
        "scratch": os.fsencode(launch.scratch.root),
        "remover": compiled("remove_tree.py"),
        **_supervisor_calls(plan.machine),
    }


@functools.cache
def _supervisor_calls(machine: Machine) -> dict[str, int]:
    numbers = {"x86_64": (317, 126), "aarch64": (277, 91)}[machine]
    prlimit = number_of("prlimit64", machine)
    assert prlimit is not None
    return {"seccomp": numbers[0], "capset": numbers[1], "prlimit64": prlimit}


# Where a call has its paths: (argument with the folder or -1, argument with the path or -1). With
# no argument for the path the descriptor itself is meant.
_PATHS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "open": ((-1, 0),),
    "creat": ((-1, 0),),
    "openat": ((0, 1),),
    "openat2": ((0, 1),),
    "mkdir": ((-1, 0),),
    "mkdirat": ((0, 1),),
    "rmdir": ((-1, 0),),
    "unlink": ((-1, 0),),
    "unlinkat": ((0, 1),),
    "rename": ((-1, 0), (-1, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
    "link": ((-1, 1),),
    "linkat": ((2, 3),),
    "symlink": ((-1, 1),),
    "symlinkat": ((1, 2),),
    "truncate": ((-1, 0),),
    "chmod": ((-1, 0),),
    "fchmod": ((0, -1),),
    "fchmodat": ((0, 1),),
    "fchmodat2": ((0, 1),),
    "chown": ((-1, 0),),
    "fchown": ((0, -1),),
    "lchown": ((-1, 0),),
    "fchownat": ((0, 1),),
    "utime": ((-1, 0),),
    "utimes": ((-1, 0),),
    "mknod": ((-1, 0),),
    "mknodat": ((0, 1),),
    "setxattr": ((-1, 0),),
    "lsetxattr": ((-1, 0),),
    "fsetxattr": ((0, -1),),
}


@functools.cache
def _calls(machine: Machine) -> dict[int, tuple[str, bool, tuple[tuple[int, int], ...]]]:
    """By number: the name of a call, whether it is refused, and the places of its paths."""
    watched = {*WATCHED, "open", "openat"}
    return {
        number: (name, name not in watched, _PATHS.get(name, ()))
        for name in {*REFUSED, *NUMBERS}
        if (number := number_of(name, machine)) is not None
    }


def _resource_limits(limits: Limits, identity: Identity) -> list[tuple[int, int]]:
    """Soft and hard alike, and never above what the client has itself."""
    uid = os.getuid() if identity.uid is None else identity.uid
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: math.ceil(limits.wall_s * max(1.0, limits.cpus)) + 1,
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_FSIZE: min(limits.tmp_bytes, limits.file_bytes),
        resource.RLIMIT_NOFILE: limits.open_files,
        # The kernel counts every task of the user, so those that are there already come on top.
        resource.RLIMIT_NPROC: _tasks_of(uid) + limits.pids,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    pairs = []
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        pairs.append((which, value if hard == resource.RLIM_INFINITY else min(value, hard)))
    return pairs


def _tasks_of(uid: int) -> int:
    """How many processes and threads this user has, as far as ``/proc`` shows them."""
    count = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdecimal():
                continue
            try:
                status = os.stat(f"/proc/{entry.name}/task")
            except OSError:
                continue
            if status.st_uid == uid:
                count += status.st_nlink - 2
    return count
