"""``mcp``: the tools for any client of the Model Context Protocol."""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import anyio
import typer
from anyio import CancelScope

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.cli import options
from sandboxed_tools.cli.console import errors_end_the_program, safe, stderr
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy, Policy
from sandboxed_tools.runtime.toolbox import DEFAULT_IMAGE
from sandboxed_tools.sandbox.contract import ChangesMode
from sandboxed_tools.tool import AnyTool, Tool
from sandboxed_tools.workspace import check_workspace

if TYPE_CHECKING:
    from sandboxed_tools.mcp import HttpAddress, PrivateEnds, ServerOptions

__all__ = ["app"]

app = typer.Typer(
    help="Serve the tools to a client of the Model Context Protocol.", invoke_without_command=True
)

CONFIRMERS = ("elicitation", "none")

Workspaces = Annotated[
    list[Path] | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="DIR",
        help="A folder that a client may work in or below; may be repeated, the first is used "
        "unless the client has a root in another.",
    ),
]


@app.callback()
def mcp(
    context: typer.Context,
    http: Annotated[
        bool, typer.Option("--http", help="Listen on HTTP instead of standard input.")
    ] = False,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; anything but loopback is open.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; a free one when 0.")
    ] = 0,
    workspace: Workspaces = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tools",
            metavar="MODULE:NAME",
            help="Further tools: one, or a sequence of them; may be repeated.",
        ),
    ] = None,
    image: options.Image = None,
    network: options.NetworkOption = "none",
    service: options.ServiceOption = None,
    changes: Annotated[
        str,
        typer.Option("--changes", help="What becomes of changes: hold, apply or discard."),
    ] = "hold",
    confirm_by: Annotated[
        str | None,
        typer.Option(
            "--confirm-by",
            metavar="HOW",
            help="elicitation: the client asks the person before it, as far as the policy lets it; "
            "none: every question is answered no. The default is elicitation, and none over HTTP.",
        ),
    ] = None,
    runtime: options.Runtime = None,
    timeout: options.Timeout = None,
    memory: options.Memory = None,
    cpus: options.Cpus = None,
    pids: options.Pids = None,
    trusted_workspace: options.TrustedWorkspace = False,
) -> None:
    """Serve the tools until the client has gone. Log lines go to standard error only."""
    if context.invoked_subcommand is not None:
        return
    with errors_end_the_program(as_json=False), ExitStack() as stack:
        _check_installed()
        # Imported late: the protocol's SDK takes longer to import than all of the rest.
        from sandboxed_tools.mcp import HttpAddress, ServerOptions, private_ends

        # Before anything of the user's is imported: it may print.
        ends = stack.enter_context(private_ends()) if not http else None
        policy = options.session_policy(trusted_workspace=trusted_workspace)
        served = ServerOptions(
            tools=(*SHIPPED, *(tool for name in tools or () for tool in _tools_of(name))),
            workspaces=_checked(workspace or ()),
            policy=policy,
            limits=options.limits_from(timeout=timeout, memory=memory, cpus=cpus, pids=pids),
            image=image or DEFAULT_IMAGE,
            network=network,
            services=tuple(options.services_of(service).items()),
            changes=cast(ChangesMode, _one_of(changes, get_args(ChangesMode), "--changes")),
            runtime=runtime,
            asks=_asks(confirm_by, policy, is_http=http),
        )
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        anyio.run(_serve, served, ends or HttpAddress.bind(host, port))


async def _serve(served: ServerOptions, place: PrivateEnds | HttpAddress) -> None:
    from sandboxed_tools.mcp import HttpAddress, Sessions, build_server, serve_http, serve_stdio

    # Clients send SIGTERM soon after they have closed our input. What is being cleaned up then is
    # cleaned up to its end: the signal is taken, and does not tear through it.
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Sessions(served) as sessions, anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_on_signal, signals, tasks.cancel_scope)
            server = build_server(sessions)
            if isinstance(place, HttpAddress):
                await serve_http(server, sessions, place, on_ready=partial(_tell, place))
            else:
                await serve_stdio(server, place)
            tasks.cancel_scope.cancel()


