"""``tools``: what there is to call, and what each tool says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Table

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.cli import options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe
from sandboxed_tools.errors import ConfigurationError, ToolNotFound
from sandboxed_tools.tool import AnyTool
from sandboxed_tools.tool.interface import GROUPS
from sandboxed_tools.tool.vendor_schemas import to_anthropic, to_json, to_mcp, to_openai

__all__ = ["app"]

app = typer.Typer(help="List the tools, or show one whole.", invoke_without_command=True)


EXPORTS: Mapping[str, Callable[[AnyTool], dict[str, Any]]] = {
    "anthropic": to_anthropic,
    "openai": to_openai,
    "openai-chat": partial(to_openai, api="chat"),
    "mcp": to_mcp,
    "json": to_json,
}
"""The forms in which tools are described to others, by name."""


@app.callback()
def tools(
    context: typer.Context,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="FORM",
            help=f"Print them as an API takes them: {', '.join(EXPORTS)}.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the tools, or show one whole."""
    if context.invoked_subcommand is not None:
        return
    if schema is not None:
        with errors_end_the_program(as_json=as_json):
            if schema not in EXPORTS:
                raise ConfigurationError(f"--schema is {', '.join(EXPORTS)}; not {schema!r}.")
            print_json([EXPORTS[schema](tool) for tool in SHIPPED])
        return
    if as_json:
        print_json([_summary(tool) for tool in SHIPPED])
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("tool", style="bold")
    table.add_column("what it does")
    for tool in SHIPPED:
        table.add_row(tool.name, safe(tool.description()))
    out().print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME")], as_json: options.Json = False
) -> None:
    """Print the whole interface of a tool: what its author stated, and what was supplied."""
    with errors_end_the_program(as_json=as_json):
        found = [tool for tool in SHIPPED if name in (tool.name, *tool.aliases)]
        if not found:
            raise ToolNotFound(f"There is no tool {name!r}; see `sandboxed-tools tools`.")
    tool = found[0]
    if as_json:
        print_json({**_summary(tool), "interface": _interface(tool)})
        return
    table = Table(box=None, pad_edge=False, title=f"{tool.name} (defaults {tool.defaults.version})")
    for column in ("group", "method", "origin", "value"):
        table.add_column(column, overflow="fold")
    for group, methods in _interface(tool).items():
        for method, item in methods.items():
            origin_style = "bold" if item["origin"] == "stated" else "dim"
            table.add_row(group, method, safe(item["origin"], origin_style), safe(item["value"]))
    out().print(table)


def _summary(tool: AnyTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "aliases": list(tool.aliases),
        "description": tool.description(),
        "input_schema": tool.json_schema(),
        "defaults": tool.defaults.version,
    }


def _interface(tool: AnyTool) -> dict[str, dict[str, dict[str, str]]]:
    required = {"input_schema", "output_schema"}
    return {
        group: {
            method: {
                "origin": (
                    "stated"
                    if method in tool.stated | required
                    else f"supplied (defaults {tool.defaults.version})"
                ),
                "value": _value(tool, method),
            }
            for method in methods
        }
        for group, methods in GROUPS.items()
    }


def _value(tool: AnyTool, method: str) -> str:
    """A fixed value as it is; for what depends on the input, that it is a function."""
    if method in ("input_schema", "output_schema"):
        return getattr(getattr(tool, method), "__name__", "none")
    stated = tool.stated_value(method)
    if stated is not None:
        return "a function of the input" if callable(stated) else str(stated)
    if method in tool.defaults.values:
        value = tool.defaults.values[method]
        return "always" if callable(value) else str(value)
    if method in ("is_destructive", "requires_confirmation"):
        return "when not read-only"
    return "default"
