"""Running one command on the host, behind the gate, within its limits."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.host.call import HostCall, Streams
from sandboxed_tools.host.environment import build_environment
from sandboxed_tools.host.folders import open_folders
from sandboxed_tools.host.gate import BASH, gate_plan, gate_status
from sandboxed_tools.host.launch import GatePlan, Identity, Launch, launched
from sandboxed_tools.host.live import OutputSink
from sandboxed_tools.host.report import Denial
from sandboxed_tools.host.scratch import private_scratch
from sandboxed_tools.tool.command import MAX_ARGUMENT_BYTES, SCRIPT_PATH, Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

__all__ = ["HostOutcome", "bash_command", "run_on_host"]

_DENIAL_WORDS: Final = (b"Permission denied", b"Operation not permitted")


@dataclass(frozen=True, slots=True)
class HostOutcome:
    """How the command ended, and what the gate did not let it do.

    ``denied`` is certain: system calls that were refused, and attempts to write outside the private
    temporary folder. A command that was judged read-only should have none, so one is an error of
    that judgement. ``perhaps_denied`` is a hint only: the command failed, and its errors speak of
    missing permission, as those of a refused read do. Text of the program is behind it, so it may
    only ever lead to something safer than the result at hand, such as a run in a container.
    """

    result: ExecResult
    denied: tuple[Denial, ...] = ()
    perhaps_denied: bool = False


def bash_command(text: str) -> Command:
    """The command that runs ``text`` in the host's bash, whatever its length and first letter.

    Raises:
        InvalidInput: the text holds a NUL byte or a lone surrogate, or is longer than 16 MiB.
    """
    if len(text) * 4 <= MAX_ARGUMENT_BYTES:
        return Command((*BASH, text))
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) <= MAX_ARGUMENT_BYTES:
        return Command((*BASH, text))
    return Command((*BASH[:3], "--", SCRIPT_PATH), script=encoded)


async def run_on_host(
    command: Command,
    *,
    workspace: Path,
    read_roots: Sequence[Path] = (),
    limits: Limits,
    on_output: OutputSink | None = None,
    trusted_git: bool = False,
    cancel: anyio.Event | None = None,
    opens_many_files: bool = False,
    gate: GatePlan | None = None,
) -> HostOutcome:
    """Run ``command`` on the host with no right but to read, and return how it ended.

    It may read the workspace, the read roots and the system's programs and public settings, and
    write into a private folder that is gone afterwards. Its environment is built from nothing. When
    it has ended, or a limit is reached, or ``cancel`` is set (status ``cancelled``), every process
    of it is killed; on cancellation of the caller likewise, before the cancellation goes on.

    ``trusted_git`` adds the settings under which git runs no program that the repository names.
    ``opens_many_files`` takes the gate that costs least at each open, for the same refusals.
    ``gate`` replaces the proved plan, for tests of what older kernels offer.

    Memory, processor time and file size are limits of each process; the number of processes is one
    of the user; ``tmp_inodes`` and a share of a processor below one are not enforced.

    Raises:
        SandboxUnavailable: the gate is not available here or could not be applied. Nothing was run.
        InvalidWorkspace: the workspace or a read root is not there.
        PathRefused: the command's directory is not in the workspace.
        InvalidInput: the command sets a variable that is not allowed here.
    """
    plan = gate or await gate_plan(opens_many_files=opens_many_files)
    if plan is None:
        raise SandboxUnavailable(
            "No command can run on this host: the gate that keeps it from writing is missing.",
            operator_detail="; ".join(gate_status().reasons),
        )
    asked_at = anyio.current_time()
    async with _started(
        command,
        plan=plan,
        workspace=workspace,
        read_roots=read_roots,
        limits=limits,
        on_output=on_output,
        trusted_git=trusted_git,
    ) as call:
        result = await call.run(command.stdin, asked_at=asked_at, cancel=cancel)
    denied = tuple(call.report.denied)
    failed = result.status == "exited" and result.exit_code != 0
    hint = failed and any(words in result.stderr for words in _DENIAL_WORDS)
    return HostOutcome(result, denied, perhaps_denied=hint)


@asynccontextmanager
async def _started(
    command: Command,
    *,
    plan: GatePlan,
    workspace: Path,
    read_roots: Sequence[Path],
    limits: Limits,
    on_output: OutputSink | None,
    trusted_git: bool,
) -> AsyncIterator[HostCall]:
    """Start the call; at the end everything that it holds is released, its folders last."""
    identity = Identity.for_client()
    with ExitStack() as opened:
        folders = opened.enter_context(
            open_folders(workspace, read_roots=read_roots, cwd=command.cwd)
        )
        script = opened.enter_context(_script(command.script))
        held = ExitStack()
        try:
            scratch = held.enter_context(private_scratch(uid=identity.uid, gid=identity.gid))
            environment = build_environment(
                command.env,
                scratch=scratch,
                workspace=workspace,
                cwd=folders.cwd_path,
                trusted_git=trusted_git,
            )
            launch = Launch(
                argv=tuple(os.fsencode(part) for part in command.argv),
                env={os.fsencode(key): os.fsencode(value) for key, value in environment.items()},
                scratch=scratch,
                folders=folders.readable,
                cwd=folders.cwd,
                script=script,
                limits=limits,
                identity=identity,
            )
            streams = Streams(has_stdin=command.stdin is not None)
            held.callback(streams.close)
            supervisor = await anyio.to_thread.run_sync(
                held.enter_context,
                launched(
                    plan,
                    launch,
                    stdin=streams.command_stdin,
                    stdout=streams.command_stdout,
                    stderr=streams.command_stderr,
                ),
            )
            streams.hand_over()
            yield HostCall(supervisor, streams, scratch, limits=limits, on_output=on_output)
        finally:
            # In a thread, because what a command left in its folder may take long to remove.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(held.close)


@contextmanager
def _script(text: bytes | None) -> Iterator[int]:
    """An anonymous, sealed file with the script; -1 for none."""
    if text is None:
        yield -1
        return
    fd = os.memfd_create("script", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(text)
        os.lseek(fd, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        yield fd
    finally:
        os.close(fd)
