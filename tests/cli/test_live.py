"""Live output on a terminal: whole, stripped, in order."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

SOURCE = """
import sys
from sandboxed_tools.cli.live import LiveOutput

with LiveOutput() as live:
    for piece in eval(sys.argv[1]):
        live("stdout", piece)
"""


def shown(pieces: list[bytes]) -> str:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen([sys.executable, "-c", SOURCE, repr(pieces)], stdout=theirs):
            os.close(theirs)
            data = b""
            try:
                while piece := os.read(ours, 65_536):
                    data += piece
            except OSError:  # EIO: everybody has closed the other side
                pass
    finally:
        os.close(ours)
    return data.decode("utf-8").replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([b"a\xe2", b"\x82\xac b\n"], "a\u20ac b\n"),
        ([b"cut \xe2\x82"], "cut \ufffd"),
        ([b""], ""),
    ],
)
def test_characters_are_whole_however_they_are_cut(pieces: list[bytes], text: str) -> None:
    assert shown(pieces) == text


@pytest.mark.parametrize("pieces", [[b"\x1b", b"[31mred\n"], [b"\xc2", b"\x9b31mred\n"]])
def test_no_control_gets_through_in_pieces(pieces: list[bytes]) -> None:
    text = shown(pieces)
    assert text.endswith("red\n")
    assert not set("\x1b\x9b") & set(text)
