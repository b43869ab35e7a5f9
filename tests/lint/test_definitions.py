"""Tools are found and judged however their definition is put together."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from sandboxed_tools.lint import check_text, find_files, fix_text

HEAD = """
import functools, os, re, subprocess
import sandboxed_tools
import sandboxed_tools as st
from functools import partial
from typing import Annotated, ClassVar
from pydantic import BaseModel, ConfigDict, Extra, Field
from sandboxed_tools import ToolInput, build_tool
from sandboxed_tools import build_tool as make_tool

class In(ToolInput):
    text: str = Field(description="Something.")

def look(i, ctx):
    return os.listdir("x")

def delete(i, ctx):
    os.remove("x")

def spawn(i, ctx):
    subprocess.run(["ls"])

unknown = elsewhere()
GOOD = dict(description="d", input_schema=In, defaults=1)
STATED = {"is_read_only": True, "is_concurrency_safe": True}
PROMISE = True
"""
REST = 'name="T", description="d", input_schema=In, defaults=1'


def codes(text: str) -> list[str]:
    return [finding.code for finding in check_text(HEAD + text, "t.py")]


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        (f"make_tool({REST}, call=look)", ["STL101"]),
        (f"st.build_tool({REST}, call=look)", ["STL101"]),
        (f"sandboxed_tools.tool.build_tool({REST}, call=look)", ["STL101"]),
        (f"bt = build_tool\nbt({REST}, call=look)", ["STL101"]),
        (f"tool = partial(build_tool, defaults=1)\ntool({REST}, call=look)", ["STL101"]),
        (
            'tool = partial(build_tool, **GOOD)\ntool(name="T", call=look)',
            ["STL101"],
        ),
        ('build_tool(name="T", call=look, **GOOD)', ["STL101"]),
        (f"build_tool({REST}, call=look, **STATED)", []),
        (f"build_tool({REST}, call=delete, **STATED)", ["STL103"]),
        (f'build_tool({REST}, call=look, **{{"is_read_only": True}})', ["STL102"]),
        (f"build_tool({REST}, call=look, **elsewhere())", []),
        (f"build_tool({REST}, call=delete, is_read_only=PROMISE, **STATED)", ["STL103"]),
        (f"build_tool({REST}, call=delete, is_read_only=lambda _: True)", ["STL102", "STL103"]),
        (f"build_tool({REST}, call=delete, is_read_only=not False)", ["STL102", "STL103"]),
        (f"build_tool({REST}, call=spawn)", ["STL105"]),
        (f"build_tool({REST[:-1]}2, call=spawn)", []),
        (f"build_tool({REST[:-1]}2, call=spawn, is_read_only=lambda i: i.text == '')", ["STL105"]),
        (f"def make():\n    return build_tool({REST}, call=look)", ["STL101"]),
        (
            f"class Tools:\n    def all(self):\n        return [build_tool({REST}, call=self.go)]\n"
            "    def go(self, i, ctx):\n        return os.listdir('x')",
            ["STL101"],
        ),
        (
            f"def make():\n    def work(i, ctx):\n        return os.listdir('x')\n"
            f"    return build_tool({REST}, call=work)\n"
            "def other():\n    def work(i, ctx):\n        os.remove('x')\n",
            ["STL101"],
        ),
        (f"TOOLS = [build_tool({REST}, call=work) for work in (look, delete)]", []),
        ("partial(build_tool, defaults=1)", []),
        ("print(build_tool.__doc__, sep='')", []),
    ],
)
def test_a_definition_is_found_and_its_keywords_are_known(
    definition: str, found: list[str]
) -> None:
    assert codes(definition) == found


@pytest.mark.parametrize(
    ("flag", "found"),
    [
        ("lambda i: i.text.isdigit()", False),
        ("lambda i: os.path.basename(i.text) == 'x'", False),
        ("lambda i: TABLE.get(i.text, False)", False),
        ("lambda i: not re.match('a', i.text)", False),
        ("lambda i: re.match('a', i.text) is not None", False),
        ("lambda i: (m := re.match('a', i.text))", True),
        ("lambda i: i.text + 'x'", True),
        ("lambda i: -1", True),
        ("lambda i: i.text and 1", True),
        ("lambda i: os.path.exists(i.text)", True),
        ("lambda i: subprocess.call(['true']) == 0", True),
        ("lambda i: any(map(os.path.exists, [i.text]))", True),
        ("'yes'", True),
        ("1", True),
        ("[True]", True),
        ("check", False),
        ("partial(check, strict=True)", False),
        ("Checks.check", False),
        ("Checks().asks", True),
        ("falls_through", True),
        ("both_ways", False),
        ("by_match", False),
        ("raises", False),
        ("with_inner", False),
        ("generator", True),
        ("coroutine", True),
        ("nothing", True),
    ],
)
def test_a_flag_is_a_bool_or_a_function_that_gives_one(flag: str, found: bool) -> None:
    functions = """
