"""A diff shows lines where there are lines, and says the rest in words."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sandboxed_tools.workspace.apply import apply_set
from sandboxed_tools.workspace.change_diff import ChangeDiff, diff_set
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


def diffs(
    store: ChangeStore, change_set_id: str, **choices: tuple[str, ...]
) -> dict[str, ChangeDiff]:
    found = diff_set(store, store.get(change_set_id), **choices)
    return {os.fsdecode(item.change.path): item for item in found}


@pytest.mark.parametrize("applied", [False, True])
def test_an_edited_text_is_a_unified_diff_before_and_after_it_is_applied(
    applied: bool, call: Call, store: ChangeStore
) -> None:
    called = call("sed -i s/two/TWO/ secret.txt; printf end > new; rm docs/a.md")
    if applied:
        assert apply_set(store, called.id).done
    found = diffs(store, called.id)
    assert found["secret.txt"].text == (
        "--- a/secret.txt\n+++ b/secret.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
    )
    assert found["new"].text == (
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+end\n\\ No newline at end of file\n"
    )
    assert found["docs/a.md"].text.endswith("+++ /dev/null\n@@ -1 +0,0 @@\n-# A\n")


def test_what_has_no_lines_is_said_in_words(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call(
        "printf 'x\\0' > src/deep/data.bin; chmod 600 keep.txt; mv run.sh moved; mkdir d;"
        "rm -r docs; ln -sfn else link; rm src/hard; mkdir src/hard"
    )
    notes = {name: item.note for name, item in diffs(store, called.id).items()}
    assert notes["src/deep/data.bin"] == "binary or large: 2560 bytes became 2"
    assert notes["keep.txt"] == "mode 0644 became 0600"
    assert notes["moved"] == "moved from run.sh"
    assert notes["d"] == "new folder"
    assert notes["docs"] == "folder with 2 entries deleted"
    assert notes["src/hard"] == "a file became a folder"
    assert "-src/main.py\n+else\n" in diffs(store, called.id)["link"].text


def test_patterns_choose_what_is_shown(call: Call, store: ChangeStore) -> None:
    called = call("echo x > a; echo x > b")
    assert set(diffs(store, called.id, only=("a",))) == {"a"}


def test_a_later_set_of_a_session_is_compared_with_the_earlier(
    call: Call, store: ChangeStore
) -> None:
    call("echo one > new", session="s")
    called = call("echo two >> new", session="s")
    assert diffs(store, called.id)["new"].text.endswith(" one\n+two\n")


def test_bytes_that_are_no_text_are_not_decoded_away(call: Call, store: ChangeStore) -> None:
    called = call("printf '\\xff\\n' >> secret.txt")
    text = diffs(store, called.id)["secret.txt"].text
    assert text.encode("utf-8", "surrogateescape").endswith(b"+\xff\n")


def test_a_file_larger_than_a_diff_may_be_is_told_by_its_size(
    call: Call, store: ChangeStore
) -> None:
    called = call("head -c 3000000 /dev/zero | tr '\\0' a > big")
    assert diffs(store, called.id)["big"].note == "binary or large: 3000000 bytes"


def test_a_name_or_a_link_cannot_forge_lines(call: Call, store: ChangeStore) -> None:
    called = call("echo evil > $'f\\n+++ b\\n-x\"\\xff'; ln -s $'x\\n-old\\n+new' link2")
    found = [item.text for item in diffs(store, called.id).values()]
    assert found == [
        '--- /dev/null\n+++ "b/f\\n+++ b\\n-x\\"\\377"\n@@ -0,0 +1 @@\n+evil\n',
        "--- /dev/null\n+++ b/link2\n@@ -0,0 +1,3 @@\n+x\n+-old\n++new\n",
    ]


@pytest.mark.parametrize("mark", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line(mark: str, call: Call, store: ChangeStore) -> None:
    called = call(f"printf 'a{mark}-b\\n' > new")
    assert diffs(store, called.id)["new"].text.endswith(f"@@ -0,0 +1 @@\n+a{mark}-b\n")


def test_a_diff_can_be_applied_by_others(
    call: Call, workspace: Path, store: ChangeStore, tmp_path: Path
) -> None:
    (workspace / "long").write_text("".join(f"{n}\n" for n in range(3000)))
    edits = "5d; 900s/$/ more/; 2000,2010d; $s/$/ end/"
    called = call(f"sed -i '{edits}' long; sed -i 's/$/\\r/' keep.txt; echo > $'a\\nb'")
    before = tmp_path / "before"
    shutil.copytree(workspace, before, symlinks=True)
    text = "".join(item.text for item in diffs(store, called.id).values())
    subprocess.run(["git", "apply", "-"], input=text.encode(), cwd=before, check=True, timeout=60)
    assert apply_set(store, called.id).done
    for name in ("long", "keep.txt", "a\nb"):
        assert (before / name).read_bytes() == (workspace / name).read_bytes()
