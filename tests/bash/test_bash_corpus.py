"""The verdict over labelled commands: nothing that writes is read-only, nearly all reading is."""

from __future__ import annotations

import pytest
from tests.bash.bash_corpus import read_rows

from sandboxed_tools.bash import classify

CORPORA = ["bash_readonly.tsv", "bash_more.tsv"]


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("name", CORPORA)
def test_no_command_with_an_effect_is_read_only(name: str, trusted: bool) -> None:
    wrong = [
        row.command
        for row in read_rows(name)
        if not row.read_only and classify(row.command, trusted_workspace=trusted).read_only
    ]
    assert wrong == []


@pytest.mark.parametrize("name", CORPORA)
def test_nearly_every_reading_command_is_read_only(name: str) -> None:
    rows = [r for r in read_rows(name) if r.read_only and r.category not in ("hard", "git")]
    missed = [row.command for row in rows if not classify(row.command).read_only]
    assert len(missed) <= 0.03 * len(rows), missed


@pytest.mark.parametrize("name", CORPORA)
def test_git_reads_are_read_only_in_a_trusted_workspace_alone(name: str) -> None:
    rows = [r for r in read_rows(name) if r.read_only and r.category == "git"]
    missed = [r.command for r in rows if not classify(r.command, trusted_workspace=True).read_only]
    assert len(missed) <= 0.1 * len(rows), missed
    assert [r.command for r in rows if classify(r.command).read_only] == []
