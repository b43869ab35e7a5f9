"""Asking the person before the client, by elicitation: one question for one call.

A client of the handshake revisions is asked in the middle of the call. One of revision 2026-07-28
gets its question as the answer to the call, and calls again with what the person said; that answer
counts for this very call, once, and for ten minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sandboxed_tools.policy import Answer, ConfirmationRequest
from sandboxed_tools.tool import for_terminal

__all__ = ["Asking", "CannotAsk", "QuestionNeeded", "ask", "asking", "question_of"]

QUESTION_KEY: Final = "confirm"
_STATE_MAX_AGE_S: Final = 600
_KEY: Final = secrets.token_bytes(32)
_MAX_SHOWN_CHARS: Final = 4000


class QuestionNeeded(Exception):
    """The client must put a question to the person and call again."""

    def __init__(self, request: types.ElicitRequest) -> None:
        super().__init__("the client is to ask")
        self.request = request


class CannotAsk(Exception):
    """Nobody may be asked by this client, or it did not say that it can ask a person."""


@dataclass(slots=True)
class Asking:
    """What is known of the person's answer while one call is being authorized.

    ``answered`` are the states of this client that were used up.
    """

    ctx: ServerRequestContext[Any, Any]
    params: types.CallToolRequestParams
    answered: set[str] = field(default_factory=set)

    @property
    def is_modern(self) -> bool:
        return self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    def state(self, *, nonce: str | None = None, made_s: int | None = None) -> str:
        """A text that proves that this very call was asked about, by this process."""
        nonce = nonce or secrets.token_hex(16)
        made_s = int(time.time()) if made_s is None else made_s
        call = json.dumps([nonce, made_s, self.params.name, self.params.arguments], sort_keys=True)
        return f"{nonce}.{made_s}.{hmac.new(_KEY, call.encode(), hashlib.sha256).hexdigest()}"

    def given_answer(self) -> types.ElicitResult | None:
        """What came with the call, if it answers a question about this very call."""
        state = self.params.request_state
        if state is None or len(state) > 200 or state in self.answered:
            return None
        nonce, _, rest = state.partition(".")
        made, _, _ = rest.partition(".")
        if not (made.isascii() and made.isdigit()) or len(made) > 12:
            return None
        expected = self.state(nonce=nonce, made_s=int(made))
        is_fresh = 0 <= time.time() - int(made) <= _STATE_MAX_AGE_S
        if not is_fresh or not hmac.compare_digest(expected.encode(), state.encode()):
            return None
        answer = (self.params.input_responses or {}).get(QUESTION_KEY)
        if not isinstance(answer, types.ElicitResult):
            return None
        self.answered.add(state)
        return answer


asking: ContextVar[Asking | None] = ContextVar("asking", default=None)
"""The call that is being authorized in this task."""


async def ask(request: ConfirmationRequest) -> Answer:
    """The confirmer of a server's Toolboxes.

    Raises:
        QuestionNeeded: the client is to ask, and to call again.
        CannotAsk: the client cannot ask anybody, or it came over HTTP.
    """
    current = asking.get()
    if current is None:
        raise CannotAsk("no client is waiting for this call")
    if current.ctx.request is not None:
        raise CannotAsk("over HTTP whoever calls would answer itself")
    capabilities = current.ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise CannotAsk("the client cannot ask a person")
    question = question_of(request)
    if current.is_modern:
        given = current.given_answer()
        if given is None:
            raise QuestionNeeded(types.ElicitRequest(params=question))
        return _answer(given)
    given = await current.ctx.session.elicit_form(
        question.message, question.requested_schema, related_request_id=current.ctx.request_id
    )
    return _answer(given)


def question_of(request: ConfirmationRequest) -> types.ElicitRequestFormParams:
    """The question as a form. What is quoted from the call cannot steer a terminal."""
    use = for_terminal(request.use)
    if len(use) > _MAX_SHOWN_CHARS:
        half = _MAX_SHOWN_CHARS // 2
        use = f"{use[:half]}\n[… {len(use) - 2 * half} characters not shown …]\n{use[-half:]}"
    reason = for_terminal(request.reason, one_line=True)
    choices = ["no", "once"]
    message = f"Run this? {reason}. It would run on: {request.placement.where}.\n\n{use}"
    if request.suggested:
        choices.append("always")
        rules = for_terminal(", ".join(map(str, request.suggested)), one_line=True)
        message += f"\n\nalways = for {rules}, until this server ends"
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "Run it?", "enum": choices}},
        "required": ["answer"],
    }
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)


def _answer(given: types.ElicitResult) -> Answer:
    if given.action != "accept" or not given.content:
        return "no"
    said = given.content.get("answer")
    if said == "once":
        return "once"
    return "always" if said == "always" else "no"
