"""Results that are too large for a model: kept in a file that the file tools can read.

The folder belongs to one Toolbox and lies in the state folder. It is one of the read roots of that
Toolbox's workspace, so that a model can look for the rest of a result with Read and Grep.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandboxed_tools.tool.state import state_dir

__all__ = ["LargeResults"]

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_FOLDER_BYTES: Final = 256 * 1024 * 1024
MAX_AGE_S: Final = 7 * 24 * 3600.0

log = logging.getLogger("sandboxed_tools")


class LargeResults:
    """The kept results of one Toolbox.

    A file is at most 16 MiB (head and tail of what is longer), a folder 256 MiB; folders older than
    seven days are removed when another one is made. Everything is 0600 below a 0700 folder.
    """

    def __init__(self, folder: Path, *, is_usable: bool = True) -> None:
        self.folder = folder
        self._is_usable = is_usable
        self._bytes = 0

    @classmethod
    def open(cls) -> LargeResults:
        """Make a folder in the state folder; on a full or read-only disk keep nothing. Blocking.

        Raises:
            ConfigurationError: the state folder cannot be used.
        """
        base = state_dir() / "results"
        folder = base / f"{int(time.time())}-{uuid.uuid4().hex[:12]}"
        try:
            base.mkdir(mode=0o700, exist_ok=True)
            _remove_old(base)
            folder.mkdir(mode=0o700)
        except OSError as error:
            log.warning("results that are too large for a model are not kept: %s", error)
            return cls(folder, is_usable=False)
        return cls(folder)

    @property
    def readable(self) -> tuple[str, ...]:
        """The folder as a read root; none where nothing is kept."""
        return (str(self.folder),) if self._is_usable else ()

    def close(self) -> None:
        """Remove the folder when nothing was kept; files stay for whoever was given their path."""
        with suppress(OSError):
            self.folder.rmdir()

    def shortened(self, text: str, *, max_chars: int, call_id: str) -> str:
        """A text as it is, or its head and tail with the path of the file that holds all of it.

        Blocking for a long one. Where no file can be kept, the text says so: a result is not lost
        for it.
        """
        if len(text) <= max_chars:
            return text
        path = self._keep(text, call_id)
        where = f"the whole result is in {path}" if path else "the rest could not be kept"
        half = max_chars // 2
        return (
            f"{text[:half]}\n[… {len(text) - 2 * half} characters cut; {where} …]\n{text[-half:]}"
        )

    def _keep(self, text: str, call_id: str) -> Path | None:
        if not self._is_usable:
            return None
        data = text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "replace")
        if len(data) > MAX_FILE_BYTES:
            half = MAX_FILE_BYTES // 2 - 64
            mark = f"\n[… {len(data) - 2 * half} bytes cut …]\n".encode()
            data = data[:half] + mark + data[-half:]
        if self._bytes + len(data) > MAX_FOLDER_BYTES:
            log.warning("the result of call %s is not kept: the folder is full", call_id)
            return None
        path = self.folder / f"{call_id}.txt"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(path, flags, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            log.warning("the result of call %s is not kept: %s", call_id, error)
            with suppress(OSError):
                path.unlink()
            return None
        self._bytes += len(data)
        return path


def _is_escaped(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _remove_old(base: Path) -> None:
    """Remove what is past its age. Only our own names: files directly in a folder of this form."""
    oldest = time.time() - MAX_AGE_S
    with os.scandir(base) as entries:
        for entry in entries:
            made, found, _ = entry.name.partition("-")
            is_ours = found and made.isascii() and made.isdigit()
            if is_ours and int(made) < oldest and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
