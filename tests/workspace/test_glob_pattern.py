"""Glob patterns: their language, and that no pattern takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.workspace.pattern import compile_glob

YES_AND_NO = [
    ("*.py", ["a.py", "x y.py"], ["a.pyc", "d/a.py", ".a.py"]),
    ("**/*.py", ["a.py", "d/a.py", "d/e/f/a.py"], ["a.txt", ".git/a.py", "d/.a.py"]),
    ("**", ["a", "d/e/f"], [".a", ".d/a"]),
    ("**/**/**/*", ["a", "d/e/f"], [".a"]),
    ("src/**/test_*.py", ["src/test_a.py", "src/x/y/test_b.py"], ["test_a.py", "src/a.py"]),
    ("src/**", ["src/a", "src/b/c"], ["src", "a"]),
    ("a?c", ["abc", "a\nc"], ["ac", "a/c", "abbc"]),
    ("[abc]x", ["ax", "cx"], ["dx"]),
    ("[!abc]x", ["dx"], ["ax"]),
    ("[^abc]x", ["dx"], ["ax"]),
    ("[[:digit:]][[:alpha:]]", ["1a"], ["a1", "11"]),
    ("[![:space:]]", ["a"], [" "]),
    ("x[[:punct:]]", ["x-", "x]", "x^", "x\\"], ["xa", "x "]),
    ("[[:blank:]]x", [" x", "\tx"], ["\nx"]),
    ("[[:graph:]]", ["!", "a", "]"], [" ", "é"]),
    ("[[:word:]-]", ["a", "_", "-"], ["+"]),
    ("x[[:such:]]", [], ["xs", "x:", "xs]"]),
    ("[a\\-c]", ["a", "-", "c"], ["b"]),
    ("[\\!a]x", ["!x", "ax"], ["bx"]),
    ("[!\\^]", ["a"], ["^"]),
    ("[+--]", ["+", ",", "-"], ["."]),
    ("[c-a]x", [], ["ax", "bx", "cx"]),
    ("[!c-a]x", ["ax"], ["x"]),
    ("[]x]", ["]", "x"], ["[", "a"]),
    ("[!]x]", ["["], ["]", "x"]),
    ("[a\\]]", ["a", "]"], ["\\"]),
    ("{a,b}.{c,d}", ["a.c", "b.d"], ["a.e"]),
    ("{src,test}/**/*.{py,pyi}", ["src/a.py", "test/x/b.pyi"], ["doc/a.py"]),
    ("file{1..3}", ["file1", "file3"], ["file4"]),
    (".*", [".env"], ["env"]),
    ("**/.env", [".env", "d/.env"], ["env", ".d/.env"]),
    (".github/**/*.yml", [".github/workflows/a.yml"], ["github/a.yml"]),
    ("\\*", ["*"], ["a"]),
    ("\\[x\\]", ["[x]"], ["x"]),
    ("a\\b", ["ab"], ["a\\b"]),
    ("!*.py", ["a.txt", "d/b.txt"], ["a.py"]),
    ("!**/*.py", ["a.txt"], ["a.py", "d/a.py"]),
    ("{**/*.py,!**/test_*}", ["a.py", "d/b.py"], ["test_a.py", "d/test_b.py"]),
    ("./a//b", ["a/b"], ["b"]),
    ("[[[[[[!]*]", [], ["a", "["]),
    ("[", ["["], ["a"]),
    ("a[", ["a["], ["a"]),
    ("*[", ["x["], ["x"]),
    ("{a", ["{a"], ["a"]),
    ("\udcff*", ["\udcffx"], ["x"]),
    ("é", ["é"], ["e\u0301"]),
    ("$(id)`id`;|'\"", ["$(id)`id`;|'\""], ["id"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), YES_AND_NO, ids=[row[0] for row in YES_AND_NO])
def test_a_pattern_means_what_a_shell_means(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_glob(pattern)
    assert [path for path in yes if not compiled.matches(path)] == []
    assert [path for path in no if compiled.matches(path)] == []


def test_hidden_names_match_wildcards_when_asked_for() -> None:
    compiled = compile_glob("**/*", hidden=True)
    assert compiled.matches(".env")
    assert compiled.matches(".git/config")


def test_case_is_ignored_when_asked_for() -> None:
    assert compile_glob("*.PY", ignore_case=True).matches("a.py")
    assert not compile_glob("*.PY").matches("a.py")


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("", "empty"),
        ("/", "absolute"),
        ("///", "absolute"),
        (".", "empty"),
        ("!", "empty"),
        ("/**/*", "absolute"),
        ("/etc/*", "absolute"),
        ("../**/*.pem", "dotdot"),
        ("a/../b", "dotdot"),
        ("{a,../b}", "dotdot"),
        ("{a,/etc/*}", "absolute"),
        ("a\0b", "nul"),
        ("x" * 5000, "too_long"),
        ("{1..1000000}", "too_many"),
        ("{a,b}" * 12, "too_many"),
        ("a/" * 300 + "b", "too_many"),
        ("{1..250}/" + "**/a/" * 20, "too_many"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_its_code(pattern: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        compile_glob(pattern)
    assert refused.value.fields[0].code == code


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 255),
        ("**/**/**/**/**/**/**/**/*a*a*a*a*a*a*b", "/".join(["aaaaaaaa"] * 400)),
        ("**/a/**/a/**/a/**/a/**/a/**/b", "/".join(["a"] * 400)),
        ("*[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*1", "a" * 255),
        ("**/" * 100 + "*?*?*?*?*?*?*?*?x", "/".join(["a" * 100] * 100)),
    ],
)
def test_no_pattern_explodes(pattern: str, path: str) -> None:
    assert not compile_glob(pattern).matches(path)


def _as_regex(pattern: str) -> re.Pattern[str]:
    """The obvious meaning, for patterns of ``a``, ``b``, ``*``, ``?``, ``/`` and ``**``."""
    text = ""
    names = pattern.split("/")
    for index, name in enumerate(names):
        last = index == len(names) - 1
        if name == "**":
            text += "(?:[^/]+/)*[^/]+" if last else "(?:[^/]+/)*"
        else:
            text += name.replace("*", "[^/]*").replace("?", "[^/]") + ("" if last else "/")
    return re.compile(text, re.DOTALL)


NAMES = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join)
COMPONENTS = st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=4)).filter(
    lambda text: text == "**" or "**" not in text
)


@given(st.lists(COMPONENTS, min_size=1, max_size=5).map("/".join), NAMES)
def test_matching_name_by_name_equals_matching_the_whole_path(pattern: str, path: str) -> None:
    expected = _as_regex(pattern).fullmatch(path) is not None
    assert compile_glob(pattern).matches(path) == expected


@pytest.mark.parametrize(
    "pattern", ["{" * 4000, "{a," * 1300, "[" * 4000, "{{a,b}," * 400, "\\" * 4001]
)
def test_nested_nonsense_is_answered(pattern: str) -> None:
    try:
        compiled = compile_glob(pattern)
    except InvalidInput:
        return
    assert not compiled.matches("x")


@given(st.text("[]!^-\\ab:*?{},.1/", max_size=20), st.text("ab[]!-", min_size=1, max_size=5))
def test_any_odd_pattern_gives_an_answer_or_a_refusal(pattern: str, path: str) -> None:
    try:
        compiled = compile_glob(pattern)
    except InvalidInput:
        return
    assert compiled.matches(path) in (True, False)
