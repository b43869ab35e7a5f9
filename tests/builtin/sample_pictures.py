"""Small pictures of each kind, whole as their formats want them."""

from __future__ import annotations

import base64
import struct
import zlib

__all__ = ["GIF", "LOSSLESS", "LOSSY", "chunk", "jpeg", "png", "webp_with_canvas"]


def chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int = 2, height: int = 2, *, padding: int = 0) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    rows = zlib.compress(b"\0" * (3 * 2))
    text = chunk(b"tEXt", b"Comment\0" + b"x" * padding) if padding else b""
    return b"\x89PNG\r\n\x1a\n" + head + text + chunk(b"IDAT", rows) + chunk(b"IEND")


def jpeg(width: int = 1, height: int = 1) -> bytes:
    frame = struct.pack(">HBHHBBBB", 11, 8, height, width, 1, 1, 0x11, 0)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\x00\xff\xd9"
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\1\1\0\0\1\0\1\0\0"
    return start + b"\xff\xff\xc0" + frame + scan


GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
LOSSY = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
LOSSLESS = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


def webp_with_canvas(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size
    return b"RIFF" + struct.pack("<I", len(body)) + body
