from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.sandbox.docker.protocol import (
    PIECE_BYTES,
    MarkScanner,
    ReportReader,
    call_frames,
    new_mark,
)
from sandboxed_tools.tool.command import Command

MARK = b"\x1d" + b"ab" * 16
NONCE = b"0123456789abcdef" * 2
LINES = (
    b"why exit\nexit 3\nsignal 0\noom_kill 1\npids_max -1\npids_peak 9\nmemory_peak 4096\n"
    b"cpu_ns 1500000000\nthrottled_ns 0\ntmp_full 1\nrun_ms 12\n"
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


noise = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([MARK[:1], MARK[:-1], MARK[1:], MARK[:10], b"\x1d\x1d", b"\x1d" + NONCE[:-1]]),
)


@given(st.lists(noise, max_size=6), st.binary(max_size=20), st.lists(st.integers(0, 999)))
def test_end_mark_is_found_and_nothing_else_is_touched_however_reads_cut_the_stream(
    before: list[bytes], after: bytes, places: list[int]
) -> None:
    # A random mark cannot stand in the output before it is written; noise may look like one.
    output = b"".join(before)
    while MARK in output:
        output = output.replace(MARK, b"")
    scanner = MarkScanner(MARK)
    visible, rest, ended = b"", b"", False
    for piece in cut(output + MARK + after, places):
        if ended:
            rest += piece
            continue
        scanned = scanner.feed(piece)
        visible, rest, ended = visible + scanned.visible, scanned.rest, scanned.ended
    assert (ended, visible, rest) == (True, output, after)


@given(st.binary(max_size=80), st.binary(max_size=80), st.lists(st.integers(0, 999)))
def test_acknowledgements_are_counted_and_taken_out_however_reads_cut_the_stream(
    first: bytes, second: bytes, places: list[int]
) -> None:
    scanner = MarkScanner(MARK)
    scanner.expect(NONCE)
    visible, count = b"", 0
    for piece in cut(first + b"\x1d" + NONCE + second, places):
        scanned = scanner.feed(piece)
        visible += scanned.visible
        count += scanned.acknowledged
    assert (visible + scanner.finish(), count) == (first + second, 1)


def test_an_acknowledgement_nobody_waits_for_is_output() -> None:
    scanner = MarkScanner(MARK)
    assert scanner.feed(b"\x1d" + NONCE).visible == b"\x1d" + NONCE


def test_an_acknowledgement_counts_once_when_the_command_plays_it_again() -> None:
    scanner = MarkScanner(MARK)
    scanner.expect(NONCE)
    scanned = scanner.feed(b"\x1d" + NONCE + b"\x1d" + NONCE)
    assert (scanned.acknowledged, scanned.visible) == (1, b"\x1d" + NONCE)


@given(st.binary(max_size=200))
def test_output_is_held_back_only_while_it_begins_a_mark(data: bytes) -> None:
    scanner = MarkScanner(MARK)
    held = len(data) - len(scanner.feed(data).visible)
    assert held == 0 or MARK.startswith(data[-held:])


def test_marks_are_never_the_same_twice() -> None:
    assert len({new_mark() for _ in range(100)}) == 100


@given(st.lists(st.integers(0, 999)))
def test_report_is_read_however_reads_cut_it(places: list[int]) -> None:
    body = LINES + b"cwd /tmp/a b\nexit 9\xff\n"
    reader = ReportReader()
    reports = [reader.feed(piece) for piece in cut(b"%08x" % len(body) + body, places)]
    report = reports[-1]
    assert report is not None
    assert reports[:-1] == [None] * (len(reports) - 1)
    assert (report.why, report.exit_code, report.signal) == ("exit", 3, None)
    assert (report.oom_kills, report.pids_refused, report.tmp_full) == (1, None, True)
    assert report.cpu_s == 1.5
    # A directory may be named like a line of the report; it comes last and to its end.
    assert report.cwd == "/tmp/a b\nexit 9\udcff"


HUGE = b"why exit\ncpu_ns " + b"9" * 400 + b"\n"


@pytest.mark.parametrize(
    "data", [b"zzzzzzzz", b"ffffffff", b"00000004why\n", b"%08x" % len(HUGE) + HUGE]
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        ReportReader().feed(data)


def test_long_script_travels_in_pieces_that_the_launcher_takes() -> None:
    command = Command(("bash", "/proc/self/fd/3"), script=b"x" * (2 * PIECE_BYTES + 1))
    frames = list(
        call_frames(command, mark=MARK, cwd="/", file_bytes=1, deadline_s=1, heartbeat_s=None)
    )
    kinds = [frame[:1] for frame in frames]
    assert kinds == [b"P", b"P", b"P", b"C"]
    for frame in frames:
        assert struct.unpack(">I", frame[1:5])[0] == len(frame) - 5


def test_undecodable_bytes_of_arguments_travel_unchanged() -> None:
    command = Command(("printf", "\udcff"), env={"A": "\udcfe"})
    *_, frame = call_frames(
        command, mark=MARK, cwd="/\udcfd", file_bytes=1, deadline_s=1, heartbeat_s=None
    )
    assert b"a\0\0\0\x01\xff" in frame
    assert b"e\0\0\0\x03A=\xfe" in frame
    assert b"c\0\0\0\x02/\xfd" in frame
