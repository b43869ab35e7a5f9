"""``changes …`` as a person and as a program meet it: what is said, where, and with which code."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command_line import Done
from typer.testing import CliRunner

from sandboxed_tools.cli import main
from sandboxed_tools.workspace import ChangeStore

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("engine"),
    pytest.mark.timeout(600),  # each test is several programs, one after the other
]

COMMANDS = ("list", "show", "diff", "apply", "discard", "undo")
MAIN = (sys.executable, "-m", "sandboxed_tools.cli.main")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decided") / "ws"
    folder.mkdir()
    for number in range(400):
        (folder / f"f{number}").write_text("".join(f"line {line}\n" for line in range(40)))
    return folder


@pytest.fixture(scope="module")
def held(workspace: Path, base_image: str) -> str:
    """One set that changes every file, and is undone again by whoever applies it."""
    script = "for i in f*; do sed -i s/5/five/ $i; done; echo new > $'esc\\e[31m'"
    ran = in_here("run", "--json", "-w", workspace, "--", script)
    assert ran.code == 0, ran.errors
    return str(ran.object["changes"]["id"])


@pytest.fixture
def small(tmp_path: Path, base_image: str) -> Iterator[Path]:
    """A folder with a held set of three files, one of them protected."""
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    in_here("run", "-w", folder, "--", "echo b >> a.txt; echo new > new; echo x > .envrc")
    yield folder
    for item in ChangeStore().sets(workspace=folder):
        ChangeStore().remove(item.id)


def changes(*words: str | Path, cwd: Path | None = None) -> Done:
    return in_here("changes", *words, cwd=cwd)


def in_here(*words: str | Path, cwd: Path | None = None) -> Done:
    """In this process, because each one of its own takes a second."""
    with contextlib.chdir(cwd or "."):
        done = CliRunner().invoke(main.app, [*map(str, words)], prog_name="sandboxed-tools")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout_bytes, done.stderr_bytes)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_part_that_is_applied_names_what_stays_held(small: Path) -> None:
    done = changes("apply", "--json", "--except", ".envrc", cwd=small)
    assert done.code == 0, done.errors
    assert done.object["done"]
    rest = done.object["rest"]
    assert names(small) == ["a.txt", "new"]
    (left,) = changes("list", "--json", cwd=small).object
    assert (left["id"], left["summary"]) == (rest, "1 added")
    refused = changes("apply", rest, "--json")
    assert (refused.code, refused.object["rest"]) == (1, None)
    assert [item["path"] for item in refused.object["problems"]] == [".envrc"]
    whole = changes("apply", rest, "--allow-protected", "--json")
    assert (whole.code, whole.object["rest"]) == (0, None)


def test_a_person_is_told_what_stays_held(small: Path) -> None:
    done = changes("apply", "--only", "a.txt", cwd=small)
    assert done.code == 0
    (left,) = changes("list", "--json", cwd=small).object
    assert f"still held as {left['id']}: 2 added" in done.errors
    assert left["id"] not in done.text


def test_what_was_asked_for_and_cannot_be_is_said_with_a_way_on(small: Path) -> None:
    (held_set,) = changes("list", "--json", cwd=small).object
    for words, said in (
        (("apply",), "--allow-protected"),
        (("apply", "--only", "nothing"), "None of its paths"),
        (("undo", held_set["id"]), "only what is applied can be undone"),
    ):
        done = changes(*words, cwd=small)
        assert done.code == 1, words
        assert said in done.errors
    assert names(small) == ["a.txt"]


def test_a_folder_without_sets_is_told_how_to_find_them(small: Path) -> None:
    (small / "sub").mkdir()
    for words in (("show",), ("apply",), ("undo",)):
        done = changes(*words, cwd=small / "sub")
        assert done.code == 2, words
        assert "changes list --all" in done.errors
    assert changes("show", "-w", small, cwd=small / "sub").code == 0
    assert changes("list", cwd=small / "sub").errors == "Nothing is held.\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = changes(command, "--help")
    assert done.code == 0
    assert "--json" in done.text
    assert "[[" not in done.text


@pytest.mark.parametrize(
    ("command", "set_id"),
    [
        *((command, "00000000") for command in COMMANDS[1:]),
        *(("apply", set_id) for set_id in ("nope", "../../etc", "", "\n", "ABCDEF01")),
    ],
)
def test_an_unknown_id_is_wrong_usage(command: str, set_id: str) -> None:
    done = changes(command, set_id, "--json")
    assert (done.code, done.object["error"]["code"]) == (2, "change_set_not_found")
    assert "Traceback" not in done.errors


def test_a_reader_that_goes_early_is_no_error(held: str) -> None:
    for words in (("diff", held), ("diff", held, "--json"), ("show", held, "--json")):
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [*MAIN, "changes", *words], stdout=writing, stderr=subprocess.PIPE
        )
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        _, errors = process.communicate(timeout=300)
        assert b"Traceback" not in errors
        assert process.returncode in (0, 1)


@pytest.mark.parametrize("words", [("diff",), ("list", "--all"), ("list", "--json")])
def test_output_that_cannot_be_written_is_said_in_one_line(
    words: tuple[str, ...], held: str, workspace: Path
) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*MAIN, "changes", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=workspace,
            timeout=300,
            check=False,
        )
    assert done.returncode == 125
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_closed_standard_output_harms_no_decision(held: str, workspace: Path) -> None:
    for words in (("apply", held), ("undo", held)):
        script = 'exec "$@" >&-'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *MAIN, "changes", *words],
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
    assert (workspace / "f5").read_text().count("five") == 0


def on_a_terminal(words: tuple[str, ...], **env: str) -> str:
    """What a terminal gets to see."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MAIN, "changes", *words],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", **env},
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 65_536):
            seen += data
    except OSError:
        pass  # how Linux says that the other end has been closed (EIO)
    finally:
        os.close(ours)
        process.wait(300)
    return seen.decode("utf-8", "replace")


def test_a_terminal_gets_colours_unless_it_wants_none(held: str) -> None:
    words = ("diff", held, "--only", "f5")
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    assert "\x1b[32m+line five" in on_a_terminal(words, **env)
    assert "\x1b[3" not in on_a_terminal(words, NO_COLOR="1")


def test_a_name_cannot_speak_to_the_terminal(held: str) -> None:
    for words in (("show", held), ("diff", held, "--only", "esc*")):
        seen = on_a_terminal(words, NO_COLOR="1")
        assert "esc" in seen
        assert "\x1b[31m" not in seen


def test_a_set_whose_command_was_stopped_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    folder.mkdir()
    # By a limit that it meets after the change, however slow the machine is.
    ran = in_here("run", "-w", folder, "--", "echo half > new; exec yes")
    assert ran.code == 122
    assert "stopped" in ran.errors
    shown = changes("show", cwd=folder)
    assert "stopped before it had ended" in shown.errors
    assert changes("discard", cwd=folder).code == 0


def test_a_half_applied_set_is_listed_and_finished_by_the_next_word(small: Path) -> None:
    changes("apply", "--allow-protected", cwd=small)
    store = ChangeStore()
    (state,) = store.sets(workspace=small)
    # As a process leaves it that dies after its last step.
    facts = store.folder / state.id / "state.json"
    facts.write_text(facts.read_text().replace('"applied"', '"applying"'))
    (listed,) = changes("list", "--json", cwd=small).object
    assert (listed["id"], listed["status"]) == (state.id, "applying")
    assert "interrupted" in changes("list", cwd=small).text
    assert changes("undo", state.id).code == 0
    assert (small / "a.txt").read_text() == "a\n"
    assert names(small) == ["a.txt"]
