"""A link is judged by where it leads, over whatever other links lie on its way."""

from __future__ import annotations

import pytest

from sandboxed_tools.workspace.way_out import leads_out

LINKS = {
    "out": "/etc",
    "up": "..",
    "a/inner": "../b",
    "a/chain": "inner",
    "a/way": "../out/passwd",
    "loop": "loop",
    "ping": "pong",
    "pong": "ping",
    "self": ".",
    "b/top": "..",
    "long": "/".join(["b/top"] * 60),
    **{f"c{number}": f"c{number - 1}" for number in range(1, 100)},
    "c0": "/etc",
}


def leaves(path: str, target: str | bytes) -> bool:
    def link_at(parts: tuple[bytes, ...]) -> bytes | None:
        text = LINKS.get(b"/".join(parts).decode("utf-8", "surrogateescape"))
        return None if text is None else text.encode()

    raw = target if isinstance(target, bytes) else target.encode()
    return leads_out(tuple(path.encode().split(b"/")), raw, link_at)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("new", "out"),
        ("new", "out/passwd"),
        ("new", "a/way"),
        ("a/new", "../out"),
        ("a/new", "way"),
        ("new", "up/x"),
        ("new", "b/top/up"),
        ("new", "self/self/out"),
        ("new", "c20"),
        ("new", "/".join(["x"] * 300)),
        ("new", b"out/\xff"),
    ],
)
def test_a_link_over_a_link_that_leads_out_does_so_too(path: str, target: str | bytes) -> None:
    assert leaves(path, target)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("new", "a/inner"),
        ("new", "a/chain/x"),
        ("a/new", "chain"),
        ("new", "b/top"),
        ("new", "self/self/self"),
        ("new", "outside"),
        ("new", "x/out"),
        ("new", "x" * 4000),
        ("new", ""),
    ],
)
def test_a_link_that_stays_inside_is_ordinary(path: str, target: str) -> None:
    assert not leaves(path, target)


@pytest.mark.parametrize("target", ["loop", "loop/x", "ping", "c99", "long"])
def test_what_nobody_can_follow_leads_nowhere_and_is_not_followed_for_ever(target: str) -> None:
    assert not leaves("new", target)
