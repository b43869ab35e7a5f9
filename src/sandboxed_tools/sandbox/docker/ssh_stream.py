"""A stream to an engine behind SSH: the system's own ``ssh``, with its keys, agent and settings."""

from __future__ import annotations

import socket
import subprocess
from urllib.parse import urlsplit

__all__ = ["open_ssh_stream"]


def open_ssh_stream(url: str, *, timeout_s: float) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A connected stream to the engine of ``ssh://[user@]host[:port]``, and the process behind it.

    The stream is an ordinary socket: its reads and writes have ``timeout_s`` as their deadline. The
    process ends when the stream is closed; who has it must wait for it.

    Raises:
        OSError: there is no ``ssh`` here.
    """
    address = urlsplit(url)
    words = ["ssh", "-T", "-o", "BatchMode=yes"]
    if address.username:
        words += ["-l", address.username]
    if address.port:
        words += ["-p", str(address.port)]
    ours, theirs = socket.socketpair()
    try:
        ours.settimeout(timeout_s)
        with theirs:
            process = subprocess.Popen(
                [*words, "--", address.hostname or "", "docker", "system", "dial-stdio"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return ours, process
