"""Rules: deny before ask before allow, and what cannot be told is never allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.judging import BASH, EDIT, FETCH, PLAIN, TextInput, tool, verdict

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.rules import Rule, RuleSet, Scope


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bash(",
        "Bash()",
        "Bash(  )",
        "Bash)x(",
        "9Bash",
        "Bash(ls) and more",
        "*",
        "Bash(ls && rm:*)",
        "Bash(ls | wc)",
        "Bash($x)",
        "Bash(git *)",
        "Bash(rm 'x)",
        "Bash(:*)",
        "Bash(a\nb)",
        "Bash(a\x1b[2Jb)",
        "Edit(!src/**)",
        "Edit(../x)",
        "Edit(~root/x)",
        "Read(a\\)",
        "Read(/)",
        "Bash(" + "x" * 5000 + ")",
        None,
        7,
        ["Bash"],
    ],
)
def test_a_text_that_is_no_rule_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError):
        Rule.parse(text)


def test_a_rule_is_written_as_it_was_read() -> None:
    for text in ("Bash", "Bash(git status:*)", "Edit(src/**)", "Read(~/.ssh/**)", "Fetch(https*)"):
        assert str(Rule.parse(text)) == text


def test_deny_comes_before_ask_and_ask_before_allow() -> None:
    everything: dict[str, Any] = {"deny": ["Bash"], "ask": ["Bash"], "allow": ["Bash"]}
    for behavior in ("deny", "ask", "allow"):
        assert verdict(BASH, "ls", **everything) == behavior
        del everything[behavior]


def test_other_tools_are_matched_by_their_text_and_an_alias_is_as_good_as_the_name() -> None:
    fetch = tool("Fetch", aliases=("Get",))
    for name in ("Fetch", "Get"):
        assert verdict(fetch, "https://a/b", allow=[f"{name}(https://a/*)"]) == "allow"
        assert verdict(fetch, "https://b/a", allow=[f"{name}(https://a/*)"]) is None
    assert verdict(FETCH, "https://a.b", allow=["Fetch(https://a?b)"]) is None


def test_a_tool_with_nothing_to_match_against_is_denied_and_never_allowed_by_pattern() -> None:
    broken = tool("Fetch", permission_pattern=lambda _: 1 / 0)
    for made in (PLAIN, broken):
        assert verdict(made, "", deny=[f"{made.name}(x)"]) == "deny"
        assert verdict(made, "", allow=[f"{made.name}(x)"]) is None
        assert verdict(made, "", allow=[made.name]) == "allow"


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_text_makes_parsing_a_rule_raise_anything_else(text: str) -> None:
    for name in ("Bash", "Edit", "Fetch"):
        try:
            rule = Rule.parse(f"{name}({text})")
        except ConfigurationError:
            continue
        made = {"Bash": BASH, "Edit": EDIT, "Fetch": FETCH}[name]
        RuleSet(deny=[rule], allow=[rule]).verdict(made, TextInput(text=text), Scope())
