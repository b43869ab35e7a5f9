"""The program that helpers run: our own modules, as text."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Final

from sandboxed_tools.tool.carrier import helper_program

__all__ = ["program"]

_PACKAGE: Final = "sandboxed_tools.workspace"
_MODULES: Final = (
    "mounts",
    "openat2",
    "cursor",
    "remove",
    "copy_tree",
    "carry.stream",
    "carry.pack",
    "carry.unpack",
    "carry.inside",
)
"""What runs there, each after what it imports; the standard library is all that they need else."""


def program(**argument: object) -> bytes:
    """What a helper is sent first, to do the job that ``argument`` describes."""
    return helper_program(_modules(), entry=f"{_PACKAGE}.carry.inside", argument=argument)


@functools.cache
def _modules() -> dict[str, str]:
    root = resources.files(_PACKAGE)
    # Packages that hold nothing: their real ones import what is not there.
    texts = {"sandboxed_tools": "", _PACKAGE: "", f"{_PACKAGE}.carry": ""}
    for name in _MODULES:
        file = root.joinpath(*name.split(".")[:-1], name.split(".")[-1] + ".py")
        texts[f"{_PACKAGE}.{name}"] = file.read_text(encoding="utf-8")
    return texts
