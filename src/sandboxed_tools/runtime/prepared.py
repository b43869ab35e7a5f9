"""A call before anybody is asked, and the container options that its judgement depends on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final, Literal

from sandboxed_tools.errors import PermissionDenied, SandboxedToolsError, ToolFailed
from sandboxed_tools.inside.place import PYTHON_IMAGE, RUNNER_ARGV
from sandboxed_tools.policy import (
    MergedPolicy,
    Placement,
    Policy,
    Rule,
    Scope,
    decide,
    decide_placement,
)
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.runtime.registry import Entry
from sandboxed_tools.runtime.session import Session
from sandboxed_tools.sandbox.contract import (
    ChangesMode,
    Network,
    SandboxSpec,
    WorkspaceMount,
)
from sandboxed_tools.sandbox.services import check_network, joins_services
from sandboxed_tools.tool import AnyTool, Flags, Limits, PermissionDecision, ToolInput

__all__ = ["ContainerOptions", "PreparedCall", "judged", "prepare"]


_REACHES: Final = ("none", "services", "bridge")
_NO_NETWORK: Final = {
    "none": "",
    "services": "allows no network",
    "bridge": "does not allow the network bridge",
}


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """What the containers of one Toolbox are like."""

    image: str
    network: Network
    changes: ChangesMode
    runtime: str | None
    python_image: str = PYTHON_IMAGE
    services: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_network(self.network, self.services)

    @property
    def reach(self) -> Literal["none", "services", "bridge"]:
        """How far contained commands reach, in the words of a policy."""
        if joins_services(self.network, self.services):
            return "services"
        return "none" if self.network == "none" else "bridge"

    def image_for(self, tool: AnyTool) -> str:
        """The image that a contained call of this tool runs in."""
        return self.python_image if tool.runs_in == "python" else self.image

    def contain(self, placement: Placement, policy: Policy) -> bool:
        """Whether the whole effect of a call stays in its container."""
        return (
            placement.where == "container"
            and self.reach == "none"
            and (self.changes != "apply" or policy.mode == "accept-edits")
        )

    def check(self, tool: AnyTool, placement: Placement, policy: Policy) -> None:
        """Refuse what the policy pins to something else.

        Raises:
            PermissionDenied
        """
        if placement.where == "host":
            return
        image = self.image_for(tool)
        for is_pinned, what in (
            (_REACHES.index(self.reach) > _REACHES.index(policy.network), _NO_NETWORK[self.reach]),
            (policy.images is not None and image not in policy.images, "names other images"),
            (
                policy.runtime is not None and self.runtime not in (None, policy.runtime),
                "names another runtime",
            ),
        ):
            if is_pinned:
                raise PermissionDenied(f"{tool.name} was refused: the policy {what}.")

    def spec(
        self,
        session: Session | None,
        *,
        tool: AnyTool,
        is_read_only: bool,
        limits: Limits,
        policy: Policy,
    ) -> SandboxSpec:
        """The sandbox of one call."""
        mount = None
        if session is not None:
            mount = WorkspaceMount(
                session.workspace,
                access="read_only" if is_read_only else "copy_on_write",
                changes=self.changes,
                session=session.name,
            )
        return SandboxSpec(
            image=self.image_for(tool),
            limits=limits,
            workspace=mount,
            network=self.network,
            services=self.services,
            runtime=policy.runtime or self.runtime,
            waiting=RUNNER_ARGV if tool.runs_in == "python" else (),
        )


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that was looked up, validated, placed and judged; nobody has been asked yet.

    Everything about it was decided from one reading of the policy and one evaluation of its flags.
    """

    entry: Entry
    tool_input: ToolInput
    flags: Flags
    policy: MergedPolicy
    placement: Placement
    decision: PermissionDecision

    @property
    def timeout_s(self) -> float | None:
        """The tool's own timeout for this input.

        Raises:
            ToolFailed: the tool's own code raised, or gave anything but usable seconds.
        """
        tool = self.entry.tool
        try:
            timeout = tool.timeout(self.tool_input)
            if timeout is None:
                return None
            return Limits.of(wall_s=timeout).wall_s
        except (Exception, SystemExit) as error:
            raise ToolFailed(
                f"{tool.name} gave no usable timeout for this input.",
                operator_detail=text_of(error),
            ) from error

    def limits(self, limits: Limits) -> Limits:
        """What the call may use: the tool's timeout replaces ``wall_s``, the policy caps all.

        Raises:
            ToolFailed: the tool's own code gave no usable timeout.
        """
        timeout = self.timeout_s
        if timeout is not None:
            limits = limits.model_copy(update={"wall_s": timeout})
        ceiling = self.policy.policy.ceiling
        return limits.tightened(ceiling) if ceiling else limits


def prepare(
    entry: Entry,
    raw_input: object,
    *,
    policy: MergedPolicy,
    granted: tuple[Rule, ...],
    options: ContainerOptions,
    scope: Scope,
) -> PreparedCall:
    """Validate, place and judge a call of this tool.

    Raises:
        InvalidInput, ToolFailed: nothing of the tool's work has run.
    """
    holds = policy.policy.with_allowed(granted)
    tool = entry.tool
    try:
        tool_input = tool.parse(raw_input)
        flags = tool.flags(tool_input)
    except SandboxedToolsError:
        raise
    except (Exception, SystemExit) as error:
        raise ToolFailed(
            f"{tool.name} failed before it ran: {type(error).__name__}.",
            operator_detail=text_of(error),
        ) from error
    placement = decide_placement(tool, flags, holds, trusted=entry.trusted)
    decision = _decided(
        tool, tool_input, flags, placement, policy, granted=granted, options=options, scope=scope
    )
    return PreparedCall(entry, tool_input, flags, policy, placement, decision)


def judged(
    prepared: PreparedCall,
    *,
    granted: tuple[Rule, ...],
    options: ContainerOptions,
    scope: Scope,
) -> PreparedCall:
    """The same call, judged under what a person has allowed until now."""
    decision = _decided(
        prepared.entry.tool,
        prepared.tool_input,
        prepared.flags,
        prepared.placement,
        prepared.policy,
        granted=granted,
        options=options,
        scope=scope,
    )
    return dataclasses.replace(prepared, decision=decision)


def _decided(
    tool: AnyTool,
    tool_input: ToolInput,
    flags: Flags,
    placement: Placement,
    policy: MergedPolicy,
    *,
    granted: tuple[Rule, ...],
    options: ContainerOptions,
    scope: Scope,
) -> PermissionDecision:
    holds = policy.policy.with_allowed(granted)
    decision = decide(
        tool,
        tool_input,
        flags,
        placement,
        holds,
        effect_contained=options.contain(placement, holds),
        scope=scope,
    )
    if decision.layer == "mode":
        origins = policy.origins.get("mode", ())
        layers = ", ".join(origin.layer for origin in origins) or "default"
        decision = dataclasses.replace(decision, layer=layers)
    return decision
