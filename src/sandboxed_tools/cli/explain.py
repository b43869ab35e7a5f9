"""``explain``: what would happen to a command, part by part, without running anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sandboxed_tools.bash import Verdict, classify
from sandboxed_tools.builtin import Bash, BashInput
from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.as_json import reasons_list
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.host import gate_status
from sandboxed_tools.policy import LayeredPolicy, Placement, Policy, decide_placement
from sandboxed_tools.tool import Environment, Tool

__all__ = ["explain"]


def explain(
    command: Annotated[str | None, typer.Argument(metavar="COMMAND")] = None,
    workspace: options.Workspace = None,
    trusted_workspace: options.TrustedWorkspace = False,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Read JSON strings, one a line; answer a JSON line each."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show whether a Bash command is read-only, where it would run, and every reason.

    Never runs anything. The workspace is the current folder unless it is named.
    """
    with errors_end_the_program(as_json=as_json or batch):
        stated = options.session_policy(trusted_workspace=trusted_workspace)
        policy = LayeredPolicy(stated).current().policy
        environment = Environment(
            workspace=(workspace or Path()).resolve(),
            trusted_workspace=policy.trusted_workspace,
            read_roots=tuple(Path(root) for root in policy.read_roots),
            extra_specs=policy.program_specs or None,
            host_gate=gate_status().available,
        )
        bash = Bash.for_environment(environment)
        if batch:
            _batch(bash, policy)
            return
        if command is None:
            stderr().print("Give a command, or --batch with one JSON string a line.")
            raise typer.Exit(exit_codes.USAGE)
        placement = _placement(bash, policy, command)
        if as_json:
            print_json(_object(bash, command, placement))
        else:
            verdict = classify(
                command,
                trusted_workspace=policy.trusted_workspace,
                extra_specs=policy.program_specs or None,
            )
            _show(command, verdict, placement)


def _placement(bash: Tool[BashInput, Any, Any], policy: Policy, command: str) -> Placement:
    # Not validated: a command that Bash would refuse (empty, NUL) still has a verdict.
    flags = bash.flags(BashInput.model_construct(command=command))
    return decide_placement(bash, flags, policy, trusted=True)


def _object(bash: Tool[BashInput, Any, Any], command: str, placement: Placement) -> dict[str, Any]:
    return {
        "read_only": bash.is_read_only(BashInput.model_construct(command=command)),
        "placement": placement.where,
        "reasons": reasons_list(placement.reasons),
    }


def _batch(bash: Tool[BashInput, Any, Any], policy: Policy) -> None:
    for line in sys.stdin.buffer:
        if line.isspace():
            continue
        try:
            command = json.loads(line)
        except (ValueError, RecursionError):
            command = None
        if isinstance(command, str):
            print_json(_object(bash, command, _placement(bash, policy, command)))
        else:
            reason = {"code": "not_text", "message": "the line is no JSON string"}
            print_json(
                {
                    "read_only": False,
                    "placement": "container",
                    "reasons": [{**reason, "start": None, "end": None}],
                }
            )


def _show(command: str, verdict: Verdict, placement: Placement) -> None:
    console = out()
    console.print(_marked(command, verdict))
    console.print()
    word, style = ("read-only", "bold green") if verdict.read_only else ("may write", "bold red")
    console.print(Text("verdict    ") + Text(word, style=style))
    console.print(Text("placement  ") + Text(placement.where, style="bold"))
    for reason in placement.reasons:
        where = "" if reason.start is None else f" at {reason.start}–{reason.end}"
        console.print(
            Text("  • ")
            + safe(f"{reason.message}{where}", one_line=True)
            + Text(f"  {reason.code}", style="dim")
        )


def _marked(command: str, verdict: Verdict) -> Text:
    """The command with its parts in green and red, and the culprits underlined.

    Control characters become escapes one by one, so that the spans still fit.
    """
    text = Text()
    styles = [""] * len(command)
    for part in verdict.parts:
        for index in range(part.start, min(part.end, len(command))):
            styles[index] = "green" if part.read_only else "red"
    for reason in () if verdict.read_only else verdict.reasons:
        if reason.start is not None and reason.end is not None:
            for index in range(reason.start, min(reason.end, len(command))):
                styles[index] = "bold red underline"
    for character, style in zip(command[:10_000], styles, strict=False):
        text.append(safe(character).plain, style=style)
    return text
