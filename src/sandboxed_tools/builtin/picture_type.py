"""Whether bytes are a picture that a model can be shown, told by what they are and nothing else.

A picture that the model's vendor cannot read fails the whole request, and every later one that has
it in its history: code could end a conversation by leaving such a file. So a picture is shown only
when its structure is whole, and its size one that vendors take.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from sandboxed_tools.builtin.media_type import media_type

__all__ = ["MAX_PICTURE_BYTES", "MAX_SIDE_PIXELS", "picture_type"]

MAX_PICTURE_BYTES: Final = 3_750_000
"""Five megabytes in base64, the most that vendors take of one picture."""
MAX_SIDE_PIXELS: Final = 8000
_MAX_PARTS: Final = 10_000
"""Chunks or segments; a picture of the field has some hundred, and looking costs time."""
_PNG_HEAD: Final = 8
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers without a length: TEM and the restarts (ITU-T T.81, table B.1)."""

Size = tuple[int, int]


def picture_type(data: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP that can be shown; ``None`` for anything else."""
    if len(data) > MAX_PICTURE_BYTES:
        return None
    kind = media_type(data)
    measure = _MEASURES.get(kind)
    if measure is None:
        return None
    try:
        size = measure(data)
    except (struct.error, IndexError):
        return None
    if size is None or not all(1 <= side <= MAX_SIDE_PIXELS for side in size):
        return None
    return kind


def _png(data: bytes) -> Size | None:
    """Every chunk with its checksum, from the header to the end, and nothing behind it."""
    at = _PNG_HEAD
    seen: list[bytes] = []
    while at < len(data):
        if len(seen) >= _MAX_PARTS:
            return None
        length, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 4 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(body) != checksum:
            return None
        seen.append(name)
        at += 12 + length
    if not (seen and seen[0] == b"IHDR" and seen[-1] == b"IEND" and b"IDAT" in seen):
        return None
    width, height = struct.unpack_from(">II", data, _PNG_HEAD + 8)
    return width, height


def _jpeg(data: bytes) -> Size | None:
    """Segments up to the first frame, which holds the size; and the end where it belongs."""
    if not data.endswith(b"\xff\xd9"):
        return None
    at = 2
    for _ in range(_MAX_PARTS):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + length
    return None


def _gif(data: bytes) -> Size | None:
    width, height = struct.unpack_from("<HH", data, 6)
    return (width, height) if data.endswith(b"\x3b") else None


def _webp(data: bytes) -> Size | None:
    """The container's length, and the size as its first chunk has it (RFC 9649)."""
    (length,) = struct.unpack_from("<I", data, 4)
    if length + 8 != len(data):
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        wide, high = data[24:27], data[27:30]
        return int.from_bytes(wide, "little") + 1, int.from_bytes(high, "little") + 1
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


_MEASURES: Final = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
