"""Toolbox: the one door through which every call goes."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import anyio
import anyio.to_thread

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.errors import (
    ConfigurationError,
    NotMovable,
    SandboxedToolsError,
    ToolFailed,
)
from sandboxed_tools.host import gate_status, run_on_host
from sandboxed_tools.policy import (
    Confirmer,
    Placement,
    Policy,
    authorize,
    decide,
    decide_placement,
)
from sandboxed_tools.runtime.call_context import CallContext
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.runtime.registry import Entry, ToolRegistry
from sandboxed_tools.runtime.result import CallResult, Explanation
from sandboxed_tools.sandbox.contract import (
    ChangesMode,
    Network,
    OutputSink,
    Sandbox,
    SandboxSpec,
    WorkspaceMount,
)
from sandboxed_tools.tool import (
    AnyTool,
    Command,
    Environment,
    ExecResult,
    Flags,
    Limits,
    PermissionDecision,
    Reason,
    Tool,
    ToolInput,
)
from sandboxed_tools.tool.context import issue_ticket, revoke
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot

__all__ = ["DEFAULT_IMAGE", "Toolbox"]

DEFAULT_IMAGE = "sandboxed-tools/base"

InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")

log = logging.getLogger("sandboxed_tools")


class Toolbox:
    """Tools, where they may work, and what they may use.

    ::

        async with Toolbox(workspace="project") as box:
            result = await box.call("Bash", {"command": "make test"})

    Args:
        tools: the tools; the shipped ones when omitted.
        trusted: which of them may run on the host, by object; shipped tools always may.
        sandbox: where contained calls run. When omitted, the engine that answers here is used,
            from the first contained call on, and released at the end.
        workspace: the folder that calls work on; ``None`` for calls without files.
        policy: what the operator allows.
        limits: what one call may use; a tool's timeout replaces ``wall_s``, the policy caps all.
        image: the image of contained commands.
        network: the network of contained commands; ``none`` unless stated.
        changes: what becomes of changes to the workspace.
        runtime: the engine's runtime, such as ``runsc``; the engine's default when omitted.
        confirmer: asks a person; without one every question is answered no.

    Raises:
        InvalidWorkspace: on entering, when the folder may not be used.
        ConfigurationError: two tools claim one name; a trusted tool is not among the tools.
    """

    def __init__(
        self,
        tools: Iterable[AnyTool] | None = None,
        *,
        trusted: Iterable[AnyTool] = (),
        sandbox: Sandbox | None = None,
        workspace: str | Path | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        image: str = DEFAULT_IMAGE,
        network: Network = "none",
        changes: ChangesMode = "discard",
        runtime: str | None = None,
        confirmer: Confirmer | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self.limits = limits or Limits()
        self._tools = SHIPPED if tools is None else tuple(tools)
        self._trusted = tuple(trusted)
        self._sandbox = sandbox
        self._owns_sandbox = sandbox is None
        self._sandbox_lock: anyio.Lock | None = None
        self._workspace = workspace
        self._image = image
        self._network: Network = network
        self._changes: ChangesMode = changes
        self._runtime = runtime
        self._confirmer = confirmer
        self._root: WorkspaceRoot | None = None
        self._registry: ToolRegistry | None = None
        self._resources: dict[type, object] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._registry is not None or self._closed:
            raise ConfigurationError("A Toolbox is entered once.")
        self._sandbox_lock = anyio.Lock()
        if self._workspace is not None:
            open_root = partial(
                WorkspaceRoot.open, Path(self._workspace), read_roots=self.policy.read_roots
            )
            self._root = await anyio.to_thread.run_sync(open_root)
            self._resources[WorkspaceRoot] = self._root
        self._resources[FileStateCache] = FileStateCache()
        try:
            await self._open_tools()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def _open_tools(self) -> None:
        gate = await anyio.to_thread.run_sync(gate_status)
        self._registry = ToolRegistry(
            self._tools,
            trusted=self._trusted,
            policy=self.policy,
            environment=Environment(
                workspace=self._root.path if self._root else None,
                read_roots=tuple(Path(root) for root in self.policy.read_roots),
                trusted_workspace=self.policy.trusted_workspace,
                host_gate=gate.available,
            ),
        )
        for entry in self._registry.entries:
            await entry.tool.setup()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            try:
                for entry in self._registry.entries if self._registry else ():
                    await entry.tool.teardown()
            finally:
                sandbox, self._sandbox = self._sandbox, None
                if sandbox is not None and self._owns_sandbox:
                    await sandbox.aclose()
                if self._root is not None:
                    self._root.close()

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that exist right now, as they are used here."""
        return self._entered().enabled()

    @property
    def workspace(self) -> Path | None:
        """The resolved path of the workspace."""
        return self._root.path if self._root else None

    def _entered(self) -> ToolRegistry:
        if self._registry is None or self._closed:
            raise ConfigurationError("Use the Toolbox inside its `async with` block.")
        return self._registry

    # ---- one call

    @overload
    async def call(
        self,
        tool: Tool[InputT, OutputT, ProgressT],
        raw_input: InputT | Mapping[str, Any],
        *,
        on_output: OutputSink | None = ...,
        on_progress: Callable[[ProgressT], None] | None = ...,
    ) -> CallResult[OutputT]: ...

    @overload
    async def call(
        self,
        tool: str,
        raw_input: object,
        *,
        on_output: OutputSink | None = ...,
        on_progress: Callable[[Any], None] | None = ...,
    ) -> CallResult[Any]: ...

    async def call(
        self,
        tool: AnyTool | str,
        raw_input: object,
        *,
        on_output: OutputSink | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> CallResult[Any]:
        """Validate, place, authorize, run, present. The only way to run a tool.

        Raises:
            ToolNotFound, InvalidInput, PermissionDenied, NotMovable: nothing has run.
            SandboxUnavailable: the sandbox failed; nothing ran anywhere else instead.
            ToolFailed: the tool's own code raised.
        """
        started = time.monotonic()
        entry = self._entered().find(tool)
        tool_input = entry.tool.parse(raw_input)
        flags = entry.tool.flags(tool_input)
        placement = self._place(entry, flags)
        decision = self._decide(entry.tool, tool_input, flags, placement)
        decision = await authorize(
            entry.tool, tool_input, decision, placement, confirmer=self._confirmer
        )
        if placement.where == "container" and not entry.tool.runs_commands:
            raise NotMovable(
                f"{entry.tool.name} belongs in a container here "
                f"({placement.reasons[0].message}), and a Python tool cannot execute there."
            )
        run = _Run(self, entry, tool_input, flags, placement, on_output)
        context = CallContext(
            ticket=issue_ticket(entry.tool, tool_input),
            call_id=uuid.uuid4().hex[:12],
            cwd=self.workspace,
            resources=self._resources,
            execute=run.execute if entry.tool.runs_commands else None,
            on_progress=on_progress,
        )
        output = await _work(entry.tool, tool_input, context)
        return CallResult(
            tool=entry.tool.name,
            output=output,
            text=_bounded(entry.tool.to_model_text(output), entry.tool.max_result_size),
            shown=entry.tool.render_result(output),
            placement=run.placement,
            decision=decision,
            exec=context.exec_result,
            duration_s=time.monotonic() - started,
        )

    def explain(self, tool: AnyTool | str, raw_input: object) -> Explanation:
        """What would happen to this call; nothing is run and nobody is asked.

        Raises:
            ToolNotFound, InvalidInput: as :meth:`call` would.
        """
        entry = self._entered().find(tool)
        tool_input = entry.tool.parse(raw_input)
        flags = entry.tool.flags(tool_input)
        placement = self._place(entry, flags)
        decision = self._decide(entry.tool, tool_input, flags, placement)
        return Explanation(entry.tool.name, flags, placement, decision)

    def _place(self, entry: Entry, flags: Flags) -> Placement:
        return decide_placement(entry.tool, flags, self.policy, trusted=entry.trusted)

    def _decide(
        self, tool: AnyTool, tool_input: ToolInput, flags: Flags, placement: Placement
    ) -> PermissionDecision:
        contained = (
            placement.where == "container"
            and self._network == "none"
            and (self._changes != "apply" or self.policy.mode == "accept-edits")
        )
        return decide(tool, tool_input, flags, placement, self.policy, effect_contained=contained)

    # ---- where commands run

    def _limits_for(self, tool: AnyTool, tool_input: ToolInput) -> Limits:
        timeout = tool.timeout(tool_input)
        limits = self.limits
        if timeout is not None:
            limits = limits.model_copy(update={"wall_s": timeout})
        return limits.tightened(self.policy.ceiling) if self.policy.ceiling else limits

    def _spec_for(self, flags: Flags, limits: Limits) -> SandboxSpec:
        workspace = None
        if self._root is not None:
            workspace = WorkspaceMount(
                self._root.path,
                access="read_only" if flags.is_read_only else "copy_on_write",
                changes=self._changes,
            )
        return SandboxSpec(
            image=self._image,
            limits=limits,
            workspace=workspace,
            network=self._network,
            runtime=self._runtime,
        )

    async def _open_sandbox(self) -> Sandbox:
        assert self._sandbox_lock is not None
        async with self._sandbox_lock:
            if self._sandbox is None:
                self._sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
            return self._sandbox


class _Run:
    """One call's command, where the call is placed. ``placement`` says where it ended up."""

    def __init__(
        self,
        box: Toolbox,
        entry: Entry,
        tool_input: ToolInput,
        flags: Flags,
        placement: Placement,
        on_output: OutputSink | None,
    ) -> None:
        self._box = box
        self._flags = flags
        self._limits = box._limits_for(entry.tool, tool_input)
        self._on_output = on_output
        self.placement = placement

    async def execute(self, command: Command) -> ExecResult:
        if self.placement.where == "host":
            result = await self._on_host(command)
            if result is not None:
                return result
        return await self._in_container(command)

    async def _in_container(self, command: Command) -> ExecResult:
        sandbox = await self._box._open_sandbox()
        spec = self._box._spec_for(self._flags, self._limits)
        return await sandbox.run(spec, command, self._on_output)

    async def _on_host(self, command: Command) -> ExecResult | None:
        """The result of a host run; ``None`` when the gate refused something, so it counts not."""
        workspace = self._box.workspace
        if workspace is None:
            return None
        outcome = await run_on_host(
            command,
            workspace=workspace,
            read_roots=tuple(Path(root) for root in self._box.policy.read_roots),
            limits=self._limits,
            on_output=self._on_output,
            trusted_git=self._box.policy.trusted_workspace,
        )
        if not outcome.denied:
            return outcome.result
        log.error(
            "classifier error: the host gate refused %s to a command judged read-only; "
            "it is run again in the container",
            "; ".join(f"{item.call} {item.path or ''}".strip() for item in outcome.denied),
        )
        self.placement = Placement(
            "container",
            (
                Reason("gate_denied", "the host gate refused what the command did"),
                *self.placement.reasons,
            ),
        )
        return None


async def _work(tool: AnyTool, tool_input: ToolInput, context: CallContext) -> Any:
    """Run the tool's work with its hooks, and turn whatever it raises into the error tree."""
    try:
        _hook(tool.on_start, tool_input)
        output = await tool.call(tool_input, context)
    except anyio.get_cancelled_exc_class():
        _hook(tool.on_cancel, tool_input)
        raise
    except SandboxedToolsError as error:
        _hook(tool.on_error, tool_input, error)
        raise
    except Exception as error:
        _hook(tool.on_error, tool_input, error)
        raise ToolFailed(
            f"{tool.name} failed: {type(error).__name__}: {error}"[:2000],
            operator_detail=repr(error),
        ) from error
    finally:
        revoke(context.ticket)
    _hook(tool.on_success, tool_input, output)
    return output


def _hook(hook: Callable[..., None], *arguments: object) -> None:
    try:
        hook(*arguments)
    except Exception:
        log.exception("a life-cycle hook failed; the call goes on")


def _bounded(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    half = size // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut …]\n{text[-half:]}"
