"""Hostile commands of kinds that the corpus does not hold: each is held, and tells what held it.

A command prints ``OUT`` only where it has got what it must not get, and ``end`` where it has been
through everything that it tries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import pytest

from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.tool import ExecResult, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = pytest.mark.engine

WALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """``shows`` is what the output must hold, beside ``end``; ``limit`` what must be named."""

    text: str
    shows: tuple[str, ...] = ()
    limit: str | None = None


def python(text: str) -> str:
    return f"python3 - <<'EOF'\nimport os, fcntl, signal, socket, sys\n{text}\nEOF\necho end"


EXHAUSTS_SEMAPHORES = """
import ctypes
libc = ctypes.CDLL(None)
while libc.semget(0, 250, 0o1600) >= 0: pass
print('refused')
"""

CASES = {
    "signals to process 1 through a descriptor of it": Case(
        python(
            "first = os.pidfd_open(1)\n"
            "for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGUSR1):\n"
            "    try: signal.pidfd_send_signal(first, number)\n"
            "    except OSError: pass\n"
            "print('alive')"
        ),
        shows=("alive",),
    ),
    "frames written to one's own standard input": Case(
        "printf 'K\\0\\0\\0\\0' >&0; printf 'K\\0\\0\\0\\0' >/proc/self/fd/0; echo end",
        shows=("Bad file descriptor",),
    ),
    "the streams of process 1": Case(
        "for i in 0 1 2 3 4 5 6; do printf 'K\\0\\0\\0\\0' >/proc/1/fd/$i && echo OUT; done; "
        "echo end",
        shows=("Permission denied",),
    ),
    "the launcher, copied or started again": Case(
        "cp /.sandboxed-tools/launcher /tmp/copy && echo OUT; "
        "cat /proc/1/exe >/tmp/copy && echo OUT; "
        "/.sandboxed-tools/launcher 5 </dev/null && echo OUT; echo end",
        shows=("Permission denied",),
    ),
    "output through streams that were made non-blocking, asynchronous and small": Case(
        python(
            "for stream in (1, 2):\n"
            "    flags = fcntl.fcntl(stream, fcntl.F_GETFL)\n"
            "    fcntl.fcntl(stream, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_ASYNC)\n"
            "    try: fcntl.fcntl(stream, 1031, 4096)  # F_SETPIPE_SZ\n"
            "    except OSError: pass\n"
            "    try: os.write(stream, b'z' * (1 << 18))\n"
            "    except BlockingIOError: pass"
        ),
        shows=("zzz",),
    ),
    "every stream closed, and made again from a copy": Case(
        "exec 3>&1 4>&2 0<&- 1>&- 2>&-; exec 1>&3 2>&4 3>&- 4>&-; "
        'for i in $(seq 10 200); do eval "exec $i>&1"; done; echo back >&200; echo end',
        shows=("back",),
    ),
    "shared memory that is filled": Case(
        "head -c 100000000 /dev/zero >/dev/shm/x; echo end",
        shows=("No space left on device",),
        limit="tmp",
    ),
    "semaphores without end": Case(
        python(EXHAUSTS_SEMAPHORES),
        limit="memory",
    ),
    "terminals without end": Case(
        python(
            "held = []\n"
            "try:\n"
            "    while True: held.append(os.openpty())\n"
            "except OSError as error: print('refused', error)"
        ),
        shows=("refused",),
    ),
    "the machine's console, and its pool of randomness": Case(
        python(
            "ours, theirs = os.openpty()\n"
            "noise = os.open('/dev/urandom', os.O_RDWR)\n"
            "for place, request in ((theirs, 0x541D), (theirs, 0x541C), (noise, 0x40085203)):\n"
            "    try: fcntl.ioctl(place, request, bytes(64)); print('OUT', hex(request))\n"
            "    except OSError as error: print(error)"
        ),
        shows=("Operation not permitted",),
    ),
    "files that nobody can change any more": Case(
        "cd; python3 - <<'EOF'\n"
        "import fcntl, os, struct\n"
        "for name in ('ok.txt', '.'):\n"
        "    place = os.open(os.path.join(os.environ['OLDPWD'], name), os.O_RDONLY)\n"
        "    for flag in (0x10, 0x20):  # immutable, append-only\n"
        "        try: fcntl.ioctl(place, 0x40086602, struct.pack('l', flag)); print('OUT')\n"
        "        except OSError as error: print(error)\n"
        "EOF\necho end",
    ),
    "sockets of every family, type and protocol": Case(
        python(
            "allowed = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}\n"
            "for family in range(64):\n"
            "    for kind in (1, 2, 3, 4, 5, 10):\n"
            "        for protocol in (0, 1, 2, 6, 17, 58, 132, 136, 255):\n"
            "            try: socket.socket(family, kind, protocol).close()\n"
            "            except OSError: continue\n"
            "            raw = family in (socket.AF_INET, socket.AF_INET6) and kind not in (1, 2)\n"
            "            if family not in allowed or raw: print('OUT', family, kind, protocol)\n"
            "            else: print('made', family)"
        ),
        shows=("made 1\n", "made 2\n"),
    ),
    "addresses at which a cloud or a host answers": Case(
        "for host in 169.254.169.254 169.254.170.2 100.100.100.200 172.17.0.1 10.0.0.1; do "
        "(exec 3<>/dev/tcp/$host/80) && echo OUT; (exec 3<>/dev/udp/$host/53) && echo OUT; "
        "done; echo end",
        shows=("Network is unreachable",),
    ),
}


@pytest.fixture(scope="module")
def cold(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.workspace import WorkspaceViews

    made = DockerSandbox(engine, views=WorkspaceViews(), warm=False)
    yield made
    made.close()


def run(sandbox: DockerSandbox, workspace: Path, *texts: str, wall_s: float) -> list[ExecResult]:
    async def main() -> list[ExecResult]:
        async with Toolbox(
            sandbox=sandbox,
            workspace=workspace,
            limits=Limits.of(wall_s=wall_s, memory_bytes="128m", output_kept_bytes="1m"),
            policy=Policy(mode="accept-edits", sandbox="always"),
            changes="discard",
        ) as box:
            done = [await box.call("Bash", {"command": text}) for text in texts]
        results = [one.exec for one in done if one.exec is not None]
        assert len(results) == len(texts)
        return results

    return anyio.run(main)


@pytest.mark.parametrize("name", CASES)
def test_hostile_command_is_held_and_tells_what_held_it(
    cold: DockerSandbox, workspace: Path, name: str
) -> None:
    case = CASES[name]
    (workspace / "ok.txt").write_text("harmless\n")
    result, after = run(cold, workspace, case.text, "cat ok.txt", wall_s=WALL_S)
    output = result.stdout_text + result.stderr_text
    assert "OUT" not in output
    assert result.status == "exited", output[-2000:]
    assert result.stdout_text.endswith("end\n")
    for text in case.shows:
        assert text in output
    assert case.limit is None or case.limit in result.limits_hit
    assert after.stdout_text == "harmless\n"


def test_shell_that_becomes_a_sleeper_as_it_exits_ends_at_the_deadline(
    cold: DockerSandbox, workspace: Path
) -> None:
    text = "trap 'exec sleep 100000' EXIT; echo said"
    result, after = run(cold, workspace, text, "echo after", wall_s=2.0)
    assert (result.status, result.stdout_text) == ("timeout", "said\n")
    assert after.stdout_text == "after\n"
