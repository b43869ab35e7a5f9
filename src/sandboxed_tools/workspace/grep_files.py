"""Searching file contents in this process, confined like every other access."""

from __future__ import annotations

import codecs
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sandboxed_tools.errors import PathRefused
from sandboxed_tools.workspace.confined import OpenFile
from sandboxed_tools.workspace.grep_result import (
    FileMatches,
    FoundLine,
    GrepOptions,
    GrepResult,
    shortened,
)
from sandboxed_tools.workspace.regex import SearchPattern
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.searched_files import Selection
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.walk import Walk, WalkBudget

__all__ = ["grep_file", "grep_tree"]

_BLOCK_BYTES: Final = 64 * 1024
"""Searched in one go: the time limit is looked at in between."""
_MAX_LINE_BYTES: Final = 256 * 1024
_MAX_UTF16_BYTES: Final = 32 * 1024**2


def grep_tree(
    root: WorkspaceRoot, place: Place, pattern: SearchPattern, options: GrepOptions
) -> GrepResult:
    """Search the files below a folder. Links are not followed; binary files are left out.

    Raises:
        InvalidInput: a glob or type that cannot be used.
    """
    selection = Selection(root, place, options)
    search = _Search(pattern, options)
    walk: Walk[None] = Walk(
        place.tree,
        budget=WalkBudget(wall_s=options.wall_s),
        is_cancelled=lambda: search.stopped is not None or options.is_cancelled(),
    )
    walk.push(place.parts, None)
    for folder in walk:
        for entry in walk.entries(folder):
            parts = (*folder.parts, os.fsencode(entry.name))
            if entry.is_dir(follow_symlinks=False):
                if selection.takes_folder(parts):
                    walk.push(parts, None)
            elif entry.is_file(follow_symlinks=False) and selection.takes_file(parts):
                search.add(place, parts)
                if search.stopped is not None:
                    break
    return search.result(
        stopped=search.stopped or walk.stopped, unreadable=walk.unreadable + walk.too_deep
    )


def grep_file(
    place: Place, file: OpenFile, pattern: SearchPattern, options: GrepOptions
) -> GrepResult:
    """Search one open file, whatever its name; the caller closes it."""
    search = _Search(pattern, options)
    search.search(place.name_of(file.parts), file)
    return search.result(stopped=search.stopped, unreadable=0)


class _Search:
    """What was found so far, and the budgets."""

    def __init__(self, pattern: SearchPattern, options: GrepOptions) -> None:
        self._pattern = pattern
        self._options = options
        self._deadline = time.monotonic() + options.wall_s
        self._files: list[FileMatches] = []
        self._total = 0
        self._unreadable = 0
        self._read_bytes = 0
        self.stopped: str | None = None

    def add(self, place: Place, parts: Parts) -> None:
        """Search one file of the tree; what cannot be opened is counted."""
        try:
            with place.tree.open_regular(parts, follow_links=False) as file:
                self.search(place.name_of(parts), file)
        except PathRefused as error:
            self._unreadable += error.reason not in ("missing", "link", "not_regular", "folder")
        except OSError:
            self._unreadable += 1

    def search(self, path: str, file: OpenFile) -> None:
        """Search one open file from its start."""
        reader = _Lines(file.fd, self._pattern, self._options)
        room = self._options.max_results - self._total
        for size in reader.blocks():
            self._read_bytes += size
            if self._options.mode == "files_with_matches" and reader.count:
                break
            if self._options.mode == "content" and reader.count >= room:
                break
            if self._is_over():
                break
        if reader.is_binary or not reader.count:
            return
        lines = reader.lines_up_to(room) if self._options.mode == "content" else ()
        count = sum(line.is_match for line in lines) if lines else reader.count
        self._files.append(FileMatches(path, count, lines))
        self._total += count if self._options.mode == "content" else 1
        if self._total >= self._options.max_results and self.stopped is None:
            self.stopped = "limit"

    def _is_over(self) -> bool:
        if self._options.is_cancelled():
            self.stopped = "cancelled"
        elif time.monotonic() > self._deadline:
            self.stopped = "time"
        elif self._read_bytes > self._options.scan_bytes:
            self.stopped = "scan"
        return self.stopped is not None

    def result(self, *, stopped: str | None, unreadable: int) -> GrepResult:
        files = tuple(sorted(self._files, key=lambda found: os.fsencode(found.path)))
        is_listing = self._options.mode == "files_with_matches"
        return GrepResult(
            self._options.mode,
            tuple(FileMatches(each.path, 1) for each in files) if is_listing else files,
            len(files) if is_listing else sum(each.count for each in files),
            stopped,
            self._unreadable + unreadable,
        )


