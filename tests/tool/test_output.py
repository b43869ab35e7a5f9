"""Output of any size in bounded memory: head and tail kept, everything counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.tool import OutputCollector


def collected(pieces: list[bytes], kept_bytes: int) -> OutputCollector:
    collector = OutputCollector(kept_bytes=kept_bytes)
    for piece in pieces:
        collector.feed(piece)
    return collector


@given(st.lists(st.binary(max_size=200), max_size=40), st.integers(256, 4096))
def test_what_fits_is_kept_whole_and_what_does_not_keeps_head_and_tail(
    pieces: list[bytes], kept_bytes: int
) -> None:
    whole = b"".join(pieces)
    collector = collected(pieces, kept_bytes)
    assert collector.total_bytes == len(whole)
    assert collector.truncated == (len(whole) > kept_bytes)
    if not collector.truncated:
        assert collector.kept() == whole
        return
    head, mark, tail = collector.kept().partition(b"\n[\xe2\x80\xa6 ")
    cut, _, tail = tail.partition(b" bytes cut \xe2\x80\xa6]\n")
    assert mark
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert int(cut) == len(whole) - len(head) - len(tail)
    assert len(head) + len(tail) >= kept_bytes - 8


@given(st.text(min_size=2000, max_size=4000), st.integers(1, 50))
def test_a_cut_never_splits_a_character(text: str, size: int) -> None:
    data = text.encode("utf-8", "replace")
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    collected(pieces, 256).kept().decode("utf-8")


def test_a_gigabyte_in_tiny_and_huge_pieces_keeps_only_what_is_kept() -> None:
    collector = OutputCollector(kept_bytes=1024)
    block = b"x" * (1024 * 1024)
    for _ in range(256):
        collector.feed(block)
    for _ in range(20_000):
        collector.feed(b"y")
    assert collector.total_bytes == 256 * 1024 * 1024 + 20_000
    kept = collector.kept()
    assert len(kept) < 1100
    assert kept.startswith(b"x")
    assert kept.endswith(b"y" * 512)
    held = sum(len(piece) for piece in collector._tail)
    assert held < 512 + 4096
