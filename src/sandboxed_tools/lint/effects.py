"""What a function's source does to the world, as far as its text shows it.

A function is *pure* until a call in it is known to read, write, spawn, connect or evaluate; a call
that is not known makes it *opaque*: nothing is claimed about it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Effect", "Effects", "effects_of"]

READS = "reads"
WRITES = "writes"
SPAWNS = "spawns"
CONNECTS = "connects"
EVALUATES = "evaluates"
OPAQUE = "opaque"

_MODULES = {
    "subprocess": SPAWNS,
    "pty": SPAWNS,
    "multiprocessing": SPAWNS,
    "shutil": WRITES,
    "tempfile": WRITES,
    "sqlite3": WRITES,
    "requests": CONNECTS,
    "httpx": CONNECTS,
    "aiohttp": CONNECTS,
    "socket": CONNECTS,
    "urllib.request": CONNECTS,
    "ftplib": CONNECTS,
    "smtplib": CONNECTS,
    "http.client": CONNECTS,
    "paramiko": CONNECTS,
    "docker": CONNECTS,
}
_CALLS = {
    "eval": EVALUATES,
    "exec": EVALUATES,
    "compile": EVALUATES,
    "__import__": EVALUATES,
    "importlib.import_module": EVALUATES,
    "runpy.run_path": EVALUATES,
    "runpy.run_module": EVALUATES,
    "pickle.loads": EVALUATES,
    "pickle.load": EVALUATES,
    "yaml.load": EVALUATES,
    "os.system": SPAWNS,
    "os.popen": SPAWNS,
    "os.fork": SPAWNS,
    "anyio.run_process": SPAWNS,
    "anyio.open_process": SPAWNS,
    "asyncio.create_subprocess_exec": SPAWNS,
    "asyncio.create_subprocess_shell": SPAWNS,
    "shutil.which": READS,
    "shutil.disk_usage": READS,
    "urllib.request.urlopen": CONNECTS,
    "open": READS,
    "io.open": READS,
    "os.open": WRITES,
    "socket.gethostname": READS,
    "subprocess.list2cmdline": READS,
}
_OS_SPAWNS = ("exec", "spawn", "posix_spawn")
_OS_WRITES = frozenset(
    [
        "remove",
        "unlink",
        "rmdir",
        "removedirs",
        "mkdir",
        "makedirs",
        "rename",
        "renames",
        "replace",
        "link",
        "symlink",
        "chmod",
        "chown",
        "lchown",
        "truncate",
        "utime",
        "mkfifo",
        "mknod",
        "write",
        "kill",
        "killpg",
        "putenv",
        "setxattr",
        "removexattr",
    ]
)
_OS_READS = frozenset(
    [
        "listdir",
        "scandir",
        "walk",
        "stat",
        "lstat",
        "readlink",
        "getcwd",
        "access",
        "path",
        "getenv",
        "environ",
        "fspath",
    ]
)
_METHOD_WRITES = frozenset(
    [
        "write",
        "write_text",
        "write_bytes",
        "writelines",
        "unlink",
        "rmdir",
        "mkdir",
        "touch",
        "rename",
        "symlink_to",
        "hardlink_to",
        "chmod",
        "lchmod",
        "rmtree",
        "executemany",
        "commit",
    ]
)
_METHOD_READS = frozenset(
    [
        "read",
        "read_text",
        "read_bytes",
        "readlines",
        "readline",
        "iterdir",
        "glob",
        "rglob",
        "stat",
        "lstat",
        "exists",
        "is_file",
        "is_dir",
        "resolve",
        "samefile",
    ]
)
_METHOD_CONNECTS = frozenset(["urlopen", "connect", "sendall", "sendto", "urlretrieve"])
_METHOD_SPAWNS = frozenset(["run_process", "open_process", "Popen"])
_PURE = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "bytes",
        "chr",
        "dict",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "format",
        "frozenset",
        "getattr",
        "hasattr",
        "hash",
        "hex",
        "int",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
        "next",
        "ord",
        "pow",
        "print",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "super",
        "tuple",
        "type",
        "zip",
        "Path",
        "PurePath",
        "PurePosixPath",
        "append",
        "extend",
        "join",
        "split",
        "strip",
        "lstrip",
        "rstrip",
        "splitlines",
        "startswith",
        "endswith",
        "replace",
        "lower",
        "upper",
        "items",
        "keys",
        "values",
        "get",
        "add",
        "update",
        "pop",
        "setdefault",
        "count",
        "index",
        "find",
        "format",
        "encode",
        "decode",
        "sort",
        "insert",
        "casefold",
        "title",
        "removeprefix",
        "removesuffix",
        "partition",
        "rpartition",
        "with_suffix",
        "with_name",
        "relative_to",
        "joinpath",
        "as_posix",
        "is_absolute",
        "progress",
        "log",
        "resource",
        "model_dump",
        "ValueError",
        "TypeError",
        "KeyError",
        "FileNotFoundError",
        "RuntimeError",
        "Exception",
    ]
)
_PURE_MODULES = frozenset(
    [
        "json",
        "re",
        "math",
        "statistics",
        "itertools",
        "functools",
        "collections",
        "datetime",
        "textwrap",
        "hashlib",
        "base64",
        "fnmatch",
        "difflib",
        "string",
        "operator",
        "dataclasses",
        "decimal",
        "fractions",
        "random",
        "uuid",
        "time",
    ]
)


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a piece of source does: its kind, the call's own name, and the node."""

    kind: str
    name: str
    node: ast.AST


