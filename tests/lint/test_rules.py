"""Every rule: the bad example of its page is found, the good one is not, and more of each kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.lint import RULES, check_text, fix_text

DOCS = Path(__file__).parents[2] / "docs" / "lint"
INPUTS = """
class CountInput(ToolInput):
    path: str = Field(description="The folder.")

class DepthInput(ToolInput):
    depth: int = Field(description="How deep.")

def count(tool_input, ctx):
    return len(os.listdir(tool_input.path))

def tidy(tool_input, ctx):
    os.remove(tool_input.path)

def run_query(tool_input, ctx):
    return answer(tool_input.query)

def work_out(tool_input, ctx):
    return eval(tool_input.text)

class QueryInput(ToolInput):
    query: str = Field(description="A statement.")

class CodeInput(ToolInput):
    text: str = Field(description="A formula.")
"""


def codes(text: str) -> list[str]:
    return [finding.code for finding in check_text(text, "tools.py")]


def examples(code: str) -> tuple[str, str]:
    bad, good = re.findall(r"```python\n(.*?)```", (DOCS / f"{code}.md").read_text(), re.DOTALL)
    return bad, good


@pytest.mark.parametrize("code", sorted(RULES))
def test_a_rules_page_has_a_bad_example_that_is_found_and_a_good_one_that_is_not(
    code: str,
) -> None:
    bad, good = (text if "class " in text else INPUTS + text for text in examples(code))
    assert codes("import os\n" + bad) == [code]
    assert codes("import os\n" + INPUTS + good) == []


def tool(work: str, **stated: str) -> str:
    keywords = "".join(f", {name}={value}" for name, value in stated.items())
    return (
        "import os, subprocess, shutil, requests\nfrom pathlib import Path\n"
        + INPUTS
        + work
        + '\nT = build_tool(name="T", description="d", input_schema=CountInput, '
        + f"call=work, defaults=1{keywords})\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        "Path(i.path).write_text('x')",
        "open(i.path, 'w')",
        "open(i.path, mode='a+')",
        "Path(i.path).open('w')",
        "os.unlink(i.path)",
        "shutil.rmtree(i.path)",
        "subprocess.run(['ls'])",
        "os.system('ls')",
        "requests.get('http://x')",
        "eval(i.path)",
        "helper(i)",
    ],
)
def test_a_read_only_claim_over_work_that_changes_something_is_found(body: str) -> None:
    text = tool(
        f"def helper(i):\n    os.rename(i.path, 'x')\ndef work(i, ctx):\n    return {body}\n",
        is_read_only="True",
        is_concurrency_safe="True",
        needs_sandbox="True",
    )
    assert "STL103" in codes(text)


@pytest.mark.parametrize(
    "body",
    [
        "open(i.path).read()",
        "Path(i.path).read_text().splitlines()",
        "len(os.listdir(i.path))",
        "sorted(p.name for p in Path(i.path).iterdir())",
    ],
)
def test_work_that_only_reads_is_told_to_say_so(body: str) -> None:
    assert codes(tool(f"def work(i, ctx):\n    return {body}\n")) == ["STL101"]


def test_work_that_cannot_be_judged_is_left_alone() -> None:
    assert codes(tool("def work(i, ctx):\n    return elsewhere(open(i.path))\n")) == []
    assert codes(tool("from elsewhere import work\n")) == []
    text = tool("def work(i, ctx):\n    return 1\n").replace("defaults=1", "**options")
    assert codes(text) == []


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("lambda i: i.path.split()", True),
        ("lambda i: 1", True),
        ("lambda i: f'{i}'", True),
        ("lambda i: Path(i.path).exists()", True),
        ("lambda i: os.path.isdir(i.path)", True),
        ("lambda i: requests.get(i.path).ok", True),
        ("lambda i: i.path == 'x'", False),
        ("lambda i: bool(i.path) and i.path.startswith('a')", False),
        ("lambda i: i.path in ('a', 'b')", False),
    ],
)
def test_a_flag_function_answers_yes_or_no_from_the_input_alone(flag: str, found: bool) -> None:
    assert ("STL106" in codes(tool("from x import work\n", is_read_only=flag))) is found


def test_noqa_silences_its_line_and_only_its_code() -> None:
    line = 'T = build_tool(name="T", description="d", input_schema=X, call=f)'
    assert codes(line) == ["STL109"]
    assert codes(line + "  # noqa: STL109") == []
    assert codes(line + "  # noqa") == []
    assert codes(line + "  # noqa: STL101") == ["STL109"]


@pytest.mark.parametrize(
    "text",
    [
        'T = build_tool(name="T", description="d", input_schema=X, call=f)\n',
        'T = build_tool(\n    name="T",\n    description="dé",\n    input_schema=X,\n'
        "    call=f,\n)\n",
        tool("def work(i, ctx):\n    return open(i.path).read()\n").replace(", defaults=1", ""),
        'T = build_tool(name="T", description="é", input_schema=X, call=f, is_read_only=True)\n',
    ],
)
def test_fixes_state_what_is_in_force_and_end_the_finding(text: str) -> None:
    fixed, count = fix_text(text, check_text(text, "t.py"))
    assert count
    assert codes(fixed) == []
    assert "defaults=1" in fixed
    assert "is_read_only=True" not in fixed or "is_read_only=True" in text


def test_columns_count_characters_and_spans_cover_the_culprit() -> None:
    text = 'é = "é"; T = build_tool(name="T", description="", input_schema=X, call=f, defaults=1)'
    (finding,) = check_text(text, "t.py")
    assert finding.code == "STL108"
    assert text[finding.column : finding.end_column] == '""'


@pytest.mark.parametrize(
    "text", ["build_tool(", "build_tool(\0)", "build_tool" + "(" * 20_000, "\ud800 build_tool("]
)
def test_what_is_no_python_is_one_readable_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"t\.py"):
        check_text(text, "t.py")


def test_linting_imports_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"open({str(marker)!r}, 'w')\n" + tool("from x import work\n")
    codes(text)
    assert not marker.exists()


def test_the_shipped_tools_and_examples_have_no_finding() -> None:
    root = Path(__file__).parents[2]
    files = [
        *(root / "src/sandboxed_tools/builtin").glob("*.py"),
        *(root / "examples").glob("*.py"),
    ]
    assert files
    found = [finding for file in files for finding in check_text(file.read_text(), str(file))]
    assert found == []
