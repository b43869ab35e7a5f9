"""What every command shares: where text goes, and how an error ends the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import typer
from rich.console import Console
from rich.text import Text

from sandboxed_tools.cli import exit_codes
from sandboxed_tools.cli.as_json import dump, error_object
from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.tool import for_terminal

__all__ = ["errors_end_the_program", "out", "print_json", "safe", "stderr"]


def out() -> Console:
    """Standard output; colours only on a terminal, and not where NO_COLOR is set.

    Elsewhere lines are as long as what they say: whoever reads a pipe wraps them, or does not.
    """
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=100_000)


def stderr() -> Console:
    """Standard error, for everything that is not the answer."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def safe(text: str, style: str = "", *, one_line: bool = False) -> Text:
    """Foreign text for a console: no control sequences, and no markup."""
    return Text(for_terminal(text, one_line=one_line), style=style)


def print_json(value: object) -> None:
    """One object on one line of standard output."""
    sys.stdout.write(dump(value) + "\n")
    sys.stdout.flush()


@contextmanager
def errors_end_the_program(
    *, as_json: bool, code_of: Callable[[SandboxedToolsError], int] = exit_codes.of_error
) -> Iterator[None]:
    """Turn an error of the library into a readable message and its exit code.

    With ``as_json`` the error is an object on standard output; what only the operator may see is on
    standard error either way. So does an error of this machine, such as a full disk, with 125; an
    interruption ends with 130.
    """
    try:
        yield
    except SandboxedToolsError as error:
        if as_json:
            print_json(error_object(error))
        else:
            stderr().print(Text("error: ", style="bold red") + safe(str(error)))
        if error.operator_detail:
            stderr().print(safe(error.operator_detail, "dim"))
        raise typer.Exit(code_of(error)) from None
    except BrokenPipeError:
        raise  # whoever reads has gone, which is no error of ours
    except OSError as error:
        _say_os_error(error, as_json=as_json)
        raise typer.Exit(exit_codes.SANDBOX_FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(exit_codes.INTERRUPTED) from None


def _say_os_error(error: OSError, *, as_json: bool) -> None:
    message = f"This machine failed: {error.strerror or type(error).__name__}."
    if as_json:
        # Standard output may be what failed.
        with suppress(OSError):
            print_json({"error": {"code": "os_error", "message": message}})
    stderr().print(Text("error: ", style="bold red") + safe(message))
    if error.filename is not None:
        stderr().print(safe(os.fsdecode(error.filename), "dim", one_line=True))
