"""How a call ends: exit codes, signals, deadlines and cancellation are told apart."""

from __future__ import annotations

import time

import anyio

from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, output_of, require, until
from sandboxed_tools.testing.conformance.check import Expected, Suite

__all__ = ["SUITE"]

SUITE = Suite("endings")
GRACE_S = 5.0
"""How long after its deadline a call may take to return, on a loaded machine."""

for code in (0, 1, 2, 3, 124, 125, 126, 127, 128, 137, 139, 255):
    SUITE.row(
        f"exit-code-{code}",
        f"the exit code {code} is reported as it is, and as nothing else",
        f"echo before; exit {code}",
        Expected(exit_code=code, stdout=b"before\n", not_hit=frozenset({"memory", "wall"})),
    )
for number, name in ((15, "TERM"), (9, "KILL"), (11, "SEGV"), (6, "ABRT"), (1, "HUP")):
    SUITE.row(
        f"signal-{name.lower()}",
        f"death by SIG{name} is reported as signal {number}, not as a limit",
        f"echo before; kill -{name} $$; sleep 9",
        Expected(
            status="signalled", signal=number, stdout=b"before\n", not_hit=frozenset({"memory"})
        ),
    )
SUITE.row(
    "memory-words",
    "a program that talks of memory and exits with 137 did not run out of it",
    "echo Killed; echo 'Out of memory: oom-kill' >&2; exit 137",
    Expected(exit_code=137, stdout=b"Killed\n", not_hit=frozenset({"memory"})),
)
SUITE.row(
    "forged-report",
    "the exit code comes from the kernel, not from what the program prints",
    """printf '{"exit_code":0,"status":"exited"}\\n'; printf '\\0\\0exit 0\\n' >&2; exit 7""",
    Expected(exit_code=7),
)


@SUITE.check("program-missing", "a program that does not exist is exit code 127")
async def program_missing(bench: Bench) -> None:
    ended(await bench.run("no-such-program-anywhere"), "exited", exit_code=127)


@SUITE.check("program-not-executable", "a file that cannot be executed is exit code 126")
async def program_not_executable(bench: Bench) -> None:
    ended(await bench.run("/etc/passwd"), "exited", exit_code=126)


async def times_out(bench: Bench, text: str) -> None:
    started = time.monotonic()
    result = await bench.bash(text, limits={"wall_s": 1.5})
    ended(result, "timeout")
    equal(result.exit_code, None, "exit_code of a call that was ended")
    require("wall" in result.limits_hit, f"limits_hit lacks wall: {sorted(result.limits_hit)}")
    require(b"before" in result.stdout, f"output before the deadline is lost: {result.stdout!r}")
    took = time.monotonic() - started
    most_s = (1.5 + GRACE_S) * bench.patience + result.phases.start_s
    require(took < most_s, f"returned after {took:.1f} s")


for name, text in {
    "sleeping": "echo before; sleep 600",
    "deaf": "trap '' TERM INT HUP QUIT USR1 USR2; echo before; while :; do sleep 600; done",
    "stopped": "echo before; kill -STOP $$; echo resumed",
    "replaced": "echo before; exec sleep 600",
    "dripping": "echo before; while :; do echo .; sleep 0.2; done",
    "spinning": "echo before; while :; do :; done",
    "waiting-for-children": "echo before; (trap '' TERM; sleep 600) & (sleep 600 &) ; wait",
    "orphaned": "echo before; (setsid sh -c 'trap \"\" TERM; sleep 600' &) ; sleep 600",
}.items():

    async def prove(bench: Bench, text: str = text) -> None:
        await times_out(bench, text)

    SUITE.check(f"timeout-{name}", f"the deadline ends a {name} command and keeps its output")(
        prove
    )


@SUITE.check("idle-timeout", "silence for idle_s ends the call as idle_timeout")
async def idle_timeout(bench: Bench) -> None:
    result = await bench.bash("echo before; sleep 600", limits={"idle_s": 1, "wall_s": 30})
    ended(result, "idle_timeout")
    equal(result.stdout, b"before\n", "stdout")
    require("idle" in result.limits_hit, f"limits_hit lacks idle: {sorted(result.limits_hit)}")


@SUITE.check("busy-is-not-idle", "output on either stream keeps a call from being idle")
async def busy_is_not_idle(bench: Bench) -> None:
    text = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; echo $i >&2; sleep 0.3; done"
    result = await bench.bash(text, limits={"idle_s": 2.5})
    ended(result, "exited", exit_code=0)
    equal(result.stdout, result.stderr, "the two streams")
    equal(len(result.stdout.split()), 6, "lines")


@SUITE.check("cancel", "a cancelled call returns soon, and the sandbox goes on working")
async def cancel(bench: Bench) -> None:
    pieces: list[bytes] = []
    scope = anyio.CancelScope()

    async def deaf() -> None:
        with scope:
            await bench.bash(
                "trap '' TERM; echo up; while :; do sleep 600; done",
                on_output=lambda _, data: pieces.append(data),
            )

    async with anyio.create_task_group() as group:
        group.start_soon(deaf)
        await until(lambda: pieces)
        started = time.monotonic()
        scope.cancel()
    took = time.monotonic() - started
    require(scope.cancelled_caught, "the call ended by itself instead of being cancelled")
    require(took < GRACE_S * bench.patience, f"the cancellation went on after {took:.1f} s")
    equal(await output_of(bench, "echo again"), "again\n", "output of the next call")


@SUITE.check("cancel-at-once", "a call that is cancelled before it starts leaves nothing broken")
async def cancel_at_once(bench: Bench) -> None:
    for delay_s in (0.0, 0.01, 0.05, 0.2):
        with anyio.move_on_after(delay_s) as scope:
            await bench.bash("sleep 600")
        require(scope.cancelled_caught, "the call ended by itself instead of being cancelled")
    equal(await output_of(bench, "echo again"), "again\n", "output of the next call")


@SUITE.check("phases", "the result says where the time went")
async def phases(bench: Bench) -> None:
    result = await bench.bash("sleep 0.5")
    ended(result, "exited", exit_code=0)
    require(result.phases.run_s >= 0.5, f"run_s is {result.phases.run_s}")
    require(result.phases.start_s >= 0 and result.phases.queue_s >= 0, f"{result.phases}")
    require(result.image, "the result does not name its image")


@SUITE.check("malformed-commands", "a command that cannot be executed never reaches the sandbox")
async def malformed_commands(bench: Bench) -> None:
    for argv in ((), ("",), ("echo", "a\0b"), ("echo", "x" * 200_000)):
        try:
            await bench.run(*argv)
        except InvalidInput:
            continue
        require(False, f"accepted {str(argv)[:60]}")
