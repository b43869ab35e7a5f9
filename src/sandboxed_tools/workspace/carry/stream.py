"""The language in which a tree, or what changed in one, is sent: records, each with all its sizes.

An own language, not tar: no archive reader of the standard library bounds what a header may ask it
to hold, writes sparse files, or refuses to walk out by the links that it has just made. Here there
are names of one component only, and a folder is entered and left. All numbers are big-endian.

=========  ==================================================================================
``d``      enter a folder: name, whether a listing follows, the listing (count, names)
``u``      leave it: mode, mtime
``f``      file: name, whether links to it may follow, mode, mtime, size, extents (offset, length,
           data), and a last one of no length
``h``      hard link: name, the number of the ``f`` record
``l``      symbolic link: name, mtime, target
``s``      FIFO or socket: name, mode
``e``      the end; the first folder, which has no name, has been left
``x``      instead of the next record: why there is none
=========  ==================================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

__all__ = [
    "CHUNK_BYTES",
    "END",
    "FAULT",
    "FILE",
    "FOLDER",
    "LEAVE",
    "LINK",
    "MAX_TARGET_BYTES",
    "SPECIAL",
    "SYMLINK",
    "BadStream",
    "Reader",
    "Writer",
]

FOLDER: Final = b"d"
LEAVE: Final = b"u"
FILE: Final = b"f"
LINK: Final = b"h"
SYMLINK: Final = b"l"
SPECIAL: Final = b"s"
END: Final = b"e"
FAULT: Final = b"x"

CHUNK_BYTES: Final = 256 * 1024
MAX_TARGET_BYTES: Final = 4095
_MAX_NAME_BYTES: Final = 255
_MAX_FAULT_BYTES: Final = 4096


class BadStream(Exception):
    """What came is not of this language, or not what may come here."""


class Writer:
    """Writes records; ``flush`` when somebody waits for them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._waiting: list[bytes] = []
        self._size = 0

    def put(self, *pieces: bytes) -> None:
        self._waiting += pieces
        self._size += sum(map(len, pieces))
        if self._size >= CHUNK_BYTES:
            self.flush()

    def number(self, value: int, code: str = "Q") -> None:
        self.put(struct.pack(f">{code}", value))

    def text(self, value: bytes) -> None:
        self.put(struct.pack(">H", len(value)), value)

    def fault(self, reason: str) -> None:
        self.put(FAULT)
        self.text(reason.encode("utf-8", "backslashreplace")[:_MAX_FAULT_BYTES])
        self.flush()

    def flush(self) -> None:
        if self._waiting:
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            self._write(data)


class Reader:
    """Reads records, and never holds more than one piece of one.

    ``receive`` gives at least one byte and at most as many as it is asked for, or nothing at the
    end.
    """

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self._receive = receive
        self._buffer = b""
        self._at = 0

    def exactly(self, count: int) -> bytes:
        """``count`` bytes; never ask for a number that the other side chose without a bound.

        Raises:
            BadStream: the stream ends before.
        """
        end = self._at + count
        if end <= len(self._buffer):
            piece = self._buffer[self._at : end]
            self._at = end
            return piece
        pieces = [self._buffer[self._at :]]
        missing = count - len(pieces[0])
        self._buffer, self._at = b"", 0
        while missing:
            data = self._receive(CHUNK_BYTES)
            if not data:
                raise BadStream("it ends in the middle of a record")
            pieces.append(data[:missing])
            if len(data) > missing:
                self._buffer, self._at = data, missing
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def kind(self) -> bytes:
        """The next record's kind.

        Raises:
            BadStream: the other side says why it cannot go on.
        """
        kind = self.exactly(1)
        if kind == FAULT:
            reason = self.text(_MAX_FAULT_BYTES).decode("utf-8", "replace")
            raise BadStream(f"the other side says: {reason}")
        return kind

    def number(self, code: str = "Q") -> int:
        value: int = struct.unpack(f">{code}", self.exactly(struct.calcsize(f">{code}")))[0]
        return value

    def flag(self) -> bool:
        value = self.number("B")
        if value > 1:
            raise BadStream("a flag is neither yes nor no")
        return bool(value)

    def text(self, most: int) -> bytes:
        size = self.number("H")
        if size > most:
            raise BadStream("a name or a text is too long")
        return self.exactly(size)

    def name(self) -> bytes:
        """One component of a path, which leads nowhere but into its folder.

        Raises:
            BadStream: it is none.
        """
        name = self.text(_MAX_NAME_BYTES)
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            raise BadStream("a name that leads elsewhere")
        return name
