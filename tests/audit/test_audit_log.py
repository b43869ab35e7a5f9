"""Records: written before and after, never changed unseen, and no call without one."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.audit import AuditLog, AuditReader, Head
from sandboxed_tools.errors import AuditUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def log(folder: Path) -> Iterator[AuditLog]:
    made = AuditLog(folder)
    yield made
    made.close()


def database(folder: Path) -> Path:
    return folder / "audit" / "audit.sqlite3"


def fill(log: AuditLog, count: int) -> None:
    for number in range(count):
        log.write("intent", f"c{number}", {"tool": "Bash", "input": {"command": f"ls {number}"}})
        log.write("outcome", f"c{number}", {"status": "exited", "exit_code": 0})


def tamper(folder: Path, statement: str, *values: Any) -> None:
    """What somebody does who can write the file: drop the triggers first."""
    with sqlite3.connect(database(folder)) as connection:
        connection.execute("DROP TRIGGER records_are_never_changed")
        connection.execute("DROP TRIGGER records_are_never_removed")
        connection.execute(statement, values)
    connection.close()


def test_a_call_is_read_back_as_one_record(folder: Path, log: AuditLog) -> None:
    fill(log, 3)
    log.write("refused", "r", {"tool": "Glob", "error": "permission_denied"})
    newest, *rest = AuditReader(folder).last_calls(10)
    assert newest.call_id == "r"
    assert newest.ended
    assert [record.call_id for record in rest] == ["c2", "c1", "c0"]
    assert rest[0].facts["tool"] == "Bash"
    assert rest[0].facts["exit_code"] == 0
    assert [record.call_id for record in AuditReader(folder).last_calls(5, tool="Glob")] == ["r"]


def test_an_intent_without_outcome_shows_as_not_ended(folder: Path, log: AuditLog) -> None:
    log.write("intent", "c", {"tool": "Bash"})
    (record,) = AuditReader(folder).last_calls(1)
    assert not record.ended


def test_records_are_private(folder: Path, log: AuditLog) -> None:
    fill(log, 1)
    assert database(folder).parent.stat().st_mode & 0o777 == 0o700
    for path in database(folder).parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_whole_chain_holds(folder: Path, log: AuditLog) -> None:
    fill(log, 5)
    found = AuditReader(folder).verify()
    assert found.holds
    assert found.rows == 10
    (head,) = found.heads
    assert head.number == 10


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE records SET body = replace(body, 'ls 1', 'ls 9') WHERE number = 3", "changed"),
        ("UPDATE records SET kind = 'outcome' WHERE number = 3", "changed"),
        ("UPDATE records SET call_id = 'other' WHERE number = 3", "changed"),
        ("UPDATE records SET hash = x'00' WHERE number = 3", "changed"),
        ("UPDATE records SET hash = NULL WHERE number = 3", "changed"),
        ("UPDATE records SET body = x'ff' WHERE number = 3", "changed"),
        ("UPDATE records SET number = 99 WHERE number = 3", "missing"),
        ("UPDATE records SET number = 'x' WHERE number = 3", "missing"),
        ("DELETE FROM records WHERE number = 3", "missing"),
        ("DELETE FROM records WHERE number = 1", "missing"),
    ],
)
def test_whatever_is_changed_in_a_chain_is_found(
    folder: Path, log: AuditLog, statement: str, what: str
) -> None:
    fill(log, 4)
    log.close()
    if "NULL" in statement:
        with pytest.raises(sqlite3.IntegrityError):
            tamper(folder, statement)
        return
    tamper(folder, statement)
    found = AuditReader(folder).verify()
    assert not found.holds
    assert any(what in item.what for item in found.broken)


def test_a_row_that_was_put_in_is_found(folder: Path, log: AuditLog) -> None:
    fill(log, 2)
    log.close()
    with sqlite3.connect(database(folder)) as connection:
        (chain,) = connection.execute("SELECT DISTINCT chain FROM records").fetchone()
        connection.execute(
            "INSERT INTO records (chain, number, kind, call_id, body, hash) "
            "VALUES (?, 5, 'intent', 'x', '{}', ?)",
            (chain, b"\0" * 32),
        )
    connection.close()
    assert not AuditReader(folder).verify().holds


def test_a_chain_that_was_cut_off_is_found_by_its_anchor(folder: Path, log: AuditLog) -> None:
    fill(log, 4)
    heads = AuditReader(folder).verify().heads
    fill(log, 1)
    assert AuditReader(folder).verify(heads).holds, "it may grow"
    log.close()
    tamper(folder, "DELETE FROM records WHERE number > 6")
    assert AuditReader(folder).verify().holds, "only the anchor can tell"
    found = AuditReader(folder).verify(heads)
    assert [item.what for item in found.broken] == ["the chain was cut off before its anchor"]
    forged = Head(heads[0].chain, 6, "00" * 32)
    assert not AuditReader(folder).verify([forged]).holds


def test_the_triggers_stop_an_accident(folder: Path, log: AuditLog) -> None:
    fill(log, 1)
    with sqlite3.connect(database(folder)) as connection:
        for statement in ("DELETE FROM records", "UPDATE records SET body = ''"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
    connection.close()


def test_threads_share_one_chain(folder: Path, log: AuditLog) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: log.write("refused", f"c{n}", {"n": n}), range(200)))
    found = AuditReader(folder).verify()
    assert found.holds
    assert len(found.heads) == 1
    assert found.rows == 200


_WRITER = """
import sys
from pathlib import Path
from sandboxed_tools.audit import AuditLog
log = AuditLog(Path(sys.argv[1]))
print("ready", flush=True)
n = 0
while n < int(sys.argv[2]):
    log.write("intent", f"c{n}", {"n": n})
    log.write("outcome", f"c{n}", {"n": n})
    n += 1
