"""What a file is, told by its first bytes and never by its name."""

from __future__ import annotations

from typing import Final

__all__ = ["media_type"]

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"PAR1", "application/vnd.apache.parquet"),
)


def media_type(data: bytes) -> str:
    """A media type that is safe to hand on: what could be active content is ``text/plain``."""
    for start, name in _STARTS:
        if data.startswith(start):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if "\0" in text else "text/plain"
