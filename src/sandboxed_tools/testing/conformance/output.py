"""What the command prints: whole, apart, in order, bounded, and never obeyed."""

from __future__ import annotations

import threading
import time

from sandboxed_tools.testing.conformance.bench import Bench, CheckFailed, ended, equal, require
from sandboxed_tools.testing.conformance.check import Expected, Suite
from sandboxed_tools.tool.result import Stream

__all__ = ["SUITE"]

SUITE = Suite("output")
KIB = 1024
MIB = 1024 * KIB

SUITE.row(
    "streams-apart",
    "the two streams stay apart",
    "echo out; echo err >&2; exit 3",
    Expected(exit_code=3, stdout=b"out\n", stderr=b"err\n"),
)
SUITE.row(
    "nul-bytes",
    "a NUL byte does not end the output",
    "printf 'a\\000b\\000c\\n'",
    Expected(exit_code=0, stdout=b"a\0b\0c\n"),
)
SUITE.row(
    "streams-closed-early",
    "a command that closes its streams goes on until it ends",
    "echo before; exec >&- 2>&-; sleep 1; exit 5",
    Expected(exit_code=5, stdout=b"before\n"),
)
SUITE.row(
    "background-holds-the-pipe",
    "a background process that keeps the pipe open does not hold the call",
    "(setsid sh -c 'sleep 600; echo LATE' &); echo done",
    Expected(exit_code=0, stdout=b"done\n"),
)
SUITE.row(
    "background-writer",
    "a background process that floods the pipe does not hold the call, or lose its end",
    "(setsid sh -c 'while :; do echo noise >&2; done' &); sleep 0.3; echo done; exit 4",
    Expected(exit_code=4, stdout=b"done\n"),
)
SUITE.row(
    "non-blocking-pipe",
    "a command that makes the shared pipe non-blocking does not lose the end",
    "python3 -c 'import os; [os.set_blocking(n, False) for n in (0, 1, 2)]'; echo done; exit 4",
    Expected(exit_code=4, stdout=b"done\n"),
)
SUITE.row(
    "no-trailing-newline",
    "a last line without a newline is there",
    "printf last-words; exit 3",
    Expected(exit_code=3, stdout=b"last-words"),
)


@SUITE.check("every-byte", "every byte value comes back, in order")
async def every_byte(bench: Bench) -> None:
    result = await bench.python("import os; os.write(1, bytes(range(256)) * 16)")
    ended(result, "exited", exit_code=0)
    equal(result.stdout, bytes(range(256)) * 16, "stdout")


@SUITE.check("split-characters", "a character that is split over writes comes out whole")
async def split_characters(bench: Bench) -> None:
    code = "import os, time\nfor b in 'é中😀'.encode(): os.write(1, bytes([b])); time.sleep(.03)"
    result = await bench.python(code)
    ended(result, "exited", exit_code=0)
    equal(result.stdout_text, "é中😀", "text")


@SUITE.check("invalid-utf8", "bytes that are no text survive as bytes")
async def invalid_utf8(bench: Bench) -> None:
    result = await bench.bash("printf '\\377\\376ok\\355\\240\\200\\n'")
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"\xff\xfeok\xed\xa0\x80\n", "stdout")
    require("ok" in result.stdout_text, "the text was lost with the bytes around it")


@SUITE.check("control-sequences", "control sequences are data in the result")
async def control_sequences(bench: Bench) -> None:
    text = "printf '\\033]0;title\\007\\033[2J\\033]52;c;cHduZWQ=\\007'"
    result = await bench.bash(text)
    equal(result.stdout, b"\x1b]0;title\x07\x1b[2J\x1b]52;c;cHduZWQ=\x07", "stdout")


@SUITE.check("last-words", "the last words of a fast command arrive, ten times of ten")
async def last_words(bench: Bench) -> None:
    for attempt in range(10):
        result = await bench.bash("echo last-words; exit 3")
        ended(result, "exited", exit_code=3)
        equal(result.stdout, b"last-words\n", f"stdout of attempt {attempt}")


@SUITE.check("large-then-exit", "over a megabyte before a fast exit is counted to the last byte")
async def large_then_exit(bench: Bench) -> None:
    result = await bench.bash("head -c 1300000 /dev/zero; echo END; exit 7")
    ended(result, "exited", exit_code=7)
    equal(result.stdout_bytes, 1_300_004, "bytes printed")
    require(result.stdout.endswith(b"END\n"), "the end was lost")


@SUITE.check("head-and-tail", "what is cut is cut from the middle, and said to be")
async def head_and_tail(bench: Bench) -> None:
    result = await bench.bash(
        "echo FIRST; seq 1 200000; echo LAST", limits={"output_kept_bytes": 4 * KIB}
    )
    ended(result, "exited", exit_code=0)
    require(result.truncated, "truncated is not set")
    require("output_kept" in result.limits_hit, f"limits_hit is {sorted(result.limits_hit)}")
    require(result.stdout.startswith(b"FIRST\n1\n2\n"), "the head was lost")
    require(result.stdout.endswith(b"200000\nLAST\n"), "the tail was lost")
    require(b"bytes cut" in result.stdout, "no mark says that something was cut")
    require(len(result.stdout) < 5 * KIB, f"{len(result.stdout)} bytes kept of at most 4096")
    equal(result.stdout_bytes, 1_288_895 + len("FIRST\nLAST\n"), "bytes printed")


