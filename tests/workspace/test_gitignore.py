"""``.gitignore`` rules, with git itself as the second opinion."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxed_tools.workspace.find import FindOptions, find_files
from sandboxed_tools.workspace.root import WorkspaceRoot
from sandboxed_tools.workspace.walk import WalkBudget

CASES = {
    "names": ("*.log\nbuild\n", ["a.log", "d/b.log", "build/x", "d/build/y", "a.txt"]),
    "anchored": ("/a\nd/b\n", ["a", "d/a", "d/b", "e/d/b"]),
    "folders only": ("out/\n", ["out/a", "d/out/b", "x/out"]),
    "taken back": ("*.txt\n!keep.txt\n", ["a.txt", "keep.txt", "d/keep.txt"]),
    "not below an ignored folder": ("d/\n!d/keep\n", ["d/keep", "e"]),
    "stars": ("**/tmp\na/**/b\nc/**\n", ["tmp", "x/tmp", "a/b", "a/x/y/b", "c/d/e"]),
    "classes": ("[ab].c\n[!x].h\n", ["a.c", "c.c", "x.h", "y.h"]),
    "comments and spaces": ("# no\n\\#yes\ntrail   \nkeep\\ \n\n", ["#yes", "trail", "keep "]),
    "escaped": ("\\!a\n\\*b\n", ["!a", "*b", "xb"]),
    "braces mean themselves": ("{a,b}\n", ["a", "b", "{a,b}"]),
    "carriage returns": ("a\r\nb\r\n", ["a", "b", "c"]),
    "question marks": ("?.o\n", ["a.o", "ab.o"]),
    "named classes": (
        "[[:punct:]].a\n[[:blank:]]x\n[[:digit:]-]\nno[[:such:]]\n",
        ["-.a", "b.a", " x", "-", "1", "no1", "nos", "no:]"],
    ),
    "escapes in classes": ("[a\\-c]\n[\\]x]1\n[\\!y]2\n", ["a", "-", "b", "]1", "x1", "!2", "z2"]),
    "rules that no path is spelled like": (
        "a//b\n./c\nd/./e\nf//\n",
        ["a/b", "c", "d/e", "f/g"],
    ),
    "odd brackets": ("[\n[a\na]\n", ["[", "[a", "a]", "b"]),
}


def _make(folder: Path, rules: str, paths: list[str]) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    (folder / ".gitignore").write_bytes(rules.encode())


def _seen_by_git(folder: Path) -> set[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    run = ["git", "-c", "core.excludesFile=/dev/null", "-c", "safe.directory=*"]
    subprocess.run([*run, "init", "-q"], cwd=folder, env=environment, check=True)
    listing = subprocess.run(
        [*run, "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    return {os.fsdecode(name) for name in listing.stdout.split(b"\0") if name}


def _seen_by_us(folder: Path) -> set[str]:
    with WorkspaceRoot.open(folder) as root:
        options = FindOptions(
            hidden=True, gitignore=True, max_names=10_000, budget=WalkBudget(wall_s=500)
        )
        return set(find_files(root, "**", options=options).names)


@pytest.mark.parametrize("case", CASES)
def test_the_same_files_are_ignored_as_by_git(tmp_path: Path, case: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    _make(project, *CASES[case])
    assert _seen_by_us(project) == _seen_by_git(project)


def test_nested_files_add_rules_and_take_back_outer_ones(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    _make(project, "*.log\n", ["a.log", "d/a.log", "d/e/a.log"])
    _make(project / "d", "!a.log\ne\n", ["b.txt"])
    assert _seen_by_us(project) == _seen_by_git(project)
    with WorkspaceRoot.open(project) as root:
        options = FindOptions(gitignore=True)
        assert set(find_files(root, "*", path="d", options=options).names) == {"d/a.log", "d/b.txt"}


RULES = st.lists(st.text("ab*?/!", min_size=1, max_size=6), max_size=4).map("\n".join)
TREE = st.lists(st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=3), max_size=8)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(RULES, TREE)
def test_any_rules_ignore_what_git_ignores(
    tmp_path_factory: pytest.TempPathFactory, rules: str, tree: list[list[str]]
) -> None:
    project = tmp_path_factory.mktemp("git") / "project"
    project.mkdir()
    paths = ["/".join([*names[:-1], f"{names[-1]}.f"]) for names in tree]
    _make(project, rules, paths)
    assert _seen_by_us(project) == _seen_by_git(project)


def test_hostile_rules_take_no_time_and_lead_nowhere(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    names = ["a" * 250 + str(number) for number in range(50)]
    _make(project, "\n".join(["*a*a*a*a*a*a*a*a*b"] * 50 + ["**/" * 200 + "x"] * 50), names)
    assert set(names) <= _seen_by_us(project)
    os.unlink(project / ".gitignore")
    os.mkfifo(project / ".gitignore")
    assert set(names) <= _seen_by_us(project)
    os.unlink(project / ".gitignore")
    os.symlink("/dev/zero", project / ".gitignore")
    assert set(names) <= _seen_by_us(project)


def test_rules_in_every_folder_of_a_deep_tree_stay_bounded(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    rules = "\n".join(f"*a*{number}*b" for number in range(1900))
    folder = project
    for _ in range(60):
        folder = folder / "d"
        folder.mkdir()
        (folder / ".gitignore").write_text(rules)
        (folder / "file").touch()
    with WorkspaceRoot.open(project) as root:
        options = FindOptions(gitignore=True, budget=WalkBudget(wall_s=500))
        found = find_files(root, "**/file", options=options)
        assert found.total == 60
