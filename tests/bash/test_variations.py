"""What is added to a reading command, and how a writing one may be spelled, changes nothing."""

from __future__ import annotations

import re

import pytest
from tests.bash.bash_corpus import read_rows

from sandboxed_tools.bash import classify, split_commands

READING = [row.command for row in read_rows("bash_readonly.tsv") if row.read_only]
WRITING = [row.command for row in read_rows("bash_readonly.tsv") if not row.read_only]
ACCEPTED = [text for text in READING if classify(text, trusted_workspace=True).read_only]


def is_read_only(command: str) -> bool:
    return classify(command, trusted_workspace=True).read_only


@pytest.mark.parametrize(
    "suffix",
    [
        " > x",
        " >x",
        " >> x",
        " >| x",
        " &> x",
        " 2> x",
        " <> x",
        "; touch x",
        "\ntouch x",
        " && touch x",
        " || touch x",
        " | touch x",
        " | tee x",
        " $(touch x)",
        ' "$(touch x)"',
        " `touch x`",
        " <(touch x)",
        " > >(touch x)",
        " &",
        " & touch x",
        " $((x=1))",
        " ${x:=$(touch x)}",
        " ${x@P}",
        " \\\n; touch x",
    ],
)
def test_a_reading_command_with_an_effect_added_is_refused(suffix: str) -> None:
    assert [text for text in ACCEPTED if "<<" not in text and is_read_only(text + suffix)] == []


@pytest.mark.timeout(900)
def test_a_program_in_the_workspace_is_refused_whatever_its_name() -> None:
    for text in ACCEPTED:
        for command in split_commands(text) or ():
            if not command.words:
                continue
            at = command.words[0].start
            for folder in ("./", "../bin/", "/tmp/", "~/", "$PWD/", "bin/", "/usr/bin/../bin/"):
                changed = text[:at] + folder + text[at:]
                assert not is_read_only(changed), changed


def spellings(text: str, index: int) -> list[str]:
    character = text[index]
    before, after = text[:index], text[index + 1 :]
    return [
        f"{before}\\{character}{after}",
        f"{before}'{character}'{after}" if character != "'" else text,
        f'{before}"{character}"{after}',
        f"{before}''{character}{after}",
        f'{before}""{character}{after}',
    ]


@pytest.mark.timeout(900)
def test_quoting_a_character_of_a_writing_command_never_makes_it_read_only() -> None:
    wrong = []
    for text in WRITING:
        for index, character in enumerate(text):
            # Quoting an operator, or the name after a dollar, makes it plain text: bash then reads.
            if not re.match(r"[A-Za-z0-9_./=:@%+-]", character):
                continue
            if re.search(r"[\\$][{A-Za-z0-9_]*$", text[:index]):
                continue
            wrong += [item for item in spellings(text, index) if is_read_only(item)]
    assert wrong == []


def test_ordinary_quoting_does_not_change_the_verdict() -> None:
    changed = []
    for text in ACCEPTED:
        for command in split_commands(text) or ():
            for word in command.words:
                literal = word.literal
                if literal is None or not word.bare or not literal.isalnum():
                    continue
                if text[word.start : word.end] != literal:
                    continue
                for quoted in (f"'{literal}'", f'"{literal}"', "\\" + literal):
                    again = text[: word.start] + quoted + text[word.end :]
                    if not is_read_only(again):
                        changed.append(again)
    assert changed == []
