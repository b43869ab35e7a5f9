"""The system calls that an untrusted command may make.

``seccomp.json`` beside this file is the profile, in the format of Docker and Podman, with the
reason for each group in its ``comment``. It is an allow-list of the project's own, because the
engines' default profiles leave open what matters here: up to Docker 22 ``AF_VSOCK``, which no
network namespace confines, up to 24 io_uring, and in every version so far ``ptrace`` and 32-bit
calls, by which sockets are made past any rule about sockets.

It holds for containers without capabilities; it has no exceptions for them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["profile", "profile_json"]

_FILE = "seccomp.json"


@cache
def profile_json() -> str:
    """The profile as compact JSON text, for the security option ``seccomp=`` of a container.

    The engine's API takes the text itself, never a path. Comments are left out.
    """
    return json.dumps(_without_comments(profile()), separators=(",", ":"))


def profile() -> dict[str, Any]:
    """The profile with its comments; a fresh copy that the caller may change."""
    text = files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _without_comments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_comments(item) for key, item in value.items() if key != "comment"}
    if isinstance(value, list):
        return [_without_comments(item) for item in value]
    return value
