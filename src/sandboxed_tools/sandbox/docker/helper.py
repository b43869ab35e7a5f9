"""A container of our own image in which a program of ours runs beside a volume.

No code but ours ever runs in it: it is told what to do over its standard input, and ends when that
does, with the death of this process too. It has no network, no writable file system but the volume,
and the one or few capabilities that its job takes.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import select
import time
from collections import deque
from typing import Any

from docker.errors import DockerException
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.connection import Connection, attach
from sandboxed_tools.sandbox.docker.create import (
    CPU_PERIOD_US,
    attended,
    confined,
    without_names,
)
from sandboxed_tools.sandbox.docker.demultiplexer import Demultiplexer
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.faults import engine_faults, status_code
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, resolve_image
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.tool.carrier import HELPER_ARGV
from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["HelperContainer"]

_log = logging.getLogger(__name__)

NAME_PREFIX = "sandboxed-tools-helper-"
TREE = "/tree"
MEMORY_BYTES = 512 * 1024 * 1024
"""For a mark of every entry of the tree; content only passes through."""

STALL_S = 120.0
"""How long nothing may move: the program may be looking at a large tree meanwhile."""

ATTACH_TIMEOUT_S = 30.0
REMOVE_TIMEOUT_S = 15.0
_PIECE_BYTES = 256 * 1024
_KEPT_ERROR_BYTES = 2048
_FILLER = ("CHOWN", "SETGID", "SETUID")
"""To give the tree to its user, and to become that user, before anything is received."""

_WATCHER = ("DAC_READ_SEARCH",)
"""To read what its owner has closed to itself."""


class HelperContainer:
    """Implements ``tool.carrier.Helper``. One thread at a time."""

    tree = TREE

    def __init__(self, engine: Engine, volume: str, *, writable: bool, lifetime_s: float) -> None:
        """Start it; nothing is left of it when that fails. Blocking.

        Raises:
            SandboxUnavailable: the engine, or our image on it, cannot be had.
        """
        self._engine = engine
        self.name = NAME_PREFIX + secrets.token_hex(8)
        self._deadline = time.monotonic() + lifetime_s
        self._streams = Demultiplexer()
        self._output: deque[bytes] = deque()
        self._errors = b""
        self._is_over = False
        self._is_removed = False
        self._connection: Connection | None = None
        try:
            with (
                contextlib.closing(engine.api()) as api,
                engine_faults("starting a helper beside the workspace"),
            ):
                request = _request(
                    resolve_image(api, BASE_IMAGE).id,
                    volume,
                    writable=writable,
                    labels=Owner.current().labels(deadline_s=lifetime_s, kind="helper"),
                )
                api.create_container_from_config(request, self.name)  # type: ignore[no-untyped-call]
                self._connection = attach(engine, self.name, timeout_s=ATTACH_TIMEOUT_S)
                api.start(self.name)
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """See ``tool.carrier.Helper``. What comes meanwhile is kept: a helper says why it ends."""
        left = memoryview(data)
        while left:
            connection = self._open()
            try:
                sent = connection.send(left)
            except OSError as error:
                raise self._gone(error) from error
            left = left[sent or 0 :]
            if left and not sent:
                self._wait(connection, select.POLLIN | select.POLLOUT)
            if self._take_what_came(connection) and self._is_over:
                raise self._gone(None)

    def receive(self, most: int) -> bytes:
        """See ``tool.carrier.Helper``."""
        while not self._output:
            if self._is_over:
                raise self._gone(None)
            connection = self._open()
            if not self._take_what_came(connection):
                self._wait(connection, select.POLLIN)
        piece = self._output.popleft()
        if len(piece) > most:
            self._output.appendleft(piece[most:])
        return piece[:most]

    def close(self) -> None:
        """See ``tool.carrier.Helper``. What cannot be removed now is left to clean-up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._is_removed:
            return
        try:
            with contextlib.closing(self._engine.api(REMOVE_TIMEOUT_S)) as api:
                api.remove_container(self.name, v=True, force=True)
        except (DockerException, RequestException, OSError) as error:
            # 409: it removes itself at this moment.
            if status_code(error) not in (404, 409):
                _log.warning("helper %s cannot be removed yet: %s", self.name, error)
                return
        self._is_removed = True

    def _open(self) -> Connection:
        if self._connection is None:
            raise EngineFault("the helper beside the workspace was closed")
        return self._connection

    def _take_what_came(self, connection: Connection) -> bool:
        """Keep what can be read at once; whether there was anything, the end included."""
        room = bytearray(_PIECE_BYTES)
        try:
            count = connection.receive_into(memoryview(room))
        except OSError as error:
            raise self._gone(error) from error
        if count is None:
            return False
        if count == 0:
            self._is_over = True
        for number, piece in self._streams.feed(bytes(room[:count])):
            if number == 1:
                self._output.append(piece)
            else:
                self._errors = (self._errors + piece)[-_KEPT_ERROR_BYTES:]
        return True

    def _wait(self, connection: Connection, events: int) -> None:
        if connection.has_buffered():
            return
        left_s = min(STALL_S, self._deadline - time.monotonic())
        poll = select.poll()
        poll.register(connection.fileno(), events)
        if left_s <= 0 or not poll.poll(left_s * 1000):
            raise EngineFault(
                "the helper beside the workspace does not go on, or the engine does not answer",
                operator_detail=self._detail(),
            )

    def _gone(self, error: OSError | None) -> EngineFault:
        detail = self._detail() if error is None else f"{error}; {self._detail()}"
        return EngineFault("the helper beside the workspace ended early", operator_detail=detail)

    def _detail(self) -> str:
        return for_terminal(self._errors.decode("utf-8", "replace"), one_line=True)


def _request(
    image_id: str, volume: str, *, writable: bool, labels: dict[str, str]
) -> dict[str, Any]:
    """The body of ``POST /containers/create``."""
    return {
        **attended(HELPER_ARGV, labels=labels),
        "Image": image_id,
        "Env": ["LANG=C.UTF-8"],
        "User": "0:0",
        "Hostname": "helper",
        "WorkingDir": "/",
        "HostConfig": {
            **confined(memory_bytes=MEMORY_BYTES),
            **without_names(),
            "CapAdd": list(_FILLER if writable else _WATCHER),
            "NetworkMode": "none",
            "PidsLimit": 8,
            "CpuPeriod": CPU_PERIOD_US,
            "CpuQuota": CPU_PERIOD_US,
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            "AutoRemove": True,
            "Mounts": [
                {
                    "Type": "volume",
                    "Source": volume,
                    "Target": TREE,
                    "ReadOnly": not writable,
                    "VolumeOptions": {"NoCopy": True},
                }
            ],
        },
    }