"""


def test_processes_write_side_by_side_each_in_its_chain(folder: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(folder), "100"]) for _ in range(4)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    found = AuditReader(folder).verify()
    assert found.holds
    assert sorted(head.number for head in found.heads) == [200] * 4


def test_a_killed_writer_leaves_a_chain_that_holds(folder: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(folder), "1000000"], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    while not database(folder).exists() or database(folder).stat().st_size < 100_000:
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.wait(timeout=30)
    writer.stdout.close()
    found = AuditReader(folder).verify()
    assert found.holds
    assert found.rows > 100
    log = AuditLog(folder)
    log.write("refused", "after", {})
    log.close()
    assert len(AuditReader(folder).verify().heads) == 2


def _child(log: AuditLog) -> None:
    log.write("refused", "child", {})
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_chain_of_its_own(folder: Path, log: AuditLog) -> None:
    log.write("refused", "parent", {})
    child = multiprocessing.get_context("fork").Process(target=_child, args=(log,))
    child.start()
    child.join(timeout=30)
    assert child.exitcode == 0
    log.write("refused", "parent again", {})
    found = AuditReader(folder).verify()
    assert found.holds
    assert sorted(head.number for head in found.heads) == [1, 2]


def test_a_full_disk_is_an_error_and_a_freed_one_works_again(folder: Path, log: AuditLog) -> None:
    fill(log, 1)
    connection = log._connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")

    def fill_up() -> None:
        for _ in range(200):
            log.write("intent", "c", {"text": "x" * 4000})

    with pytest.raises(AuditUnavailable) as caught:
        fill_up()
    assert "full" in str(caught.value.operator_detail)
    connection.execute("PRAGMA max_page_count=100000")
    log.write("intent", "after", {})
    assert AuditReader(folder).verify().holds


def test_a_file_that_is_no_database_is_an_error(folder: Path, log: AuditLog) -> None:
    database(folder).parent.mkdir(mode=0o700)
    database(folder).write_bytes(b"no database at all " * 100)
    with pytest.raises(AuditUnavailable):
        log.write("intent", "c", {})
    with pytest.raises(AuditUnavailable):
        AuditReader(folder).last_calls(1)


def test_a_folder_that_cannot_be_written_is_an_error(folder: Path, log: AuditLog) -> None:
    (folder / "audit").write_text("a file in the way")
    with pytest.raises(AuditUnavailable):
        log.write("intent", "c", {})


def test_a_writer_that_may_not_wait_gives_up_at_once_and_one_that_may_waits(
    folder: Path, log: AuditLog
) -> None:
    fill(log, 1)
    other = sqlite3.connect(database(folder), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BlockingIOError):
        log.write("intent", "c", {}, may_wait=False)
    waiting = threading.Thread(target=log.write, args=("intent", "waited", {}))
    waiting.start()
    other.execute("ROLLBACK")
    waiting.join(timeout=10)
    assert not waiting.is_alive()
    other.close()
    assert AuditReader(folder).last_calls(1)[0].call_id == "waited"
    assert AuditReader(folder).verify().holds


def test_a_body_of_any_content_is_kept_and_bounded(folder: Path, log: AuditLog) -> None:
    log.write("refused", "odd", {"text": "\ud800\x00\u202e", "object": object(), "bytes": b"x"})
    log.write("refused", "huge", {"text": "x" * 10_000_000})
    assert AuditReader(folder).verify().holds
    assert database(folder).stat().st_size < 2_000_000
    json.dumps([record.facts for record in AuditReader(folder).last_calls(5)])