@dataclass(slots=True)
class Effects:
    """Everything found in one function and the functions of the same module that it calls."""

    found: list[Effect] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Effect]:
        return [effect for effect in self.found if effect.kind in kinds]

    @property
    def changes_something(self) -> list[Effect]:
        return self.of(WRITES, SPAWNS, CONNECTS, EVALUATES)

    @property
    def only_reads(self) -> bool:
        """Whether it reads something, and every call in it is known to change nothing."""
        return bool(self.of(READS)) and not self.of(OPAQUE) and not self.changes_something


def effects_of(
    function: ast.AST, *, imports: Mapping[str, str], functions: Mapping[str, ast.AST]
) -> Effects:
    """The effects of a function; ``imports`` maps local names to dotted ones, ``functions`` are the
    module's own, which are followed."""
    effects = Effects()
    _collect(function, imports, functions, effects, seen=set())
    return effects


def _collect(
    function: ast.AST,
    imports: Mapping[str, str],
    functions: Mapping[str, ast.AST],
    effects: Effects,
    seen: set[int],
) -> None:
    seen.add(id(function))
    for call in _calls(function):
        name = _dotted(call.func, imports)
        local = functions.get(name)
        if local is not None:
            if id(local) not in seen:
                _collect(local, imports, functions, effects, seen)
            continue
        kind = _kind(call, name)
        if kind is not None:
            effects.found.append(Effect(kind, name or "a call", call))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.walk(node):
        if isinstance(child, ast.Call):
            yield child


def _dotted(node: ast.AST, imports: Mapping[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return "." + ".".join(reversed(parts)) if parts else ""
    parts.append(imports.get(node.id, node.id))
    return ".".join(reversed(parts))


def _kind(call: ast.Call, name: str) -> str | None:
    """The kind of one call; ``None`` when it is known to do nothing to the world."""
    if name in ("open", "io.open") or name.endswith(".open"):
        return _opened(call, is_builtin=name in ("open", "io.open"))
    if name in _CALLS:
        return _CALLS[name]
    module, _, last = name.rpartition(".")
    if module == "os" or module.startswith("os."):
        return _of_os(module, last)
    for prefix, kind in _MODULES.items():
        if name == prefix or name.startswith(prefix + "."):
            return kind
    if module.split(".")[0] in _PURE_MODULES and module:
        return None
    return _of_method(last, is_method=bool(module) or name.startswith("."))


def _opened(call: ast.Call, *, is_builtin: bool) -> str:
    position = 1 if is_builtin else 0
    mode: ast.AST | None = call.args[position] if len(call.args) > position else None
    for keyword in call.keywords:
        if keyword.arg == "mode":
            mode = keyword.value
    if mode is None:
        return READS
    if isinstance(mode, ast.Constant) and isinstance(mode.value, str):
        return WRITES if set(mode.value) & set("wax+") else READS
    return OPAQUE


def _of_os(module: str, last: str) -> str | None:
    if module.startswith("os.path"):
        return READS
    if last.startswith(_OS_SPAWNS):
        return SPAWNS
    if last in _OS_WRITES:
        return WRITES
    return READS if last in _OS_READS else OPAQUE


def _of_method(last: str, *, is_method: bool) -> str | None:
    if is_method:
        for names, kind in (
            (_METHOD_WRITES, WRITES),
            (_METHOD_CONNECTS, CONNECTS),
            (_METHOD_SPAWNS, SPAWNS),
            (_METHOD_READS, READS),
        ):
            if last in names:
                return kind
    return None if last in _PURE else OPAQUE
