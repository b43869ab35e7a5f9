"""Opening the folders of a host run, so that nothing can be put in their place afterwards."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from sandboxed_tools.errors import InvalidWorkspace, PathRefused

__all__ = ["Folders", "open_folders"]

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

# openat2(2) has this number on every machine that the gate knows.
_SYS_OPENAT2: Final = 437
_BENEATH_NO_MAGICLINKS: Final = 0x08 | 0x02


@dataclass(frozen=True, slots=True)
class Folders:
    """Open descriptors: what may be read, and where the command starts.

    Where it starts is named among what may be read, though it lies in the workspace: Landlock walks
    up from each file to the nearest rule.
    """

    readable: tuple[int, ...]
    cwd: int
    cwd_path: Path


@contextmanager
def open_folders(
    workspace: Path, *, read_roots: Sequence[Path], cwd: str | None
) -> Iterator[Folders]:
    """Open the workspace, the read roots and the starting directory.

    ``cwd`` is relative to the workspace, or absolute below it or below ``/workspace``.

    Raises:
        InvalidWorkspace: the workspace or a read root is not there, or is no folder.
        PathRefused: ``cwd`` is not a folder in the workspace.
    """
    with ExitStack() as stack:

        def kept(fd: int) -> int:
            stack.callback(os.close, fd)
            return fd

        # A read root may be a file.
        readable = [kept(_opened(workspace, os.O_DIRECTORY))]
        readable += [kept(_opened(path, 0)) for path in read_roots]
        relative = _relative(cwd, workspace)
        start = kept(_beneath(readable[0], relative)) if relative.parts else readable[0]
        if start != readable[0]:
            readable.append(start)
        yield Folders(tuple(readable), start, workspace / relative)


def _opened(path: Path, kind: int) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC | kind)
    except (OSError, ValueError) as error:
        raise InvalidWorkspace(
            "A folder that the command is to read cannot be opened.",
            operator_detail=f"{path}: {error}",
        ) from error


def _relative(cwd: str | None, workspace: Path) -> PurePosixPath:
    path = PurePosixPath(cwd or ".")
    if not path.is_absolute():
        return path
    for root in (workspace, PurePosixPath("/workspace")):
        if path.is_relative_to(root):
            return path.relative_to(root)
    raise PathRefused("The command's directory is not in the workspace.")


def _beneath(workspace: int, path: PurePosixPath) -> int:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    how = (ctypes.c_uint64 * 3)(_FOLDER, 0, _BENEATH_NO_MAGICLINKS)
    name = ctypes.c_char_p(os.fsencode(path))
    fd = int(syscall(_SYS_OPENAT2, workspace, name, how, ctypes.c_size_t(24)))
    if fd < 0:
        words = os.strerror(ctypes.get_errno())
        raise PathRefused(f"The command's directory cannot be entered: {words}.")
    return fd
