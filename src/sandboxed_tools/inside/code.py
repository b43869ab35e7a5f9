"""Executing code of a language in its container: one run, its value, its exception, its artifacts.

``C`` is the one frame that it sends at the end. The output of the code is the container's own.
"""

from __future__ import annotations

import ast
import base64
import linecache
import os
import shutil
import stat
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from sandboxed_tools.inside.frame_writer import FrameWriter
from sandboxed_tools.inside.remote_error import error_data

__all__ = ["serve"]

FILES = "/tmp/files"
ARTIFACTS = "/tmp/artifacts"
MAX_VALUE_CHARS = 65_536
MAX_ARTIFACTS = 64
MAX_ARTIFACT_BYTES = 5 * 1024 * 1024
MAX_ARTIFACTS_BYTES = 10 * 1024 * 1024
SOURCE_NAME = "<code>"
PROGRAMS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "javascript": ("node",),
}
SUFFIXES = {"bash": "sh", "javascript": "js"}


def serve(request: dict[str, Any], writer: FrameWriter) -> int:
    """Execute what the request asks for; returns the exit code."""
    _prepare(request["files"])
    if request["language"] == "python":
        answer = _run_python(request["code"])
    else:
        answer = _run_program(request["language"], request["code"])
    _flush()
    _save_figures()
    artifacts, left_out = _collect(Path(ARTIFACTS))
    writer.send_json("C", {**answer, "artifacts": artifacts, "left_out": left_out})
    return int(answer["exit_code"])


def _prepare(files: dict[str, str]) -> None:
    os.makedirs(ARTIFACTS, exist_ok=True)
    os.makedirs(FILES, exist_ok=True)
    for name, text in files.items():
        path = os.path.join(FILES, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    os.environ.update(ARTIFACTS=ARTIFACTS, FILES=FILES, MPLBACKEND="Agg", MPLCONFIGDIR="/tmp/.mpl")
    if os.getcwd() == "/":
        os.chdir(FILES)


# ---- Python


def _run_python(code: str) -> dict[str, Any]:
    """Run it as a module of its own, as the interactive interpreter would: the value of the last
    expression is what would have been printed."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = [SOURCE_NAME]
    sys.path.insert(0, FILES)
    linecache.cache[SOURCE_NAME] = (len(code), None, code.splitlines(keepends=True), SOURCE_NAME)
    answer: dict[str, Any] = {"exit_code": 0, "value": None, "error": None}
    try:
        tree = ast.parse(code, SOURCE_NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, SOURCE_NAME, "exec", dont_inherit=True), module.__dict__)
        if isinstance(last, ast.Expr):
            expression = compile(ast.Expression(last.value), SOURCE_NAME, "eval", dont_inherit=True)
            value = eval(expression, module.__dict__)  # noqa: S307  what this container is for
            answer["value"] = None if value is None else _shown(value)
    except SystemExit as error:
        answer["exit_code"] = _exit_code(error.code)
    except BaseException as error:  # noqa: BLE001  the code's own, whatever it is
        answer["exit_code"] = 1
        answer["error"] = error_data(error, skip_above=__file__)
    return answer


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > MAX_VALUE_CHARS:
        half = MAX_VALUE_CHARS // 2
        text = f"{text[:half]}[… {len(text) - 2 * half} characters cut …]{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the code closed or replaced it


def _save_figures() -> None:
    """Every open figure of matplotlib as PNG, among the artifacts."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    try:
        for number in pyplot.get_fignums():
            name = f"figure-{number}.png"
            pyplot.figure(number).savefig(os.path.join(ARTIFACTS, name), format="png")
    except BaseException as error:  # noqa: BLE001  the code may have broken matplotlib
        os.write(2, f"figures could not be saved: {type(error).__name__}\n".encode())


# ---- other languages


def _run_program(language: str, code: str) -> dict[str, Any]:
    program = PROGRAMS[language]
    if shutil.which(program[0]) is None:
        return {"exit_code": 127, "value": None, "error": None, "missing": program[0]}
    path = f"/tmp/code.{SUFFIXES[language]}"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(code)
    done = subprocess.run([*program, path], check=False)
    code_of_it = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return {"exit_code": code_of_it, "value": None, "error": None}


# ---- artifacts


def _collect(folder: Path) -> tuple[list[dict[str, str]], list[str]]:
    """Regular files below the folder, in order of name; links and devices are left out."""
    found: list[dict[str, str]] = []
    left_out: list[str] = []
    total = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            shown = os.path.relpath(path, folder).encode("utf-8", "backslashreplace").decode()
            data = _read(path)
            if (
                data is None
                or len(found) >= MAX_ARTIFACTS
                or total + len(data) > MAX_ARTIFACTS_BYTES
            ):
                if len(left_out) < MAX_ARTIFACTS:
                    left_out.append(shown)
                continue
            total += len(data)
            found.append({"name": shown, "data": base64.b64encode(data).decode("ascii")})
    return found, left_out


def _read(path: str) -> bytes | None:
    """The content; ``None`` when it is no regular file, or too long."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_ARTIFACT_BYTES:
            return None
        data = file.read(MAX_ARTIFACT_BYTES + 1)
        return data if len(data) <= MAX_ARTIFACT_BYTES else None
