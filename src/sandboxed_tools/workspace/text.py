"""What kind of file some bytes are: an encoding that gives every byte back, or no text at all."""

from __future__ import annotations

import codecs
from typing import Final, Literal

from sandboxed_tools.workspace.state_cache import Newline

__all__ = [
    "PROBE_BYTES",
    "Encoding",
    "decode",
    "encode",
    "encode_part",
    "encoding_of",
    "media_type_of",
    "newline_of",
    "probe_encoding",
]

Encoding = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"]
"""``utf-16`` stands for the form with a byte order mark. Each turns text back into its bytes."""

PROBE_BYTES: Final = 64 * 1024

_BOMS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BOM_OF: Final = {encoding: bom for bom, encoding in _BOMS}

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


def probe_encoding(head: bytes, *, is_whole: bool) -> Encoding | None:
    """The encoding that the start of a file suggests; ``None`` when it is no text.

    A NUL byte means binary, as for grep and git. Bytes that are not UTF-8 are taken as Latin-1,
    in which every byte is a character. UTF-32 is no text here.
    """
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return None
    for bom, encoding in _BOMS:
        if head.startswith(bom):
            return encoding if _decodes(head, encoding, is_whole=is_whole) else None
    if b"\0" in head:
        return None
    return "utf-8" if _decodes(head, "utf-8", is_whole=is_whole) else "latin-1"


def encoding_of(data: bytes) -> Encoding | None:
    """The encoding of a whole file; ``None`` when it is no text, or does not survive decoding."""
    return probe_encoding(data, is_whole=True)


def _decodes(data: bytes, encoding: Encoding, *, is_whole: bool) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        decoder.decode(data, is_whole)
    except UnicodeDecodeError:
        return False
    return True


def decode(data: bytes, encoding: Encoding) -> str:
    """The text of a whole file, without its byte order mark.

    Raises:
        UnicodeDecodeError: the bytes are not of this encoding.
    """
    bom = _BOM_OF.get(encoding, b"")
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    return data.removeprefix(bom).decode(codec)


def encode(text: str, encoding: Encoding) -> bytes:
    """A whole file from its text, with the byte order mark that the encoding stands for.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    return _BOM_OF.get(encoding, b"") + encode_part(text, encoding)


def encode_part(text: str, encoding: Encoding) -> bytes:
    """A piece of text as it stands inside a file, without a byte order mark.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    return text.encode("utf-8" if encoding == "utf-8-sig" else encoding)


def newline_of(data: bytes, encoding: Encoding) -> Newline:
    """How the lines of a file end; a lone carriage return ends none."""
    if encoding in ("utf-16-le", "utf-16-be"):
        data = decode(data, encoding).encode()
    if b"\n" not in data:
        return "none"
    pairs = data.count(b"\r\n") if b"\r" in data else 0
    if not pairs:
        return "lf"
    return "crlf" if pairs == data.count(b"\n") else "mixed"


def media_type_of(head: bytes) -> str | None:
    """The type of an image or a PDF, by its first bytes and never by its name."""
    for magic, media_type in _MAGIC:
        if head.startswith(magic):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None