@dataclass(slots=True)
class _Lines:
    """One file, block by block: the lines that match, with their neighbours."""

    fd: int
    pattern: SearchPattern
    options: GrepOptions
    count: int = 0
    is_binary: bool = False
    _found: list[FoundLine] = field(default_factory=list)
    _before: deque[tuple[int, bytes]] = field(default_factory=deque)
    _line: int = 1
    _after_until: int = 0

    def blocks(self) -> Iterator[int]:
        """Search block after block of whole lines; the bytes read for each."""
        self._before = deque(maxlen=self.options.before or 0)
        for block, size in self._whole_lines():
            if b"\0" in block:
                self.is_binary = True
                return
            self._search(block)
            yield size

    def lines_up_to(self, matches: int) -> tuple[FoundLine, ...]:
        """The kept lines, until so many of them matched and the context of the last one."""
        kept: list[FoundLine] = []
        for line in self._found:
            matches -= line.is_match
            if matches < 0:
                break
            kept.append(line)
        return tuple(kept)

    def _whole_lines(self) -> Iterator[tuple[bytes, int]]:
        rest = b""
        offset = 0
        head = os.pread(self.fd, 4, 0)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            data = os.pread(self.fd, _MAX_UTF16_BYTES, 0)
            yield data.decode("utf-16", "replace").encode("utf-8", "replace"), len(data)
            return
        if head.startswith(codecs.BOM_UTF8):
            offset = len(codecs.BOM_UTF8)
        while data := os.pread(self.fd, _BLOCK_BYTES, offset):
            offset += len(data)
            if len(rest) >= _MAX_LINE_BYTES:
                # The line goes on: what is behind the limit is not searched, NUL bytes excepted.
                end = data.find(b"\n")
                if b"\0" in data[:end] or end < 0:
                    yield b"\0" if b"\0" in data else b"", len(data)
                    continue
                data = data[end:]
            feed = data.rfind(b"\n") + 1
            if feed:
                yield rest + data[:feed], len(data)
                rest = data[feed:]
            else:
                rest += data
                yield b"", len(data)
        if rest:
            yield rest, 0

    def _search(self, block: bytes) -> None:
        if not block:
            return
        if b"\r\n" in block:
            block = block.replace(b"\r\n", b"\n")
        position = 0
        while (match := self.pattern.find(block, position)) is not None:
            start = block.rfind(b"\n", 0, match[0]) + 1
            if start >= len(block):
                break
            end = block.find(b"\n", match[0])
            end = len(block) if end < 0 else end
            self._pass(block, position, start)
            self._keep_match(block[start:end])
            position = min(end + 1, len(block))
            if position == len(block):
                break
        self._pass(block, position, len(block))

    def _pass(self, block: bytes, start: int, end: int) -> None:
        """Go over lines that do not match; some of them are context."""
        if start >= end:
            return
        if not (self.options.before or self.options.after) or self.options.mode != "content":
            self._line += block.count(b"\n", start, end) + (block[end - 1] != 0x0A)
            return
        lines = block[start:end].split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        for line in lines:
            if self._line <= self._after_until:
                self._keep(self._line, line, is_match=False)
            elif self.options.before:
                self._before.append((self._line, line))
            self._line += 1

    def _keep_match(self, line: bytes) -> None:
        self.count += 1
        if self.options.mode == "content":
            for number, text in self._before:
                self._keep(number, text, is_match=False)
            self._before.clear()
            self._keep(self._line, line, is_match=True)
            self._after_until = self._line + self.options.after
        self._line += 1

    def _keep(self, number: int, line: bytes, *, is_match: bool) -> None:
        if len(self._found) < 4 * self.options.max_results * (
            1 + self.options.before + self.options.after
        ):
            text = line[: 8 * _BLOCK_BYTES].decode("utf-8", "replace").removesuffix("\r")
            self._found.append(FoundLine(number, shortened(text), is_match))
