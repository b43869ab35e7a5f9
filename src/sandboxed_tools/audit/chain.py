"""The hash chain of one process: each row's hash covers the row before it.

A row that was changed, removed or put in between breaks its chain. What a chain cannot show by
itself is that its end was cut off, or that a whole chain is gone: for that its head is exported and
kept elsewhere as an anchor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["START", "Broken", "Head", "Link", "Verification", "link_hash", "verify"]

START: Final = b"\0" * 32
"""What the first row of a chain is chained to."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a row's hash covers, and the hash that was stored."""

    chain: str
    number: int
    kind: str
    call_id: str
    body: str
    stored: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The end of one chain: keep it elsewhere, and a chain that was cut off shows."""

    chain: str
    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A place where a chain does not hold."""

    chain: str
    number: int
    what: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and what does not hold; all is well where ``broken`` is empty."""

    rows: int
    heads: tuple[Head, ...]
    broken: tuple[Broken, ...]

    @property
    def holds(self) -> bool:
        return not self.broken


def link_hash(
    previous: bytes, *, chain: str, number: int, kind: str, call_id: str, body: str
) -> bytes:
    """SHA-256 over the previous hash and every column of the row, each with its length."""
    digest = hashlib.sha256(previous)
    for text in (chain, str(number), kind, call_id, body):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def verify(links: Iterable[Link], *, anchors: Iterable[Head] = ()) -> Verification:
    """Check every chain; ``links`` come in the order of their chain and number.

    An anchor demands that its chain still holds a row with that number and that hash.
    """
    heads: dict[str, tuple[int, bytes]] = {}
    broken: list[Broken] = []
    wanted = {(anchor.chain, anchor.number): anchor.hash for anchor in anchors}
    rows = 0
    for link in links:
        rows += 1
        number, previous = heads.get(link.chain, (0, START))
        if link.number != number + 1:
            broken.append(Broken(link.chain, link.number, f"row {number + 1} is missing"))
        expected = link_hash(
            previous,
            chain=link.chain,
            number=link.number,
            kind=link.kind,
            call_id=link.call_id,
            body=link.body,
        )
        if expected != link.stored and link.number == number + 1:
            broken.append(Broken(link.chain, link.number, "the row was changed"))
        anchored = wanted.pop((link.chain, link.number), None)
        if anchored is not None and anchored != link.stored.hex():
            broken.append(Broken(link.chain, link.number, "the row is not the one of the anchor"))
        heads[link.chain] = (link.number, link.stored)
    broken += [
        Broken(chain, number, "the chain was cut off before its anchor")
        for chain, number in sorted(wanted)
    ]
    return Verification(
        rows,
        tuple(Head(chain, number, value.hex()) for chain, (number, value) in heads.items()),
        tuple(broken),
    )
