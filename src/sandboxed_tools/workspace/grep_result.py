"""What a search is to look for, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

__all__ = ["FILE_TYPES", "FileMatches", "FoundLine", "GrepOptions", "GrepResult", "OutputMode"]

OutputMode = Literal["files_with_matches", "content", "count"]

MAX_LINE_CHARS: Final = 500

_TYPES: Final = {
    "bazel": ("*.bazel", "*.BUILD", "*.bzl", "BUILD", "WORKSPACE"),
    "c": ("*.c", "*.h"),
    "clojure": ("*.clj", "*.cljc", "*.cljs", "*.cljx"),
    "cmake": ("*.cmake", "CMakeLists.txt"),
    "config": ("*.cfg", "*.conf", "*.config", "*.ini"),
    "cpp": ("*.cc", "*.cpp", "*.cxx", "*.h", "*.hh", "*.hpp", "*.hxx"),
    "cs": ("*.cs",),
    "css": ("*.css", "*.scss", "*.sass", "*.less"),
    "csv": ("*.csv",),
    "dart": ("*.dart",),
    "docker": ("Dockerfile", "*.dockerfile", "Dockerfile.*"),
    "elixir": ("*.ex", "*.exs", "*.eex", "*.heex"),
    "erlang": ("*.erl", "*.hrl"),
    "go": ("*.go",),
    "gradle": ("*.gradle",),
    "graphql": ("*.graphql", "*.graphqls"),
    "haskell": ("*.hs", "*.lhs"),
    "html": ("*.html", "*.htm"),
    "java": ("*.java",),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs"),
    "json": ("*.json",),
    "julia": ("*.jl",),
    "jupyter": ("*.ipynb",),
    "kotlin": ("*.kt", "*.kts"),
    "log": ("*.log",),
    "lua": ("*.lua",),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "md": ("*.md", "*.markdown"),
    "nix": ("*.nix",),
    "ocaml": ("*.ml", "*.mli"),
    "perl": ("*.pl", "*.pm", "*.perl", "*.t"),
    "php": ("*.php",),
    "protobuf": ("*.proto",),
    "ps": ("*.ps1", "*.psm1", "*.psd1"),
    "py": ("*.py", "*.pyi"),
    "r": ("*.r", "*.R", "*.Rmd"),
    "rb": ("*.rb", "Rakefile", "Gemfile"),
    "rst": ("*.rst",),
    "rust": ("*.rs",),
    "scala": ("*.scala", "*.sbt"),
    "sh": ("*.sh", "*.bash", "*.zsh"),
    "sql": ("*.sql",),
    "svelte": ("*.svelte",),
    "swift": ("*.swift",),
    "tex": ("*.tex", "*.bib", "*.cls", "*.sty"),
    "tf": ("*.tf", "*.tfvars"),
    "toml": ("*.toml",),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "txt": ("*.txt",),
    "vue": ("*.vue",),
    "xml": ("*.xml",),
    "yaml": ("*.yaml", "*.yml"),
    "zig": ("*.zig",),
}
_OTHER_NAMES: Final = {
    "javascript": "js",
    "markdown": "md",
    "python": "py",
    "ruby": "rb",
    "typescript": "ts",
}

FILE_TYPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    _TYPES | {other: _TYPES[name] for other, name in _OTHER_NAMES.items()}
)
"""Names of file types, and the patterns of their names: our own list, whatever engine searches."""


@dataclass(frozen=True, slots=True)
class GrepOptions:
    """How to search.

    Attributes:
        glob: a pattern that a file's path, relative to the folder that is searched, must match; a
            pattern without a slash holds at any depth.
        file_type: a key of :data:`FILE_TYPES`.
        before, after: lines of context around a match.
        max_results: matching lines, or files, after which the search ends.
        gitignore: leave out what the tree's ``.gitignore``, ``.ignore`` and ``.rgignore`` files
            name, and ``.git``.
        scan_bytes: read altogether when ripgrep is not used.
    """

    mode: OutputMode = "files_with_matches"
    glob: str | None = None
    file_type: str | None = None
    before: int = 0
    after: int = 0
    max_results: int = 200
    hidden: bool = False
    gitignore: bool = True
    wall_s: float = 20.0
    scan_bytes: int = 8 * 1024**3
    is_cancelled: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line that matched, or one of its neighbours; bytes that are no UTF-8 are shown replaced."""

    number: int
    text: str
    is_match: bool = True


@dataclass(frozen=True, slots=True)
class FileMatches:
    """What was found in one file. ``lines`` is empty unless the mode is ``content``."""

    path: str
    count: int
    lines: tuple[FoundLine, ...] = ()


@dataclass(frozen=True, slots=True)
class GrepResult:
    """What was found, by path.

    Attributes:
        total: matching lines in all of ``files``; in the mode ``files_with_matches`` files.
        stopped: why the search ended early (``limit``, ``time``, ``entries``, ``scan``,
            ``cancelled``), else ``None``.
        unreadable: files and folders that could not be searched.
        engine: ``ripgrep`` or ``python``; the answers are the same.
    """

    mode: OutputMode
    files: tuple[FileMatches, ...]
    total: int
    stopped: str | None = None
    unreadable: int = 0
    engine: Literal["ripgrep", "python"] = "python"
    notes: tuple[str, ...] = field(default=())


def shortened(line: str) -> str:
    """A line for a result, cut with a mark when it is long."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]} [… {len(line) - MAX_LINE_CHARS} more]"
