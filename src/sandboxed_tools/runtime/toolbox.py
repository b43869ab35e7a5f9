"""Toolbox: the one door through which every call goes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import anyio
import anyio.to_thread

from sandboxed_tools.audit import AuditLog
from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.errors import ConfigurationError, SandboxedToolsError
from sandboxed_tools.host import gate_status
from sandboxed_tools.policy import (
    Confirmer,
    LayeredPolicy,
    MergedPolicy,
    Placement,
    Policy,
    Rule,
    Scope,
    authorize,
)
from sandboxed_tools.runtime.call_context import CallContext
from sandboxed_tools.runtime.command_run import CommandRun
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.runtime.executor import (
    DEFAULT_SIDE_BY_SIDE,
    INTERRUPT_GRACE_S,
    Executor,
)
from sandboxed_tools.runtime.prepared import ContainerOptions, PreparedCall, judged, prepare
from sandboxed_tools.runtime.recorder import CallRecorder
from sandboxed_tools.runtime.registry import ToolRegistry
from sandboxed_tools.runtime.result import CallResult, Explanation
from sandboxed_tools.runtime.work import do_work, present
from sandboxed_tools.sandbox.contract import (
    ChangesMode,
    Network,
    OutputSink,
    Sandbox,
)
from sandboxed_tools.tool import (
    AnyTool,
    Environment,
    Limits,
    PermissionDecision,
    Tool,
    ToolInput,
)
from sandboxed_tools.tool.context import issue_ticket
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot

__all__ = ["DEFAULT_IMAGE", "Toolbox"]

DEFAULT_IMAGE = "sandboxed-tools/base"

_ADAPTING = ("minimum_defaults", "trusted_workspace", "program_specs")
"""Fields of the policy that tools are adapted to when they enter a Toolbox."""

InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")


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
        policy: what this program allows: the layer *session* of a policy whose other layers are
            the organisation's, the user's, the environment's and the project's. A
            ``LayeredPolicy`` says itself where these come from.
        limits: what one call may use; a tool's timeout replaces ``wall_s``, the policy caps all.
        image: the image of contained commands.
        network: the network of contained commands; ``none`` unless stated.
        changes: what becomes of changes to the workspace.
        runtime: the engine's runtime, such as ``runsc``; the engine's default when omitted.
        confirmer: asks a person; without one every question is answered no.
        audit: where calls are recorded; this process's log in the state folder when omitted.

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
        policy: Policy | LayeredPolicy | None = None,
        limits: Limits | None = None,
        image: str = DEFAULT_IMAGE,
        network: Network = "none",
        changes: ChangesMode = "discard",
        runtime: str | None = None,
        confirmer: Confirmer | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._layers = policy if isinstance(policy, LayeredPolicy) else LayeredPolicy(policy)
        self._policy_seen = MergedPolicy(Policy(), {})
        self._recorder = CallRecorder(audit, workspace=None)
        self._audit = audit
        self._granted: tuple[Rule, ...] = ()
        self.limits = limits or Limits()
        self._tools = SHIPPED if tools is None else tuple(tools)
        self._trusted = tuple(trusted)
        self._sandbox = sandbox
        self._owns_sandbox = sandbox is None
        self._sandbox_lock: anyio.Lock | None = None
        self._confirm_lock: anyio.Lock | None = None
        self._workspace = workspace
        self._options = ContainerOptions(image, network, changes, runtime)
        self._confirmer = confirmer
        self._root: WorkspaceRoot | None = None
        self._registry: ToolRegistry | None = None
        self._resources: dict[type, object] = {}
        self._host_gate = False
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._registry is not None or self._closed:
            raise ConfigurationError("A Toolbox is entered once.")
        self._sandbox_lock = anyio.Lock()
        self._confirm_lock = anyio.Lock()
        if self._workspace is not None:
            self._root = await anyio.to_thread.run_sync(self._open_root, Path(self._workspace))
            self._resources[WorkspaceRoot] = self._root
        self._resources[FileStateCache] = FileStateCache()
        self._recorder = CallRecorder(self._audit, workspace=self.workspace)
        try:
            self._policy_seen = self._layers.current()
            await self._open_tools()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    def _open_root(self, path: Path) -> WorkspaceRoot:
        """Open the workspace under the policy that its own project file takes part in."""
        operators = self._layers.current().policy
        with WorkspaceRoot.open(path) as probe:
            denied = self._layers.in_workspace(probe).current().policy.denied_paths
        root = WorkspaceRoot.open(path, read_roots=operators.read_roots, denied=denied)
        self._layers = self._layers.in_workspace(root)
        return root

    async def _open_tools(self) -> None:
        gate = await anyio.to_thread.run_sync(gate_status)
        self._host_gate = gate.available
        self._registry = self._registry_for(self._policy_seen.policy)
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

    def _registry_for(self, policy: Policy) -> ToolRegistry:
        return ToolRegistry(
            self._tools,
            trusted=self._trusted,
            policy=policy,
            environment=Environment(
                workspace=self._root.path if self._root else None,
                read_roots=tuple(Path(root) for root in policy.read_roots),
                trusted_workspace=policy.trusted_workspace,
                host_gate=self._host_gate,
                extra_specs=policy.program_specs or None,
            ),
        )

    @property
    def policy(self) -> Policy:
        """What holds at this moment, of all layers.

        Raises:
            ConfigurationError: a policy file cannot be used; then nothing is called.
        """
        return self._policy_now().policy

    def _policy_now(self) -> MergedPolicy:
        merged = self._layers.current()
        if merged is self._policy_seen or self._registry is None:
            return merged
        old, new = self._policy_seen.policy, merged.policy
        if (old.read_roots, old.denied_paths) != (new.read_roots, new.denied_paths):
            raise ConfigurationError(
                "The policy's read roots or denied paths changed while the workspace was open. "
                "Open the Toolbox again."
            )
        if any(getattr(old, name) != getattr(new, name) for name in _ADAPTING):
            self._registry = self._registry_for(new)
        self._policy_seen = merged
        return merged

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
            AuditUnavailable: the call cannot be recorded, so nothing has run.
            ConfigurationError: the policy cannot be used, so nothing has run.
        """
        call_id = uuid.uuid4().hex[:12]
        prepared = await self._prepare_recorded(call_id, tool, raw_input)
        return await self._carry_out(
            call_id, prepared, on_output=on_output, on_progress=on_progress
        )

    def executor(
        self,
        *,
        side_by_side: int = DEFAULT_SIDE_BY_SIDE,
        interrupt_grace_s: float = INTERRUPT_GRACE_S,
    ) -> Executor:
        """Many calls at once, submitted while a model is still streaming; see :class:`Executor`."""
        self._entered()
        return Executor(self, side_by_side=side_by_side, interrupt_grace_s=interrupt_grace_s)

    def explain(self, tool: AnyTool | str, raw_input: object) -> Explanation:
        """What would happen to this call; nothing is run and nobody is asked.

        Raises:
            ToolNotFound, InvalidInput: as :meth:`call` would.
        """
        prepared = self._prepare(tool, raw_input)
        return Explanation(
            prepared.entry.tool.name, prepared.flags, prepared.placement, prepared.decision
        )

    def _prepare(self, tool: AnyTool | str, raw_input: object) -> PreparedCall:
        """Look up, validate, place and judge a call, from one reading of everything."""
        self._entered()
        merged = self._policy_now()
        return prepare(
            self._entered().find(tool),
            raw_input,
            policy=merged,
            granted=self._granted,
            options=self._options,
            scope=self._scope,
        )

    async def _prepare_recorded(
        self, call_id: str, tool: AnyTool | str, raw_input: object
    ) -> PreparedCall:
        """As :meth:`_prepare`; a refusal leaves its record."""
        self._entered()
        try:
            return self._prepare(tool, raw_input)
        except SandboxedToolsError as error:
            await self._refuse(call_id, tool if isinstance(tool, str) else tool.name, error)
            raise

    async def _refuse(self, call_id: str, tool: str, error: SandboxedToolsError) -> None:
        """Record a call that could not be prepared."""
        await self._recorder.refused(call_id, tool=tool, error=error, policy=self._policy_seen)

    async def _carry_out(
        self,
        call_id: str,
        prepared: PreparedCall,
        *,
        on_output: OutputSink | None,
        on_progress: Callable[[Any], None] | None,
        on_start: Callable[[Placement], None] | None = None,
    ) -> CallResult[Any]:
        """Ask, record and run. ``on_start`` is called when nothing can refuse the call any more."""
        started = time.monotonic()
        tool = prepared.entry.tool
        try:
            decision = await self._authorized(prepared)
            run = self._command_run(prepared, on_output)
        except SandboxedToolsError as error:
            await self._recorder.refused(
                call_id, tool=tool.name, error=error, policy=prepared.policy, prepared=prepared
            )
            raise
        await self._recorder.intent(call_id, prepared, decision, run.spec)
        if on_start is not None:
            on_start(prepared.placement)
        context = CallContext(
            ticket=issue_ticket(tool, prepared.tool_input),
            call_id=call_id,
            cwd=self.workspace,
            resources=self._resources,
            execute=run.execute if tool.runs_commands else None,
            on_progress=on_progress,
        )
        failure: BaseException | None = None
        try:
            timeout_s = None if tool.runs_commands else prepared.timeout_s
            output = await do_work(tool, prepared.tool_input, context, timeout_s=timeout_s)
            shown = present(tool, output)
        except BaseException as error:
            failure = error
            raise
        finally:
            await self._recorder.outcome(
                call_id,
                prepared,
                placement=run.placement,
                result=context.exec_result,
                error=failure,
                duration_s=time.monotonic() - started,
            )
        return CallResult(
            tool=tool.name,
            output=output,
            text=_bounded(shown.for_model, tool.max_result_size),
            shown=shown.for_person,
            placement=run.placement,
            decision=decision,
            exec=context.exec_result,
            duration_s=time.monotonic() - started,
            call_id=call_id,
        )

    async def _authorized(self, prepared: PreparedCall) -> PermissionDecision:
        """The decision that lets the call run.

        Raises:
            PermissionDenied, NotMovable: it may not run, or not where it belongs.
        """
        if prepared.decision.behavior != "deny":
            tool = prepared.entry.tool
            self._options.check(tool, prepared.placement, prepared.policy.policy)
        if prepared.decision.behavior != "ask" or self._confirmer is None:
            return await self._authorize(prepared)
        assert self._confirm_lock is not None
        # One question at a time; an answer may have settled the next question as well.
        async with self._confirm_lock:
            return await self._authorize(
                judged(prepared, granted=self._granted, options=self._options, scope=self._scope)
            )

    async def _authorize(self, prepared: PreparedCall) -> PermissionDecision:
        return await authorize(
            prepared.entry.tool,
            prepared.tool_input,
            prepared.decision,
            prepared.placement,
            confirmer=self._confirmer,
            scope=self._scope,
            remember=self._grant,
        )

    def _grant(self, rules: tuple[Rule, ...]) -> None:
        """Remember, until this Toolbox closes, what a person always allows."""
        self._granted = tuple(dict.fromkeys((*self._granted, *rules)))

    @property
    def _scope(self) -> Scope:
        return Scope(self.workspace, self.workspace)

    # ---- where commands run

    def _command_run(self, prepared: PreparedCall, on_output: OutputSink | None) -> CommandRun:
        policy = prepared.policy.policy
        spec = self._options.spec(
            workspace=self.workspace,
            is_read_only=prepared.flags.is_read_only,
            limits=prepared.limits(self.limits),
            policy=policy,
        )
        return CommandRun(
            prepared.placement,
            spec=spec,
            workspace=self.workspace,
            policy=policy,
            open_sandbox=self._open_sandbox,
            on_output=on_output,
            retries=prepared.entry.tool.max_retries if prepared.flags.is_idempotent else 0,
        )

    async def _open_sandbox(self) -> Sandbox:
        assert self._sandbox_lock is not None
        async with self._sandbox_lock:
            if self._sandbox is None:
                self._sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
            return self._sandbox


def _bounded(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    half = size // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut …]\n{text[-half:]}"
