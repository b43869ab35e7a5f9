"""A picture is what is whole and of a size that can be shown, whatever its first bytes say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin.sample_pictures import (
    GIF,
    LOSSLESS,
    LOSSY,
    chunk,
    jpeg,
    png,
    webp_with_canvas,
)

from sandboxed_tools.builtin.picture_type import MAX_PICTURE_BYTES, picture_type


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (jpeg(), "image/jpeg"),
        (GIF, "image/gif"),
        (LOSSY, "image/webp"),
        (LOSSLESS, "image/webp"),
        (webp_with_canvas(640, 480), "image/webp"),
        (png(8000, 8000), "image/png"),
    ],
)
def test_a_whole_picture_has_its_type(data: bytes, kind: str) -> None:
    assert picture_type(data) == kind


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n" + b"not at all" * 20,
        png()[:-1],
        png() + b"<script>",
        png()[:20] + b"\xff" + png()[21:],
        png().replace(b"IEND", b"IEnD"),
        png(8001, 2),
        png(0, 2),
        png(2**31, 2**31),
        png(padding=MAX_PICTURE_BYTES),
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0" * 13) + chunk(b"aaaa") * 100_000,
        b"\xff\xd8\xff",
        b"\xff\xd8" + b"\xff" * 1_000_000 + b"\xd9",
        b"\xff\xd8" + b"\xff\xe0\x00\x00" * 100_000 + b"\xff\xd9",
        jpeg()[:-2],
        jpeg(9000, 1),
        jpeg(0, 1),
        GIF[:-1],
        b"GIF89a;",
        LOSSY[:-1],
        LOSSY + b"x",
        webp_with_canvas(9000, 1),
        b"RIFF\x04\0\0\0WEBP",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"%PDF-1.7",
    ],
)
def test_what_is_no_whole_picture_has_none(data: bytes) -> None:
    assert picture_type(data) is None


@given(st.binary(max_size=200), st.sampled_from([png(), jpeg(), GIF, LOSSY, LOSSLESS]), st.data())
def test_no_bytes_break_it(noise: bytes, picture: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(picture)))
    picture_type(noise)
    picture_type(picture[:at] + noise)
    picture_type(picture[:at] + noise + picture[at:])
