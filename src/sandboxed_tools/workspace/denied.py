"""Paths that no file tool may touch, whatever else is allowed."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence

from sandboxed_tools.errors import ConfigurationError, InvalidInput, PathRefused
from sandboxed_tools.workspace.pattern import GlobPattern, compile_glob
from sandboxed_tools.workspace.spelling import Parts, path_text, shown

__all__ = ["DeniedPaths"]


class DeniedPaths:
    """Patterns of denied paths. A denied folder denies everything below it.

    A pattern without a slash denies the name at any depth (``.env``, ``*.pem``); one with a
    slash is relative to the root (``secrets/**``, ``/config/prod.yml``). Letter case and Unicode
    normalisation do not matter, because there are file systems for which they do not: on those
    ``.ENV`` opens ``.env``. Another hard link to a denied file is another name, and is not known
    here.

    Raises:
        ConfigurationError: a pattern that cannot be one.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._compiled = tuple(_compiled(pattern) for pattern in self.patterns)

    def covers(self, parts: Parts) -> bool:
        """Whether the path, or a folder above it, is denied."""
        if not self._compiled:
            return False
        names = [_folded(os.fsdecode(name)) for name in parts]
        return any(
            pattern.matches("/".join(names[:depth]))
            for depth in range(1, len(names) + 1)
            for pattern in self._compiled
        )

    def check(self, parts: Parts) -> None:
        """Refuse a denied path.

        Raises:
            PathRefused: ``denied``.
        """
        if self.covers(parts):
            raise PathRefused(
                f"{shown(path_text(parts))!r} is denied by the policy of this workspace.",
                reason="denied",
            )


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _compiled(pattern: str) -> GlobPattern:
    text = _folded(pattern).rstrip("/")
    is_anchored = "/" in text
    text = text.removeprefix("/")
    if not text or text.startswith("!"):
        raise ConfigurationError(f"{shown(pattern)!r} does not name paths to deny.")
    try:
        return compile_glob(text if is_anchored else f"**/{text}", hidden=True)
    except InvalidInput as error:
        raise ConfigurationError(f"A denied path cannot be used. {error}") from error
