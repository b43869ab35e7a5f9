"""``lint``: checks of tool definitions, on source that is never imported."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.text import Text

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.lint import (
    Finding,
    check_text,
    find_files,
    fix_text,
    read_source,
    sarif_log,
)

__all__ = ["lint"]


def lint(
    targets: Annotated[
        list[str], typer.Argument(metavar="PATH|MODULE…", help="Files, folders, dotted modules.")
    ],
    fix: Annotated[
        bool, typer.Option("--fix", help="State what is in force already; changes no behaviour.")
    ] = False,
    sarif: Annotated[bool, typer.Option("--sarif", help="Print one SARIF 2.1.0 log.")] = False,
    as_json: options.Json = False,
) -> None:
    """Find what the authors of tools forgot to state, or stated wrongly.

    Ends with 1 when there is a finding. `# noqa: STL101` on the line of a finding silences it.
    """
    findings: list[Finding] = []
    fixed = 0
    with errors_end_the_program(as_json=as_json):
        for path in find_files(targets):
            text = read_source(path)
            found = check_text(text, str(path))
            if fix and any(finding.fix for finding in found):
                text, count = fix_text(text, found)
                path.write_text(text, encoding="utf-8", newline="")
                fixed += count
                found = check_text(text, str(path))
            findings += found
    if sarif:
        print_json(sarif_log(findings, version=version("sandboxed-tools")))
    elif as_json:
        print_json(findings)
    else:
        for finding in findings:
            place = f"{finding.path}:{finding.line}:{finding.column + 1}: "
            out().print(
                safe(place, "dim", one_line=True)
                + Text(f"{finding.code} ", style="bold yellow")
                + safe(finding.message, one_line=True),
                soft_wrap=True,
            )
        fixed_text = f", {fixed} fixed" if fix else ""
        stderr().print(f"{len(findings)} findings{fixed_text}.")
    if findings:
        sys.stdout.flush()
        raise typer.Exit(exit_codes.FAILED)
