"""``run --changes`` and ``changes``: seen before it counts, applied whole or not at all, undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command_line import command_line

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("engine"),
    pytest.mark.timeout(600),  # each test is several programs, one after the other
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_text("b\n")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_hold_diff_apply_undo(workspace: Path) -> None:
    ran = command_line(
        "run", "-w", workspace, "--", "sed -i s/two/2/ a.txt; rm b.txt; echo c > c.txt"
    )
    assert ran.code == 0
    assert names(workspace) == ["a.txt", "b.txt"]
    assert "changes apply" in ran.errors
    (held,) = command_line("changes", "list", "--json", cwd=workspace).object
    assert held["id"] in ran.errors

    shown = command_line("changes", "show", "--json", cwd=workspace).object
    assert {change["path"] for change in shown["changes"]} == {"a.txt", "b.txt", "c.txt"}
    diff = command_line("changes", "diff", held["id"])
    assert "-two" in diff.text
    assert "+2" in diff.text

    assert command_line("changes", "apply", held["id"]).code == 0
    assert names(workspace) == ["a.txt", "c.txt"]
    assert (workspace / "a.txt").read_text() == "one\n2\n"
    assert command_line("changes", "undo", cwd=workspace).code == 0
    assert names(workspace) == ["a.txt", "b.txt"]
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"


def test_a_command_that_changes_nothing_says_nothing(workspace: Path) -> None:
    ran = command_line("run", "-w", workspace, "--", "cat a.txt")
    assert ran.errors == ""
    assert command_line("changes", "list", "--json", cwd=workspace).object == []


def test_apply_at_once_and_discard_at_once(workspace: Path) -> None:
    done = command_line(
        "run", "--json", "--changes", "apply", "-w", workspace, "--", "echo c > c.txt"
    )
    assert done.object["changes"]["decision"] == "applied"
    assert "c.txt" in names(workspace)
    command_line("run", "--changes", "discard", "-w", workspace, "--", "rm *")
    assert names(workspace) == ["a.txt", "b.txt", "c.txt"]
    assert command_line("run", "--changes", "maybe", "-w", workspace, "--", "true").code == 2


def test_a_protected_path_holds_the_whole_set_until_somebody_says_yes(workspace: Path) -> None:
    command = "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo c > c.txt"
    done = command_line("run", "--json", "--changes", "apply", "-w", workspace, "--", command)
    assert done.object["changes"]["decision"] == "held"
    assert names(workspace) == ["a.txt", "b.txt"]
    held = done.object["changes"]["id"]
    refused = command_line("changes", "apply", held, "--json")
    assert refused.code == 1
    assert {item["kind"] for item in refused.object["problems"]} == {"protected"}
    part = command_line("changes", "apply", held, "--except", ".git/**", "--except", ".git")
    assert part.code == 0, part.errors
    assert names(workspace) == ["a.txt", "b.txt", "c.txt"]


def test_a_file_that_changed_meanwhile_is_a_conflict_that_force_decides(workspace: Path) -> None:
    command_line("run", "-w", workspace, "--", "echo mine > a.txt")
    (workspace / "a.txt").write_text("yours\n")
    refused = command_line("changes", "apply", cwd=workspace)
    assert refused.code == 1
    assert "--force" in refused.errors
    assert (workspace / "a.txt").read_text() == "yours\n"
    assert command_line("changes", "apply", "--force", cwd=workspace).code == 0
    assert (workspace / "a.txt").read_text() == "mine\n"


def test_a_session_sees_its_own_held_changes_and_another_does_not(workspace: Path) -> None:
    command_line("run", "--session", "one", "-w", workspace, "--", "echo c > c.txt")
    seen = command_line("run", "--session", "one", "-w", workspace, "--", "cat c.txt")
    assert seen.text == "c\n"
    other = command_line("run", "--session", "two", "-w", workspace, "--", "cat c.txt")
    assert other.code == 1


def test_an_unknown_set_is_a_readable_error(workspace: Path) -> None:
    for words in (("show", "nope"), ("apply", "../../etc"), ("undo",), ("discard",)):
        done = command_line("changes", *words, cwd=workspace)
        assert done.code in (2, 125, 126), words
        assert "Traceback" not in done.errors
