"""What a session remembers of files: bounded, and careful."""

from __future__ import annotations

from sandboxed_tools.workspace.state_cache import FileIdentity, FileState, FileStateCache

ONE = FileIdentity(device=1, inode=2, size_bytes=3, mtime_ns=4)
OTHER = FileIdentity(device=1, inode=2, size_bytes=3, mtime_ns=5)


def test_ranges_add_up_while_the_file_stays_the_same() -> None:
    cache = FileStateCache()
    cache.saw((b"a",), FileState(ONE, ranges=((1, 10),)))
    cache.saw((b"a",), FileState(ONE, ranges=((11, 20),)))
    cache.saw((b"a",), FileState(ONE, ranges=((40, 50),)))
    state = cache.get((b"a",))
    assert state is not None
    assert state.ranges == ((1, 20), (40, 50))


def test_another_version_of_the_file_starts_afresh() -> None:
    cache = FileStateCache()
    cache.saw((b"a",), FileState(ONE, content_sha256=b"x", ranges=((1, 10),)))
    cache.saw((b"a",), FileState(OTHER, ranges=((5, 6),)))
    state = cache.get((b"a",))
    assert state == FileState(OTHER, ranges=((5, 6),))


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    cache = FileStateCache(max_bytes=20_000)
    for number in range(100):
        cache.saw((b"%d" % number,), FileState(ONE))
        cache.get((b"0",))
        assert cache.size_bytes <= 20_000
    assert cache.get((b"0",)) is not None
    assert cache.get((b"1",)) is None
    assert cache.get((b"99",)) is not None


def test_scattered_reads_of_one_file_stay_bounded() -> None:
    cache = FileStateCache()
    for line in range(1, 100_000, 10):
        cache.saw((b"a",), FileState(ONE, ranges=((line, line),)))
    state = cache.get((b"a",))
    assert state is not None
    assert len(state.ranges) <= 256


def test_forgotten_files_cost_nothing() -> None:
    cache = FileStateCache()
    cache.wrote((b"a",), FileState(ONE))
    cache.forget((b"a",))
    cache.forget((b"a",))
    assert cache.get((b"a",)) is None
    assert cache.size_bytes == 0
    cache.wrote((b"b",), FileState(ONE))
    cache.clear()
    assert len(cache) == 0
    assert cache.size_bytes == 0
