"""What runtimes are known not to hold, each with what was seen and why.

A difference is declared where it was measured: gVisor release 20240729, its default platform
(systrap), Docker 20.10 and 28.5, ``runtimeArgs: ["--network=none"]``. Declared checks run all the
same, so that one which begins to hold is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["Difference", "known_differences"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Why a check need not hold.

    ``holds_where`` says in words where it holds all the same: then neither outcome fails a report.
    Without it the check is expected to fail, and one that passes is told as a stale declaration.
    """

    reason: str
    holds_where: str = ""


_NO_LAUNCHER = "no launcher there: gVisor starts no program that it may not read"
_STDIN = f"{_NO_LAUNCHER}, and the end of standard input does not arrive"
_CODE = "without the launcher, codes over 128 read as signals"
_MEMORY = "the limit ends the whole sandbox, reported as a kill"
_PIDS = "the limit counts gVisor's own threads: reaching it ends the whole sandbox (exit code 2)"
_OWN_KERNEL = "answered by gVisor's own kernel, not by the host's"

_RUNSC: Mapping[str, str | Difference] = {
    "endings.exit-code-137": _CODE,
    "endings.exit-code-139": _CODE,
    "endings.exit-code-255": _CODE,
    "endings.memory-words": _CODE,
    "endings.program-missing": f"{_NO_LAUNCHER}, so the engine refuses the start",
    "endings.program-not-executable": f"{_NO_LAUNCHER}, so the engine refuses the start",
    "process.arguments": "the engine's API carries arguments as Unicode text",
    "process.environment": f"{_NO_LAUNCHER}, so own variables are refused, not shown to the engine",
    "process.environment-is-private": f"{_NO_LAUNCHER}, so own variables are refused",
    "process.directory-through-a-descriptor": f"{_NO_LAUNCHER}, so the engine refuses the start",
    "process.empty-environment": f"{_NO_LAUNCHER}, so the engine adds HOME and HOSTNAME",
    "process.long-script": f"{_NO_LAUNCHER}, so long scripts are refused",
    "process.script-bytes": f"{_NO_LAUNCHER}, so long scripts are refused",
    "process.signal-dispositions": "its /proc/self/status has no line for ignored signals",
    "stdin.none": _STDIN,
    "stdin.empty": _STDIN,
    "stdin.every-byte": _STDIN,
    "stdin.large": _STDIN,
    "stdin.stream": _STDIN,
    "stdin.mirror": _STDIN,
    "limits.memory-of-the-command": Difference(
        _MEMORY, holds_where="the engine says of such a container that it ran out of memory"
    ),
    "limits.memory-of-a-child": _MEMORY,
    "limits.memory-over-processes": _MEMORY,
    "limits.tmp-counts-as-memory": _MEMORY,
    "limits.tmp-inodes": "its tmpfs has no limit of inodes; the one of bytes and memory holds",
    "limits.processes": _PIDS,
    "limits.fork-bomb": _PIDS,
    "limits.processor": "the host throttles it (cpu.stat), its own clock of processor time runs on",
    "isolation.environment-does-not-leak": f"{_NO_LAUNCHER}, so own variables are refused",
    "isolation.many-at-once": _STDIN,
    "confinement.no-new-privileges": "its /proc/self/status shows no filter; the host's is beneath",
    "confinement.no-devices": "it has /dev/net/tun and /dev/fuse of its own",
    "confinement.own-memory-score": "a score of its own kernel, which decides nothing",
    "confinement.own-priority": "a priority of its own kernel, which decides nothing",
    "confinement.refused-user-namespace": _OWN_KERNEL,
    "confinement.refused-user-namespace-by-clone3": _OWN_KERNEL,
    "confinement.refused-icmp": f"{_OWN_KERNEL}; there is no network behind the socket",
    "confinement.refused-trace": _OWN_KERNEL,
    "confinement.refused-device-node": f"{_OWN_KERNEL}; the node leads to no device of the host",
    "confinement.supervisor": f"{_NO_LAUNCHER}: process 1 is the command itself",
    "confinement.limited-supervisor": f"{_NO_LAUNCHER}: process 1 is the command itself",
    "confinement.starved-supervisor": f"{_NO_LAUNCHER}: process 1 is the command itself",
    "confinement.host-secrets": "it shows a kernel command line of its own invention",
}

_BY_PREFIX: Mapping[str, Mapping[str, Difference]] = MappingProxyType(
    {
        "runsc": MappingProxyType(
            {
                check_id: why if isinstance(why, Difference) else Difference(why)
                for check_id, why in _RUNSC.items()
            }
        )
    }
)


def known_differences(runtime: str | None) -> Mapping[str, Difference]:
    """Check ids that a runtime is known not to hold, each with the reason; none for ``runc``.

    An engine may know one runtime by several names, such as ``runsc`` and ``runsc-kvm``.
    """
    name = runtime or ""
    found = (known for prefix, known in _BY_PREFIX.items() if name.startswith(prefix))
    return next(found, MappingProxyType({}))
