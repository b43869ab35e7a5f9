"""Linting files and modules: what to read, which lines to leave alone, what to mend."""

from __future__ import annotations

import importlib.util
import re
import tokenize
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.lint.finding import Edit, Finding
from sandboxed_tools.lint.rules import check_tool
from sandboxed_tools.lint.source import Module, read_module

__all__ = ["check_file", "check_text", "find_files", "fix_text", "read_source"]

MAX_FILE_BYTES = 4 * 1024 * 1024
_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<codes>[A-Z0-9, ]+))?", re.IGNORECASE)
_SKIPPED = frozenset({".venv", "venv", ".git", "__pycache__", "node_modules", "build", "dist"})


def find_files(targets: Iterable[str]) -> Iterator[Path]:
    """The Python files of paths and of dotted module names; nothing is imported.

    Raises:
        ConfigurationError: a target is neither a path nor a module that can be found.
    """
    for target in targets:
        path = Path(target)
        if path.is_dir():
            yield from _python_files(path)
        elif path.is_file():
            yield path
        else:
            yield from _module_files(target)


def _python_files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*.py")):
        if not _SKIPPED & set(file.relative_to(folder).parts) and file.is_file():
            yield file


def _module_files(name: str) -> Iterator[Path]:
    # Only top-level names: finding a submodule would import its parents.
    top, _, rest = name.partition(".")
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"{name!r} is neither a file, a folder nor a module.")
    origin = Path(spec.origin)
    place = origin.parent if origin.name == "__init__.py" else origin
    for part in rest.split(".") if rest else ():
        place = place / part
    if place.is_dir():
        yield from _python_files(place)
    elif place.with_suffix(".py").is_file():
        yield place.with_suffix(".py")
    else:
        raise ConfigurationError(f"{name!r} is neither a file, a folder nor a module.")


def check_file(path: Path) -> list[Finding]:
    """The findings of one file, read as Python reads it (its coding line counts).

    Raises:
        ConfigurationError: it cannot be read, is no Python, or is larger than 4 MiB.
    """
    return check_text(read_source(path), str(path))


def read_source(path: Path) -> str:
    """The text of a Python file.

    Raises:
        ConfigurationError: as :func:`check_file`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_FILE_BYTES} bytes.")
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        return data.decode(encoding)
    except (OSError, SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None


def check_text(text: str, path: str) -> list[Finding]:
    """The findings of one file's text, without those that a ``noqa`` silences.

    Raises:
        ConfigurationError: the text is no Python.
    """
    if "build_tool" not in text:
        return []
    try:
        module = read_module(text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigurationError(f"{path} is no Python: {error}") from None
    found = [finding for tool in module.tools for finding in check_tool(module, tool)]
    found.sort(key=lambda finding: (finding.line, finding.column, finding.code))
    return [finding for finding in found if not _silenced(module, finding)]


def _silenced(module: Module, finding: Finding) -> bool:
    match = _NOQA.search(module.lines[finding.line - 1])
    if match is None:
        return False
    codes = match["codes"]
    return codes is None or finding.code in re.split(r"[,\s]+", codes.upper().strip())


def fix_text(text: str, findings: Iterable[Finding]) -> tuple[str, int]:
    """The text with every safe fix made, and how many were."""
    edits = {finding.fix for finding in findings if finding.fix is not None}
    lines = text.split("\n")
    for edit in sorted(edits, key=_position, reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.column] + edit.text + line[edit.column :]
    return "\n".join(lines), len(edits)


def _position(edit: Edit) -> tuple[int, int, str]:
    return edit.line, edit.column, edit.text