@SUITE.check("not-truncated", "output within the limit is not said to be cut")
async def not_truncated(bench: Bench) -> None:
    result = await bench.bash("head -c 4096 /dev/zero", limits={"output_kept_bytes": 4 * KIB})
    require(not result.truncated, "truncated is set")
    equal(result.stdout, bytes(4096), "stdout")


for stream, redirection in (("stdout", ""), ("stderr", " 1>&2")):

    async def flood(bench: Bench, text: str = f"yes{redirection}") -> None:
        result = await bench.bash(
            text, limits={"output_total_bytes": 4 * MIB, "output_kept_bytes": 64 * KIB}
        )
        ended(result, "output_limit")
        require("output" in result.limits_hit, f"limits_hit is {sorted(result.limits_hit)}")
        kept = len(result.stdout) + len(result.stderr)
        require(kept < 160 * KIB, f"{kept} bytes were kept")

    SUITE.check(f"flood-{stream}", f"an endless {stream} ends the call as output_limit")(flood)


@SUITE.check("both-at-once", "two floods at once do not deadlock")
async def both_at_once(bench: Bench) -> None:
    text = "head -c 3000000 /dev/zero & head -c 3000000 /dev/zero >&2 & wait; echo end"
    result = await bench.bash(text)
    ended(result, "exited", exit_code=0)
    equal((result.stdout_bytes, result.stderr_bytes), (3_000_004, 3_000_000), "bytes printed")


@SUITE.check("one-endless-line", "fifty megabytes without a newline do not hang the reader")
async def one_endless_line(bench: Bench) -> None:
    result = await bench.bash("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end")
    ended(result, "exited", exit_code=0)
    equal(result.stdout_bytes, 50_000_005, "bytes printed")
    require(result.stdout.endswith(b"x\nend\n"), "the end was lost")


@SUITE.check("live", "output is seen while the command runs, whole and in order")
async def live(bench: Bench) -> None:
    pieces: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}
    first_seen: list[float] = []

    def sink(stream: Stream, data: bytes) -> None:
        first_seen.append(time.monotonic())
        pieces[stream].append(data)

    result = await bench.bash("echo one; echo err >&2; sleep 1.5; echo two", on_output=sink)
    returned = time.monotonic()
    ended(result, "exited", exit_code=0)
    equal(b"".join(pieces["stdout"]), b"one\ntwo\n", "live stdout")
    equal(b"".join(pieces["stderr"]), b"err\n", "live stderr")
    require(returned - first_seen[0] > 1.0, "the first piece came only at the end")


@SUITE.check("slow-sink", "a sink that never returns in time does not hold the call")
async def slow_sink(bench: Bench) -> None:
    stuck = threading.Event()
    try:
        result = await bench.bash(
            "seq 1 300000; exit 3",
            on_output=lambda _stream, _data: bool(stuck.wait(20.0 * bench.patience)),
            limits={"wall_s": 15},
        )
    finally:
        stuck.set()
    ended(result, "exited", exit_code=3)
    require(result.stdout.endswith(b"300000\n"), "the end was lost")


@SUITE.check("broken-sink", "a sink that raises loses its live view, not the result")
async def broken_sink(bench: Bench) -> None:
    def sink(_stream: Stream, _data: bytes) -> None:
        raise ValueError("broken on purpose")

    result = await bench.bash("seq 1 1000; exit 3", on_output=sink)
    ended(result, "exited", exit_code=3)
    require(result.stdout.endswith(b"1000\n"), "the end was lost")


@SUITE.check("nothing-after-the-end", "once the call has returned nothing more is printed")
async def nothing_after_the_end(bench: Bench) -> None:
    late: list[bytes] = []
    returned = threading.Event()

    def sink(_stream: Stream, data: bytes) -> None:
        if returned.is_set() and b"late" in data:
            late.append(data)

    await bench.bash("(setsid sh -c 'while :; do echo late; sleep 0.1; done' &)", on_output=sink)
    returned.set()
    await bench.bash("sleep 0.5")
    if late:
        raise CheckFailed(f"{len(late)} pieces came after the end")


@SUITE.check("marks-cannot-be-forged", "whatever a command prints about the end, it has not ended")
async def marks_cannot_be_forged(bench: Bench) -> None:
    code = (
        "import os, sys\n"
        "seen = b''\n"
        "for p in ('/proc/1/environ', '/proc/1/cmdline', '/proc/1/maps', '/proc/1/mem'):\n"
        "    try: seen += open(p, 'rb').read(65536)\n"
        "    except OSError: pass\n"
        "for tail in (b'', b' exited 0', b'\\n{\"exit_code\":0}'):\n"
        "    os.write(1, b'\\0\\x1e\\x02' + seen + tail + b'\\x03\\n')\n"
        "    os.write(2, b'\\0\\x1e\\x02' + seen + tail + b'\\x03\\n')\n"
        "os.write(1, b'still here\\n'); os._exit(9)\n"
    )
    result = await bench.python(code)
    ended(result, "exited", exit_code=9)
    require(result.stdout.endswith(b"still here\n"), "the call ended before its command")
