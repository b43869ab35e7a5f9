"""Which images may be run: what an image's configuration could do to the sandbox around it.

The configuration of an image is part of every container made from it, before any option of ours
is looked at: a ``VOLUME`` is a writable place in a read-only container, without a size; a variable
such as ``LD_PRELOAD`` or ``BASH_ENV`` runs code in the first process; a label is inherited by the
container, where clean-up reads it as ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sandboxed_tools.errors import ImageRefused
from sandboxed_tools.sandbox.docker.owner import LABEL_PREFIX
from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["check_image", "image_objections"]

# Read by the dynamic loader (ld.so(8)), by glibc, or by a shell before its first command (bash(1),
# dash(1)). PS4 is expanded, commands included, once SHELLOPTS has switched tracing on.
_LOADED_NAMES = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS"}
    | {"GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_TRACE", "RESOLV_HOST_CONF"}
)
_LOADED_PREFIXES = ("LD_", "BASH_FUNC_")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROC = re.compile(r"^/*(proc|sys|dev)(/|$)|/\.\.(/|$)")


def image_objections(inspected: Mapping[str, Any]) -> tuple[str, ...]:
    """Everything in an image's configuration that would weaken the sandbox; empty when it is fine.

    ``inspected`` is the engine's answer to "inspect image". Pure. Anything malformed is an
    objection too.
    """
    config = inspected.get("Config") or {}
    if not isinstance(config, Mapping):
        return ("its configuration is malformed",)
    return (
        *_system_objections(inspected),
        *_volume_objections(config),
        *_variable_objections(config),
        *_label_objections(config),
        *(("it has ONBUILD triggers",) if config.get("OnBuild") else ()),
        *_directory_objections(config),
    )


def check_image(inspected: Mapping[str, Any], *, reference: str) -> None:
    """Refuse an image whose configuration would weaken the sandbox.

    Raises:
        ImageRefused: names every objection, and what to do.
    """
    objections = image_objections(inspected)
    if objections:
        shown = "; ".join(for_terminal(text, one_line=True) for text in objections)
        raise ImageRefused(
            f"the image {for_terminal(reference, one_line=True)!r} may not be used: {shown}. "
            "Build an image from it without these (see docs/limitations.md), or use "
            "sandboxed-tools/base"
        )


def _system_objections(inspected: Mapping[str, Any]) -> tuple[str, ...]:
    system = inspected.get("Os")
    return () if system == "linux" else (f"it is for {system!r}, not for linux",)


def _volume_objections(config: Mapping[str, Any]) -> tuple[str, ...]:
    volumes = config.get("Volumes") or {}
    if not isinstance(volumes, Mapping):
        return ("its list of volumes is malformed",)
    return tuple(
        f"it declares the volume {path!r}, which is writable and without a limit"
        for path in sorted(map(str, volumes))
    )


def _variable_objections(config: Mapping[str, Any]) -> tuple[str, ...]:
    entries = config.get("Env") or []
    if not isinstance(entries, list):
        return ("its environment is malformed",)
    found: list[str] = []
    for entry in entries:
        name, sign, _ = str(entry).partition("=")
        if name in _LOADED_NAMES or name.startswith(_LOADED_PREFIXES):
            found.append(f"it sets {name}, which is read before the command starts")
        elif not sign or not _VARIABLE.fullmatch(name):
            found.append(f"it sets a variable with the unusable name {name[:40]!r}")
    return tuple(found)


def _label_objections(config: Mapping[str, Any]) -> tuple[str, ...]:
    labels = config.get("Labels") or {}
    if not isinstance(labels, Mapping):
        return ("its labels are malformed",)
    return tuple(
        f"it carries the label {name[:80]!r}, which belongs to containers of this library"
        for name in sorted(map(str, labels))
        if name.lower().startswith(LABEL_PREFIX)
    )


def _directory_objections(config: Mapping[str, Any]) -> tuple[str, ...]:
    # A working directory of /proc/self/fd/N was a way out of the container: CVE-2024-21626.
    directory = str(config.get("WorkingDir") or "/")
    if _PROC.search(directory):
        return (f"its working directory is {directory[:80]!r}",)
    return ()
