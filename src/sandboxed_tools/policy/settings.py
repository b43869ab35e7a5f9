"""What the operator allows: one frozen value for a call, and how each field of it merges."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final, Literal

from annotated_types import Le
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    InstanceOf,
    PlainSerializer,
)

from sandboxed_tools.bash import Spec, load_specs
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.admission import AdmissionPolicy
from sandboxed_tools.policy.rules import Rule, RuleSet
from sandboxed_tools.tool import Limits
from sandboxed_tools.workspace.denied import DeniedPaths

__all__ = ["Merge", "Mode", "Policy", "merge_of"]

Mode = Literal["read-only", "ask", "auto", "accept-edits", "deny-all"]

MergeKind = Literal["union", "intersection", "min", "and", "operator_only"]


@dataclass(frozen=True, slots=True)
class Merge:
    """How the values that several layers state for one field become one.

    ``union``: all of them together. ``intersection``: only what every layer that speaks names.
    ``min``: the tightest; ``order`` lists the values, tightest first, where the type does not say
    it. ``and``: true only where every layer that speaks says so.
    ``operator_only``: the highest layer that speaks decides.

    ``project``: what the project's own file, which is untrusted, may do with the field: set it
    (``yes``, only for fields that it can merely tighten), set it once a person has agreed to this
    very file (``consent``), or not at all (``no``).
    """

    kind: MergeKind
    order: tuple[object, ...] = ()
    project: Literal["yes", "consent", "no"] = "no"


def _rule(value: object) -> object:
    if isinstance(value, Rule):
        return value
    try:
        return Rule.parse(value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


def _ceiling(value: object) -> object:
    """A table caps what it names and nothing else; a ``Limits`` caps everything."""
    if not isinstance(value, Mapping):
        return value
    largest = {
        name: bound.le
        for name, field in Limits.model_fields.items()
        for bound in field.metadata
        if isinstance(bound, Le) and name != "idle_s"
    }
    return {**largest, **value}


def _texts(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("a list is expected, not one text")
    return value


def _specs(value: object) -> object:
    if not isinstance(value, Mapping) or any(isinstance(spec, Spec) for spec in value.values()):
        return value
    try:
        return load_specs(value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


def _denied(patterns: tuple[str, ...]) -> tuple[str, ...]:
    try:
        DeniedPaths(patterns)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return patterns


SpecField = Annotated[InstanceOf[Spec], PlainSerializer(dataclasses.asdict)]
RuleField = Annotated[
    InstanceOf[Rule], BeforeValidator(_rule), PlainSerializer(str, return_type=str)
]
Rules = Annotated[tuple[RuleField, ...], BeforeValidator(_texts)]
Names = Annotated[frozenset[str], BeforeValidator(_texts)]
Confirmers = Annotated[frozenset[Literal["elicitation"]], BeforeValidator(_texts)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]

_MODES: Final = ("deny-all", "read-only", "ask", "auto", "accept-edits")


class Policy(BaseModel):
    """The operator's policy, or what one layer says of it.

    Attributes:
        mode: ``read-only`` denies what is not read-only; ``ask`` asks a question for it; ``auto``
            asks unless the whole effect is contained; ``accept-edits`` is ``auto`` and applies
            changes to the workspace; ``deny-all`` denies everything.
        deny, ask, allow: permission rules, as in ``Bash(git status:*)``.
        sandbox: ``always`` sends every call to a container; ``auto`` lets trusted and proven
            read-only ones stay on the host.
        network: the most that a contained call may reach: ``services`` are those that the program
            names, and nothing beyond them.
        minimum_defaults: the lowest version of the defaults that tools are used with.
        ceiling: no call may use more than this.
        admission: how much of the machine all contained calls together may use; what a process
            takes is read when its sandbox is opened.
        untrusted: names of tools that lose their trust here; trust is never given by name.
        trusted_tools: when stated, every tool that it does not name loses its trust.
        trusted_workspace: whether the workspace's own repository configuration is trusted, which
            lets read-only git commands run on the host.
        read_roots: folders outside the workspace that host calls may read.
        denied_paths: patterns of paths that no file tool may touch
            (:class:`~sandboxed_tools.workspace.denied.DeniedPaths`).
        protected_paths: patterns of paths, beside the built-in ones, that are never changed
            without a question.
        images: when stated, the only images that contained calls may run in.
        runtime: when stated, the engine's runtime of every contained call.
        require: what must be proved to be enforced here, by the names that ``doctor`` lists
            (``seccomp``, ``pids``, ``no-network``), or no contained call is run.
        program_specs: further programs for the read-only verdict; they never replace a built-in.
        confirm_by: what may put a question to a person on a server's behalf: ``elicitation`` is
            the client of an MCP server on standard input and output. Over HTTP, where whoever calls
            would answer itself, nobody is asked whatever this says.
        audit: ``required`` refuses calls that cannot be recorded; ``best-effort`` logs that they
            were not; ``off`` records nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    mode: Annotated[Mode, Merge("min", order=_MODES, project="yes")] = "auto"
    deny: Annotated[Rules, Merge("union", project="yes")] = ()
    ask: Annotated[Rules, Merge("union", project="yes")] = ()
    allow: Annotated[Rules, Merge("union", project="consent")] = ()
    sandbox: Annotated[
        Literal["auto", "always"], Merge("min", order=("always", "auto"), project="yes")
    ] = "auto"
    network: Annotated[
        Literal["none", "services", "bridge"], Merge("min", order=("none", "services", "bridge"))
    ] = "bridge"
    minimum_defaults: Annotated[Literal[1, 2], Merge("min", order=(2, 1), project="yes")] = 1
    ceiling: Annotated[Limits | None, BeforeValidator(_ceiling), Merge("min", project="yes")] = None
    admission: Annotated[AdmissionPolicy | None, Merge("operator_only")] = None
    untrusted: Annotated[Names, Merge("union", project="yes")] = frozenset()
    trusted_tools: Annotated[Names | None, Merge("operator_only")] = None
    trusted_workspace: Annotated[bool, Merge("and")] = False
    read_roots: Annotated[Texts, Merge("operator_only")] = ()
    denied_paths: Annotated[Texts, AfterValidator(_denied), Merge("union", project="yes")] = ()
    protected_paths: Annotated[Texts, Merge("union")] = ()
    images: Annotated[Texts | None, Merge("operator_only")] = None
    runtime: Annotated[str | None, Merge("operator_only")] = None
    require: Annotated[Names, Merge("union", project="yes")] = frozenset()
    program_specs: Annotated[
        dict[str, SpecField], BeforeValidator(_specs), Merge("operator_only")
    ] = {}
    confirm_by: Annotated[Confirmers, Merge("intersection", project="yes")] = frozenset(
        {"elicitation"}
    )
    audit: Annotated[
        Literal["required", "best-effort", "off"],
        Merge("min", order=("required", "best-effort", "off")),
    ] = "required"

    @cached_property
    def rules(self) -> RuleSet:
        """The permission rules, indexed; made once for this value."""
        return RuleSet(deny=self.deny, ask=self.ask, allow=self.allow)

    def with_allowed(self, rules: tuple[Rule, ...]) -> Policy:
        """This policy and further allow rules."""
        if not rules:
            return self
        # Not model_copy alone: it would carry the index of the old rules along.
        copied = self.model_copy(update={"allow": (*self.allow, *rules)})
        copied.__dict__.pop("rules", None)
        return copied

    def trusts(self, name: str) -> bool:
        """Whether a tool of this name may keep the trust that it has by object."""
        return name not in self.untrusted and (
            self.trusted_tools is None or name in self.trusted_tools
        )


def merge_of(field: str) -> Merge:
    """How a field of :class:`Policy` merges.

    Raises:
        ConfigurationError: the field does not declare it.
    """
    for item in Policy.model_fields[field].metadata:
        if isinstance(item, Merge):
            return item
    raise ConfigurationError(f"The policy field {field} does not declare how it merges.")
