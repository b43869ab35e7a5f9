"""The protocol on standard input and output: bounded lines in, and nothing else out.

Not the SDK's own transport, which reads lines of any length into memory, answers nothing to what is
no JSON, and waits for its reading thread when it is told to end.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from sandboxed_tools.mcp.messages import MAX_LINE_BYTES, Complaint, parsed

__all__ = ["PrivateEnds", "private_ends", "serve_stdio"]

log = logging.getLogger("sandboxed_tools.mcp")

MAX_UNANSWERED: Final = 1024
"""Requests without an answer, beyond which nothing is read: more than a session's queue holds, so
only a client that does not read its answers gets there."""
LAST_ANSWERS_S: Final = 30.0
"""How long a client that has closed our input may still be answered what is no call."""
_CHUNK_BYTES: Final = 64 * 1024
_ATOMIC_BYTES: Final = 4096
"""What a pipe that polls as writable takes at once, pipe(7): so writing never blocks the loop."""

Incoming = SessionMessage | Exception


@dataclass(frozen=True, slots=True)
class PrivateEnds:
    """Descriptors of what were standard input and output."""

    stdin: int
    stdout: int


@contextmanager
def private_ends() -> Iterator[PrivateEnds]:
    """Keep standard input and output for the messages alone.

    Meanwhile descriptor 0 reads nothing and 1 is standard error, so that neither a child nor a
    stray print can get between the messages.
    """
    ends = PrivateEnds(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield ends
    finally:
        os.dup2(ends.stdin, 0)
        os.dup2(ends.stdout, 1)
        for descriptor in (nothing, ends.stdin, ends.stdout):
            os.close(descriptor)


async def serve_stdio(server: Server[Any], ends: PrivateEnds) -> None:
    """Serve the one client until it closes our input; its running calls end with it.

    What else it asked before is answered, so that messages can come from a file or a pipe.
    """
    async with _messages(ends) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def _messages(
    ends: PrivateEnds,
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]
]:
    to_server, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    complaints = outgoing.clone()
    unanswered = _Unanswered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, ends.stdin, to_server, complaints, unanswered)
        tasks.start_soon(_write, ends.stdout, from_server, unanswered)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()
            for stream in (incoming, outgoing, complaints, to_server, from_server):
                stream.close()


class _Unanswered:
    """The requests that still wait for their answer, or were not cancelled."""

    def __init__(self) -> None:
        # Counted: a client may use one id twice.
        self._waiting: Counter[types.RequestId] = Counter()
        self._calls: set[types.RequestId] = set()
        self._has_reader = True
        self._changed = anyio.Event()

    async def add(self, message: types.JSONRPCMessage) -> None:
        """Count a message that came in; waits while there are too many."""
        while self._has_reader and self._waiting.total() >= MAX_UNANSWERED:
            self._changed = anyio.Event()
            await self._changed.wait()
        if isinstance(message, types.JSONRPCRequest):
            self._waiting[message.id] += 1
            if message.method == "tools/call":
                self._calls.add(message.id)
        elif isinstance(message, types.JSONRPCNotification):
            self._remove((message.params or {}).get("requestId"))

    def answer(self, message: types.JSONRPCMessage) -> None:
        """Count a message that has gone out, whole."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._remove(message.id)

    async def all_but_calls(self) -> None:
        """Wait until only calls are unanswered; not for longer than half a minute."""
        with anyio.move_on_after(LAST_ANSWERS_S):
            while self._has_reader and self._waiting.keys() - self._calls:
                self._changed = anyio.Event()
                await self._changed.wait()

    def forget(self) -> None:
        """Nobody reads answers any more: go on reading, to see the client's end."""
        self._has_reader = False
        self._changed.set()

    def _remove(self, identity: object) -> None:
        if isinstance(identity, str | int) and identity in self._waiting:
            self._waiting[identity] -= 1
            if not self._waiting[identity]:
                del self._waiting[identity]
                self._calls.discard(identity)
            self._changed.set()


async def _read(
    descriptor: int,
    to_server: MemoryObjectSendStream[Incoming],
    complaints: MemoryObjectSendStream[SessionMessage],
    unanswered: _Unanswered,
) -> None:
    async with to_server, complaints:
        async for line in _lines(descriptor):
            message = parsed(line)
            if isinstance(message, Complaint):
                await complaints.send(SessionMessage(message.answer))
            elif message is not None:
                await unanswered.add(message)
                await to_server.send(SessionMessage(message))
        await unanswered.all_but_calls()


async def _lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """Lines without their ends; ``None`` for each that is too long, whose bytes are not kept."""
    held, is_too_long = bytearray(), False
    while True:
        await _ready(anyio.wait_readable, descriptor)
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except OSError as error:  # a terminal or a connection that is gone
            log.warning("no more messages can be read: %s", error.strerror)
            return
        if not chunk:
            return
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            line = bytes(held) + part
            yield None if is_too_long or len(line) > MAX_LINE_BYTES else line
            held, is_too_long = bytearray(), False
        held += rest
        if len(held) > MAX_LINE_BYTES:
            held, is_too_long = bytearray(), True


async def _write(
    descriptor: int,
    from_server: MemoryObjectReceiveStream[SessionMessage],
    unanswered: _Unanswered,
) -> None:
    async with from_server:
        async for item in from_server:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            data = memoryview(text.encode("utf-8", "backslashreplace") + b"\n")
            try:
                while data:
                    await _ready(anyio.wait_writable, descriptor)
                    data = data[os.write(descriptor, data[:_ATOMIC_BYTES]) :]
            except OSError as error:
                is_gone = isinstance(error, BrokenPipeError | ConnectionResetError)
                log.log(
                    logging.INFO if is_gone else logging.WARNING,
                    "no more answers can be written: %s",
                    error.strerror,
                )
                unanswered.forget()
                return
            unanswered.answer(item.message)


async def _ready(wait: object, descriptor: int) -> None:
    """Wait for a pipe, a socket or a terminal; a file is always ready and cannot be waited for."""
    assert callable(wait)
    try:
        await wait(descriptor)
    except PermissionError:
        await anyio.lowlevel.checkpoint()
