"""Reading a file for a model: some numbered lines, a picture, or what is known of a binary."""

from __future__ import annotations

import codecs
import hashlib
import os
from dataclasses import dataclass, field
from typing import Final, Literal

from sandboxed_tools.errors import FieldError, InvalidInput, PathRefused
from sandboxed_tools.workspace.confined import OpenFile
from sandboxed_tools.workspace.lines import LineBudget, LineSlice, read_lines
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts, shown
from sandboxed_tools.workspace.state_cache import FileIdentity, FileState, FileStateCache, Newline
from sandboxed_tools.workspace.text import (
    PROBE_BYTES,
    Encoding,
    decode,
    media_type_of,
    newline_of,
    probe_encoding,
)

__all__ = [
    "BinarySummary",
    "MediaContent",
    "ReadOptions",
    "ReadResult",
    "TextContent",
    "cache_key",
    "read_file",
]

MAX_MEDIA_BYTES: Final = 20 * 1024**2
MAX_UTF16_BYTES: Final = 32 * 1024**2
_SHOWN_HEAD_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which lines, and how much: ``first_line`` counts from 1."""

    first_line: int = 1
    line_count: int = 2000
    budget: LineBudget = field(default_factory=LineBudget)


@dataclass(frozen=True, slots=True)
class TextContent:
    """Lines of a text file.

    Attributes:
        path: relative to the workspace, absolute in a read root, without links.
        lines: without their line ends; cut where they are too long.
        cut: characters or bytes dropped, by index into ``lines``.
        total_lines: ``None`` when the end was not reached.
        stopped: why fewer lines came than were asked for, when it was not the end of the file.
        has_changed: whether the file was changed while it was being read.
        has_odd_bytes: whether something was not of the encoding and is shown as ``\\xNN``.
    """

    path: str
    first_line: int
    lines: tuple[str, ...]
    encoding: Encoding
    newline: Newline
    total_lines: int | None = None
    cut: tuple[tuple[int, int], ...] = ()
    stopped: str | None = None
    has_changed: bool = False
    has_odd_bytes: bool = False
    kind: Literal["text"] = "text"

    @property
    def next_line(self) -> int | None:
        """Where to read on; ``None`` at the end of the file."""
        following = self.first_line + len(self.lines)
        if self.total_lines is not None and following > self.total_lines:
            return None
        return following

    def numbered(self) -> str:
        """The lines with their numbers, each followed by a tab, and marks where lines were cut."""
        cut = dict(self.cut)
        return "\n".join(
            f"{self.first_line + index:6}\t{line}"
            + (f" [… {cut[index]} more bytes in this line]" if index in cut else "")
            for index, line in enumerate(self.lines)
        )


@dataclass(frozen=True, slots=True)
class MediaContent:
    """An image or a PDF, whole."""

    path: str
    media_type: str
    data: bytes = field(repr=False)
    kind: Literal["image", "pdf"] = "image"


@dataclass(frozen=True, slots=True)
class BinarySummary:
    """A file that is no text: what can be said without showing it."""

    path: str
    size_bytes: int
    media_type: str | None
    head: bytes
    kind: Literal["binary"] = "binary"


ReadResult = TextContent | MediaContent | BinarySummary


def read_file(
    root: WorkspaceRoot,
    path: str | os.PathLike[str],
    *,
    cache: FileStateCache,
    cwd: Parts = (),
    options: ReadOptions | None = None,
) -> ReadResult:
    """Read some lines of a file, or a picture, and remember in ``cache`` what was seen.

    Raises:
        PathRefused: see :meth:`WorkspaceRoot.open_file`; ``unreadable`` when reading fails.
        InvalidInput: ``first_line`` is behind the end, or a number is below 1.
    """
    options = options or ReadOptions()
    _check(options)
    place, file = root.open_file(path, cwd=cwd)
    with file:
        try:
            return _read(place, file, options, cache)
        except OSError as error:
            # EIO, ESTALE, and pseudo-files that refuse to be read at an offset.
            raise PathRefused(
                f"{shown(place.text)!r} cannot be read.",
                reason="unreadable",
                operator_detail=str(error),
            ) from error


def cache_key(place: Place) -> Parts | str:
    """Under what a file is remembered: names in the workspace, the whole path in a read root."""
    return place.parts if place.is_writable else place.text


def _check(options: ReadOptions) -> None:
    for name, value in (("offset", options.first_line), ("limit", options.line_count)):
        if value < 1:
            raise InvalidInput(
                f"{name} counts from 1.", fields=(FieldError(name, "must be at least 1", "range"),)
            )


def _read(place: Place, file: OpenFile, options: ReadOptions, cache: FileStateCache) -> ReadResult:
    head = os.pread(file.fd, PROBE_BYTES, 0)
    media_type = media_type_of(head)
    encoding = probe_encoding(head, is_whole=len(head) < PROBE_BYTES)
    if media_type is not None and file.info.st_size <= MAX_MEDIA_BYTES:
        return _media(place, file, media_type)
    if media_type is not None or encoding is None or _is_long_utf16(encoding, file):
        _remember(cache, place, file, FileState(FileIdentity.of(file.info)))
        return BinarySummary(place.text, file.info.st_size, media_type, head[:_SHOWN_HEAD_BYTES])
    if encoding in ("utf-16-le", "utf-16-be"):
        return _utf16(place, file, encoding, options, cache)
    return _lines(place, file, encoding, head, options, cache)


def _is_long_utf16(encoding: Encoding | None, file: OpenFile) -> bool:
    return encoding in ("utf-16-le", "utf-16-be") and file.info.st_size > MAX_UTF16_BYTES


def _media(place: Place, file: OpenFile, media_type: str) -> ReadResult:
    data = _content(file.fd, MAX_MEDIA_BYTES)
    kind: Literal["image", "pdf"] = "pdf" if media_type == "application/pdf" else "image"
    return MediaContent(place.text, media_type, data, kind)


def _content(fd: int, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    offset = 0
    while offset < max_bytes and (chunk := os.pread(fd, min(1024**2, max_bytes - offset), offset)):
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)


class _WholeContent:
    """Hash and encoding of a file that is read to its end, chunk by chunk."""

    def __init__(self, encoding: Encoding) -> None:
        self._hash = hashlib.sha256(codecs.BOM_UTF8 if encoding == "utf-8-sig" else b"")
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._is_utf8 = encoding in ("utf-8", "utf-8-sig")

    def take(self, data: memoryview) -> None:
        self._hash.update(data)
        if self._is_utf8:
            self._is_utf8 = self._decodes(bytes(data), at_end=False)

    def _decodes(self, data: bytes, *, at_end: bool) -> bool:
        try:
            self._decoder.decode(data, at_end)
        except UnicodeDecodeError:
            return False
        return True

    def encoding(self, guessed: Encoding) -> Encoding:
        if guessed == "latin-1" or (self._is_utf8 and self._decodes(b"", at_end=True)):
            return guessed
        return "latin-1"

    def sha256(self) -> bytes:
        return self._hash.digest()


def _lines(
    place: Place,
    file: OpenFile,
    guessed: Encoding,
    head: bytes,
    options: ReadOptions,
    cache: FileStateCache,
) -> TextContent:
    is_small = file.info.st_size <= options.budget.count_bytes
    whole = _WholeContent(guessed)
    found = read_lines(
        file.fd,
        first=options.first_line,
        count=options.line_count,
        start_offset=len(codecs.BOM_UTF8) if guessed == "utf-8-sig" else 0,
        size_bytes=file.info.st_size,
        budget=options.budget,
        sink=whole.take if is_small else None,
    )
    is_whole = is_small and found.total_lines is not None
    encoding = whole.encoding(guessed) if is_whole else guessed
    newline = newline_of(head, "latin-1")
    _check_reached(place, found, options.first_line)
    has_changed = _remember(
        cache,
        place,
        file,
        FileState(
            FileIdentity.of(file.info),
            content_sha256=whole.sha256() if is_whole else None,
            encoding=encoding,
            newline=newline,
            ranges=_ranges(options.first_line, len(found.lines)),
        ),
    )
    lines, has_odd_bytes = _decoded(found, encoding)
    return TextContent(
        place.text,
        options.first_line,
        lines,
        encoding,
        newline,
        total_lines=found.total_lines,
        cut=tuple(found.cut.items()),
        stopped=found.stopped,
        has_changed=has_changed,
        has_odd_bytes=has_odd_bytes,
    )


def _ranges(first: int, count: int) -> tuple[tuple[int, int], ...]:
    return ((first, first + count - 1),) if count else ()


def _check_reached(place: Place, found: LineSlice, first: int) -> None:
    if found.total_lines is not None and first > max(found.total_lines, 1):
        raise InvalidInput(
            f"{shown(place.text)!r} has {found.total_lines} lines; offset {first} is behind its "
            "end.",
            fields=(FieldError("offset", f"the last line is {found.total_lines}", "range"),),
        )


def _decoded(found: LineSlice, encoding: Encoding) -> tuple[tuple[str, ...], bool]:
    codec = "latin-1" if encoding == "latin-1" else "utf-8"
    has_odd_bytes = False
    decoded: list[str] = []
    for index, line in enumerate(found.lines):
        try:
            # The cut of a long line may go through a character, which is dropped then.
            text = codecs.getincrementaldecoder(codec)().decode(line, index not in found.cut)
        except UnicodeDecodeError:
            text = line.decode(codec, "backslashreplace")
            has_odd_bytes = True
        decoded.append(text.removesuffix("\r"))
    return tuple(decoded), has_odd_bytes


def _utf16(
    place: Place, file: OpenFile, encoding: Encoding, options: ReadOptions, cache: FileStateCache
) -> ReadResult:
    data = _content(file.fd, MAX_UTF16_BYTES)
    try:
        text = decode(data, encoding)
    except UnicodeDecodeError:
        return BinarySummary(place.text, len(data), None, data[:_SHOWN_HEAD_BYTES])
    every = text.split("\n")
    if every[-1] == "":
        every.pop()
    found = LineSlice(total_lines=len(every))
    _check_reached(place, found, options.first_line)
    kept, cut = _bounded(every[options.first_line - 1 :][: options.line_count], options.budget)
    newline = newline_of(data, encoding)
    has_changed = _remember(
        cache,
        place,
        file,
        FileState(
            FileIdentity.of(file.info),
            content_sha256=hashlib.sha256(data).digest(),
            encoding=encoding,
            newline=newline,
            ranges=_ranges(options.first_line, len(kept)),
        ),
    )
    is_short = len(kept) < min(options.line_count, len(every) - options.first_line + 1)
    return TextContent(
        place.text,
        options.first_line,
        tuple(kept),
        encoding,
        newline,
        total_lines=len(every),
        cut=tuple(cut.items()),
        stopped="bytes" if is_short else None,
        has_changed=has_changed,
    )


def _bounded(lines: list[str], budget: LineBudget) -> tuple[list[str], dict[int, int]]:
    kept: list[str] = []
    cut: dict[int, int] = {}
    total = 0
    for line in lines:
        line = line.removesuffix("\r")
        total += min(len(line), budget.line_bytes)
        if kept and total > budget.total_bytes:
            break
        if len(line) > budget.line_bytes:
            cut[len(kept)] = 2 * (len(line) - budget.line_bytes)
        kept.append(line[: budget.line_bytes])
    return kept, cut


def _remember(cache: FileStateCache, place: Place, file: OpenFile, state: FileState) -> bool:
    """Remember what was seen, unless the file changed meanwhile; whether it did."""
    if FileIdentity.of(os.fstat(file.fd)) != state.identity:
        cache.forget(cache_key(place))
        return True
    cache.saw(cache_key(place), state)
    return False
