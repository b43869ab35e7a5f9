"""Searching with the machine's ripgrep, behind the host gate."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sandboxed_tools.host import gate_status, run_on_host
from sandboxed_tools.tool import Command, ExecResult, Limits
from sandboxed_tools.workspace import Place, WorkspaceRoot
from sandboxed_tools.workspace.grep_result import (
    FILE_TYPES,
    FileMatches,
    FoundLine,
    GrepOptions,
    GrepResult,
    shortened,
)
from sandboxed_tools.workspace.regex import SearchPattern
from sandboxed_tools.workspace.searched_files import Selection, parts_of

__all__ = ["grep_with_ripgrep", "ripgrep_path"]

_PLACES: Final = "/usr/bin:/bin"
_OUTPUT_BYTES: Final = 16 * 1024**2
_PLAIN_GLOB: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*?"
)


def ripgrep_path() -> str | None:
    """Where ripgrep is, among the system's programs; ``None`` where it, or the gate, is missing."""
    path = shutil.which("rg", path=_PLACES)
    return path if path is not None and gate_status().available else None


async def grep_with_ripgrep(
    program: str, root: WorkspaceRoot, place: Place, pattern: SearchPattern, options: GrepOptions
) -> GrepResult | None:
    """Search the files below a folder of the workspace.

    What ripgrep finds is selected again by our own rules. ``None`` when its answer may not be the
    whole answer (it could not read something, did not take the pattern, printed too much): then
    the search is to be done by :func:`~sandboxed_tools.workspace.grep_files.grep_tree`.

    Raises:
        InvalidInput: a glob or type that cannot be used.
        SandboxUnavailable: the gate could not be applied.
    """
    selection = Selection(root, place, options)
    ignores = options.gitignore and _may_ignore(root, place, selection)
    command = Command(
        (program, *_arguments(pattern, options, ignores=ignores), "--", "./"),
        cwd=str(root.path / place.text),
    )
    outcome = await run_on_host(
        command,
        workspace=root.path,
        limits=Limits(
            wall_s=options.wall_s,
            memory_bytes=2 * 1024**3,
            cpus=os.cpu_count() or 1,
            output_kept_bytes=2 * _OUTPUT_BYTES,
            output_total_bytes=_OUTPUT_BYTES,
        ),
        opens_many_files=True,
    )
    ended = outcome.result
    if not _is_whole(ended):
        return None
    found = _Found(place, selection, options)
    found.read(ended.stdout)
    return found.result(stopped="time" if ended.status == "timeout" else None)


def _is_whole(ended: ExecResult) -> bool:
    if ended.stderr or ended.truncated:
        return False
    return ended.status == "timeout" or (ended.status == "exited" and ended.exit_code in (0, 1))


def _may_ignore(root: WorkspaceRoot, place: Place, selection: Selection) -> bool:
    """Whether ripgrep is to look for ignore files: five questions in each folder.

    It is not asked to where neither the start folder nor one above it has such a file or is a
    repository. A file further down counts all the same: our own selection comes after.
    """
    if selection.rules(place.parts).layers:
        return True
    start = root.path.joinpath(*map(os.fsdecode, place.parts))
    above = start.parents[: len(place.parts)]
    return any(os.path.lexists(folder / ".git") for folder in (start, *above))


def _arguments(pattern: SearchPattern, options: GrepOptions, *, ignores: bool) -> list[str]:
    arguments = [
        *("--no-config", "--color=never", "--crlf", "--no-follow"),
        *("--one-file-system", "--no-ignore-global", "--no-ignore-exclude", "--no-ignore-parent"),
        *("--no-require-git", "--no-ignore-files"),
    ]
    if not ignores:
        arguments.append("--no-ignore")
    if options.hidden:
        arguments.append("--hidden")
    if pattern.ignore_case:
        arguments.append("--ignore-case")
    arguments += _type_arguments(options)
    if options.mode == "content":
        arguments += ["--json", f"--before-context={options.before}"]
        arguments.append(f"--after-context={options.after}")
    else:
        kind = "--count" if options.mode == "count" else "--files-with-matches"
        arguments += [kind, "--with-filename", "--null"]
    return [*arguments, "-e", pattern.for_ripgrep]


