"""Rules for files: what a pattern means, and every way that leads to a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.policy.judging import EDIT, READ, tool, verdict

from sandboxed_tools.policy.rules import Scope


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    for folder in ("src", "secrets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "a.py").write_text("")
    (tmp_path / "secrets" / "key").write_text("")
    os.symlink("secrets", tmp_path / "alias")
    os.symlink("../secrets/key", tmp_path / "src" / "link")
    return Scope(tmp_path, tmp_path)


def test_path_rules_match_every_spelling_of_the_workspace(scope: Scope) -> None:
    spellings = ("src/a.py", "./src//a.py", "/workspace/src/a.py", f"{scope.workspace}/src/a.py")
    for text in spellings:
        assert verdict(EDIT, text, allow=["Edit(src/**)"], scope=scope) == "allow"
        assert verdict(EDIT, text, allow=["Edit(*.py)"], scope=scope) == "allow"
        assert verdict(EDIT, text, deny=["Edit(src/**)"], scope=scope) == "deny"


def test_a_relative_path_starts_at_the_current_directory(scope: Scope) -> None:
    assert scope.workspace is not None
    inside = Scope(scope.workspace, scope.workspace / "src")
    assert verdict(EDIT, "a.py", allow=["Edit(src/**)"], scope=inside) == "allow"
    assert verdict(EDIT, "a.py", allow=["Edit(src/**)"], scope=scope) is None


@pytest.mark.parametrize(
    "text",
    [
        "src/../secrets/key",
        "src/../src/a.py",
        "secrets/key",
        "src/link",
        "/etc/passwd",
        "/src/a.py",
        "srcx/a.py",
    ],
)
def test_a_path_that_is_or_leads_elsewhere_is_not_allowed(scope: Scope, text: str) -> None:
    assert verdict(EDIT, text, allow=["Edit(src/**)"], scope=scope) is None


@pytest.mark.parametrize(
    "text", ["secrets/key", "alias/key", "src/link", "src/../secrets/key", "SECRETS/KEY", "secrets"]
)
def test_a_denied_path_is_denied_by_every_way_to_it(scope: Scope, text: str) -> None:
    assert verdict(READ, text, deny=["Read(secrets/**)"], scope=scope) == "deny"


def test_a_folder_around_the_workspace_leads_to_what_is_denied_in_it(scope: Scope) -> None:
    assert scope.workspace is not None
    for text in ("/", "/proc/self/root", str(scope.workspace.parent), str(scope.workspace)):
        assert verdict(READ, text, deny=["Read(secrets/**)"], scope=scope) == "deny"
    for text in ("/etc", f"{scope.workspace}2", f"{scope.workspace}2/secrets/key"):
        assert verdict(READ, text, deny=["Read(secrets/**)"], scope=scope) is None
    assert verdict(READ, "/", deny=["Read(secrets/**)"]) is None


@pytest.mark.parametrize(
    ("rule", "text", "allowed"),
    [
        ("Edit(src/*)", "src/deep/b.py", False),
        ("Edit(src/*.py)", "src/deep/b.py", False),
        ("Edit(src/**/b.py)", "src/deep/b.py", True),
        ("Edit(src/**/b.py)", "src/b.py", True),
        ("Edit(src/{a,b}.py)", "src/a.py", False),
        ("Edit(src/[a-c].py)", "src/d.py", False),
        ("Edit(src/\\[x\\].py)", "src/[x].py", True),
        ("Edit(src/[x].py)", "src/[x].py", False),
        ("Edit(src/**)", "SRC/a.py", False),
        ("Edit(src/**)", "src\\a.py", False),
        ("Edit(src/**)", "\uff53rc/a.py", False),
        ("Edit(caf\u00e9/**)", "cafe\u0301/x", False),
        ("Edit(caf\u00e9/**)", "caf\u00e9/x", True),
        ("Edit(src/**)", "/workspacesrc/a", False),
        ("Edit(src/**)", "/workspace/../src/a", False),
        ("Edit(src/**)", "~/src/a", False),
        ("Edit(/src/**)", "src/a.py", False),
        ("Edit(src/**)", "src/root/etc/passwd", False),
    ],
)
def test_an_allowed_path_is_matched_to_the_letter(
    scope: Scope, rule: str, text: str, allowed: bool
) -> None:
    assert scope.workspace is not None
    os.symlink("/", Path(scope.workspace, "src", "root"))
    assert (verdict(EDIT, text, allow=[rule], scope=scope) == "allow") is allowed


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("Read(secrets/**)", "\uff53ecrets/key"),
        ("Read(secrets/**)", "/workspace"),
        ("Read(secrets/**)", "alias"),
        ("Read(secrets/k*)", "secrets/KEY"),
        ("Read(caf\u00e9/**)", "CAFE\u0301/x"),
        ("Read(stra\u00dfe)", "STRASSE"),
        ("Read(.env)", "sub/.ENV"),
        ("Read(/etc/**)", "//etc//passwd"),
        ("Read(/etc/**)", "/proc/self/root/etc/passwd"),
        ("Read(~/.ssh/**)", os.path.expanduser("~")),
    ],
)
def test_a_denied_path_is_matched_in_every_spelling(scope: Scope, rule: str, text: str) -> None:
    assert verdict(READ, text, deny=[rule], scope=scope) == "deny"


def test_a_line_feed_in_a_name_hides_nothing(scope: Scope) -> None:
    assert verdict(READ, "secrets/a\nb", deny=["Read(secrets/**)"], scope=scope) == "deny"
    assert verdict(READ, "a\nb.pem", deny=["Read(*.pem)"], scope=scope) == "deny"
    assert verdict(READ, "a.py\n", allow=["Read(*.py)"], scope=scope) is None


def test_home_patterns_stand_for_the_home_folder(scope: Scope, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", "/home/we*ird")
    assert verdict(READ, "/home/we*ird/.ssh/id", deny=["Read(~/.ssh/**)"], scope=scope) == "deny"
    assert verdict(READ, "/home/weXird/.ssh/id", deny=["Read(~/.ssh/**)"], scope=scope) is None


def test_a_call_that_names_no_path_is_not_allowed_and_is_denied(scope: Scope) -> None:
    none = tool("Edit", paths_written=lambda _: ())
    broken = tool("Edit", paths_written=lambda _: 1 / 0)
    for made in (none, broken):
        assert verdict(made, "", allow=["Edit(src/**)"], scope=scope) is None
        assert verdict(made, "", deny=["Edit(src/**)"], scope=scope) == "deny"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "*b", "a" * 250),
        ("*a" * 30 + "*b", "a/" * 1000 + "a"),
        ("/".join(["**", "a"] * 30) + "/b", "a/" * 1000 + "a"),
        ("/".join(["**", "*a*a*a*b"] * 10) + "/b", "aaaaaaaaaaaa/" * 300),
    ],
)
def test_a_project_cannot_stall_the_host_with_a_pattern(pattern: str, path: str) -> None:
    # In a process of its own: a stalled regular expression can be interrupted by nothing.
    script = (
        "import sys\n"
        "from pathlib import PurePath\n"
        "from sandboxed_tools.policy.path_rules import path_pattern, touched_path\n"
        "path = touched_path(sys.argv[2], workspace=PurePath('/w'), cwd=None)\n"
        "print(path_pattern(sys.argv[1]).may_match(path))"
    )
    command = [sys.executable, "-c", script, pattern, path]
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
    assert ended.stdout == b"False\n"
