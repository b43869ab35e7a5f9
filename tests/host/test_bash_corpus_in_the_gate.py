"""The labelled commands, all of them, run behind the gate on a real tree."""

from __future__ import annotations

import re
import select
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from tests.host.attacker import command_user
from tests.host.scratch_tree import Row, build, corpus, give_to_command, make_repository, snapshot

from sandboxed_tools.host import HostOutcome, bash_command, run_on_host
from sandboxed_tools.host.environment import build_environment
from sandboxed_tools.host.gate import BASH, probe_gate
from sandboxed_tools.host.launch import GatePlan, Identity
from sandboxed_tools.host.scratch import private_scratch
from sandboxed_tools.tool.limits import Limits

WALL_S = 60.0

DIFFERENT_BY_DESIGN = {
    "ss -tln": "reads /proc/net instead of a netlink socket, which shows other queue lengths",
    "ulimit -a": "shows the limits of the call",
}

_SCRATCH = re.compile(rb"sandboxed-tools-host\.[^/]*")


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="host-corpus-") as name:
        base = Path(name)
        base.chmod(0o755)
        folder = base / "w"
        folder.mkdir()
        build(folder)
        make_repository(folder)
        give_to_command(folder)
        yield folder


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    """Sockets on the port that most of the commands try, where this user may have it."""
    with ExitStack() as stack:
        found = []
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            listener = stack.enter_context(socket.socket(socket.AF_INET, kind))
            try:
                listener.bind(("127.0.0.1", 9))
                if kind == socket.SOCK_STREAM:
                    listener.listen()
            except OSError:
                continue
            found.append(listener)
        yield found


def _gated(row: Row, folder: Path, *, gate: GatePlan | None = None) -> HostOutcome:
    async def call() -> HostOutcome:
        return await run_on_host(
            bash_command(row.command),
            workspace=folder,
            limits=Limits(wall_s=WALL_S if row.label == "ro" else 2.0),
            trusted_git="git" in row.category,
            gate=gate,
        )

    return anyio.run(call)


def _plain(row: Row, folder: Path) -> tuple[int, bytes]:
    """Exit code and output without the gate, for the same user in the same environment."""
    identity = Identity.for_client()
    with private_scratch(uid=identity.uid, gid=identity.gid) as scratch:
        done = subprocess.run(
            [*BASH, row.command],
            cwd=folder,
            env=build_environment(
                {},
                scratch=scratch,
                workspace=folder,
                cwd=folder,
                trusted_git="git" in row.category,
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WALL_S,
            check=False,
            **command_user(),
        )
    return done.returncode, _SCRATCH.sub(b"SCRATCH", done.stdout)


def _difference(row: Row, folder: Path) -> str | None:
    """What is different, as far as two runs without the gate, before and after, are alike."""
    for _ in range(10):
        before = _plain(row, folder)
        outcome = _gated(row, folder)
        after = _plain(row, folder)
        if outcome.denied:
            return f"{row.command!r} was denied {outcome.denied}"
        result = outcome.result
        gated = (result.exit_code, _SCRATCH.sub(b"SCRATCH", result.stdout))
        if gated in (before, after):
            return None
        steady = before == after and row.command not in DIFFERENT_BY_DESIGN
        if not steady and gated[0] in (before[0], after[0]):
            return None
    return f"{row.command!r}: {gated!r} instead of {before!r}; {result.stderr!r}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_read_only_command_behaves_as_without_the_gate(tree: Path) -> None:
    rows = [row for row in corpus() if row.label == "ro"]
    assert len(rows) > 300
    before = snapshot(tree)
    differences = [found for row in rows if (found := _difference(row, tree)) is not None]
    assert differences == []
    assert snapshot(tree) == before


def _reached(listeners: list[socket.socket]) -> bool:
    """Whether somebody knocked since the last look."""
    ready = select.select(listeners, [], [], 0)[0]
    for listener in ready:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(65_536)
    return bool(ready)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("abi", "step"), [(None, 1), (1, 4), (5, 4)])
def test_no_writing_command_changes_the_tree_or_reaches_a_socket(
    abi: int | None, step: int, tree: Path, listeners: list[socket.socket]
) -> None:
    gate = probe_gate(abi=abi)[1]
    assert gate is not None
    rows = [row for row in corpus() if row.label == "rw"][::step]
    assert len(rows) > 100
    before = snapshot(tree)
    changed = []
    noted = 0
    for row in rows:
        noted += bool(_gated(row, tree, gate=gate).denied)
        after = snapshot(tree)
        if after != before:
            changed.append(row.command)
            before = after
        if _reached(listeners):
            # Anybody on this machine may have knocked: a command that does so does it again.
            _gated(row, tree, gate=gate)
            assert not _reached(listeners), f"{row.command!r} reached a socket"
    assert changed == []
    # Most of them attempt something; the others need programs or files that are not there.
    assert noted > len(rows) / 3


@pytest.mark.parametrize(
    "command", ["touch pwned", "sed -i s/a/b/ a.txt", "rm b.txt", "chmod 777 c.txt", "mv f f2"]
)
def test_the_same_commands_do_change_such_a_tree_without_the_gate(command: str) -> None:
    with tempfile.TemporaryDirectory(prefix="host-control-") as name:
        folder = Path(name)
        build(folder)
        give_to_command(folder)
        before = snapshot(folder)
        assert _plain(Row("rw", command, "write"), folder)[0] == 0
        assert snapshot(folder) != before
