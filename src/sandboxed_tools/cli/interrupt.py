"""Ctrl-C: the first ends the call and keeps its result, the second gives that up, the third goes.

SIGTERM counts as Ctrl-C does. A signal that whoever started us had ignored stays ignored.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio
from anyio.abc import TaskGroup

from sandboxed_tools.cli import exit_codes
from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.runtime import Toolbox

__all__ = ["call_until_interrupted"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

ResultT = TypeVar("ResultT")

log = logging.getLogger("sandboxed_tools")


async def call_until_interrupted(
    box: Toolbox, work: Callable[[], Awaitable[ResultT]]
) -> ResultT | None:
    """Enter the Toolbox and do the work. ``None`` when it was interrupted and has no result.

    Raises:
        whatever the work or the Toolbox raises, unless it was interrupted.
    """
    result: ResultT | None = None
    failure: Exception | None = None
    asked = _Asked(box)
    with _kept_handlers() as wanted, anyio.open_signal_receiver(*wanted) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.listen, signals, tasks)
            # Nothing is raised in here: the group would wrap it.
            try:
                async with box:
                    with asked.scope:
                        result = await work()
            except Exception as error:  # noqa: BLE001  (raised again below)
                failure = error
            tasks.cancel_scope.cancel()
    if failure is not None and not (asked.times and isinstance(failure, SandboxedToolsError)):
        raise failure
    return result


class _Asked:
    """How often somebody asked for the end, and what was done about it."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self.scope = anyio.CancelScope()
        self.times = 0

    async def listen(self, signals: AsyncIterator[signal.Signals], tasks: TaskGroup) -> None:
        async for _ in signals:
            self.times += 1
            if self.times == 1:
                tasks.start_soon(self._stop)
            elif self.times == 2:
                self.scope.cancel()
            else:
                # Whatever is left ends with its lease, and `gc` removes it.
                os._exit(exit_codes.INTERRUPTED)

    async def _stop(self) -> None:
        try:
            has_result = await self._box.stop()
        except SandboxedToolsError as error:
            log.warning("the call could not be stopped: %s", error)
            has_result = False
        if not has_result:
            self.scope.cancel()


@contextmanager
def _kept_handlers() -> Iterator[tuple[signal.Signals, ...]]:
    """The signals to listen to; afterwards they do what they did before."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield tuple(number for number, what in before.items() if what is not signal.SIG_IGN)
    finally:
        for number, what in before.items():
            signal.signal(number, what)
