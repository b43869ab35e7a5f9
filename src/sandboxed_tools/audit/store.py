"""The database: one file in the state folder, append-only, shared by every process of a user."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import AuditUnavailable
from sandboxed_tools.tool.state import state_dir

__all__ = ["database_path", "open_for_reading", "open_for_writing"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY,
    chain TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    call_id TEXT NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL
);
CREATE TRIGGER IF NOT EXISTS records_are_never_changed BEFORE UPDATE ON records
BEGIN SELECT RAISE(ABORT, 'audit records are append-only'); END;
CREATE TRIGGER IF NOT EXISTS records_are_never_removed BEFORE DELETE ON records
BEGIN SELECT RAISE(ABORT, 'audit records are append-only'); END;
"""
"""No index: each would be one more page to write for a row, and reading is rare. The triggers stop
accidents; whoever can write the file can drop them. The chain shows that."""


def database_path(folder: Path | None = None) -> Path:
    """Where the records are; ``folder`` stands for the state folder.

    Raises:
        ConfigurationError: the state folder cannot be used.
    """
    return (folder or state_dir()) / "audit" / "audit.sqlite3"


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open, and make what is missing: WAL, ``synchronous=NORMAL``, mode 0600.

    After a power cut the last records may be missing, never a part of one (sqlite.org/wal.html);
    the death of the process loses nothing.

    Raises:
        AuditUnavailable: the file cannot be made, opened or written.
    """
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )
    except (OSError, sqlite3.Error) as error:
        raise AuditUnavailable(operator_detail=f"{path}: {error}") from error
    try:
        connection.execute("PRAGMA busy_timeout=5000")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
    except sqlite3.Error as error:
        connection.close()
        raise AuditUnavailable(operator_detail=f"{path}: {error}") from error
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open what is there, without changing it.

    Raises:
        AuditUnavailable: there is none, or it cannot be read.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        connection.execute("PRAGMA busy_timeout=5000")
        connection.execute("SELECT 1 FROM records LIMIT 1")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise AuditUnavailable(
            "There are no audit records that can be read.", operator_detail=f"{path}: {error}"
        ) from error
    return connection
