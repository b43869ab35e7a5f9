"""Replacing text in the bytes of a file: what is not replaced stays as it is, byte by byte.

A model sees and writes plain line feeds. Matching is therefore done as if every CR LF were one
line feed, and what is put in gets the line ends of the place where it is put.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sandboxed_tools.workspace.text import Encoding, decode, encode

__all__ = [
    "Content",
    "Match",
    "content_of",
    "count_matches",
    "file_bytes",
    "first_matches",
    "insertion",
    "overlaps_itself",
    "replaced",
]

_CRLF: Final = b"\r\n"


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file as bytes without a byte order mark: UTF-8, or Latin-1 as it is."""

    data: bytes
    encoding: Encoding

    @property
    def codec(self) -> str:
        """What ``data`` is encoded in; UTF-16 files are held as UTF-8."""
        return "latin-1" if self.encoding == "latin-1" else "utf-8"


@dataclass(frozen=True, slots=True)
class Match:
    """One occurrence: offsets into ``Content.data``, and the line feed to use there."""

    start: int
    end: int
    line_end: bytes


def content_of(data: bytes, encoding: Encoding) -> Content:
    """The text of a whole file.

    Raises:
        UnicodeDecodeError: the bytes are not of this encoding.
    """
    if encoding in ("utf-16-le", "utf-16-be"):
        return Content(decode(data, encoding).encode(), encoding)
    return Content(
        data.removeprefix(b"\xef\xbb\xbf") if encoding == "utf-8-sig" else data, encoding
    )


def file_bytes(content: Content) -> bytes:
    """The whole file again, as it was encoded."""
    if content.encoding in ("utf-16-le", "utf-16-be"):
        return encode(content.data.decode(), content.encoding)
    return (b"\xef\xbb\xbf" if content.encoding == "utf-8-sig" else b"") + content.data


def count_matches(content: Content, old: str) -> int:
    """How often ``old`` occurs, without overlaps; 0 when it has characters that cannot occur."""
    try:
        needle = _needle(content, old)
    except UnicodeEncodeError:
        return 0
    uniform = _uniform(content.data, needle)
    if uniform is not None:
        return content.data.count(uniform.text)
    return sum(1 for _ in _matches_in_mixed(content.data, needle))


def first_matches(content: Content, old: str, *, at_most: int) -> list[Match]:
    """Where ``old`` occurs, from the start and without overlaps.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    return list(islice(_matches(content.data, _needle(content, old)), at_most))


def replaced(content: Content, old: str, new: str) -> Content:
    """The content with ``new`` in the place of every ``old``, in the line ends of each place.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    needle = _needle(content, old)
    uniform = _uniform(content.data, needle)
    if uniform is not None:
        inserted = insertion(content, new, line_end=uniform.line_end)
        return Content(_replaced(content.data, uniform.text, inserted), content.encoding)
    variants = {end: insertion(content, new, line_end=end) for end in (b"\n", _CRLF)}
    pieces: list[bytes] = []
    position = 0
    for match in _matches_in_mixed(content.data, needle):
        pieces += (content.data[position : match.start], variants[match.line_end])
        position = match.end
    return Content(b"".join([*pieces, content.data[position:]]), content.encoding)


def _replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    start = data.find(old)
    end = start + len(old)
    if start >= 0 and data.find(old, end) < 0:
        # bytes.replace() would go over the data twice more.
        return b"".join((data[:start], new, data[end:]))
    return data.replace(old, new)


def insertion(content: Content, new: str, *, line_end: bytes) -> bytes:
    """What is put into the file where ``new`` goes, with the line ends of the place.

    Raises:
        UnicodeEncodeError: the encoding has no such character.
    """
    plain = new.encode(content.codec).replace(_CRLF, b"\n")
    return plain.replace(b"\n", line_end) if line_end == _CRLF else plain


def overlaps_itself(content: Content, match: Match) -> bool:
    """Whether the matched text occurs a second time across its own place: ``aa`` in ``aaa``."""
    text = content.data[match.start : match.end]
    return content.data.find(text, match.start + 1, match.end + len(text) - 1) >= 0


def _needle(content: Content, old: str) -> bytes:
    return old.encode(content.codec).replace(_CRLF, b"\n")


@dataclass(frozen=True, slots=True)
class _Uniform:
    """A needle as it stands in a file whose lines all end alike."""

    text: bytes
    line_end: bytes


def _uniform(data: bytes, needle: bytes) -> _Uniform | None:
    # Most files have no CR at all, which is found out far faster than pairs are counted.
    pairs = data.count(_CRLF) if b"\r" in data else 0
    if not pairs:
        return _Uniform(needle, b"\n")
    # A lone CR in the needle could match the half of a pair.
    if pairs == data.count(b"\n") and b"\r" not in needle:
        return _Uniform(needle.replace(b"\n", _CRLF), _CRLF)
    return None


def _matches(data: bytes, needle: bytes) -> Iterator[Match]:
    uniform = _uniform(data, needle)
    if uniform is None:
        yield from _matches_in_mixed(data, needle)
        return
    for start in _starts(data, uniform.text):
        yield Match(start, start + len(uniform.text), uniform.line_end)


def _matches_in_mixed(data: bytes, needle: bytes) -> Iterator[Match]:
    # Where the line feed of each pair is once all pairs before it are shorter by one byte.
    folded = array("q", (at - index for index, at in enumerate(_starts(data, _CRLF))))
    text = data.replace(_CRLF, b"\n")
    for start in _starts(text, needle):
        end = start + len(needle)
        true_start = start + bisect_left(folded, start)
        true_end = end + bisect_left(folded, end)
        yield Match(true_start, true_end, _line_end_at(data, true_start, true_end))


def _line_end_at(data: bytes, start: int, end: int) -> bytes:
    """The line end in the match, or else the next one, or else the one before."""
    feed = data.find(b"\n", start)
    if feed < 0:
        feed = data.rfind(b"\n", 0, end)
    return _CRLF if feed > 0 and data[feed - 1 : feed + 1] == _CRLF else b"\n"


def _starts(data: bytes, needle: bytes) -> Iterator[int]:
    position = data.find(needle)
    while position >= 0:
        yield position
        position = data.find(needle, position + len(needle))
