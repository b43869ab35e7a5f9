"""Toolbox: the one door through which every call goes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import anyio

from sandboxed_tools.audit import AuditLog
from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.errors import ConfigurationError, SandboxedToolsError
from sandboxed_tools.inside.place import PYTHON_IMAGE
from sandboxed_tools.policy import (
    Confirmer,
    LayeredPolicy,
    Placement,
    Policy,
)
from sandboxed_tools.runtime.call_runner import CallRunner
from sandboxed_tools.runtime.executor import (
    DEFAULT_SIDE_BY_SIDE,
    INTERRUPT_GRACE_S,
    Executor,
)
from sandboxed_tools.runtime.live_policy import LivePolicy
from sandboxed_tools.runtime.own_sandbox import OwnSandbox
from sandboxed_tools.runtime.places import Places
from sandboxed_tools.runtime.prepared import ContainerOptions, PreparedCall, prepare
from sandboxed_tools.runtime.recorder import CallRecorder
from sandboxed_tools.runtime.registry import ToolRegistry
from sandboxed_tools.runtime.result import CallResult, Explanation
from sandboxed_tools.runtime.session import Session
from sandboxed_tools.runtime.vendor_forms import VendorForms
from sandboxed_tools.sandbox.contract import (
    ChangesMode,
    Network,
    OutputSink,
    Sandbox,
)
from sandboxed_tools.tool import (
    AnyTool,
    Limits,
    Tool,
    ToolInput,
)
from sandboxed_tools.workspace import Decision

__all__ = ["DEFAULT_IMAGE", "Toolbox"]

DEFAULT_IMAGE = "sandboxed-tools/base"


InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")


class Toolbox(VendorForms):
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
        python_image: the image of contained Python tools and of code: ``sandboxed-tools/python``,
            ``sandboxed-tools/data``, or one that is made from them.
        network: the network of contained commands; ``none`` unless stated, ``bridge``, or
            ``compose:PROJECT/NETWORK`` for the services on it and nothing else.
        services: running containers by the name that contained commands find them under, on a
            network of each call's own.
        changes: what becomes of changes to the workspace: ``hold`` keeps them until somebody
            decides, ``apply`` brings them in, ``discard`` forgets them.
        session: the name of a session to go on with, whose held changes are seen; a new one when
            omitted.
        runtime: the engine's runtime, such as ``runsc``; the engine's default when omitted.
        warm: whether the Toolbox's own sandbox starts containers ahead of calls; a program that
            makes one call has no use for that.
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
        services: Mapping[str, str] | None = None,
        python_image: str = PYTHON_IMAGE,
        changes: ChangesMode = "hold",
        session: str | None = None,
        runtime: str | None = None,
        warm: bool = True,
        confirmer: Confirmer | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self._policy = LivePolicy(policy)
        self._recorder = CallRecorder(audit, workspace=None)
        self._audit = audit
        self._places = Places()
        self._runner: CallRunner | None = None
        self.limits = limits or Limits()
        self._tools = SHIPPED if tools is None else tuple(tools)
        self._trusted = tuple(trusted)
        self._sandbox = OwnSandbox(sandbox, warm=warm)
        self._workspace = workspace
        self._options = ContainerOptions(
            image, network, changes, runtime, python_image, tuple((services or {}).items())
        )
        self._confirmer = confirmer
        self._session_name = session
        self._registry: ToolRegistry | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._registry is not None or self._closed:
            raise ConfigurationError("A Toolbox is entered once.")
        try:
            await self._open()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def _open(self) -> None:
        results = await self._places.open(
            self._workspace, session=self._session_name, policy=self._policy
        )
        self._recorder = CallRecorder(self._audit, workspace=self.workspace)
        self._runner = CallRunner(
            policy=self._policy,
            options=self._options,
            limits=self.limits,
            confirmer=self._confirmer,
            recorder=self._recorder,
            results=results,
            resources=self._places.resources,
            session=self._places.session,
            open_sandbox=self._open_sandbox,
        )
        self._adapt(self._policy.open().policy)
        await self._entered().setup()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            if self._registry is not None:
                await self._registry.teardown()
            try:
                await self._sandbox.aclose()
            finally:
                self._places.close()

    async def stop(self) -> bool:
        """End every contained call, each with its result so far and the status ``cancelled``.

        No further contained call is begun. ``False`` when none can be running: no sandbox was
        opened yet.

        Raises:
            ConfigurationError: the sandbox was given to this Toolbox, and others may be using it.
        """
        return await self._sandbox.stop()

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that exist right now, as they are used here."""
        return self._entered().enabled()

    @property
    def workspace(self) -> Path | None:
        """The resolved path of the workspace."""
        return self._places.workspace

    @property
    def session(self) -> Session:
        """The session of the workspace: its directory, and what is held.

        Raises:
            ConfigurationError: the Toolbox has no workspace.
        """
        return self._places.known_session()

    async def apply(
        self, change_set_id: str, *, force: bool = False, allow_protected: bool = False
    ) -> Decision:
        """Bring held changes into the workspace, all of them or none.

        ``done`` is false when something speaks against it: a file that changed meanwhile
        (``force``), or a protected path (``allow_protected``).
        """
        return await self._places.apply(
            change_set_id,
            force=force,
            allow_protected=allow_protected,
            protected=self.policy.protected_paths,
        )

    async def discard(self, change_set_id: str) -> Decision:
        """Forget held changes."""
        return await self._places.discard(change_set_id)

    async def undo(
        self, change_set_id: str | None = None, *, force: bool = False
    ) -> Decision | None:
        """Take applied changes back, the newest of this session when none are named.

        ``None`` when there is nothing to undo.
        """
        return await self._places.undo(change_set_id, force=force)

    def _adapt(self, policy: Policy) -> None:
        """Let the tools be as this policy and this place want them."""
        self._registry = ToolRegistry(
            self._tools,
            trusted=self._trusted,
            policy=policy,
            environment=self._places.environment(policy),
        )

    @property
    def policy(self) -> Policy:
        """What holds at this moment, of all layers.

        Raises:
            ConfigurationError: a policy file cannot be used; then nothing is called.
        """
        return self._policy.now(self._adapt).policy

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

    @property
    def results_folder(self) -> Path:
        """Where results that are too long for a model are kept, each as ``CALL_ID.txt``."""
        self._entered()
        assert self._places.results is not None
        return self._places.results.folder

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
        merged = self._policy.now(self._adapt)
        return prepare(
            self._entered().find(tool),
            raw_input,
            policy=merged,
            granted=self._policy.granted,
            options=self._options,
            scope=self._places.scope,
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
        await self._recorder.refused(call_id, tool=tool, error=error, policy=self._policy.seen)

    async def _carry_out(
        self,
        call_id: str,
        prepared: PreparedCall,
        *,
        on_output: OutputSink | None,
        on_progress: Callable[[Any], None] | None,
        on_start: Callable[[Placement], None] | None = None,
    ) -> CallResult[Any]:
        """See :meth:`CallRunner.carry_out`."""
        assert self._runner is not None
        return await self._runner.carry_out(
            call_id, prepared, on_output=on_output, on_progress=on_progress, on_start=on_start
        )

    async def _open_sandbox(self) -> Sandbox:
        return await self._sandbox.open(self._policy.seen.policy, runtime=self._options.runtime)
