"""Frames beside the output: taken out whole, whichever way they come, and never trusted."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.tool.frames import MAX_FRAMES, PIECE_BYTES, FrameChannel


def piece(channel: FrameChannel, kind: str, payload: bytes) -> bytes:
    return b"\x1e" + f"{channel.token}{kind}{len(payload):04x}".encode() + payload


def fed(channel: FrameChannel, data: bytes, cuts: list[int]) -> bytes:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    seen = b"".join(channel.feed(data[a:b]) for a, b in pairwise(places))
    return seen + channel.finish()


@given(
    before=st.binary(max_size=200),
    payload=st.binary(max_size=3 * PIECE_BYTES),
    after=st.binary(max_size=200),
    cuts=st.lists(st.integers(min_value=0), max_size=12),
)
def test_a_frame_arrives_whole_and_leaves_no_trace_in_the_output(
    before: bytes, payload: bytes, after: bytes, cuts: list[int]
) -> None:
    channel = FrameChannel(max_bytes=1 << 20)
    pieces = [payload[at : at + PIECE_BYTES] for at in range(0, len(payload), PIECE_BYTES)] or [b""]
    data = before
    for part in pieces[:-1]:
        data += piece(channel, "r", part) + b"printed between"
    data += piece(channel, "R", pieces[-1]) + after
    visible = fed(channel, data, cuts)
    assert channel.frames == [("R", payload)]
    assert visible == before + b"printed between" * (len(pieces) - 1) + after


@given(data=st.binary(max_size=2000), cuts=st.lists(st.integers(min_value=0), max_size=8))
def test_what_is_no_frame_stays_output_byte_for_byte(data: bytes, cuts: list[int]) -> None:
    channel = FrameChannel(max_bytes=1000)
    assert fed(channel, data, cuts) == data
    assert channel.frames == []


@given(cuts=st.lists(st.integers(min_value=0), max_size=8))
def test_what_only_looks_like_a_frame_stays_output(cuts: list[int]) -> None:
    channel = FrameChannel(max_bytes=1000)
    other = FrameChannel(max_bytes=1000)
    broken = b"\x1e" + channel.token.encode() + b"Rzzzz"
    data = piece(other, "R", b"forged") + broken + b"\x1e" * 3 + b"\x1e" + channel.token.encode()
    assert fed(channel, data, cuts) == data
    assert channel.frames == []


def test_payloads_beyond_the_bound_are_dropped_and_said_to_be() -> None:
    channel = FrameChannel(max_bytes=10_000)
    for _ in range(100):
        assert channel.feed(piece(channel, "r", b"x" * 3000)) == b""
    channel.feed(piece(channel, "R", b""))
    assert channel.is_overfull
    assert sum(len(payload) for _, payload in channel.frames) <= 10_000


def test_endless_small_frames_are_dropped_beyond_a_number() -> None:
    channel = FrameChannel(max_bytes=1 << 20)
    for _ in range(MAX_FRAMES + 10):
        channel.feed(piece(channel, "X", b""))
    assert len(channel.frames) == MAX_FRAMES
    assert channel.is_overfull


def test_live_kinds_are_handed_on_in_order_and_not_kept() -> None:
    told: list[tuple[str, bytes]] = []
    channel = FrameChannel(
        max_bytes=100, live_kinds="P", on_live=lambda kind, data: told.append((kind, data))
    )
    for number in range(1000):
        channel.feed(piece(channel, "P", b"%d" % number))
    assert told == [("P", b"%d" % number) for number in range(1000)]
    assert channel.frames == []
    assert not channel.is_overfull
