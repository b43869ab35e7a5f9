"""Whether the gate can be had on this machine, proved by runs that try to get through it."""

from __future__ import annotations

import ctypes
import functools
import os
import select
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import anyio.to_thread

from sandboxed_tools.host.environment import build_environment
from sandboxed_tools.host.landlock import MINIMUM_ABI, TRUNCATE, known_rights, system_rules
from sandboxed_tools.host.launch import GatePlan, Identity, Launch, launched
from sandboxed_tools.host.report import Report
from sandboxed_tools.host.scratch import private_scratch, remove_stale_scratch
from sandboxed_tools.host.seccomp_rules import filter_program
from sandboxed_tools.host.stragglers import kill_stragglers
from sandboxed_tools.host.syscalls import AUDIT_ARCH, Machine
from sandboxed_tools.tool.limits import Limits

__all__ = ["BASH", "GateStatus", "gate_plan", "gate_status", "landlock_abi", "probe_gate"]

BASH: Final = ("/usr/bin/bash", "--norc", "--noprofile", "-c", "--")

NEWEST_ABI: Final = 7
"""The newest Landlock ABI whose rights are handled here. Newer ones only add to it."""

_PROBE_S: Final = 30.0

# Writes that must fail, a write and a read that must work, and two processes that must not survive.
_PROBE: Final = """
sleep 600 & setsid sleep 600 &
echo written > planted
echo changed >> kept
chmod 0777 kept
(exec 3<>/dev/tcp/127.0.0.1/9) && echo connected
read -r line < /etc/shadow && echo leaked
echo works > "$TMPDIR/file" && read -r line < "$TMPDIR/file" && read -r kept < kept
echo "$line $kept"
"""
_ANSWER: Final = b"works as it was\n"


@dataclass(frozen=True, slots=True)
class GateStatus:
    """What was found. Where the gate is not ``available`` no command runs on the host.

    ``landlock_abi`` is what the kernel offers, 0 for nothing. ``reasons`` says in words what is
    missing and what was proved. ``reports_denials`` is whether refused calls are noted one by one.
    """

    available: bool
    landlock_abi: int
    reasons: tuple[str, ...]
    reports_denials: bool = False


def gate_status() -> GateStatus:
    """Probe once in a process, and remember. Blocking for up to 0.1 s the first time."""
    return _found()[0]


async def gate_plan(*, opens_many_files: bool = False) -> GatePlan | None:
    """The plan that the probe proved; ``None`` where the gate is not available.

    With ``opens_many_files`` truncation is refused by the filter, as on kernels before 6.2. When
    Landlock handles that right, it looks for it at every open in every folder up to the root, for
    a file that may only be read as well (hook_file_open, security/landlock/fs.c).
    """
    probed = _probed_for_many_files if opens_many_files else _found
    if probed.cache_info().currsize:
        return probed()[1]
    return (await anyio.to_thread.run_sync(probed))[1]


@functools.cache
def _found() -> tuple[GateStatus, GatePlan | None]:
    remove_stale_scratch()
    return probe_gate()


@functools.cache
def _probed_for_many_files() -> tuple[GateStatus, GatePlan | None]:
    status = gate_status()
    if not status.available:
        return status, None
    return probe_gate(notify=status.reports_denials, filters_truncation=True)


