"""One container from its making to its removal: started, connected, waiting for one command."""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sandboxed_tools.errors import EngineFault, SandboxUnavailable, UnsupportedOnEngine
from sandboxed_tools.sandbox.contract import ContainerUser, View, ViewProvider
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.connection import Connection, attach
from sandboxed_tools.sandbox.docker.create import (
    LAUNCHER_PATH,
    Mould,
    VolumeMount,
    create_request,
)
from sandboxed_tools.sandbox.docker.creation import create_once, undo_create
from sandboxed_tools.sandbox.docker.direct import Direct
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.faults import engine_faults
from sandboxed_tools.sandbox.docker.owner import Kind, Owner
from sandboxed_tools.sandbox.docker.protocol import call_frames, new_mark
from sandboxed_tools.sandbox.docker.service_network import (
    ServiceNetwork,
    new_network_name,
    open_service_network,
    remove_service_network,
)
from sandboxed_tools.sandbox.docker.user import choose_user
from sandboxed_tools.sandbox.docker.view_volumes import carried_volumes, make_view_volumes
from sandboxed_tools.tool.command import Command

__all__ = ["Container", "launch"]

NAME_PREFIX = "sandboxed-tools-"
ATTACH_TIMEOUT_S = 30.0
SEND_TIMEOUT_S = 10.0
WAITING_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
"""The environment of a program that waits for its call."""


@dataclass(slots=True, eq=False)
class Container:
    """A running container that belongs to exactly one call, now or later.

    ``connection`` is its stream and its lease. ``made_at`` is on the monotonic clock. ``mark`` ends
    both streams when a program waits inside for the call; else the call brings its own.
    """

    id: str
    mould: Mould
    user: ContainerUser
    connection: Connection
    view: View | None
    volumes: tuple[VolumeMount, ...] = ()
    mark: bytes | None = None
    network: ServiceNetwork | None = None
    made_at: float = field(default_factory=time.monotonic)

    @property
    def is_waiting(self) -> bool:
        """Whether it still lives and has said nothing: fit for a call."""
        return self.connection.is_alive()

    @property
    def cwd(self) -> str:
        return self.view.cwd if self.view is not None else "/"


def launch(
    engine: Engine,
    clients: Clients,
    mould: Mould,
    *,
    kind: Kind,
    lifetime_s: float,
    views: ViewProvider | None,
    direct: Direct | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Container:
    """Make a view, create, attach, start. Blocking; everything is undone when a step fails.

    ``lifetime_s``: how long the launcher waits for its command. ``is_wanted`` is asked between
    steps: a call that is cancelled meanwhile ends the making.

    Raises:
        SandboxUnavailable: the engine, the image or the machine could not do it.
        InvalidWorkspace: the workspace may not be used.
    """
    user = choose_user(is_mapped=engine.rootless or engine.userns_remap)
    labels = functools.partial(
        Owner.current().labels, deadline_s=lifetime_s + mould.spec.limits.wall_s + 60
    )
    with contextlib.ExitStack() as undo:
        view = _open_view(mould, user, views, is_wanted)
        if view is not None:
            undo.callback(view.close)
        with clients.lend() as api, engine_faults("making a container"):
            volumes = make_view_volumes(api, clients, view, labels=labels(kind="view"), undo=undo)
            network = None
            if mould.spec.joins_services:
                name = new_network_name()
                undo.callback(remove_service_network, clients, name)
                network = open_service_network(
                    api, mould.spec, name=name, labels=labels(kind="network")
                )
            _check(is_wanted)
            request = create_request(
                mould,
                user=user,
                argv=direct.argv if direct else (LAUNCHER_PATH, str(int(lifetime_s))),
                env=direct.env if direct else {},
                cwd=_directory(direct, view),
                volumes=(*volumes, *carried_volumes(view)),
                binds=tuple(m for m in view.mounts if m.kind == "bind") if view else (),
                labels=labels(kind=kind),
                network=network,
            )
            name = NAME_PREFIX + secrets.token_hex(8)
            undo.callback(undo_create, clients, name)
            container_id = create_once(api, request, name)
            _check(is_wanted)
            connection = attach(engine, container_id, timeout_s=ATTACH_TIMEOUT_S)
            undo.callback(connection.close)
            api.start(container_id)
            _check(is_wanted)
        mark = None
        if mould.spec.waiting and direct is None:
            cwd = view.cwd if view is not None else "/"
            mark = _start_waiting(connection, mould, cwd=cwd, deadline_s=lifetime_s)
        undo.pop_all()
        return Container(container_id, mould, user, connection, view, volumes, mark, network)


def _start_waiting(connection: Connection, mould: Mould, *, cwd: str, deadline_s: float) -> bytes:
    """Start the program that waits for the call; returns the mark that will end both streams.

    It starts in the root, so that nothing of the workspace is looked up before the call: what an
    overlay has looked up may stay as it was. The size of files is limited when the call begins.

    Raises:
        EngineFault: the connection is lost or takes nothing.
    """
    mark = new_mark()
    env = {**WAITING_ENV, "SANDBOX_CWD": cwd}
    command = Command(mould.spec.waiting, stdin=b"", env=env)
    frames = call_frames(command, mark=mark, cwd="/", file_bytes=-1, deadline_s=deadline_s)
    left = memoryview(b"".join(frames))
    deadline = time.monotonic() + SEND_TIMEOUT_S
    try:
        while left:
            sent = connection.send(left)
            left = left[sent or 0 :]
            if sent is None:
                if time.monotonic() >= deadline:
                    raise EngineFault("the engine takes nothing for the container it has started")
                connection.wait_for_room(timeout_s=1.0)
    except OSError as error:
        raise EngineFault(
            "the connection to the container was lost", operator_detail=str(error)
        ) from error
    return mark


def _directory(direct: Direct | None, view: View | None) -> str:
    if direct is None:
        return "/"
    return direct.cwd or (view.cwd if view is not None else "/")


def _check(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise SandboxUnavailable("the call was cancelled while its container was being made")


def _open_view(
    mould: Mould,
    user: ContainerUser,
    views: ViewProvider | None,
    is_wanted: Callable[[], bool],
) -> View | None:
    if mould.spec.workspace is None:
        return None
    if views is None:
        raise UnsupportedOnEngine("this sandbox was made without a way to show it a workspace")
    return views.open(mould.spec.workspace, user, limits=mould.spec.limits, is_wanted=is_wanted)
