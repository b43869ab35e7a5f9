"""``audit``: what was called, whether the records still hold, and the records for elsewhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sandboxed_tools.audit import AuditReader, CallRecord, Head
from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import ConfigurationError

__all__ = ["app"]

app = typer.Typer(help="Show, verify and export the records of calls.")

_MAX_ANCHOR_BYTES = 16 * 1024 * 1024


@app.command()
def show(
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="How many calls.")] = 20,
    tool: Annotated[str | None, typer.Option("--tool", help="Only this tool's.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print the newest calls, newest first: what, where, by which rule, and how it ended."""
    with errors_end_the_program(as_json=as_json):
        records = AuditReader().last_calls(last, tool=tool)
    if not records:
        of_it = f" of {tool}" if tool is not None else ""
        stderr().print(safe(f"No call{of_it} is on record.", one_line=True))
    if as_json:
        print_json([_object(record) for record in records])
        return
    if not records:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("when", "call", "tool", "where", "decision", "outcome", "input"):
        table.add_column(column, overflow="fold")
    for record in records:
        facts = record.facts
        outcome = _outcome(record)
        table.add_row(
            _when(facts.get("at")),
            safe(record.call_id, one_line=True),
            safe(str(facts.get("tool", "")), "bold", one_line=True),
            safe(str(facts.get("placement", "")), one_line=True),
            safe(_decision(facts), one_line=True),
            safe(outcome, "" if outcome.startswith("ok") else "yellow", one_line=True),
            safe(_input(facts.get("input")), "dim", one_line=True),
        )
    out().print(table)


@app.command()
def verify(
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", help="Heads that `export --anchor` wrote earlier."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that no record was changed, removed or put in. Ends with 1 when one was.

    That the end of a chain was cut off, or a whole chain removed, shows only against an anchor that
    was kept elsewhere.
    """
    with errors_end_the_program(as_json=as_json):
        found = AuditReader().verify(_anchors(anchor) if anchor else ())
    if as_json:
        print_json(
            {
                "holds": found.holds,
                "rows": found.rows,
                "chains": len(found.heads),
                "broken": [
                    {"chain": item.chain, "number": item.number, "what": item.what}
                    for item in found.broken
                ],
            }
        )
    else:
        for item in found.broken:
            text = f"chain {item.chain[:12]}, row {item.number}: {item.what}"
            stderr().print(Text("broken: ", style="bold red") + safe(text, one_line=True))
        word = "hold" if found.holds else "do not hold"
        out().print(f"{found.rows} records in {len(found.heads)} chains {word}.")
    if not found.holds:
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def export(
    anchor: Annotated[
        bool,
        typer.Option("--anchor", help="Only the heads of the chains: keep them elsewhere."),
    ] = False,
) -> None:
    """Write every record as a JSON line to standard output; or the heads, as an anchor."""
    with errors_end_the_program(as_json=False):
        if anchor:
            for head in AuditReader().verify().heads:
                print_json({"chain": head.chain, "number": head.number, "hash": head.hash})
            return
        for row in AuditReader().rows():
            print_json(
                {
                    "id": row.id,
                    "chain": row.chain,
                    "number": row.number,
                    "kind": row.kind,
                    "call_id": row.call_id,
                    "body": row.body,
                    "hash": row.hash,
                }
            )


def _anchors(path: Path) -> list[Head]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_ANCHOR_BYTES + 1)
        if len(data) > _MAX_ANCHOR_BYTES:
            raise ValueError("too long")
        lines = [json.loads(line) for line in data.splitlines() if line.strip()]
        return [Head(str(item["chain"]), int(item["number"]), str(item["hash"])) for item in lines]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigurationError(
            "The anchor is not what `audit export --anchor` writes.", operator_detail=str(error)
        ) from None


def _object(record: CallRecord) -> dict[str, Any]:
    return {"call_id": record.call_id, "ended": record.ended, **record.facts}


def _when(at: object) -> str:
    if not isinstance(at, int | float) or not 0 <= at < 1e11:
        return "?"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _decision(facts: dict[str, Any]) -> str:
    behavior, rule = facts.get("decision", ""), facts.get("rule", "")
    return f"{behavior} by {rule} [{facts.get('layer', '')}]" if rule else str(behavior)


def _outcome(record: CallRecord) -> str:
    facts = record.facts
    if not record.ended:
        return "no outcome: still running, or its program died"
    if facts.get("error"):
        return f"{facts.get('outcome', 'refused')}: {facts['error']}"
    if facts.get("status"):
        code = facts.get("exit_code")
        return f"ok: {facts['status']}" + (f" {code}" if code is not None else "")
    return "ok"


def _input(value: object) -> str:
    return json.dumps(value)[:200] if value is not None else ""
