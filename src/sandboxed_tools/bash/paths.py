"""Paths that a command names, and those whose mere reading has an effect or tells secrets."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from sandboxed_tools.bash.options import names
from sandboxed_tools.bash.syntax import Argument, Refused

__all__ = ["PathUse", "is_below_kernel_files", "is_folder_below", "path_use", "refuse_special_path"]


@dataclass(frozen=True, slots=True)
class PathUse:
    """A path that the command may open.

    ``text`` is the whole path when ``complete``, else only what it is known to begin with. ``~``
    stands for the home directory. ``start`` and ``end`` are offsets in characters.
    """

    text: str
    start: int
    end: int
    complete: bool


_UNKNOWN = re.compile(r"[*?\[]")
_HARMLESS_DEVICES = frozenset(
    {"null", "zero", "random", "urandom", "stdin", "stdout", "stderr", "fd/0", "fd/1", "fd/2"}
)
_LISTS_NAMES_ONLY = names(
    "ls dir vdir stat find fd fdfind du df test [ [[ tree file realpath readlink namei lsblk"
    " mountpoint dirname basename"
)
_READS_WHOLE_TREES = names("grep egrep fgrep rg diff zgrep")
_PROC_SECRETS = names(
    "environ mem maps smaps smaps_rollup numa_maps auxv pagemap stack syscall kcore kmsg kallsyms"
    " keys key-users fd fdinfo map_files root cwd clear_refs sysrq-trigger"
)
_KERNEL_FOLDERS = ("dev", "proc", "sys")
_WAY_UP = frozenset({"", ".", "..", "~"})
_TREE_OF_SECRETS = re.compile(
    r"/|/(?:proc|sys|dev)|(?:\.\./)+(?:proc|sys|dev)|/proc/(?:self|thread-self|[0-9*]+)(?:/task(?:/[^/]+)?)?"
)
# Also behind what may be empty, and by a pattern.
_DEVICE = re.compile(r"(?:(?:\.\.|\*+)/)*/?dev/(.+)")
_PATTERN_FROM_THE_ROOT = re.compile(r"(?:(?:\.\./)+|/)([^/*]*)\*[^/]*/.+", re.DOTALL)
_KERNEL_FILES = re.compile(r"(?:^|/)sys/kernel/(?:debug|tracing|security)(?:/|$)")
_ENVIRON_SOMEWHERE = re.compile(r"\*/environ$")


def path_use(argument: Argument, shape: str | None = None) -> PathUse | None:
    """The path that a word names, from ``shape`` where only a part of the word is one.

    ``None`` for one of which not even the beginning is known.
    """
    text = argument.shape if shape is None else shape
    known = argument.literal is not None or (argument.tilde and "*" not in text)
    if not known:
        if ".." in text.split("/") and not text.startswith("~"):
            # What is not known may be one folder, and two ways up lead out of it.
            text = posixpath.normpath(text)
        text = _UNKNOWN.split(text, maxsplit=1)[0]
    return PathUse(text, argument.start, argument.end, known) if text not in ("", ".") else None


def refuse_special_path(shape: str, *, program: str, argument: Argument) -> None:
    """Refuse a path whose reading has an effect, or shows other processes' secrets.

    Devices may act when opened (``/dev/watchdog``, a FIFO), ``trace_pipe`` and ``/proc/kmsg`` are
    consumed by reading, ``/proc/PID/environ`` and ``mem`` belong to other processes (proc(5)).

    Raises:
        Refused: with code ``path``.
    """
    path = posixpath.normpath(shape) if shape else ""
    if path.startswith("//"):
        path = path[1:]
    if "proc" in path and _shows_other_processes(path, program):
        raise _refused(argument, "shows what belongs to other processes")
    if _ENVIRON_SOMEWHERE.search(path):
        raise _refused(argument, "may show what belongs to other processes")
    if program in _READS_WHOLE_TREES and _TREE_OF_SECRETS.fullmatch(path):
        raise _refused(argument, "holds devices, or what belongs to other processes")
    if program in _LISTS_NAMES_ONLY:
        return
    device = _DEVICE.fullmatch(path)
    if device is not None and device[1] not in _HARMLESS_DEVICES:
        raise _refused(argument, "is a device, which may act when it is read")
    pattern = _PATTERN_FROM_THE_ROOT.fullmatch(path)
    if pattern is not None and any(
        folder.startswith(pattern[1].lower()) for folder in _KERNEL_FOLDERS
    ):
        raise _refused(argument, "may be a device, or what belongs to other processes")
    if _KERNEL_FILES.search(path):
        raise _refused(argument, "is consumed or changed by reading")


def is_folder_below(target: Argument) -> bool:
    """Whether a folder is known, and lies below the current one or is that."""
    text = target.literal or ""
    return bool(text) and not text.startswith(("/", "-", "~")) and ".." not in text.split("/")


def is_below_kernel_files(shape: str) -> bool:
    """Whether a folder may be in ``/proc``, ``/dev`` or ``/sys/kernel``, named in any way."""
    parts = posixpath.normpath(shape).split("/")
    climbed = 0
    while climbed < len(parts) and (parts[climbed] in _WAY_UP or "*" in parts[climbed]):
        climbed += 1
    below = parts[climbed:]
    return climbed > 0 and (below[:1] in (["proc"], ["dev"]) or below[:2] == ["sys", "kernel"])


def _shows_other_processes(path: str, program: str) -> bool:
    parts = path.split("/")
    if "proc" not in parts:
        return False
    first = parts.index("proc")
    if not all(part in _WAY_UP or "*" in part for part in parts[:first]):
        return False
    below = parts[first + 1 :]
    if not _PROC_SECRETS.isdisjoint(below):
        return True
    is_known = not below or not re.search(r"[*?\[]", below[-1])
    return not is_known and program not in _LISTS_NAMES_ONLY


def _refused(argument: Argument, message: str) -> Refused:
    return Refused("path", f"the path {argument.shape!r} {message}", argument.start, argument.end)