async def _cancel_on_signal(signals: AsyncIterator[signal.Signals], scope: CancelScope) -> None:
    async for _ in signals:
        scope.cancel()
        return


def _tell(address: HttpAddress) -> None:
    console = stderr()
    console.print(safe(f"url: {address.url}"))
    console.print(safe(f"header: Authorization: Bearer {address.token}"))
    if not address.is_loopback:
        console.print(safe("This address can be reached from other machines.", "bold yellow"))


@app.command()
def config(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="Such as claude-code, cursor.")],
    workspace: Workspaces = None,
) -> None:
    """Print what adds this server to a client: a line to run, or a piece of its settings."""
    with errors_end_the_program(as_json=False):
        from sandboxed_tools.mcp.client_config import config_for

        folders = _checked(workspace or [Path()])
        words = [option for folder in folders for option in ("--workspace", str(folder))]
        what, text = config_for(client, [*_program(), "mcp", *words])
    stderr().print(safe(f"# {what}:", "dim"))
    typer.echo(os.fsencode(text))  # a folder's name may be any bytes


def _program() -> list[str]:
    """The command line that starts this very installation from anywhere."""
    beside = Path(sys.executable).parent / "sandboxed-tools"
    if os.access(beside, os.X_OK):
        return [str(beside)]
    found = shutil.which("sandboxed-tools")
    return [found] if found else [sys.executable, "-m", "sandboxed_tools.cli.main"]


def _checked(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Resolved folders.

    Raises:
        InvalidWorkspace: one of them may not be a workspace.
    """
    return tuple(check_workspace(folder.absolute()) for folder in folders)


def _tools_of(name: str) -> tuple[AnyTool, ...]:
    """The tools that ``module:name`` stands for.

    Raises:
        ConfigurationError: there is no such module or name, or it is something else.
    """
    module_name, found, attribute = name.partition(":")
    if not found or not module_name or not attribute:
        raise ConfigurationError(f"--tools {name!r}: write it as package.module:name.")
    # Behind everything else: a file in this folder must not stand for a module of the library's.
    sys.path.append(os.getcwd())
    try:
        value: Any = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:
        raise ConfigurationError(
            f"--tools {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    listed = (value,) if isinstance(value, Tool) else value
    if not isinstance(listed, Iterable) or isinstance(listed, str):
        raise ConfigurationError(f"--tools {name!r} is neither a tool nor a sequence of them.")
    checked = tuple(listed)
    if not all(isinstance(tool, Tool) for tool in checked):
        raise ConfigurationError(f"--tools {name!r} holds something that build_tool did not make.")
    return checked


def _one_of(value: str, known: Sequence[str], option: str) -> str:
    if value not in known:
        raise ConfigurationError(f"{option} is {' or '.join(known)}, not {value!r}.")
    return value


def _asks(confirm_by: str | None, policy: Policy, *, is_http: bool) -> bool:
    """Whether the client may put questions to a person; the policy is asked again each time.

    Raises:
        ConfigurationError: they are wanted over HTTP, where the caller would answer its own
            questions, or where the policy does not let the client ask.
    """
    if confirm_by is None:
        return not is_http
    _one_of(confirm_by, CONFIRMERS, "--confirm-by")
    if confirm_by == "elicitation" and is_http:
        raise ConfigurationError(
            "--confirm-by elicitation does not go with --http: whoever calls would answer itself. "
            "Allow what may run by rules of your policy."
        )
    if confirm_by == "none":
        return False
    if "elicitation" not in LayeredPolicy(policy).current().policy.confirm_by:
        raise ConfigurationError(
            "--confirm-by elicitation: the policy's confirm_by does not let a client ask. "
            "'sandboxed-tools policy show' says which layer decides it."
        )
    return True


def _check_installed() -> None:
    """Say what to install where the protocol's SDK is missing.

    Raises:
        ConfigurationError: it is.
    """
    missing = [name for name in ("mcp", "uvicorn", "starlette") if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"The Python package {missing[0]} is missing. Type: pip install 'sandboxed-tools[mcp]'"
        )
