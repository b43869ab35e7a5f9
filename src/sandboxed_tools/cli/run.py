"""``run``: one command in a disposable container, with its output live."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import Annotated, cast

import anyio
import anyio.to_thread
import typer
from pydantic import Field

from sandboxed_tools.builtin.bash import SANDBOX_ENV, bash_command
from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.as_json import exec_object
from sandboxed_tools.cli.changes_asked import decide_about
from sandboxed_tools.cli.confirm import terminal_confirmer
from sandboxed_tools.cli.console import errors_end_the_program, print_json, safe, stderr
from sandboxed_tools.cli.interrupt import call_until_interrupted
from sandboxed_tools.cli.live import LiveOutput
from sandboxed_tools.errors import ConfigurationError, InvalidInput
from sandboxed_tools.policy import Answer, ConfirmationRequest, Placement
from sandboxed_tools.runtime import CallResult, Toolbox
from sandboxed_tools.runtime.toolbox import DEFAULT_IMAGE
from sandboxed_tools.sandbox.contract import ChangesMode
from sandboxed_tools.tool import Command, ExecResult, Reason, Tool, ToolInput, build_tool

__all__ = ["run"]


class RunInput(ToolInput):
    """The words of the command line as a person is asked about them and as they are recorded.

    What runs is the command itself: words may hold bytes that JSON cannot, which are escaped here.
    """

    words: tuple[str, ...] = Field(description="The words of the command line.")


def run(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…",
            help="One word is read by bash; several are a program and its arguments.",
        ),
    ],
    workspace: options.Workspace = None,
    image: options.Image = None,
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    cpus: options.Cpus = None,
    pids: options.Pids = None,
    network: options.NetworkOption = "none",
    service: options.ServiceOption = None,
    runtime: options.Runtime = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable; may be repeated."),
    ] = None,
    stdin: Annotated[
        bool, typer.Option("--stdin", "-i", help="Pass standard input on; else it is empty.")
    ] = False,
    changes: Annotated[
        str,
        typer.Option(
            "--changes", help="What becomes of changes to the workspace: hold, apply or discard."
        ),
    ] = "hold",
    session: options.SessionName = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Do not strip control sequences on a terminal.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Run a command in a disposable container.

    Ends with the command's own exit code; 128+n for a signal, 124 for a timeout, 137 when memory
    ran out, 122 for another limit, 125 when the sandbox failed, 126 when refused, 130 when
    interrupted: the first Ctrl-C ends the command and keeps its result, the second does not wait.
    """
    with errors_end_the_program(as_json=as_json):
        command = _command(words, env or [], stdin=stdin)
        box = Toolbox(
            [_tool(command)],
            workspace=workspace,
            warm=False,
            limits=options.limits_from(timeout=timeout, memory=memory, cpus=cpus, pids=pids),
            image=image or DEFAULT_IMAGE,
            network=network,
            services=options.services_of(service),
            changes=_changes(changes),
            session=session,
            runtime=runtime,
            confirmer=_asked_for
            if service or network != "none" or changes == "apply"
            else terminal_confirmer(),
        )
        outcome, placement = _carried_out(box, _shown(words), raw=None if as_json else raw)
    if as_json:
        print_json(exec_object(outcome, placement))
    else:
        _report(outcome)
        decide_about(outcome.changes)
    raise typer.Exit(exit_codes.of_result(outcome))


def _changes(value: str) -> ChangesMode:
    if value not in ("hold", "apply", "discard"):
        raise ConfigurationError(f"--changes is hold, apply or discard, not {value!r}.")
    return cast(ChangesMode, value)


async def _asked_for(request: ConfirmationRequest) -> bool | Answer:
    """Whoever typed ``--network`` or ``--changes apply`` has answered the question that these raise
    in any mode; what a rule wants to be asked is asked."""
    if request.asked_by.startswith("mode "):
        return True
    ask = terminal_confirmer()
    return False if ask is None else await ask(request)


def _command(words: list[str], env: list[str], *, stdin: bool) -> Command:
    variables = dict(SANDBOX_ENV)
    for item in env:
        name, found, value = item.partition("=")
        if not found:
            raise InvalidInput(f"--env takes NAME=VALUE, not {item!r}.")
        variables[name] = value
    if len(words) == 1:
        if not words[0].strip():
            raise InvalidInput("The command is empty.")
        command = bash_command(words[0])
    else:
        command = Command(tuple(words))
    return Command(
        command.argv,
        env=variables,
        script=command.script,
        stdin=_own_stdin() if stdin else None,
    )


async def _own_stdin() -> AsyncIterator[bytes]:
    descriptor = sys.stdin.fileno()
    while data := await anyio.to_thread.run_sync(
        os.read, descriptor, 65_536, abandon_on_cancel=True
    ):
        yield data


def _tool(command: Command) -> Tool[RunInput, ExecResult, None]:
    return build_tool(
        name="Run",
        description="Run the command of the command line in a container.",
        input_schema=RunInput,
        command=lambda _: command,
        needs_sandbox=True,
        defaults=1,
    )


def _shown(words: list[str]) -> RunInput:
    return RunInput(
        words=tuple(os.fsencode(word).decode("utf-8", "backslashreplace") for word in words)
    )


def _carried_out(
    box: Toolbox, shown: RunInput, *, raw: bool | None
) -> tuple[ExecResult, Placement]:
    """The call's result; of one that was interrupted too early to have any, that it was."""
    if raw is None:
        result = anyio.run(_call, box, shown, None)
    else:
        with LiveOutput(raw=raw) as live:
            result = anyio.run(_call, box, shown, live)
    if result is None:
        reason = Reason("needs_sandbox", "`run` always uses a container")
        return ExecResult("cancelled"), Placement("container", (reason,))
    return cast(ExecResult, result.exec), result.placement


async def _call(
    box: Toolbox, shown: RunInput, live: LiveOutput | None
) -> CallResult[ExecResult] | None:
    return await call_until_interrupted(box, lambda: box.call("Run", shown, on_output=live))


def _report(result: ExecResult) -> None:
    """Say on standard error what the exit code alone would not tell."""
    notes = list(result.warnings)
    if result.status not in ("exited", "signalled"):
        notes.append(
            f"ended by {result.status.replace('_', ' ')} after {result.phases.run_s:.1f} s"
        )
    if result.limits_hit:
        notes.append(f"limits touched: {', '.join(sorted(result.limits_hit))}")
    for note in notes:
        stderr().print(safe(f"sandboxed-tools: {note}", "yellow"))
