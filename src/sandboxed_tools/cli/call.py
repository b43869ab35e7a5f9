"""``call``: one call of any tool, placed and authorized as in a program."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import anyio
import typer

from sandboxed_tools.builtin import CodeResult
from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.artifacts import show_artifacts
from sandboxed_tools.cli.as_json import dump, exec_object, plain, reasons_list
from sandboxed_tools.cli.confirm import terminal_confirmer
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.inside.place import PYTHON_IMAGE
from sandboxed_tools.runtime import CallResult, Toolbox
from sandboxed_tools.runtime.toolbox import DEFAULT_IMAGE
from sandboxed_tools.tool import ExecResult

__all__ = ["call", "parse_json"]

MAX_INPUT_BYTES = 64 * 1024 * 1024


def call(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool's name: see `tools`.")],
    raw_input: Annotated[
        str, typer.Argument(metavar="JSON", help="Its input as an object; - reads standard input.")
    ],
    workspace: options.Workspace = None,
    image: options.Image = None,
    python_image: options.PythonImage = None,
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    cpus: options.Cpus = None,
    pids: options.Pids = None,
    session: options.SessionName = None,
    trusted_workspace: options.TrustedWorkspace = False,
    as_json: options.Json = False,
) -> None:
    """Call a tool with a JSON input, on the host or in a container as the call deserves.

    Ends with 0 when the call was carried out, whatever it came to; 1 when it was refused or failed.
    """
    with errors_end_the_program(as_json=as_json, code_of=exit_codes.of_call_error):
        box = Toolbox(
            workspace=workspace,
            warm=False,
            session=session,
            image=image or DEFAULT_IMAGE,
            python_image=python_image or PYTHON_IMAGE,
            limits=options.limits_from(timeout=timeout, memory=memory, cpus=cpus, pids=pids),
            policy=options.session_policy(trusted_workspace=trusted_workspace),
            confirmer=terminal_confirmer(),
        )
        result = anyio.run(_call, box, tool, parse_json(raw_input))
    if as_json:
        print_json(_object(result))
        return
    out().print(safe(result.shown))
    if isinstance(result.output, CodeResult):
        with errors_end_the_program(as_json=as_json):
            show_artifacts(result.output.artifacts, call_id=result.call_id)
    first = result.placement.reasons[0].message
    stderr().print(safe(f"{result.tool}: {result.placement.where} ({first})", "dim"))


def parse_json(text: str) -> object:
    """An argument that is JSON; ``-`` reads it from standard input.

    Raises:
        InvalidInput: it is not JSON, or too long.
    """
    if text == "-":
        data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        if len(data) > MAX_INPUT_BYTES:
            raise InvalidInput(f"The input is longer than {MAX_INPUT_BYTES} bytes.")
        text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The input is not JSON: {error}") from None


async def _call(box: Toolbox, tool: str, raw_input: object) -> CallResult[Any]:
    async with box:
        return await box.call(tool, raw_input)


def _object(result: CallResult[Any]) -> dict[str, Any]:
    if result.exec is not None:
        item = {"tool": result.tool, **exec_object(result.exec, result.placement)}
        if not isinstance(result.output, ExecResult):
            item["output"] = json.loads(dump(plain(result.output)))
        return item
    return {
        "tool": result.tool,
        "output": json.loads(dump(plain(result.output))),
        "placement": result.placement.where,
        "reasons": reasons_list(result.placement.reasons),
        "duration_s": result.duration_s,
    }
