"""Bash: any shell command; on the host only when it is proven that it only looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sandboxed_tools.bash import Verdict, classify, should_run_in_sandbox
from sandboxed_tools.tool import (
    Command,
    Environment,
    ExecResult,
    Reason,
    ToolInput,
    build_tool,
    for_model,
)
from sandboxed_tools.tool.command import MAX_ARGUMENT_BYTES, MAX_SCRIPT_BYTES, SCRIPT_PATH

__all__ = ["SANDBOX_ENV", "Bash", "BashInput", "bash_command"]

SANDBOX_ENV: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
}
"""The whole environment of a command in a container; nothing is inherited from the client."""


class BashInput(ToolInput):
    """Input of the Bash tool."""

    command: str = Field(min_length=1, description="The command, as bash reads it.")
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        strict=True,
        description="Seconds after which the command is killed. Default: the operator's limit.",
    )
    description: str | None = Field(
        default=None, max_length=1000, description="What the command is for, in a few words."
    )


def bash_command(text: str) -> Command:
    """The command that runs ``text`` in bash, however long it is.

    A text that is too long for one argument travels as an open descriptor instead.
    """
    base = ("bash", "--norc", "--noprofile")
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) <= MAX_ARGUMENT_BYTES:
        return Command((*base, "-c", "--", text), env=SANDBOX_ENV)
    return Command((*base, SCRIPT_PATH), env=SANDBOX_ENV, script=encoded)


def _problem(tool_input: BashInput) -> str | None:
    if not tool_input.command.strip():
        return "command is empty"
    if "\0" in tool_input.command:
        return "command holds a NUL byte, which no shell can be given"
    try:
        size = len(tool_input.command.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "command is not text: it holds a lone surrogate"
    if size > MAX_SCRIPT_BYTES:
        return f"command is {size} bytes long; at most {MAX_SCRIPT_BYTES}"
    return None


def _flags(environment: Environment) -> Mapping[str, Any]:
    """The flags of Bash in one place: where git is trusted, and what a host run may read."""

    def verdict(tool_input: BashInput) -> Verdict:
        return classify(
            tool_input.command,
            trusted_workspace=environment.trusted_workspace,
            extra_specs=environment.extra_specs,
        )

    def is_read_only(tool_input: BashInput) -> bool:
        return verdict(tool_input).read_only

    def sandbox_reasons(tool_input: BashInput) -> tuple[Reason, ...]:
        return should_run_in_sandbox(
            tool_input.command,
            trusted_workspace=environment.trusted_workspace,
            workspace=environment.workspace,
            read_roots=environment.read_roots,
            gate_available=environment.host_gate,
            extra_specs=environment.extra_specs,
        )

    return {
        "is_read_only": is_read_only,
        "is_concurrency_safe": is_read_only,
        "is_idempotent": is_read_only,
        "is_destructive": lambda tool_input: not is_read_only(tool_input),
        "needs_sandbox": lambda tool_input: bool(sandbox_reasons(tool_input)),
        "flag_reasons": lambda tool_input: tuple(
            dict.fromkeys((*verdict(tool_input).reasons, *sandbox_reasons(tool_input)))
        ),
    }


def _printed(result: ExecResult) -> str:
    parts = [result.stdout_text]
    if result.stderr:
        parts.append(f"[stderr]\n{result.stderr_text}")
    return "\n".join(part.rstrip("\n") for part in parts if part)


def _ending(result: ExecResult) -> str:
    ending = f"exit code {result.exit_code}" if result.status == "exited" else result.status
    touched = ", ".join(sorted(result.limits_hit))
    return f"[{ending}; limits touched: {touched}]" if touched else f"[{ending}]"


def _model_text(result: ExecResult) -> str:
    text = _printed(result)
    # Not cut here: what is too long for a model is kept whole in a file by the runtime.
    shown = for_model(text, source="bash", max_chars=len(text)) if text else "(no output)"
    return f"{shown}\n{_ending(result)}"


def _person_text(result: ExecResult) -> str:
    quiet = result.status == "exited" and result.exit_code == 0 and not result.limits_hit
    return "\n".join(part for part in (_printed(result), "" if quiet else _ending(result)) if part)


Bash = build_tool(
    name="Bash",
    description=(
        "Run a bash command. Commands that only look may run at once; anything else runs in a "
        "disposable container without network, on a copy-on-write view of the workspace."
    ),
    input_schema=BashInput,
    command=lambda tool_input: bash_command(tool_input.command),
    validate_input=_problem,
    timeout=lambda tool_input: tool_input.timeout,
    for_environment=_flags,
    interrupt_behavior="cancel",  # what a stopped command changed is held, and never applied
    permission_pattern=lambda tool_input: tool_input.command,
    summarize_use=lambda tool_input: tool_input.description or tool_input.command[:80],
    render_use=lambda tool_input: f"Bash: {tool_input.command}",
    render_result=_person_text,
    to_model_text=_model_text,
    examples=({"command": "ls | head"}, {"command": "git status"}, {"command": "rm x"}),
    defaults=1,
    **_flags(Environment()),
)
