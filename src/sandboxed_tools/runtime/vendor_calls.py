"""A model's tool calls, in its vendor's form, carried out and answered in that form and order."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandboxed_tools.builtin.picture_type import picture_type
from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.runtime.events import Finished, LastEvent
from sandboxed_tools.runtime.executor import Executor
from sandboxed_tools.workspace.read_file import MediaContent

__all__ = ["is_error", "run_anthropic", "run_openai"]

MAX_CALLS: Final = 1024
MAX_ARGUMENTS_CHARS: Final = 64 * 1024 * 1024

MAX_PICTURES: Final = 8
MAX_PICTURES_BYTES: Final = 8 * 1024 * 1024
"""Of all pictures in the answers to one message; vendors take 32 MB and 100 pictures a request,
and every later request has these in its history."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call as a model asked for it; ``problem`` when its input cannot even be read."""

    id: str
    tool: str
    raw_input: object
    is_chat: bool = False
    problem: str | None = None


async def run_anthropic(executor: Executor, blocks: Iterable[Any]) -> list[dict[str, Any]]:
    """Answer the ``tool_use`` blocks of a message with ``tool_result`` blocks.

    Blocks of other types are left out. Blocks are dictionaries, or objects of the vendor's SDK.

    Raises:
        InvalidInput: a block has no id or no name, or there are over 1,024 of them.
    """
    asked = [
        _Asked(_text(block, "id"), _text(block, "name"), _get(block, "input"))
        for block in blocks
        if _get(block, "type") == "tool_use"
    ]
    pictures = _Pictures()
    return [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": _anthropic_content(text, event, pictures),
            "is_error": failed,
        }
        for call, text, failed, event in await _run(executor, asked)
    ]


async def run_openai(executor: Executor, calls: Iterable[Any]) -> list[dict[str, Any]]:
    """Answer function calls: ``function_call`` items of the Responses API, or the ``tool_calls`` of
    a Chat Completions message, each in its own form.

    Items of other types are left out. The APIs have no mark for errors, so their text begins with
    ``Error:``.

    Raises:
        InvalidInput: a call has no id or no name, or there are over 1,024 of them.
    """
    asked = [
        _from_openai(call) for call in calls if _get(call, "type") in ("function_call", "function")
    ]
    answers: list[dict[str, Any]] = []
    for call, text, failed, _ in await _run(executor, asked):
        output = f"Error: {text}" if failed else text
        if call.is_chat:
            answers.append({"role": "tool", "tool_call_id": call.id, "content": output})
        else:
            answers.append({"type": "function_call_output", "call_id": call.id, "output": output})
    return answers


def is_error(event: LastEvent) -> bool:
    """Whether a model should take the answer as an error: the call did not go through, or its
    command was ended for it. A command that failed by itself is a result, with its exit code."""
    if not isinstance(event, Finished) or event.outcome != "ok":
        return True
    result = event.result
    return result is not None and result.exec is not None and result.exec.status != "exited"


async def _run(
    executor: Executor, asked: Sequence[_Asked]
) -> list[tuple[_Asked, str, bool, LastEvent | None]]:
    if len(asked) > MAX_CALLS:
        raise InvalidInput(f"A message asks for {len(asked)} calls; at most {MAX_CALLS}.")
    ended: dict[str, LastEvent] = {}
    async with executor:
        for number, call in enumerate(asked):
            # Numbered: a model may repeat an id, and every block must be answered.
            if call.problem is None:
                executor.submit(str(number), call.tool, call.raw_input)
        for event in await executor.results():
            ended[event.id] = event
    answers: list[tuple[_Asked, str, bool, LastEvent | None]] = []
    for number, call in enumerate(asked):
        last = ended.get(str(number))
        if last is None:
            answers.append((call, call.problem or "The call was not run.", True, None))
        else:
            answers.append((call, last.text, is_error(last), last))
    return answers


def _from_openai(call: Any) -> _Asked:
    is_chat = _get(call, "type") == "function"
    function = _get(call, "function") if is_chat else call
    call_id = _text(call, "id" if is_chat else "call_id")
    name, arguments = _text(function, "name"), _get(function, "arguments")
    if not isinstance(arguments, str) or len(arguments) > MAX_ARGUMENTS_CHARS:
        return _Asked(call_id, name, None, is_chat, "The arguments are no text, or too long.")
    try:
        return _Asked(call_id, name, json.loads(arguments or "{}"), is_chat)
    except (ValueError, RecursionError):
        problem = f"The arguments of {name[:64]} are not JSON; write one JSON object."
        return _Asked(call_id, name, None, is_chat, problem)


@dataclass(slots=True)
class _Pictures:
    """How many pictures, and how large ones, the answers to one message may still hold."""

    left: int = MAX_PICTURES
    left_bytes: int = MAX_PICTURES_BYTES

    def take(self, data: bytes) -> str | None:
        """The media type of what can be shown, which is then counted.

        A vendor refuses the whole request for a picture that it cannot read: a broken file in a
        workspace would end the conversation. So what is not whole is not sent.
        """
        kind = picture_type(data)
        if kind is None or not self.left or len(data) > self.left_bytes:
            return None
        self.left -= 1
        self.left_bytes -= len(data)
        return kind


def _anthropic_content(
    text: str, event: LastEvent | None, pictures: _Pictures
) -> str | list[dict[str, Any]]:
    """Text; for a picture, the picture as well."""
    result = event.result if isinstance(event, Finished) else None
    media = result.output if result is not None else None
    if not isinstance(media, MediaContent):
        return text
    kind = pictures.take(media.data)
    if kind is None:
        is_picture = media.media_type.startswith("image/")
        return (
            f"{text}\n[It is not shown: broken, too large or one too many.]" if is_picture else text
        )
    data = base64.b64encode(media.data).decode()
    source = {"type": "base64", "media_type": kind, "data": data}
    return [{"type": "text", "text": text}, {"type": "image", "source": source}]


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _text(item: Any, name: str) -> str:
    value = _get(item, name)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"A tool call has no {name}.")
    return value
