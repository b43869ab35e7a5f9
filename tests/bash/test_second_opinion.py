"""tree-sitter-bash as a second opinion: what it sees in an accepted command, we saw too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tree_sitter_bash
from tests.bash.bash_corpus import read_rows
from tree_sitter import Language, Node, Parser

from sandboxed_tools.bash import classify, split_commands
from sandboxed_tools.bash.parser import parse

LANGUAGE = Language(tree_sitter_bash.language())
ACCEPTED = [
    row.command
    for name in ("bash_readonly.tsv", "bash_more.tsv")
    for row in read_rows(name)
    if classify(row.command, trusted_workspace=True).read_only
]


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def tree(command: str) -> Node:
    return Parser(LANGUAGE).parse(command.encode()).root_node


def test_every_command_that_it_sees_was_seen() -> None:
    missed = []
    for text in ACCEPTED:
        ours = {command.words[0].start for command in split_commands(text) or () if command.words}
        encoded = text.encode()
        for node in nodes(tree(text)):
            if node.type != "command_name":
                continue
            at = len(encoded[: node.start_byte].decode())
            if at not in ours and not _is_reserved(text[at:]):
                missed.append((text, text[at:]))
    assert missed == []


def _is_reserved(rest: str) -> bool:
    """``time`` and ``!`` are words of the grammar, which it takes for the names of commands."""
    return rest.startswith(("time ", "! "))


@pytest.mark.parametrize(
    ("kind", "field"),
    [("file_redirect", "redirects"), ("command_substitution", "substitutions")],
)
def test_no_redirect_and_no_substitution_is_missed(kind: str, field: str) -> None:
    missed = []
    for text in ACCEPTED:
        theirs = sum(node.type == kind for node in nodes(tree(text)))
        script = parse(text)
        redirects = len(script.redirects) + sum(len(c.redirects) for c in script.commands)
        ours = {"redirects": redirects, "substitutions": len(script.commands)}[field]
        if theirs > ours:
            missed.append(text)
    assert missed == []
