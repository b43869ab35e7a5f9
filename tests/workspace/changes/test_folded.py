"""A protected name is recognised in every spelling that some file system reads as the same."""

from __future__ import annotations

import pytest

from sandboxed_tools.workspace.folded import folded


@pytest.mark.parametrize(
    "name",
    [
        *(".git", ".GIT", ".gIt", ".git.", ".git...", ".git ", ".git . .", ".git:x"),
        *(".git::$INDEX_ALLOCATION", "git~1", "GIT~1", "GIT~4", "GIT~1.", "git~1::$DATA"),
        *(".g\u200cit", "\u200e.git", ".git\ufeff", ".\u206agi\u202et", ".gi\u200dt "),
    ],
)
def test_spellings_of_git_are_one_name(name: str) -> None:
    assert folded(f"sub/{name}/config".encode()) == "sub/.git/config"


@pytest.mark.parametrize(
    "name",
    ["...", "..", " ", ":", ".", "a b", "x~1", "git~", "git~1x", "sub.git", "git", "\udcff.git"],
)
def test_other_names_stay_what_they_are(name: str) -> None:
    raw = name.encode("utf-8", "surrogateescape")
    assert folded(raw) == name
    assert folded(b"a/" + raw + b"/b") == f"a/{name}/b"


def test_a_path_never_gets_shorter_by_a_name() -> None:
    assert folded(" /:/\u200c/. ./x".encode()).count("/") == 4
