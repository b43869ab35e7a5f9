"""The interface of a tool: more than thirty methods in seven groups, each with a safe default.

An author states what matters through :func:`sandboxed_tools.build_tool`; every method answers for
the rest. ``ToolOptions`` below is the list of what may be stated, group by group.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import PurePath
from types import ModuleType
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast

import anyio.to_thread
from pydantic import BaseModel, TypeAdapter

from sandboxed_tools.errors import InvalidInput, ToolDefinitionError
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.context import Context, Environment, PermissionDecision, redeem
from sandboxed_tools.tool.defaults import Defaults
from sandboxed_tools.tool.flags import Flags, evaluate_flag, evaluate_flags
from sandboxed_tools.tool.reason import Reason
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.tool.schema import ToolInput, parse_input

__all__ = ["GROUPS", "OPTION_NAMES", "AnyTool", "Tool", "ToolOptions"]

InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")


class ToolOptions(TypedDict, Generic[InputT, OutputT, ProgressT], total=False):
    """What an author may state beside name, description, schema and work."""

    # identity
    aliases: Sequence[str]
    prompt: str | Callable[[Environment], str]
    search_hint: str | None
    user_facing_name: str | Callable[[InputT], str]
    version: str
    # schema
    examples: Sequence[Mapping[str, Any]]
    inputs_equivalent: Callable[[InputT, InputT], bool]
    # work
    validate_input: Callable[[InputT], str | None]
    max_result_size: int
    timeout: float | Callable[[InputT], float | None] | None
    defaults: int
    for_environment: Callable[[Environment], Mapping[str, Any]]
    carry: Sequence[str | ModuleType]
    runs_in: Literal["shell", "python"]
    # permissions
    check_permissions: Callable[[InputT], PermissionDecision | None]
    permission_pattern: Callable[[InputT], str]
    requires_confirmation: bool | Callable[[InputT], bool]
    paths_read: Callable[[InputT], Sequence[PurePath]]
    paths_written: Callable[[InputT], Sequence[PurePath]]
    requires_user_interaction: bool
    # flags
    is_read_only: bool | Callable[[InputT], bool]
    is_concurrency_safe: bool | Callable[[InputT], bool]
    needs_sandbox: bool | Callable[[InputT], bool]
    is_idempotent: bool | Callable[[InputT], bool]
    is_destructive: bool | Callable[[InputT], bool]
    is_open_world: bool | Callable[[InputT], bool]
    is_reversible: bool | Callable[[InputT], bool]
    is_enabled: bool | Callable[[], bool]
    flag_reasons: Callable[[InputT], Sequence[Reason]]
    interrupt_behavior: Literal["block", "cancel"]
    max_retries: int
    defer_loading: bool
    # presentation
    summarize_use: Callable[[InputT], str]
    describe_activity: Callable[[InputT], str]
    render_use: Callable[[InputT], str]
    render_progress: Callable[[ProgressT], str]
    render_result: Callable[[OutputT], str]
    render_error: Callable[[BaseException], str]
    render_rejected: Callable[[InputT], str]
    to_model_text: Callable[[OutputT], str]
    redact: Callable[[InputT], Mapping[str, Any]]
    # life cycle
    setup: Callable[[], Awaitable[None]]
    on_start: Callable[[InputT], None]
    on_progress: Callable[[ProgressT], None]
    on_success: Callable[[InputT, OutputT], None]
    on_error: Callable[[InputT, BaseException], None]
    on_cancel: Callable[[InputT], None]
    teardown: Callable[[], Awaitable[None]]


GROUPS: Mapping[str, tuple[str, ...]] = {
    "identity": (
        "name",
        "aliases",
        "description",
        "prompt",
        "search_hint",
        "user_facing_name",
        "version",
    ),
    "schema": ("input_schema", "output_schema", "json_schema", "examples", "inputs_equivalent"),
    "work": ("validate_input", "call", "command", "map_result", "max_result_size", "timeout"),
    "permissions": (
        "check_permissions",
        "permission_pattern",
        "requires_confirmation",
        "paths_read",
        "paths_written",
        "requires_user_interaction",
    ),
    "flags": (
        "is_read_only",
        "is_concurrency_safe",
        "needs_sandbox",
        "is_idempotent",
        "is_destructive",
        "is_open_world",
        "is_reversible",
        "is_enabled",
        "flag_reasons",
        "interrupt_behavior",
        "max_retries",
        "defer_loading",
    ),
    "presentation": (
        "summarize_use",
        "describe_activity",
        "render_use",
        "render_progress",
        "render_result",
        "render_error",
        "render_rejected",
        "to_model_text",
        "redact",
    ),
    "life cycle": (
        "setup",
        "on_start",
        "on_progress",
        "on_success",
        "on_error",
        "on_cancel",
        "teardown",
    ),
}
"""Every method of the interface by group, in the order in which it is shown to people."""

OPTION_NAMES = frozenset(ToolOptions.__annotations__) | {
    "name",
    "description",
    "input_schema",
    "output_schema",
    "call",
    "command",
    "map_result",
}


class Tool(Generic[InputT, OutputT, ProgressT]):
    """One tool. Made by :func:`build_tool` only; immutable; safe to share between threads.

    Methods that take an input expect a validated one. Flag methods never raise for what an
    author's function does: they give the flag's worst case.
    """

    def __init__(
        self,
        *,
        input_schema: type[InputT],
        output_schema: Any,
        stated: Mapping[str, Any],
        defaults: Defaults,
    ) -> None:
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.defaults = defaults
        self._stated = dict(stated)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__ or "_stated" in self.__dict__:
            raise AttributeError(f"a tool is immutable; state {name} in build_tool")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @property
    def stated(self) -> frozenset[str]:
        """The names of what the author stated; the factory supplied everything else."""
        return frozenset(self._stated)

    def stated_value(self, name: str) -> Any:
        """What the author stated for ``name``; ``None`` when that is nothing."""
        return self._stated.get(name)

    def for_environment(self, environment: Environment) -> Tool[InputT, OutputT, ProgressT]:
        """This tool as it is to be in one place; itself, unless its author said how it differs."""
        adapt = self._stated.get("for_environment")
        if adapt is None:
            return self
        return Tool(
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            stated={**self._stated, **adapt(environment)},
            defaults=self.defaults,
        )

    def with_defaults(self, defaults: Defaults) -> Tool[InputT, OutputT, ProgressT]:
        """This tool under another version of the defaults; what is stated stays."""
        if defaults.version == self.defaults.version:
            return self
        return Tool(
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            stated=self._stated,
            defaults=defaults,
        )

    # ---- identity

    @property
    def name(self) -> str:
        return str(self._stated["name"])

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names it answers to; none may be another tool's."""
        return tuple(self._stated.get("aliases", self.defaults.values["aliases"]))

    def description(self, tool_input: InputT | None = None) -> str:
        """What it does, for a model; override with a function to describe one use of it."""
        stated = self._stated["description"]
        return str(stated(tool_input)) if callable(stated) else str(stated)

    def prompt(self, environment: Environment | None = None) -> str:
        """Longer guidance for the system prompt; override when the description is too short."""
        stated = self._stated.get("prompt", "")
        return str(stated(environment or Environment())) if callable(stated) else str(stated)

    @property
    def search_hint(self) -> str | None:
        """Words to find a deferred tool by."""
        return cast(
            "str | None", self._stated.get("search_hint", self.defaults.values["search_hint"])
        )

    def user_facing_name(self, tool_input: InputT | None = None) -> str:
        """The name a person sees; override when one tool serves several purposes."""
        stated = self._stated.get("user_facing_name", self.name)
        return str(stated(tool_input)) if callable(stated) else str(stated)

    @property
    def version(self) -> str:
        return str(self._stated.get("version", "1"))

    # ---- schema

    @cached_property
    def _json_schema(self) -> str:
        return json.dumps(self.input_schema.model_json_schema())

    def json_schema(self) -> dict[str, Any]:
        """The closed JSON schema of the input; a fresh copy each time."""
        return cast("dict[str, Any]", json.loads(self._json_schema))

    @property
    def examples(self) -> tuple[Mapping[str, Any], ...]:
        """Inputs to show a model, and to compare defaults versions over; each is validated."""
        return tuple(self._stated.get("examples", ()))

    def inputs_equivalent(self, one: InputT, other: InputT) -> bool:
        """Whether two inputs mean the same call; by default, when they are equal."""
        stated = self._stated.get("inputs_equivalent")
        return bool(stated(one, other)) if stated else one == other

    def parse(self, raw: object) -> InputT:
        """Validate raw input: the schema first, then the tool's own ``validate_input``.

        Raises:
            InvalidInput: with field paths; nothing of the tool's work has run.
        """
        tool_input = parse_input(self.input_schema, raw, tool=self.name)
        try:
            problem = self.validate_input(tool_input)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"The input of {self.name} could not be checked.", operator_detail=repr(error)
            ) from error
        if problem:
            raise InvalidInput(f"The input of {self.name} is refused: {problem}")
        return tool_input

    # ---- work

    def validate_input(self, tool_input: InputT) -> str | None:
        """What is wrong with a well-formed input, in words, or ``None``."""
        stated = self._stated.get("validate_input")
        return stated(tool_input) if stated else None

    @property
    def runs_commands(self) -> bool:
        """Whether the work is a command (``command=``) and not a Python function (``call=``)."""
        return "command" in self._stated

    @property
    def runs_in(self) -> Literal["shell", "python"]:
        """Which image its contained calls need: a shell's, or the one where Python waits."""
        return "python" if not self.runs_commands else self._stated.get("runs_in", "shell")

    def command(self, tool_input: InputT) -> Command:
        """The command for this input.

        Raises:
            InvalidInput: the command cannot be executed.
            ToolDefinitionError: this tool has a ``call``, or its function returned no Command.
        """
        build = self._stated.get("command")
        command = build(tool_input) if build else None
        if not isinstance(command, Command):
            raise ToolDefinitionError(f"{self.name} gave no Command for this input.")
        return command

    async def call(self, tool_input: InputT, ctx: Context[ProgressT]) -> OutputT:
        """Do the work. Needs a context minted by a Toolbox for this very call.

        A synchronous function runs in a worker thread, so that it cannot hold the event loop.

        Raises:
            NotAuthorized: the context is not for this call, or was used before.
        """
        redeem(ctx, tool=self, tool_input=tool_input)
        if self.runs_commands:
            return self.map_result(await ctx.execute(self.command(tool_input)))
        work = self._stated["call"]
        if inspect.iscoroutinefunction(work):
            output = await work(tool_input, ctx)
        else:
            output = await anyio.to_thread.run_sync(
                partial(work, tool_input, ctx), abandon_on_cancel=False
            )
            if inspect.isawaitable(output):
                output = await output
        return self._checked(output)

    def map_result(self, result: ExecResult) -> OutputT:
        """Turn a command's result into the tool's output; by default it is the output."""
        stated = self._stated.get("map_result")
        return self._checked(stated(result)) if stated else cast("OutputT", result)

    @cached_property
    def _output_adapter(self) -> TypeAdapter[Any] | None:
        return None if self.output_schema is None else TypeAdapter(self.output_schema)

    def _checked(self, output: Any) -> OutputT:
        adapter = self._output_adapter
        return cast("OutputT", adapter.validate_python(output) if adapter else output)

    @property
    def max_result_size(self) -> int:
        """Characters of a result that a model is given."""
        return int(self._stated.get("max_result_size", 65_536))

    def timeout(self, tool_input: InputT) -> float | None:
        """Seconds this call may take; ``None`` leaves it to the limits."""
        stated = self._stated.get("timeout")
        return stated(tool_input) if callable(stated) else stated

    # ---- permissions

    def check_permissions(self, tool_input: InputT) -> PermissionDecision | None:
        """The tool's own opinion; ``None`` leaves it to rules and mode. It can only tighten."""
        stated = self._stated.get("check_permissions")
        return stated(tool_input) if stated else None

    def permission_pattern(self, tool_input: InputT) -> str:
        """What permission rules for this tool are matched against."""
        stated = self._stated.get("permission_pattern")
        return str(stated(tool_input)) if stated else ""

    def paths_read(self, tool_input: InputT) -> tuple[PurePath, ...]:
        """Paths the call will read, as far as its input tells."""
        stated = self._stated.get("paths_read")
        return tuple(stated(tool_input)) if stated else ()

    def paths_written(self, tool_input: InputT) -> tuple[PurePath, ...]:
        """Paths the call will write, as far as its input tells."""
        stated = self._stated.get("paths_written")
        return tuple(stated(tool_input)) if stated else ()

    def requires_user_interaction(self) -> bool:
        """Whether it cannot work without a person at hand."""
        return self._stated.get("requires_user_interaction") is True

    # ---- flags

    def flags(self, tool_input: InputT) -> Flags:
        """Every flag for this input, evaluated once."""
        return evaluate_flags(self._stated, self.defaults, tool_input)

    def is_read_only(self, tool_input: InputT) -> bool:
        """Whether the call changes nothing anywhere. State it when that is proved."""
        return self.flags(tool_input).is_read_only

    def is_concurrency_safe(self, tool_input: InputT) -> bool:
        """Whether it may run beside any other call."""
        return self.flags(tool_input).is_concurrency_safe

    def needs_sandbox(self, tool_input: InputT) -> bool:
        """Whether the call must run in a container."""
        return self.flags(tool_input).needs_sandbox

    def is_idempotent(self, tool_input: InputT) -> bool:
        """Whether doing it twice equals doing it once; only then is it ever retried."""
        return self.flags(tool_input).is_idempotent

    def is_destructive(self, tool_input: InputT) -> bool:
        """Whether it may delete or overwrite; unless stated, when it is not read-only."""
        return self.flags(tool_input).is_destructive

    def is_open_world(self, tool_input: InputT) -> bool:
        """Whether it may reach anything beyond this machine."""
        return self.flags(tool_input).is_open_world

    def requires_confirmation(self, tool_input: InputT) -> bool:
        """Whether a person must agree; unless stated, when it is not read-only."""
        return self.flags(tool_input).requires_confirmation

    def is_reversible(self, tool_input: InputT) -> bool:
        """Whether its effects can be undone."""
        return self.flags(tool_input).is_reversible

    def is_enabled(self) -> bool:
        """Whether the tool exists at all right now."""
        stated = self._stated.get("is_enabled", self.defaults.values["is_enabled"])
        return evaluate_flag("is_enabled", stated)[0]

    def flag_reasons(self, tool_input: InputT) -> tuple[Reason, ...]:
        """What the tool says about its flags for this input; explains, and decides nothing."""
        return self.flags(tool_input).reasons

    @property
    def interrupt_behavior(self) -> Literal["block", "cancel"]:
        """What an interruption does to a running call: wait for it, or cancel it."""
        return "cancel" if self._stated.get("interrupt_behavior") == "cancel" else "block"

    @property
    def max_retries(self) -> int:
        """Retries after a sandbox fault, for idempotent calls only."""
        return int(self._stated.get("max_retries", 1))

    @property
    def defer_loading(self) -> bool:
        """Whether its schema is shown to a model only when it is searched for."""
        return self._stated.get("defer_loading") is True

    # ---- presentation

    def summarize_use(self, tool_input: InputT) -> str:
        """A few words on what this use does, for lists."""
        stated = self._stated.get("summarize_use")
        return str(stated(tool_input)) if stated else self.name

    def describe_activity(self, tool_input: InputT) -> str:
        """What is going on while it runs, for a spinner."""
        stated = self._stated.get("describe_activity")
        return str(stated(tool_input)) if stated else f"Running {self.name}"

    def render_use(self, tool_input: InputT) -> str:
        """The call as a person sees it; foreign text, to be shown through for_terminal."""
        stated = self._stated.get("render_use")
        if stated:
            return str(stated(tool_input))
        return f"{self.name}({json.dumps(self.redact(tool_input), default=str)})"

    def render_progress(self, progress: ProgressT) -> str:
        """One progress value as a line."""
        stated = self._stated.get("render_progress")
        return str(stated(progress)) if stated else str(progress)

    def render_result(self, output: OutputT) -> str:
        """The result as a person sees it; foreign text, to be shown through for_terminal."""
        stated = self._stated.get("render_result")
        return str(stated(output)) if stated else self.to_model_text(output)

    def render_error(self, error: BaseException) -> str:
        """A failure as a person sees it."""
        stated = self._stated.get("render_error")
        return str(stated(error)) if stated else f"{self.name}: {error}"

    def render_rejected(self, tool_input: InputT) -> str:
        """What a person sees when the call was refused."""
        stated = self._stated.get("render_rejected")
        return str(stated(tool_input)) if stated else f"{self.name} was not run"

    def to_model_text(self, output: OutputT) -> str:
        """The output as text for a model; bounded by ``max_result_size`` where it is shown."""
        stated = self._stated.get("to_model_text")
        if stated:
            return str(stated(output))
        if isinstance(output, str):
            return output
        if isinstance(output, BaseModel):
            return output.model_dump_json()
        return json.dumps(output, default=str, ensure_ascii=False)

    def redact(self, tool_input: InputT) -> Mapping[str, Any]:
        """The input as it may stand in a log; override when a field holds a secret."""
        stated = self._stated.get("redact")
        return stated(tool_input) if stated else tool_input.model_dump(mode="json")

    # ---- life cycle

    async def setup(self) -> None:
        """Called once when a Toolbox opens."""
        await self._awaited("setup")

    async def teardown(self) -> None:
        """Called once when a Toolbox closes, whatever happened in between."""
        await self._awaited("teardown")

    async def _awaited(self, name: str) -> None:
        hook = self._stated.get(name)
        if hook is not None:
            await hook()

    def on_start(self, tool_input: InputT) -> None:
        """Called before the work."""
        self._hook("on_start", tool_input)

    def on_progress(self, progress: ProgressT) -> None:
        """Called with each progress value."""
        self._hook("on_progress", progress)

    def on_success(self, tool_input: InputT, output: OutputT) -> None:
        """Called after the work, with its output."""
        self._hook("on_success", tool_input, output)

    def on_error(self, tool_input: InputT, error: BaseException) -> None:
        """Called when the work raised."""
        self._hook("on_error", tool_input, error)

    def on_cancel(self, tool_input: InputT) -> None:
        """Called when the call was cancelled."""
        self._hook("on_cancel", tool_input)

    def _hook(self, name: str, *arguments: object) -> None:
        hook = self._stated.get(name)
        if hook is not None:
            hook(*arguments)


AnyTool = Tool[Any, Any, Any]
