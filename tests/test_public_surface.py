"""What is visible is what is listed, and importing it is cheap."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import sandboxed_tools

SOURCE = Path(sandboxed_tools.__file__).parent


def test_every_public_name_is_listed_and_every_listed_name_exists() -> None:
    for name in sandboxed_tools.__all__:
        assert getattr(sandboxed_tools, name) is not None
    assert set(dir(sandboxed_tools)) == set(sandboxed_tools.__all__)
    assert sorted(set(sandboxed_tools.__all__)) == sorted(sandboxed_tools.__all__)


def test_a_name_is_what_type_checkers_are_told_it_is() -> None:
    named: dict[str, str] = {}
    for node in ast.walk(ast.parse((SOURCE / "__init__.py").read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sandboxed_tools."):
            named |= {alias.name: str(node.module) for alias in node.names}
    assert set(named) == set(sandboxed_tools.__all__)
    for name, home in named.items():
        assert getattr(sandboxed_tools, name) is getattr(importlib.import_module(home), name)


def test_what_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sandboxed_tools.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_whoever_needs_little_imports_little() -> None:
    def imported(statement: str) -> set[str]:
        code = f"import sys; {statement}; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        ours = [name.split(".") for name in done.stdout.split() if "sandboxed_tools." in name]
        return {parts[1] for parts in ours}

    assert imported("import sandboxed_tools") == set()
    assert imported("from sandboxed_tools import build_tool, ToolInput") == {"errors", "tool"}
    assert "runtime" in imported("from sandboxed_tools import Toolbox")


def test_importing_the_library_imports_neither_docker_nor_a_surface() -> None:
    code = (
        "import sys; from sandboxed_tools import *; "
        "print([m for m in sys.modules if m.split('.')[0] in ('docker', 'typer', 'rich')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_init_only_imports_and_lists() -> None:
    for file in SOURCE.rglob("__init__.py"):
        if file.parent == SOURCE:
            continue  # it imports on demand
        for node in ast.parse(file.read_text()).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_list = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            allowed = isinstance(node, ast.Import | ast.ImportFrom) or is_docstring or is_list
            assert allowed, f"{file}: {ast.unparse(node)[:80]}"
