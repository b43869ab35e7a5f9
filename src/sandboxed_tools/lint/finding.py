"""What the lint finds: a code, a place, words, and sometimes a safe fix."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DOCS", "RULES", "Edit", "Finding"]

RULES = {
    "STL101": "looks read-only, and does not say so with is_read_only",
    "STL102": "is read-only, and does not state is_concurrency_safe",
    "STL103": "claims is_read_only=True, and its work writes, deletes, spawns or connects",
    "STL104": "fixes a flag that the input decides: code, a command, a URL or a path",
    "STL105": "spawns processes or evaluates code, and does not state needs_sandbox",
    "STL106": "a flag function that cannot return a bool, or does input or output",
    "STL107": "the input model allows fields that it does not name",
    "STL108": "a description is missing",
    "STL109": "pins no version of the defaults",
}
"""Every rule in one line; ``docs/lint/CODE.md`` has the reason, a bad and a good example."""

DOCS = "docs/lint/{code}.md"


@dataclass(frozen=True, slots=True)
class Edit:
    """Insert ``text`` before ``column`` (in characters, from 0) of ``line`` (from 1)."""

    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. Lines count from 1, columns from 0, in characters.

    ``fix`` is there only where it states what is in force already, so it changes no behaviour.
    """

    code: str
    message: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    tool: str = ""
    fix: Edit | None = None
