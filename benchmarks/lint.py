"""How long the lint takes for a thousand tool definitions, with and without findings."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from sandboxed_tools.lint import check_text, find_files, read_source

DEFINITIONS = 1000
A_FILE = 20
TOOL = '''

class Input{n}(ToolInput):
    path: Path = Field(description="A path.")


def work{n}(tool_input, ctx):
    """Reads a file."""
    {line}
    return helper(text)


Tool{n} = build_tool(
    name="Tool{n}",
    description="Does something.",
    input_schema=Input{n},
    call=work{n},
    {flags}
)
'''
HEAD = """from pathlib import Path
from pydantic import Field
from sandboxed_tools import ToolInput, build_tool

def helper(text):
    return [line.strip() for line in text.splitlines()]
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sandboxed-tools-bench-") as folder:
        for number in range(DEFINITIONS // A_FILE):
            parts = [HEAD]
            for n in range(A_FILE):
                is_bad = n % 2 == 0
                line = (
                    "tool_input.path.unlink()" if is_bad else "text = tool_input.path.read_text()"
                )
                flags = "is_read_only=True," if is_bad else "is_read_only=True, defaults=1,"
                parts.append(TOOL.format(n=n, line=line, flags=flags))
            Path(folder, f"tools{number}.py").write_text("".join(parts), encoding="utf-8")
        began = time.perf_counter()
        findings = [
            finding
            for path in find_files([folder])
            for finding in check_text(read_source(path), str(path))
        ]
        took_s = time.perf_counter() - began
    print(f"lint: {DEFINITIONS} definitions, {len(findings)} findings, {took_s:.2f} s")  # noqa: T201


if __name__ == "__main__":
    main()
