"""Tickets: a call needs one that is its own, and it is good once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sandboxed_tools.errors import NotAuthorized
from sandboxed_tools.tool.context import Ticket, issue_ticket, redeem, revoke


@dataclass
class Holder:
    ticket: Any


def test_a_ticket_is_good_for_its_own_tool_and_input_and_once() -> None:
    tool, tool_input = object(), object()
    holder = Holder(issue_ticket(tool, tool_input))
    redeem(holder, tool=tool, tool_input=tool_input)
    with pytest.raises(NotAuthorized):
        redeem(holder, tool=tool, tool_input=tool_input)


def test_a_ticket_for_another_tool_or_input_is_refused_and_spent() -> None:
    tool, tool_input = object(), object()
    holder = Holder(issue_ticket(tool, tool_input))
    with pytest.raises(NotAuthorized):
        redeem(holder, tool=tool, tool_input=object())
    with pytest.raises(NotAuthorized):
        redeem(holder, tool=tool, tool_input=tool_input)


def test_a_revoked_or_home_made_ticket_is_refused() -> None:
    tool, tool_input = object(), object()
    ticket = issue_ticket(tool, tool_input)
    revoke(ticket)
    for forged in (ticket, Ticket(tool, tool_input), None, "ticket"):
        with pytest.raises(NotAuthorized):
            redeem(Holder(forged), tool=tool, tool_input=tool_input)
