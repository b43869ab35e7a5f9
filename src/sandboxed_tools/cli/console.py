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
        raise typer.Exit(_say_os_error(error, as_json=as_json)) from None
    except KeyboardInterrupt:
        raise typer.Exit(exit_codes.INTERRUPTED) from None


@contextmanager
def os_error_ends_the_program() -> Iterator[None]:
    """For all that is printed outside of :func:`errors_end_the_program`, by other libraries too."""
    try:
        yield
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(exit_codes.FAILED)
    except OSError as error:
        code = _say_os_error(error, as_json=False)
        # What could not be written is not to be tried once more at the end of the interpreter.
        with suppress(OSError):
            sys.stdout.close()
        sys.exit(code)


def _say_os_error(error: OSError, *, as_json: bool) -> int:
    """Returns the exit code."""
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        message, code = "The current folder is gone; change to another.", exit_codes.USAGE
    else:
        message = f"This machine failed: {error.strerror or error or type(error).__name__}."
        code = exit_codes.SANDBOX_FAILED
    if as_json:
        # Standard output may be what failed.
        with suppress(OSError):
            print_json({"error": {"code": "os_error", "message": message}})
    with suppress(OSError):
        stderr().print(Text("error: ", style="bold red") + safe(message))
        if error.filename is not None:
            stderr().print(safe(os.fsdecode(error.filename), "dim", one_line=True))
    return code


def _has_current_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False
