"""An executor for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import BlockingPortal

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.runtime.events import Event, LastEvent
from sandboxed_tools.runtime.executor import Executor

__all__ = ["SyncExecutor"]


class SyncExecutor:
    """The synchronous form of :class:`Executor`; made by ``SyncToolbox.executor()``.

    ::

        with box.executor() as executor:
            executor.submit("1", "Glob", {"pattern": "*.py"})
            for event in executor:
                ...

    Calls run in the Toolbox's own event loop. An exception in the block, ``KeyboardInterrupt`` too,
    is an interruption.
    """

    def __init__(self, portal: BlockingPortal, executor: Executor) -> None:
        self._portal = portal
        self._executor = executor
        self._entered: AbstractContextManager[Any] | None = None

    def __enter__(self) -> Self:
        if self._entered is not None:
            raise ConfigurationError("An executor is entered once.")
        self._entered = self._portal.wrap_async_context_manager(self._executor)
        self._entered.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._entered is not None
        self._entered.__exit__(kind, error, trace)

    def submit(self, call_id: str, tool: str, raw_input: object) -> None:
        """As :meth:`Executor.submit`."""
        self._portal.call(self._executor.submit, call_id, tool, raw_input)

    def interrupt(self) -> None:
        """As :meth:`Executor.interrupt`."""
        self._portal.call(self._executor.interrupt)

    def discard(self) -> None:
        """As :meth:`Executor.discard`."""
        self._portal.call(self._executor.discard)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """As :meth:`Executor.streaming`, for a thread that submits while another iterates."""
        stream = self._executor.streaming()
        self._portal.call(stream.__enter__)
        try:
            yield
        finally:
            self._portal.call(partial(stream.__exit__, None, None, None))

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self._portal.call(self._next)
            if event is None:
                return
            yield event

    async def _next(self) -> Event | None:
        # StopAsyncIteration must not cross the portal: it would become a RuntimeError.
        return await anext(self._executor, None)

    def results(self) -> list[LastEvent]:
        """As :meth:`Executor.results`."""
        found: list[LastEvent] = self._portal.call(self._executor.results)
        return found
