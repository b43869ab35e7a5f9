"""A Toolbox for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.runtime.executor import DEFAULT_SIDE_BY_SIDE
from sandboxed_tools.runtime.result import CallResult, Explanation
from sandboxed_tools.runtime.sync_executor import SyncExecutor
from sandboxed_tools.runtime.toolbox import Toolbox
from sandboxed_tools.sandbox.contract import OutputSink
from sandboxed_tools.tool import AnyTool, Tool, ToolInput

__all__ = ["SyncToolbox"]

InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")


class SyncToolbox:
    """The synchronous form of :class:`Toolbox`, with the same arguments; thread-safe.

    ::

        with SyncToolbox(workspace="project") as box:
            print(box.call("Bash", {"command": "ls"}).text)

    An event loop runs in a thread of its own for as long as the block lasts. ``KeyboardInterrupt``
    in the caller cancels the running call.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._toolbox = Toolbox(*args, **options)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            stack.enter_context(self._portal.wrap_async_context_manager(self._toolbox))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal = None
        self._stack.close()

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        return self._toolbox.tools

    @overload
    def call(
        self,
        tool: Tool[InputT, OutputT, ProgressT],
        raw_input: InputT | Mapping[str, Any],
        *,
        on_output: OutputSink | None = ...,
        on_progress: Callable[[ProgressT], None] | None = ...,
    ) -> CallResult[OutputT]: ...

    @overload
    def call(
        self,
        tool: str,
        raw_input: object,
        *,
        on_output: OutputSink | None = ...,
        on_progress: Callable[[Any], None] | None = ...,
    ) -> CallResult[Any]: ...

    def call(
        self,
        tool: Any,
        raw_input: Any,
        *,
        on_output: OutputSink | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> CallResult[Any]:
        """As :meth:`Toolbox.call`, blocking."""
        if self._portal is None:
            raise ConfigurationError("Use the SyncToolbox inside its `with` block.")
        future = self._portal.start_task_soon(
            partial(
                self._toolbox.call, tool, raw_input, on_output=on_output, on_progress=on_progress
            )
        )
        try:
            result: CallResult[Any] = future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
        return result

    def executor(self, *, side_by_side: int = DEFAULT_SIDE_BY_SIDE) -> SyncExecutor:
        """As :meth:`Toolbox.executor`."""
        if self._portal is None:
            raise ConfigurationError("Use the SyncToolbox inside its `with` block.")
        return SyncExecutor(self._portal, self._toolbox.executor(side_by_side=side_by_side))

    def explain(self, tool: AnyTool | str, raw_input: object) -> Explanation:
        """As :meth:`Toolbox.explain`."""
        return self._toolbox.explain(tool, raw_input)