def landlock_abi() -> int:
    """The kernel's Landlock ABI; 0 where it is not built in or not enabled (landlock(7))."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    # LANDLOCK_CREATE_RULESET_VERSION
    return max(0, int(syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def probe_gate(
    *, abi: int | None = None, notify: bool | None = None, filters_truncation: bool = False
) -> tuple[GateStatus, GatePlan | None]:
    """Find out what the kernel has and prove it; the arguments ask Landlock for less than that.

    The proof is a run that attempts writes, a connection and a secret, and leaves processes behind.
    """
    found = landlock_abi()
    machine = os.uname().machine
    problem = _missing(found, machine)
    if problem:
        return GateStatus(False, found, (problem,)), None
    failures: list[str] = []
    for with_notify in (True, False) if notify is None else (notify,):
        used = min(found, NEWEST_ABI if abi is None else abi)
        rights = known_rights(used) & (~TRUNCATE if filters_truncation else -1)
        plan = _plan(cast(Machine, machine), used, notify=with_notify, rights=rights)
        failure = _try(plan)
        if failure is None:
            words = f"Landlock ABI {used} and seccomp refused every attempt of the probe"
            return GateStatus(True, found, (words,), with_notify), plan
        failures.append(failure)
    return GateStatus(False, found, tuple(failures)), None


def _missing(abi: int, machine: str) -> str | None:
    if machine not in AUDIT_ARCH:
        return f"the gate's filter is not written for the machine {machine}"
    if abi < MINIMUM_ABI:
        return "the kernel has no Landlock, or it is not enabled (lsm=landlock,…)"
    if not Path(BASH[0]).is_file():
        return f"{BASH[0]} is not there"
    return None


def _plan(machine: Machine, abi: int, *, notify: bool, rights: int) -> GatePlan:
    return GatePlan(
        machine=machine,
        landlock_abi=abi,
        file_rights=rights,
        notify=notify,
        seccomp_filter=filter_program(
            machine=machine,
            landlock_abi=abi,
            notify=notify,
            refuses_truncation=not rights & TRUNCATE,
        ),
        system_rules=system_rules(abi),
    )


def _try(plan: GatePlan) -> str | None:
    """Run the probe; ``None`` when the gate held, else what did not."""
    try:
        with tempfile.TemporaryDirectory(prefix="sandboxed-tools-probe-") as name:
            folder = Path(name)
            folder.chmod(0o777)
            kept = folder / "kept"
            kept.write_text("as it was\n", encoding="ascii")
            kept.chmod(0o666)
            report, output = _run(plan, folder)
            mode = kept.stat().st_mode & 0o777
            changed = sorted(os.listdir(folder)) != ["kept"] or mode != 0o666
            if changed or kept.read_text(encoding="ascii") != "as it was\n":
                return "the probe changed a file through the gate"
    except OSError as error:
        return f"the probe could not be run: {error}"
    if report.problem is not None:
        return f"the gate could not be applied: {report.problem}"
    if report.ended is None:
        return "the probe did not end in time"
    if output != _ANSWER:
        return f"the probe answered {output[:200]!r}"
    if plan.notify and not any(denial.call == "openat" for denial in report.denied):
        return "refused calls were not reported"
    return None


def _run(plan: GatePlan, folder: Path) -> tuple[Report, bytes]:
    identity = Identity.for_client()
    report = Report()
    with ExitStack() as stack:
        scratch = stack.enter_context(private_scratch(uid=identity.uid, gid=identity.gid))
        workspace = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        stack.callback(os.close, workspace)
        environment = build_environment(
            {}, scratch=scratch, workspace=folder, cwd=folder, trusted_git=False
        )
        launch = Launch(
            argv=tuple(part.encode() for part in (*BASH, _PROBE)),
            env={os.fsencode(key): os.fsencode(value) for key, value in environment.items()},
            scratch=scratch,
            folders=(workspace,),
            cwd=workspace,
            script=-1,
            limits=Limits(wall_s=_PROBE_S),
            identity=identity,
        )
        null = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, null)
        pipe, end = os.pipe()
        stack.callback(os.close, pipe)
        with launched(plan, launch, stdin=null, stdout=end, stderr=null) as taken:
            os.close(end)
            _collect(taken.control.fileno(), report)
            if report.ended is None:
                taken.kill()
                kill_stragglers(scratch)
        return report, os.read(pipe, 65536) if report.ended else b""


def _collect(control: int, report: Report) -> None:
    deadline = time.monotonic() + _PROBE_S
    while (left := deadline - time.monotonic()) > 0:
        if select.select([control], [], [], left)[0]:
            data = os.read(control, 65536)
            if not data:
                return
            report.feed(data)
