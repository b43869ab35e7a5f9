"""Many calls at once, with the effects of one after the other."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Protocol, Self

import anyio
from anyio.abc import TaskGroup

from sandboxed_tools.errors import (
    CallCancelled,
    ConfigurationError,
    InvalidInput,
    SandboxedToolsError,
    SandboxUnavailable,
    ToolFailed,
)
from sandboxed_tools.policy import Placement
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.runtime.events import (
    Event,
    Finished,
    LastEvent,
    Progress,
    Refused,
    Started,
)
from sandboxed_tools.runtime.job import (
    Attempt,
    Job,
    cancelled,
    failed,
    halts,
    refused,
    rendered,
)
from sandboxed_tools.runtime.outbox import Outbox
from sandboxed_tools.runtime.prepared import PreparedCall
from sandboxed_tools.runtime.result import CallResult
from sandboxed_tools.sandbox.contract import OutputSink

__all__ = ["DEFAULT_SIDE_BY_SIDE", "Executor"]

DEFAULT_SIDE_BY_SIDE: Final = 8
INTERRUPT_GRACE_S: Final = 30.0

log = logging.getLogger("sandboxed_tools")


class Caller(Protocol):
    """What an executor needs of a Toolbox: the two halves of a call."""

    def _prepare(self, tool: str, raw_input: object) -> PreparedCall: ...

    async def _refuse(self, call_id: str, tool: str, error: SandboxedToolsError) -> None: ...

    async def _carry_out(
        self,
        call_id: str,
        prepared: PreparedCall,
        *,
        on_output: OutputSink | None,
        on_progress: Callable[[Any], None] | None,
        on_start: Callable[[Placement], None] | None = None,
    ) -> CallResult[Any]: ...


class Executor:
    """Runs calls while they are still being submitted; made by ``Toolbox.executor()``.

    ::

        async with box.executor() as executor:
            executor.submit("1", "Glob", {"pattern": "*.py"})
            async for event in executor:
                ...

    Calls whose ``is_concurrency_safe(input)`` holds run side by side, at most ``side_by_side`` of
    them; any other waits for all before it, runs alone, and holds up all behind it. So the effects
    are those of one call after the other. Last events (``Finished``, ``Refused``) come in the order
    of submission, everything else at once.

    A Bash call that was refused, timed out, or lost its sandbox cancels the calls behind it that
    have not started; an exit code is a result and cancels nothing. No other call does that.

    When the block ends normally, everything that was submitted has ended. When it ends by an
    exception or a cancellation, that is an :meth:`interrupt`, and what still runs after
    ``interrupt_grace_s`` seconds is cancelled. (A Python function in a thread cannot be: it is
    waited for.) Use it from one task; ``submit``, ``interrupt`` and ``discard`` never wait.
    """

    def __init__(
        self,
        box: Caller,
        *,
        side_by_side: int = DEFAULT_SIDE_BY_SIDE,
        interrupt_grace_s: float = INTERRUPT_GRACE_S,
    ) -> None:
        if not (isinstance(side_by_side, int) and 1 <= side_by_side <= 1024):
            raise ConfigurationError("side_by_side is a whole number from 1 to 1024.")
        self._box = box
        self._side_by_side = side_by_side
        self._grace_s = interrupt_grace_s
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._unreported: deque[Job] = deque()
        self._ids: set[str] = set()
        self._halted: str | None = None
        self._streams = 0
        self._tasks: TaskGroup | None = None
        self._outbox: Outbox | None = None
        self._is_closing = False

    async def __aenter__(self) -> Self:
        if self._tasks is not None or self._is_closing:
            raise ConfigurationError("An executor is entered once.")
        self._outbox = Outbox()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        self._is_closing = True
        try:
            if error is None:
                await self._until_idle()
        except BaseException:
            await self._end_all()
            await self._tasks.__aexit__(None, None, None)
            raise
        if error is not None:
            await self._end_all()
        # Not with the error: the group would wrap it, and no task of it is left.
        await self._tasks.__aexit__(None, None, None)

    # ---- submitting

    def submit(self, call_id: str, tool: str, raw_input: object) -> None:
        """Hand a call over; it runs as soon as its turn comes. Returns at once.

        Raises:
            InvalidInput: a call with this id was submitted before.
            ConfigurationError: the block has ended, or was not entered.
        """
        if self._tasks is None or self._is_closing:
            raise ConfigurationError("Submit calls inside the executor's `async with` block.")
        if not isinstance(call_id, str) or not isinstance(tool, str):
            raise InvalidInput("A call has an id and the name of a tool; both are text.")
        if call_id in self._ids:
            raise InvalidInput(f"A call with the id {call_id[:64]!r} was submitted before.")
        self._ids.add(call_id)
        job = Job(call_id, tool, raw_input)
        self._unreported.append(job)
        if self._halted is not None:
            self._skip(job, self._halted)
        else:
            self._waiting.append(job)
        self._advance()

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """While this block lasts more may be submitted, so that iterating goes on waiting."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            if self._outbox is not None:
                self._outbox.wake()

    # ---- taking back

    def interrupt(self) -> None:
        """Cancel what has not started and what runs with ``interrupt_behavior="cancel"``.

        Calls of tools that say ``block`` run on; their events come as usual.
        """
        self._stop_waiting("The call was cancelled by an interruption before it started.")
        for job in tuple(self._running):
            if not job.has_started or job.interrupt_cancels:
                self._cancel(job, "The call was cancelled by an interruption.")

    def discard(self) -> None:
        """Drop everything of a retracted answer: no event of it comes any more.

        What runs is cancelled as by :meth:`interrupt`; a tool that says ``block`` ends unseen, and
        later calls wait for it as their order demands. What has been done is not undone.
        """
        for job in (*self._unreported, *self._running):
            job.is_discarded = True
        self._waiting.clear()
        self.interrupt()
        self._unreported.clear()
        self._ids.clear()
        self._halted = None
        if self._outbox is not None:
            self._outbox.clear()

    # ---- events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        outbox = self._outbox
        if outbox is None:
            raise ConfigurationError("Iterate inside the executor's `async with` block.")
        while True:
            outbox.prepare_wait()
            event = outbox.take()
            if event is not None:
                return event
            if not self._unreported and not self._streams:
                # The answer is complete; what it failed at does not hold up the next one.
                self._halted = None
                raise StopAsyncIteration
            await outbox.changed()

    async def results(self) -> list[LastEvent]:
        """The last events of everything that was submitted, in order; other events are skipped."""
        return [event async for event in self if isinstance(event, Finished | Refused)]

    # ---- running

    def _advance(self) -> None:
        """Start every call whose turn has come."""
        while self._waiting and self._tasks is not None:
            job = self._waiting[0]
            is_full = len(self._running) >= self._side_by_side
            if is_full or any(running.is_exclusive for running in self._running):
                return
            if job.is_exclusive and self._running:
                return
            # Prepared when its turn comes and not before: an earlier call may have changed what
            # its paths lead to, and the policy may have changed.
            try:
                prepared = self._box._prepare(job.tool, job.raw_input)
            except SandboxedToolsError as error:
                self._start(job, error)
                continue
            except Exception as error:  # noqa: BLE001  (an author's code, whatever it raises)
                unforeseen = ToolFailed(
                    f"{job.tool[:64]} failed before it ran: {type(error).__name__}.",
                    operator_detail=text_of(error),
                )
                self._start(job, unforeseen)
                continue
            job.is_exclusive = not prepared.flags.is_concurrency_safe
            if job.is_exclusive and self._running:
                return
            job.tool = prepared.entry.tool.name
            job.interrupt_cancels = prepared.entry.tool.interrupt_behavior == "cancel"
            self._start(job, prepared)

    def _start(self, job: Job, prepared: Attempt) -> None:
        assert self._tasks is not None
        self._waiting.popleft()
        self._running.add(job)
        self._tasks.start_soon(self._run, job, prepared)

    async def _run(self, job: Job, prepared: Attempt) -> None:
        try:
            with job.scope:
                job.last = await self._outcome(job, prepared)
        finally:
            if job.last is None:
                job.last = cancelled(job)
            self._ended(job)

    async def _outcome(self, job: Job, prepared: Attempt) -> LastEvent:
        outbox = self._outbox
        assert outbox is not None

        def on_start(placement: Placement) -> None:
            job.has_started = True
            self._tell(job, Started(job.id, job.tool, placement))

        def on_progress(value: Any) -> None:
            self._tell(
                job,
                Progress(
                    job.id,
                    value,
                    rendered(prepared, lambda c: c.entry.tool.render_progress(value), ""),
                ),
            )

        def on_output(stream: Any, data: bytes) -> None:
            if not job.is_discarded:
                outbox.put_output(job.id, stream, data)

        audit_id = uuid.uuid4().hex[:12]
        job.raw_input = None
        try:
            if isinstance(prepared, SandboxedToolsError):
                await self._box._refuse(audit_id, job.tool, prepared)
                raise prepared
            result = await self._box._carry_out(
                audit_id,
                prepared,
                on_output=on_output,
                on_progress=on_progress,
                on_start=on_start,
            )
        except SandboxedToolsError as error:
            if isinstance(error, SandboxUnavailable) or job.has_started:
                return failed(job, prepared, error)
            return refused(job, prepared, error)
        except Exception as error:
            log.exception("call %s failed in a way that nothing foresaw", job.id)
            unforeseen = ToolFailed(f"{job.tool} failed.", operator_detail=text_of(error))
            return failed(job, prepared, unforeseen)
        return Finished(job.id, job.tool, "ok", result.text, result.shown, result=result)

    def _ended(self, job: Job) -> None:
        self._running.discard(job)
        if not job.is_discarded and halts(job):
            self._halted = "The call was not run, because a Bash call before it did not go through."
            self._stop_waiting(self._halted)
        self._report()
        self._advance()
        if self._outbox is not None:
            self._outbox.wake()

    def _report(self) -> None:
        """Hand out last events as far as everything before them has ended."""
        assert self._outbox is not None
        while self._unreported and self._unreported[0].last is not None:
            job = self._unreported.popleft()
            assert job.last is not None
            self._outbox.put(job.last)

    def _stop_waiting(self, why: str) -> None:
        while self._waiting:
            self._skip(self._waiting.popleft(), why)
        self._report()

    def _skip(self, job: Job, why: str) -> None:
        job.raw_input = None
        job.last = Refused(job.id, job.tool, why, why, CallCancelled(why))
        self._report()

    def _cancel(self, job: Job, why: str) -> None:
        job.cancel_reason = why
        job.scope.cancel()

    def _tell(self, job: Job, event: Event) -> None:
        if not job.is_discarded and self._outbox is not None:
            self._outbox.put(event)

    # ---- the end

    async def _until_idle(self) -> None:
        assert self._outbox is not None
        while self._running or self._waiting:
            self._outbox.prepare_wait()
            if self._running or self._waiting:
                await self._outbox.changed()

    async def _end_all(self) -> None:
        self.interrupt()
        with anyio.move_on_after(self._grace_s, shield=True):
            await self._until_idle()
        for job in tuple(self._running):
            log.warning("call %s did not end within %s s of an interruption", job.id, self._grace_s)
            self._cancel(job, "The call was cancelled: it did not end when it was asked to.")
        with anyio.CancelScope(shield=True):
            await self._until_idle()
