"""One call cannot touch another, whether before it, after it, or beside it."""

from __future__ import annotations

import secrets

import anyio

from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, output_of, require, until
from sandboxed_tools.testing.conformance.check import Suite

__all__ = ["SUITE"]

SUITE = Suite("isolation")

TRACES = {
    "files": (
        "for d in /tmp /dev/shm /var/tmp /run $HOME .; do echo x > $d/trace; done 2>/dev/null; "
        "test -e /tmp/trace",
        "ls -d /tmp/trace /dev/shm/trace /var/tmp/trace /run/trace $HOME/trace 2>/dev/null; true",
    ),
    "processes": (
        "(setsid sh -c 'exec -a trace sleep 600' &) ; true",
        "ps -eo args | grep -c '[t]race'; true",
    ),
    "shared-memory": (
        "python3 -ISc 'import ctypes; l = ctypes.CDLL(None); "
        "assert l.shmget(0x1234, 4096, 0o1666) >= 0; assert l.msgget(0x1234, 0o1666) >= 0'",
        "tail -n +2 -q /proc/sysvipc/shm /proc/sysvipc/msg 2>/dev/null; true",
    ),
    "message-queues": (
        "python3 -ISc 'import ctypes; l = ctypes.CDLL(None); "
        'assert l.mq_open(b"/trace", 0o102, 0o600, None) >= 0\'',
        "python3 -ISc 'import ctypes; l = ctypes.CDLL(None); "
        'print("found") if l.mq_open(b"/trace", 2) >= 0 else None\'',
    ),
    "abstract-sockets": (
        "(setsid python3 -ISc 'import socket, time; s = socket.socket(socket.AF_UNIX); "
        's.bind("\\0trace"); s.listen(); time.sleep(600)\' &) ; sleep 0.3',
        "grep -o '@trace' /proc/net/unix; true",
    ),
}

for name, (leave, look) in TRACES.items():

    async def no_trace(bench: Bench, leave: str = leave, look: str = look) -> None:
        ended(await bench.bash(leave), "exited", exit_code=0)
        found = (await output_of(bench, look)).strip()
        require(found in ("", "0"), f"a later call found {found!r}")

    SUITE.check(f"no-reuse-{name}", f"{name.replace('-', ' ')} of one call are gone in the next")(
        no_trace
    )


@SUITE.check("environment-does-not-leak", "the environment of one call is not seen by another")
async def environment_does_not_leak(bench: Bench) -> None:
    await bench.bash("true", env={"PATH": "/usr/bin:/bin", "SECRET_OF_ONE": "x"})
    seen = await output_of(bench, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
    require("LANG=C.UTF-8" in seen, "not even its own environment was seen")
    require("SECRET_OF_ONE" not in seen, "the next call saw it")


@SUITE.check("many-at-once", "calls at the same time do not mix up their output", alone=True)
async def many_at_once(bench: Bench) -> None:
    outputs: dict[str, bytes] = {}

    async def one(token: str) -> None:
        result = await bench.bash(f"cat; echo {token}; exit 0", stdin=token.encode() + b"\n")
        ended(result, "exited", exit_code=0)
        outputs[token] = result.stdout

    tokens = [secrets.token_hex(8) for _ in range(12)]
    async with anyio.create_task_group() as group:
        for token in tokens:
            group.start_soon(one, token)
    for token in tokens:
        equal(outputs[token], f"{token}\n{token}\n".encode(), f"output of {token}")


@SUITE.check("others-are-out-of-sight", "a call sees no process of another that runs beside it")
async def others_are_out_of_sight(bench: Bench) -> None:
    seen: list[bytes] = []
    scope = anyio.CancelScope()

    async def neighbour() -> None:
        with scope:
            await bench.bash(
                "echo up; exec -a neighbour sleep 600",
                on_output=lambda _stream, data: seen.append(data),
            )

    async with anyio.create_task_group() as group:
        group.start_soon(neighbour)
        await until(lambda: seen)
        listing = await output_of(bench, "ps -eo args; ls /proc | grep -c '^[0-9]'")
        scope.cancel()
    require("neighbour" not in listing, f"saw {listing!r}")
    require(int(listing.split()[-1]) < 12, f"saw {listing.split()[-1]} processes")


@SUITE.check(
    "per-user-limits",
    "a call that uses up what its user may have leaves its neighbour its own",
    alone=True,
)
async def per_user_limits(bench: Bench) -> None:
    exhaust = (
        "import ctypes, time\n"
        "l = ctypes.CDLL(None); n = 0\n"
        "while l.inotify_init() >= 0: n += 1\n"
        "print(n, flush=True); time.sleep(600)\n"
    )
    take_one = "import ctypes; print(ctypes.CDLL(None).inotify_init() >= 0)"
    seen: list[bytes] = []
    scope = anyio.CancelScope()

    async def greedy() -> None:
        with scope:
            await bench.python(exhaust, on_output=lambda _stream, data: seen.append(data))

    async with anyio.create_task_group() as group:
        group.start_soon(greedy)
        await until(lambda: seen)
        result = await bench.python(take_one)
        scope.cancel()
    equal(result.stdout, b"True\n", "whether the neighbour got an inotify instance")