def check(i, strict=False):
    return i.text == "x"
class Checks:
    @staticmethod
    def check(i):
        return i.text == "x"
    def asks(self, i):
        return os.path.isfile(i.text)
def falls_through(i):
    if i.text:
        return True
def both_ways(i):
    if i.text:
        return True
    else:
        return False
def by_match(i):
    match i.text:
        case "a":
            return True
        case _:
            return False
def raises(i):
    try:
        return bool(i.text)
    except ValueError:
        raise
def with_inner(i):
    def text():
        return "x"
    return i.text == text()
def generator(i):
    yield True
    return True
async def coroutine(i):
    return True
def nothing(i):
    pass
"""
    text = f"{functions}\nbuild_tool({REST}, call=unknown, is_read_only={flag})"
    assert ("STL106" in codes(text)) is found


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("class M(ToolInput):\n    a: str = Field(description='x')", []),
        ("class M(BaseModel):\n    a: str = Field(description='x')", ["STL107"]),
        ("class M(BaseModel, extra='forbid'):\n    a: str = Field(description='x')", []),
        ("class M(ToolInput, extra='allow'):\n    a: str = Field(description='x')", ["STL107"]),
        ("class M(ToolInput):\n    model_config = ConfigDict(extra='ignore')", ["STL107"]),
        ("class M(ToolInput):\n    model_config = {'extra': 'allow'}", ["STL107"]),
        ("class M(BaseModel):\n    class Config:\n        extra = Extra.forbid", []),
        ("class M(ToolInput):\n    class Config:\n        extra = Extra.allow", ["STL107"]),
        ("class P(BaseModel):\n    pass\nclass M(P):\n    pass", ["STL107"]),
        ("class P(ToolInput, extra='allow'):\n    pass\nclass M(P):\n    pass", ["STL107"]),
        ("class P(BaseModel):\n    pass\nclass M(P, extra='forbid'):\n    pass", []),
        ("class M(ToolInput):\n    a: str", ["STL108"]),
        ("class M(ToolInput):\n    a: str = Field(description=' ')", ["STL108"]),
        ("class P(ToolInput):\n    a: str\nclass M(P):\n    pass", ["STL108"]),
        ("class M(ToolInput):\n    a: Annotated[str, Field(description='x')]", []),
        ("A = Annotated[str, Field(description='x')]\nclass M(ToolInput):\n    a: A", []),
        ("class M(ToolInput):\n    LIMIT: ClassVar[int] = 3\n    _own: int = 1", []),
    ],
)
def test_a_model_is_judged_with_what_it_inherits(model: str, found: list[str]) -> None:
    text = f"{model}\nbuild_tool({REST.replace('=In', '=M')}, call=unknown)"
    assert codes(text) == found


@pytest.mark.parametrize(
    ("field", "stated", "found"),
    [
        ("commands", "is_read_only=True", True),
        ("argv", "is_read_only=True", True),
        ("page_url", "is_read_only=True", True),
        ("snippet", "requires_confirmation=False", True),
        ("target_dir", "is_destructive=False", True),
        ("url", "is_read_only=False", False),
        ("url", "requires_confirmation=True", False),
        ("url", "is_read_only=lambda i: i.url == ''", False),
        ("url", "is_read_only=lambda i: True", True),
        ("decoded", "is_read_only=True", False),
        ("profile", "is_destructive=False", False),
    ],
)
def test_a_promise_about_what_the_input_decides_is_found(
    field: str, stated: str, found: bool
) -> None:
    text = (
        f"class M(ToolInput):\n    {field}: str = Field(description='x')\n"
        f"build_tool({REST.replace('=In', '=M')}, call=unknown, {stated},"
        "is_concurrency_safe=False)"
    )
    assert ("STL104" in codes(text)) is found


@pytest.mark.parametrize("last", ["call=(look)", "call=look,", "call=(\n    look\n)", "**GOOD"])
def test_a_fix_is_python_whatever_the_last_keyword_is(last: str) -> None:
    text = HEAD + f'build_tool(name="T", description="d", input_schema=In, call=look, {last})'
    text = text.replace("call=look, call", "call").replace(", defaults=1)\nSTATED", ")\nSTATED")
    fixed, count = fix_text(text, check_text(text, "t.py"))
    assert count == 2
    ast.parse(fixed)
    assert check_text(fixed, "t.py") == []


def test_a_long_sum_is_python_too() -> None:
    assert codes("x = " + "+".join(["1"] * 900) + "\n") == []


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ('lambda i: Command(("rm", "-rf", i.text))', True),
        ('lambda i: Command(argv=["/bin/mv", i.text, "x"])', True),
        ('lambda i: Command(("curl", i.text))', True),
        ('lambda i: Command(("bash", "-c", i.text))', True),
        ("lambda i: Command(('sh', '-c', 'ls && rm x'))", True),
        ('lambda i: Command(("python3", "-c", i.text))', True),
        ('lambda i: Command(("git", "-C", i.text, "push"))', True),
        ("commanded", True),
        ('lambda i: Command(("git", "log", i.text))', False),
        ('lambda i: Command(("sh", "-c", "ls | wc -l"))', False),
        ('lambda i: Command(("wc", "-l", "--", i.text))', False),
        ('lambda i: Command(("own-program", i.text))', False),
        ("lambda i: Command(made(i))", False),
    ],
)
def test_a_read_only_claim_over_a_command_that_changes_something_is_found(
    command: str, found: bool
) -> None:
    text = (
        "from sandboxed_tools import Command\n"
        "def commanded(i):\n    if i.text:\n        return Command(('ls',))\n"
        "    return Command(('rm', '-r', i.text))\n"
        f"build_tool({REST}, command={command}, **STATED)"
    )
    assert ("STL103" in codes(text)) is found


def test_names_that_lead_everywhere_end_all_the_same() -> None:
    for line in ("a = a.b or a.c or a.d or a.e\n", "a = a.b(a) or a.c[a]\n"):
        assert codes(line * 300 + f"build_tool({REST}, call=a, is_read_only=a)") == []
    doubled = "".join(f"a{n} = a{n - 1}.p or a{n - 1}.q\n" for n in range(1, 500))
    assert codes(doubled + f"build_tool({REST}, call=a499, is_read_only=a499)") == []
    classes = "".join(f"class C{n}(C{n + 1}, C{n + 2}, C{n + 3}):\n    pass\n" for n in range(200))
    assert codes(classes + f"build_tool({REST}, call=C0().x, is_read_only=C0.x)") == []


def test_names_that_lead_in_circles_lead_nowhere() -> None:
    text = (
        "a = b\nb = a\nclass A(B):\n    pass\nclass B(A):\n    pass\nf = lambda i, ctx: f(i, ctx)\n"
    )
    assert codes(text + f"build_tool({REST}, call=a)") == []
    assert codes(text + f"build_tool({REST}, call=A().x)") == []
    assert codes(text + f"build_tool({REST}, call=f)") == []


def test_a_project_below_a_folder_called_build_is_linted(tmp_path: Path) -> None:
    project = tmp_path / "build" / "project"
    for folder in (project, project / "dist", project / "odd.py"):
        folder.mkdir(parents=True)
        (folder / "tools.py").touch()
    os.mkfifo(project / "pipe.py")
    found = [path.relative_to(project).as_posix() for path in find_files([str(project)])]
    assert found == ["odd.py/tools.py", "tools.py"]
