"""What is visible is what is listed, and importing it is cheap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import sandboxed_tools

SOURCE = Path(sandboxed_tools.__file__).parent


def test_every_public_name_is_listed_and_every_listed_name_exists() -> None:
    visible = {
        name
        for name, value in vars(sandboxed_tools).items()
        if not name.startswith("_") and type(value).__name__ != "module"
    }
    assert visible == set(sandboxed_tools.__all__)
    assert sorted(set(sandboxed_tools.__all__)) == sorted(sandboxed_tools.__all__)


def test_importing_the_library_imports_neither_docker_nor_a_surface() -> None:
    code = (
        "import sys, sandboxed_tools; "
        "print([m for m in sys.modules if m.split('.')[0] in ('docker', 'typer', 'rich')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_init_only_imports_and_lists() -> None:
    import ast

    for file in SOURCE.rglob("__init__.py"):
        for node in ast.parse(file.read_text()).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_list = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            allowed = isinstance(node, ast.Import | ast.ImportFrom) or is_docstring or is_list
            assert allowed, f"{file}: {ast.unparse(node)[:80]}"
