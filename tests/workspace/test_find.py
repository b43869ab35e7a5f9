"""Finding files by pattern, newest first."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.errors import InvalidInput, PathRefused
from sandboxed_tools.workspace.find import FindOptions, find_files
from sandboxed_tools.workspace.root import WorkspaceRoot
from sandboxed_tools.workspace.walk import WalkBudget

# The time that a search has by default can be over on a busy machine.
PATIENT = FindOptions(budget=WalkBudget(wall_s=500))


@pytest.fixture(params=[True, False], ids=["openat2", "name by name"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkspaceRoot]:
    workspace = tmp_path / "project"
    workspace.mkdir()
    with WorkspaceRoot.open(workspace, use_openat2=request.param) as opened:
        yield opened


def make(root: WorkspaceRoot, *paths: str) -> None:
    for age, path in enumerate(paths):
        (root.path / path).parent.mkdir(parents=True, exist_ok=True)
        (root.path / path).touch()
        os.utime(root.path / path, ns=(0, 10**18 - age * 10**9))


def test_names_come_newest_first(root: WorkspaceRoot) -> None:
    make(root, "new.py", "d/middle.py", "old.py", "other.txt")
    found = find_files(root, "**/*.py")
    assert found.names == ("new.py", "d/middle.py", "old.py")
    assert found.total == 3
    assert found.is_complete


def test_at_most_a_hundred_are_named_and_all_are_counted(root: WorkspaceRoot) -> None:
    make(root, *(f"f{number:03}" for number in range(250)))
    found = find_files(root, "*")
    assert found.names == tuple(f"f{number:03}" for number in range(100))
    assert found.total == 250


def test_names_are_relative_to_the_workspace_wherever_the_search_starts(
    root: WorkspaceRoot,
) -> None:
    make(root, "src/lib/a.py", "b.py")
    for path in ("src", "./src/", "/workspace/src", f"{root.path}/src"):
        assert find_files(root, "**/*.py", path=path).names == ("src/lib/a.py",)
    assert find_files(root, "*.py", path="lib", cwd=(b"src",)).names == ("src/lib/a.py",)


def test_a_read_root_is_named_by_its_own_path(tmp_path: Path) -> None:
    for name in ("project", "headers"):
        (tmp_path / name).mkdir()
    (tmp_path / "headers" / "x.h").touch()
    with WorkspaceRoot.open(tmp_path / "project", read_roots=[tmp_path / "headers"]) as root:
        found = find_files(root, "*.h", path=tmp_path / "headers")
    assert found.names == (f"{tmp_path}/headers/x.h",)


def test_of_files_of_one_time_the_first_names_come(root: WorkspaceRoot) -> None:
    # Some names begin like others, and none is made in its place.
    names = [f"{number * 71 % 250}" for number in range(250)]
    make(root, "newest", *names)
    for name in names:
        os.utime(root.path / name, ns=(0, 10**18 - 10**9))
    assert find_files(root, "*").names == ("newest", *sorted(names)[:99])


def test_links_are_named_and_never_followed(root: WorkspaceRoot) -> None:
    make(root, "real/file")
    (root.path.parent / "outside").mkdir()
    (root.path.parent / "outside" / "secret").touch()
    os.symlink("/", root.path / "root")
    os.symlink("../outside", root.path / "conf")
    os.symlink(".", root.path / "real" / "self")
    assert set(find_files(root, "**").names) == {"root", "conf", "real/file", "real/self"}
    assert find_files(root, "root/**").names == ()
    assert find_files(root, "conf/*").names == ()
    for path in ("root", "conf", "root/etc"):
        with pytest.raises(PathRefused):
            find_files(root, "*", path=path)


def test_folders_fifos_and_devices_are_not_files(root: WorkspaceRoot) -> None:
    (root.path / "folder").mkdir()
    os.mkfifo(root.path / "fifo")
    os.mknod(root.path / "socket", 0o140644)
    assert find_files(root, "*").names == ()


def test_every_name_comes_back_as_it_is(root: WorkspaceRoot) -> None:
    names = [
        b"a\nb",
        b"-rf",
        b" lead",
        b"\xff\xfe",
        b"*",
        b"[x]",
        b"\x1b]0;t\x07",
        b"~",
        b"x" * 255,
    ]
    names += ["\u202egpj".encode(), "e\u0301".encode(), "é".encode(), b"%s%n", b"<result>"]
    for name in names:
        os.close(os.open(os.fsencode(root.path) + b"/" + name, os.O_CREAT | os.O_WRONLY))
    assert {os.fsencode(name) for name in find_files(root, "*").names} == set(names)


def test_hidden_files_are_found_when_asked_for(root: WorkspaceRoot) -> None:
    make(root, ".env", ".d/a", "b")
    assert find_files(root, "**").names == ("b",)
    assert set(find_files(root, "**", options=FindOptions(hidden=True)).names) == {
        ".env",
        ".d/a",
        "b",
    }
    assert find_files(root, ".e*").names == (".env",)


def test_denied_paths_are_neither_named_nor_counted(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "secrets").mkdir(parents=True)
    for name in ("secrets/key", "a.pem", "b.txt"):
        (project / name).touch()
    with WorkspaceRoot.open(project, denied=["secrets/", "*.pem"]) as root:
        found = find_files(root, "**")
        assert found.names == ("b.txt",)
        assert found.total == 1
        with pytest.raises(PathRefused):
            find_files(root, "*", path="secrets")


@pytest.mark.parametrize("pattern", ["/**/*", "../**/*.pem", "", "a\0b"])
def test_a_pattern_that_leads_out_is_refused(root: WorkspaceRoot, pattern: str) -> None:
    with pytest.raises(InvalidInput):
        find_files(root, pattern)


def test_a_bad_pattern_on_a_deep_tree_ends(root: WorkspaceRoot) -> None:
    os.close(root.tree.make_folders((b"a" * 50,) * 400))
    found = find_files(root, "**/**/**/**/**/**/**/**/*a*a*a*a*a*a*b")
    assert found.names == ()


def test_what_was_not_seen_is_reported(root: WorkspaceRoot) -> None:
    make(root, *(f"f{number}" for number in range(1500)))
    found = find_files(root, "*", options=FindOptions(budget=WalkBudget(max_entries=512)))
    assert found.stopped == "entries"
    assert not found.is_complete
    assert len(found.names) == 100
    os.close(root.tree.make_folders((b"d",) * 520))
    assert find_files(root, "x/**", options=PATIENT).is_complete
    assert find_files(root, "**", options=PATIENT).unreadable == 1


def test_memory_does_not_grow_with_the_number_of_files(root: WorkspaceRoot) -> None:
    for folder in range(20):
        (root.path / f"d{folder}").mkdir()
        for number in range(500):
            os.close(os.open(root.path / f"d{folder}" / f"file{number}", os.O_CREAT | os.O_WRONLY))
    find_files(root, "**")
    tracemalloc.start()
    try:
        assert find_files(root, "**", options=PATIENT).total == 10_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A list of ten thousand names alone would be over a megabyte.
    assert peak < 200_000
