"""The command line: one module for each command, put together here."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from sandboxed_tools.cli import audit, changes, defaults, mcp, policy, tools
from sandboxed_tools.cli.call import call
from sandboxed_tools.cli.conformance import conformance
from sandboxed_tools.cli.console import os_error_ends_the_program
from sandboxed_tools.cli.demo import demo
from sandboxed_tools.cli.engine import doctor, gc, images, setup
from sandboxed_tools.cli.explain import explain
from sandboxed_tools.cli.lint import lint
from sandboxed_tools.cli.ps import ps
from sandboxed_tools.cli.run import run

__all__ = ["app", "main"]

app = typer.Typer(
    name="sandboxed-tools",
    help="Tools for a language model that cannot hurt their owner.",
    no_args_is_help=True,
    rich_markup_mode=None,
    # A traceback with local variables could show secrets.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Options end at the first word of the command, so that `run ls -l` needs no `--`.
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(call)
app.command()(explain)
app.add_typer(tools.app, name="tools")
app.command()(lint)
app.add_typer(defaults.app, name="defaults")
app.add_typer(policy.app, name="policy")
app.add_typer(audit.app, name="audit")
app.add_typer(mcp.app, name="mcp")
app.command()(demo)
app.add_typer(changes.app, name="changes")
app.command()(doctor)
app.command()(conformance)
app.command()(ps)
app.command()(gc)
app.add_typer(images, name="images")
app.command()(setup)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sandboxed-tools {version('sandboxed-tools')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Tools for a language model that cannot hurt their owner."""


def _terminated(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _open_closed_streams() -> None:
    """Let a standard stream that is closed be the null device.

    Else the next file or connection that is opened gets its number, and what is printed goes there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one; children have it as well.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    """The console script. SIGTERM ends calls as Ctrl-C does: cancelled, and cleaned up after."""
    _open_closed_streams()
    signal.signal(signal.SIGTERM, _terminated)
    with os_error_ends_the_program():
        app()


if __name__ == "__main__":
    main()
