from __future__ import annotations

import threading

import pytest

from sandboxed_tools.sandbox.docker.live import MAX_WAITING_BYTES, LiveView
from sandboxed_tools.tool.result import Stream


def test_pieces_arrive_in_order_and_all_before_close_returns() -> None:
    seen: list[tuple[Stream, bytes]] = []
    live = LiveView(lambda stream, data: seen.append((stream, data)))
    expected: list[tuple[Stream, bytes]] = [
        ("stdout" if number % 2 else "stderr", b"%d" % number) for number in range(1000)
    ]
    for stream, data in expected:
        live.put(stream, data)
    live.close(timeout_s=10)
    assert seen == expected
    assert live.dropped_bytes == 0


def test_sink_that_hangs_costs_bounded_memory_and_no_time() -> None:
    release = threading.Event()

    def hang(_stream: Stream, _data: bytes) -> None:
        release.wait(30)

    live = LiveView(hang)
    piece = b"x" * 65536
    for _ in range(200):
        live.put("stdout", piece)
    live.close(timeout_s=0.05)
    release.set()
    assert live.dropped_bytes >= 200 * len(piece) - MAX_WAITING_BYTES - len(piece)


def test_sink_that_raises_is_called_once() -> None:
    calls: list[bytes] = []

    def sink(_stream: Stream, data: bytes) -> None:
        calls.append(data)
        raise KeyError("broken")

    live = LiveView(sink)
    for number in range(100):
        live.put("stdout", b"%d" % number)
    live.close(timeout_s=10)
    assert calls == [b"0"]
    assert isinstance(live.error, KeyError)


@pytest.mark.parametrize("is_broken", [False, True])
def test_finish_is_called_after_the_last_piece_also_when_the_sink_raises(is_broken: bool) -> None:
    seen: list[bytes] = []

    def sink(_stream: Stream, data: bytes) -> None:
        seen.append(data)
        if is_broken:
            raise KeyError("broken")

    live = LiveView(sink, finish=lambda: seen.append(b"finished"))
    live.put("stdout", b"piece")
    live.close(timeout_s=10)
    assert seen == [b"piece", b"finished"]
