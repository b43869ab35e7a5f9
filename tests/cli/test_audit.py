"""``audit``: the records of calls on the command line."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from tests.cli.command_line import Done, command_line

HOSTILE = "ls '\x1b[2J\u202e'"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path


def run(place: Path, *words: str | Path) -> Done:
    env = {**os.environ, "SANDBOXED_TOOLS_STATE_DIR": str(place / "state")}
    return command_line(*words, env=env)


@pytest.fixture
def called(place: Path) -> Path:
    """A state folder with the records of a call, of a refused one, and of one that is no call."""
    for raw in ({"pattern": "*"}, {"nope": HOSTILE}):
        run(place, "call", "Glob", json.dumps(raw), "-w", place / "ws")
    run(place, "call", "Nope\x1b[2J", "{}", "-w", place / "ws")
    return place


def test_show_prints_calls_newest_first_and_nothing_hostile(called: Path) -> None:
    records = run(called, "audit", "show", "--json").object
    assert [record["tool"].partition("\x1b")[0] for record in records] == ["Nope", "Glob", "Glob"]
    assert records[2]["outcome"] == "ok"
    assert records[1]["error"] == "invalid_input"
    shown = run(called, "audit", "show", "--tool", "Glob", "-n", "1")
    assert "invalid_input" in shown.text
    for done in (shown, run(called, "audit", "show")):
        assert "\x1b" not in done.text
        assert "\u202e" not in done.text


def test_nothing_on_record_is_an_empty_list_and_no_error(place: Path) -> None:
    done = run(place, "audit", "show", "--json")
    assert (done.code, done.object) == (0, [])
    done = run(place, "audit", "show")
    assert (done.code, done.text) == (0, "")
    assert "No call is on record" in done.errors


def test_a_tool_that_was_never_called_is_an_empty_list_too(called: Path) -> None:
    done = run(called, "audit", "show", "--tool", "x\x1b[2J", "--json")
    assert (done.code, done.object) == (0, [])
    assert "\x1b" not in done.errors


def test_verify_finds_a_changed_record_and_a_chain_that_was_cut_off(called: Path) -> None:
    assert run(called, "audit", "verify").code == 0
    anchor = called / "anchor"
    anchor.write_bytes(run(called, "audit", "export", "--anchor").stdout)
    assert run(called, "audit", "verify", "--anchor", anchor).code == 0
    path = called / "state" / "audit" / "audit.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER records_are_never_changed")
        connection.execute("DROP TRIGGER records_are_never_removed")
        connection.execute("UPDATE records SET body = replace(body, '*', '!') WHERE number = 1")
    done = run(called, "audit", "verify", "--json")
    assert done.code == 1
    assert done.object["broken"]
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM records")
    connection.close()
    assert run(called, "audit", "verify").code == 0
    assert run(called, "audit", "verify", "--anchor", anchor).code == 1


def test_export_writes_a_json_line_for_each_row(called: Path) -> None:
    rows = [json.loads(line) for line in run(called, "audit", "export").stdout.splitlines()]
    assert sorted(row["kind"] for row in rows) == ["intent", "outcome", "refused", "refused"]
    assert all(json.loads(row["body"])["at"] > 0 for row in rows)


def test_damaged_records_and_a_bad_anchor_are_readable_errors(place: Path, called: Path) -> None:
    bad = called / "bad"
    for text in ("no json", "[]", '{"chain": 1}', "3"):
        bad.write_text(text)
        done = run(called, "audit", "verify", "--anchor", bad)
        assert done.code == 2
        assert "Traceback" not in done.errors
    (place / "state" / "audit" / "audit.sqlite3").write_bytes(b"junk" * 1000)
    for word in ("show", "verify", "export"):
        done = run(place, "audit", word)
        assert done.code != 0
        assert "no audit records" in done.errors
