"""Standard input: nothing, bytes, a stream; read, ignored, or closed half-way."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import anyio

from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, require
from sandboxed_tools.testing.conformance.check import Suite

__all__ = ["SUITE"]

SUITE = Suite("stdin")
MIB = 1024 * 1024


async def digest_of_input(bench: Bench, data: bytes, *, streamed: bool = False) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 100_003):
            yield data[start : start + 100_003]

    result = await bench.run("sha256sum", stdin=pieces() if streamed else data)
    ended(result, "exited", exit_code=0)
    equal(result.stdout.split()[0].decode(), hashlib.sha256(data).hexdigest(), "digest of stdin")


@SUITE.check("none", "without an input the command reads the end at once")
async def none(bench: Bench) -> None:
    result = await bench.bash("cat; echo got-eof")
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"got-eof\n", "stdout")


@SUITE.check("empty", "an empty input is an end at once")
async def empty(bench: Bench) -> None:
    result = await bench.bash("cat; echo got-eof", stdin=b"")
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"got-eof\n", "stdout")


@SUITE.check("every-byte", "every byte value arrives, in order")
async def every_byte(bench: Bench) -> None:
    await digest_of_input(bench, bytes(range(256)) * 500)


@SUITE.check("large", "an input of eight megabytes arrives whole")
async def large(bench: Bench) -> None:
    await digest_of_input(bench, b"0123456789abcde\n" * (8 * MIB // 16))


@SUITE.check("stream", "a streamed input arrives whole")
async def stream(bench: Bench) -> None:
    await digest_of_input(bench, b"0123456789abcde\n" * (4 * MIB // 16), streamed=True)


@SUITE.check("ignored", "an input that nobody reads does not hold the call")
async def ignored(bench: Bench) -> None:
    result = await bench.bash("exit 5", stdin=b"x" * (8 * MIB))
    ended(result, "exited", exit_code=5)


@SUITE.check("read-half-way", "a command that reads only the beginning ends when it likes")
async def read_half_way(bench: Bench) -> None:
    result = await bench.bash("head -c 10; exit 6", stdin=b"0123456789" * MIB)
    ended(result, "exited", exit_code=6)
    equal(result.stdout, b"0123456789", "stdout")


@SUITE.check("endless-stream", "a stream without end does not outlive its command")
async def endless_stream(bench: Bench) -> None:
    released = False

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal released
        try:
            while True:
                yield b"y\n"
                await anyio.sleep(0.01)
        finally:
            released = True

    source = pieces()
    result = await bench.bash("head -n 3; exit 7", stdin=source)
    ended(result, "exited", exit_code=7)
    equal(result.stdout, b"y\ny\ny\n", "stdout")
    await source.aclose()  # type: ignore[attr-defined]
    require(released, "the source was not released")


@SUITE.check("stalled-stream", "a stream that never delivers does not stop the deadline")
async def stalled_stream(bench: Bench) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first\n"
        await anyio.sleep_forever()

    result = await bench.bash("cat", stdin=pieces(), limits={"wall_s": 2})
    ended(result, "timeout")
    equal(result.stdout, b"first\n", "stdout")


@SUITE.check("never-read", "an input that fills every buffer does not stop the deadline")
async def never_read(bench: Bench) -> None:
    result = await bench.bash("sleep 600", stdin=b"x" * (8 * MIB), limits={"wall_s": 2})
    ended(result, "timeout")


@SUITE.check("mirror", "input and output flow at the same time without a deadlock")
async def mirror(bench: Bench) -> None:
    data = b"0123456789abcdef" * (4 * MIB // 16)
    result = await bench.run("cat", stdin=data, limits={"output_kept_bytes": 8 * MIB})
    ended(result, "exited", exit_code=0)
    require(result.stdout == data, f"{len(result.stdout)} of {len(data)} bytes came back")
