from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.host.attacker import Run, command_user
from tests.host.scratch_tree import GIT, make_repository, snapshot

from sandboxed_tools.host import HostOutcome

HOSTILE = {
    "core.fsmonitor": "echo RAN >&2; false",
    "core.hooksPath": "hooks",
    "core.pager": "echo RAN >&2; cat",
    "gpg.program": "./hooks/evil",
    "log.showSignature": "true",
}

QUESTIONS = ("status", "diff", "log -p", "show", "ls-files -m", "blame b.txt")


@pytest.fixture
def repository(workspace: Path) -> Path:
    for name in ("a.txt", "b.txt", "README.md", "src/main.py"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("one\n", encoding="utf-8")
    make_repository(workspace)
    (workspace / "a.txt").write_text("two\n", encoding="utf-8")
    (workspace / "hooks").mkdir()
    for name in ("post-index-change", "evil"):
        hook = workspace / "hooks" / name
        hook.write_text("#!/bin/sh\necho RAN >&2\n", encoding="utf-8")
        hook.chmod(0o755)
    for key, value in HOSTILE.items():
        subprocess.run(
            ["git", "config", key, value], cwd=workspace, env=GIT, check=True, timeout=60
        )
    if command_user():
        subprocess.run(["chown", "-R", "65534:65534", workspace], check=True, timeout=60)
    return workspace


def _ask(run: Run, question: str, *, trusted_git: bool) -> HostOutcome:
    return run(f"git {question} | cat", trusted_git=trusted_git)


@pytest.mark.parametrize("question", QUESTIONS)
def test_trusted_git_answers_and_runs_nothing_that_the_repository_names(
    question: str, run: Run, repository: Path
) -> None:
    before = snapshot(repository)
    outcome = _ask(run, question, trusted_git=True)
    assert outcome.result.stderr == b""
    assert outcome.result.stdout != b""
    assert b"RAN" not in outcome.result.stdout
    assert outcome.denied == ()
    assert snapshot(repository) == before


@pytest.mark.parametrize("where", ["config", "included"])
def test_an_external_diff_is_not_run(where: str, run: Run, repository: Path) -> None:
    config = repository / ".git" / "config"
    with config.open("a", encoding="utf-8") as file:
        if where == "included":
            file.write("[Include]\n\tpath = other\n")
            config = repository / ".git" / "other"
    with config.open("a", encoding="utf-8") as file:
        file.write("[DIFF]\n\tExternal = echo RAN >&2\n")
    plain = run("git -c core.fsmonitor=false diff 2>&1").result
    assert b"RAN" in plain.stdout
    trusted = run("git diff 2>&1", trusted_git=True).result
    assert b"RAN" not in trusted.stdout
    assert b"external diff died" in trusted.stdout


@pytest.mark.parametrize("question", ["status", "diff"])
def test_without_the_settings_the_same_repository_does_run_something(
    question: str, run: Run, repository: Path
) -> None:
    before = snapshot(repository)
    outcome = _ask(run, question, trusted_git=False)
    assert b"RAN" in outcome.result.stdout + outcome.result.stderr
    assert snapshot(repository) == before
