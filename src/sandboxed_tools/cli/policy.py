"""``policy``: what holds here, where each value comes from, and what it says of one call."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.table import Table
from rich.text import Text

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.as_json import dump, reasons_list
from sandboxed_tools.cli.call import parse_json
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy, MergedPolicy, Policy, merge_of
from sandboxed_tools.runtime import Explanation, Toolbox
from sandboxed_tools.workspace import WorkspaceRoot

__all__ = ["app"]

app = typer.Typer(help="Show the merged policy, check its files, explain a call.")


@app.command()
def show(workspace: options.Workspace = None, as_json: options.Json = False) -> None:
    """Print what holds here, and which layers each value comes from."""
    with errors_end_the_program(as_json=as_json), _sources(workspace) as sources:
        merged = sources.current()
    if as_json:
        print_json(_object(merged))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("field", style="bold")
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    table.add_column("merges", style="dim")
    dumped = merged.policy.model_dump(mode="json")
    for field in Policy.model_fields:
        origins = ", ".join(
            origin.layer if origin.source == origin.layer else f"{origin.layer} ({origin.source})"
            for origin in merged.origins.get(field, ())
        )
        value = _shown(dumped[field])
        style = "" if origins else "dim"
        table.add_row(
            field, safe(value, style), safe(origins or "default", style), merge_of(field).kind
        )
    out().print(table)
    _print_notes(merged)


@app.command()
def check(workspace: options.Workspace = None, as_json: options.Json = False) -> None:
    """Read every layer as a call would, and say what is wrong or suspicious.

    Ends with 2 when a layer cannot be used; nothing is called then.
    """
    with errors_end_the_program(as_json=as_json), _sources(workspace) as sources:
        merged = sources.current()
        warnings = (*merged.notes, *_unknown_tools(merged.policy))
    if as_json:
        print_json({"ok": True, "warnings": list(warnings), "digest": merged.digest})
        return
    layers = dict.fromkeys(
        f"{origin.layer} ({origin.source})"
        for origins in merged.origins.values()
        for origin in origins
    )
    out().print(safe(f"The policy can be used. Layers: {', '.join(layers) or 'none'}."))
    for warning in warnings:
        stderr().print(Text("warning: ", style="bold yellow") + safe(warning, one_line=True))


@app.command()
def explain(
    tool: Annotated[str, typer.Argument(metavar="TOOL")],
    raw_input: Annotated[str, typer.Argument(metavar="JSON")],
    workspace: options.Workspace = None,
    as_json: options.Json = False,
) -> None:
    """Say what would become of a call, and which rule of which layer decides it. Runs nothing."""
    with errors_end_the_program(as_json=as_json):
        explained = anyio.run(_explained, tool, parse_json(raw_input), workspace)
    decision, placement = explained.decision, explained.placement
    if as_json:
        print_json(
            {
                "tool": explained.tool,
                "decision": decision.behavior,
                "message": decision.message,
                "rule": decision.rule,
                "layer": decision.layer,
                "placement": placement.where,
                "reasons": reasons_list(placement.reasons),
            }
        )
        return
    style = {"allow": "bold green", "ask": "bold yellow", "deny": "bold red"}
    console = out()
    console.print(Text("decision   ") + Text(decision.behavior, style=style[decision.behavior]))
    console.print(Text("because    ") + safe(decision.message, one_line=True))
    console.print(Text("rule       ") + safe(f"{decision.rule} [{decision.layer}]", one_line=True))
    console.print(Text("placement  ") + Text(placement.where, style="bold"))
    for reason in placement.reasons:
        console.print(Text("  • ") + safe(reason.message, one_line=True))


@app.command()
def consent(
    workspace: options.Workspace = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Agree to what the project's own file would allow, for exactly this file and content."""
    with errors_end_the_program(as_json=False), _sources(workspace or Path()) as sources:
        sources.current()
        file = sources.project_file
        allow = [] if file is None else list(file.values.get("allow", ()))
        if file is None or not allow:
            out().print("The project's file allows nothing; there is nothing to agree to.")
            return
        console = stderr()
        console.print("The project's file would allow, without a question:")
        for rule in allow:
            console.print(safe(f"  {rule}", one_line=True))
        if not yes:
            if not sys.stdin.isatty():
                raise ConfigurationError("There is no terminal to ask on; see --yes.")
            console.print("Agree? [y/N] ", end="", markup=False)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise typer.Exit(exit_codes.FAILED)
        # What is agreed to is what was shown, not what the file says by now.
        sources.agree(file)


@contextmanager
def _sources(workspace: Path | None) -> Iterator[LayeredPolicy]:
    sources = LayeredPolicy()
    if workspace is None:
        yield sources
        return
    with WorkspaceRoot.open(workspace) as root:
        yield sources.in_workspace(root)


async def _explained(tool: str, raw_input: object, workspace: Path | None) -> Explanation:
    async with Toolbox(workspace=workspace) as box:
        return box.explain(tool, raw_input)


def _object(merged: MergedPolicy) -> dict[str, Any]:
    dumped = merged.policy.model_dump(mode="json")
    return {
        "fields": {
            field: {
                "value": json.loads(dump(dumped[field])),
                "from": [
                    {"layer": origin.layer, "source": origin.source}
                    for origin in merged.origins.get(field, ())
                ],
                "merges": merge_of(field).kind,
            }
            for field in Policy.model_fields
        },
        "rules": [
            {"behavior": behavior, "rule": str(rule), "layer": rule.layer}
            for behavior in ("deny", "ask", "allow")
            for rule in getattr(merged.policy, behavior)
        ],
        "notes": list(merged.notes),
        "digest": merged.digest,
    }


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return "\n".join(f"{name} = {item}" for name, item in value.items()) or "none"
    return (
        "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _print_notes(merged: MergedPolicy) -> None:
    for note in merged.notes:
        stderr().print(Text("note: ", style="bold yellow") + safe(note, one_line=True))


def _unknown_tools(policy: Policy) -> list[str]:
    known = {name for tool in SHIPPED for name in (tool.name, *tool.aliases)}
    rules = (*policy.deny, *policy.ask, *policy.allow)
    named = dict.fromkeys(rule.tool for rule in rules if rule.tool not in known)
    return [f"no shipped tool is called {name}; is its rule meant for your own?" for name in named]