def _type_arguments(options: GrepOptions) -> list[str]:
    """Names that ripgrep itself can leave out; plain ones only, all are checked again after.

    As a type and not as ``--glob``, which would bring back what ``.gitignore`` leaves out.
    """
    globs: tuple[str, ...] = ()
    if options.glob is not None and set(options.glob) <= _PLAIN_GLOB:
        globs = (options.glob,)
    elif options.file_type is not None:
        globs = FILE_TYPES.get(options.file_type, ())
    if not globs:
        return []
    added = [f"--type-add=wanted:{glob}" for glob in globs]
    return ["--type-clear=wanted", *added, "--type=wanted"]


@dataclass(slots=True)
class _Found:
    """What ripgrep printed, as results."""

    place: Place
    selection: Selection
    options: GrepOptions
    files: list[FileMatches] = field(default_factory=list)

    def read(self, output: bytes) -> None:
        if self.options.mode == "content":
            self._read_json(output)
        elif self.options.mode == "count":
            self._read_counts(output)
        else:
            for raw in output.split(b"\0")[:-1]:
                self._add(raw, 1, ())

    def _add(self, raw: bytes, count: int, lines: tuple[FoundLine, ...]) -> None:
        parts = (*self.place.parts, *parts_of(raw))
        if count and self.selection.takes(parts):
            self.files.append(FileMatches(self.place.name_of(parts), count, lines))

    def _read_counts(self, output: bytes) -> None:
        position = 0
        while (end := output.find(b"\0", position)) >= 0:
            feed = output.find(b"\n", end)
            if feed < 0:
                return
            self._add(output[position:end], int(output[end + 1 : feed]), ())
            position = feed + 1

    def _read_json(self, output: bytes) -> None:
        lines: list[FoundLine] = []
        for message in _messages(output):
            data = message["data"]
            if message["type"] == "begin":
                lines = []
            elif message["type"] in ("match", "context"):
                text = _bytes_of(data["lines"]).rstrip(b"\n").decode("utf-8", "replace")
                is_match = message["type"] == "match"
                shown = shortened(text.removesuffix("\r"))
                lines.append(FoundLine(data["line_number"], shown, is_match))
            elif message["type"] == "end" and data["binary_offset"] is None:
                count = sum(line.is_match for line in lines)
                self._add(_bytes_of(data["path"]), count, tuple(lines))

    def result(self, *, stopped: str | None) -> GrepResult:
        """The files by path, as many as are wanted."""
        files = sorted(self.files, key=lambda found: os.fsencode(found.path))
        kept: list[FileMatches] = []
        room = self.options.max_results
        for each in files:
            if room <= 0:
                stopped = stopped or "limit"
                break
            if self.options.mode == "content":
                each = _cut(each, room)
                room -= each.count
            else:
                room -= 1
            kept.append(each)
        if room <= 0:
            stopped = stopped or "limit"
        is_listing = self.options.mode == "files_with_matches"
        total = len(kept) if is_listing else sum(each.count for each in kept)
        return GrepResult(self.options.mode, tuple(kept), total, stopped, engine="ripgrep")


def _cut(found: FileMatches, matches: int) -> FileMatches:
    if found.count <= matches:
        return found
    kept: list[FoundLine] = []
    for line in found.lines:
        matches -= line.is_match
        if matches < 0:
            break
        kept.append(line)
    return FileMatches(found.path, sum(line.is_match for line in kept), tuple(kept))


def _messages(output: bytes) -> Iterator[dict[str, Any]]:
    """Whole lines only: at a time limit the last one may be cut."""
    for line in output.split(b"\n")[:-1]:
        message = json.loads(line)
        if message["type"] != "summary":
            yield message


def _bytes_of(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])
