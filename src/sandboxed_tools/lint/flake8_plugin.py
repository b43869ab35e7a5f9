"""The same rules for flake8, found through its ``flake8.extension`` entry point."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import ClassVar

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.lint.check import check_text

__all__ = ["Flake8Plugin"]


class Flake8Plugin:
    """Checks one file. flake8 handles ``noqa`` itself; doing it twice gives the same."""

    name: ClassVar[str] = "sandboxed-tools"
    version: ClassVar[str] = version("sandboxed-tools")

    def __init__(self, tree: ast.AST, filename: str, lines: Sequence[str]) -> None:
        self._filename = filename
        self._text = "".join(lines)

    def run(self) -> Iterator[tuple[int, int, str, type[Flake8Plugin]]]:
        """Line, column, ``CODE message``, and this class, as flake8 wants them."""
        try:
            findings = check_text(self._text, self._filename)
        except ConfigurationError:
            return  # no Python: flake8 reports that itself
        for finding in findings:
            message = f"{finding.code} {finding.message}"
            yield finding.line, finding.column, message, type(self)
