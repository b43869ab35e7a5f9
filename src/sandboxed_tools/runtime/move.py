"""A Python tool's call, executed in a container: out as a pickle of ours, back as data.

Nothing that comes back is ever unpickled: the answer is JSON in frames, bounded in size, depth and
number of values, and validated against the tool's output model.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_type_hints

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json

from sandboxed_tools.errors import InvalidInput, NotMovable, RemoteError, ToolFailed
from sandboxed_tools.inside.place import RUNNER_ARGV, RUNNER_VERSION
from sandboxed_tools.runtime.call_context import CallContext
from sandboxed_tools.runtime.packing import pack
from sandboxed_tools.runtime.relay import Relay
from sandboxed_tools.tool import AnyTool, Command, ExecResult, ToolInput, for_terminal
from sandboxed_tools.tool.context import redeem
from sandboxed_tools.tool.frames import FrameChannel

__all__ = ["MAX_OUTPUT_BYTES", "Move"]

MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
MAX_VALUES: Final = 2_000_000
"""Values of one output: a list of empty lists takes forty times its length in memory."""

LISTENER_WAIT_S: Final = 30.0
"""How long a call that ended by itself waits for listeners that are slower than it was."""

ENDED_WAIT_S: Final = 0.5
"""The same for a call that was ended: its result is due within a second."""

_MISSING: Final = {
    "package": "the image has no package {name}",
    "name": "the image has another version of a package: {name}",
    "version": "this program has {name}",
}

log = logging.getLogger("sandboxed_tools")


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_AnswerT = TypeVar("_AnswerT", bound=_Answer)


class _Exception(_Answer):
    type: str = Field(max_length=400)
    module: str = Field(max_length=400)
    message: str = Field(max_length=20_000)
    traceback: str = Field(max_length=200_000)


class _Lack(_Answer):
    what: str = Field(max_length=20)
    name: str = Field(max_length=2000)


@dataclass(frozen=True, slots=True)
class Move:
    """One call on its way: what travels was packed and judged before anybody was asked."""

    tool: AnyTool
    packed: bytes

    @classmethod
    def of(cls, tool: AnyTool) -> Move:
        """Pack the tool's work as it is now.

        Raises:
            NotMovable: it cannot travel; the message names what is in the way.
        """
        return cls(tool, pack(tool))

    async def call(
        self,
        tool_input: ToolInput,
        context: CallContext,
        *,
        execute: Callable[[Command], Awaitable[ExecResult]],
    ) -> Any:
        """Execute it in a container and return its validated output.

        Raises:
            NotAuthorized: the context is not for this call.
            InvalidInput: the input is no JSON.
            NotMovable: the image lacks something; the work has not begun.
            ToolFailed: it raised (``RemoteError`` is the cause), was ended, or gave no usable
                output.
            SandboxUnavailable: the sandbox failed.
        """
        redeem(context, tool=self.tool, tool_input=tool_input)
        relay = Relay(lambda kind, payload: _tell(context, kind, payload))
        channel = FrameChannel(
            max_bytes=MAX_OUTPUT_BYTES + 1024 * 1024, live_kinds="PL", on_live=relay.put
        )
        command = Command(
            RUNNER_ARGV, stdin=self._request(tool_input, context, channel), channel=channel
        )
        try:
            result = await execute(command)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await relay.aclose(timeout_s=ENDED_WAIT_S)
            raise
        was_ended = result.status != "exited"
        await relay.aclose(timeout_s=ENDED_WAIT_S if was_ended else LISTENER_WAIT_S)
        context.exec_result = result
        return self._output(result, is_overfull=channel.is_overfull)

    def _request(self, tool_input: ToolInput, context: CallContext, channel: FrameChannel) -> bytes:
        try:
            raw = tool_input.model_dump_json(exclude_unset=True, by_alias=True, round_trip=True)
        except PydanticSerializationError as error:
            raise InvalidInput(
                f"The input of {self.tool.name} cannot travel into a container: {error}"[:1000]
            ) from None
        encoded = raw.encode("utf-8")
        head = {
            "version": RUNNER_VERSION,
            "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
            "token": channel.token,
            "kind": "call",
            "call_id": context.call_id,
            "cwd": None if context.cwd is None else os.fspath(context.cwd),
            "input_bytes": len(encoded),
            "output_bytes": MAX_OUTPUT_BYTES,
        }
        return b"".join((json.dumps(head).encode("ascii"), b"\n", encoded, self.packed))

    def _output(self, result: ExecResult, *, is_overfull: bool) -> Any:
        frames: dict[str, bytes] = {}
        for kind, payload in result.frames:
            frames.setdefault(kind, payload)
        if result.status == "exited":
            if "M" in frames:
                raise self._lacking(frames["M"])
            if "X" in frames:
                raise self._raised(frames["X"])
            if is_overfull:
                raise self._failed(f"its output is over {MAX_OUTPUT_BYTES} bytes of JSON")
            if "R" in frames:
                return self._validated(frames["R"])
            if "H" not in frames and result.exit_code in (126, 127):
                raise NotMovable(
                    f"{self.tool.name} cannot be moved into a container: the image has no runner "
                    "for Python tools; use sandboxed-tools/python, or an image made from it."
                )
        raise self._failed(_ending(result))

    def _failed(self, why: str) -> ToolFailed:
        return ToolFailed(f"{self.tool.name} failed: {why}."[:2000])

    def _lacking(self, payload: bytes) -> NotMovable | ToolFailed:
        lack = self._answer(_Lack, payload)
        name = for_terminal(lack.name, one_line=True)
        if lack.what not in _MISSING:
            return self._failed(f"its output is no JSON: {name}")
        what = _MISSING[lack.what].format(name=name)
        return NotMovable(f"{self.tool.name} cannot be moved into a container: {what}.")

    def _raised(self, payload: bytes) -> ToolFailed:
        error = self._answer(_Exception, payload)
        remote = RemoteError(
            type_name=error.type, message=error.message, traceback_text=error.traceback
        )
        failed = ToolFailed(
            f"{self.tool.name} failed: {remote}"[:2000], operator_detail=error.traceback
        )
        failed.__cause__ = remote
        return failed

    def _answer(self, model: type[_AnswerT], payload: bytes) -> _AnswerT:
        try:
            return model.model_validate_json(payload)
        except ValidationError:
            raise self._failed("what came back from the container is no answer") from None

    def _validated(self, payload: bytes) -> Any:
        count = payload.count(b",") + payload.count(b"[") + payload.count(b"{")
        if len(payload) > MAX_OUTPUT_BYTES or count > MAX_VALUES:
            raise self._failed("its output is too large")
        try:
            value = from_json(payload, allow_inf_nan=False, cache_strings="none")
        except ValueError as error:
            raise self._failed(f"its output is no JSON that is taken: {error}") from None
        adapter = _output_adapter(self.tool)
        if adapter is None:
            return value
        try:
            return adapter.validate_json(payload)
        except ValidationError as error:
            raise self._failed(
                f"its output does not fit its model in {error.error_count()} places"
            ) from RemoteError(
                type_name="ValidationError", message=str(error)[:2000], traceback_text=""
            )


def _output_adapter(tool: AnyTool) -> TypeAdapter[Any] | None:
    """The type that the output must fit: what is stated, else what the function's author wrote."""
    if tool.output_schema is not None:
        return TypeAdapter(tool.output_schema)
    try:
        stated = get_type_hints(tool.stated_value("call")).get("return", Any)
        return None if stated is Any else TypeAdapter(stated)
    except Exception as error:  # noqa: BLE001  annotations may be anything
        log.debug("the annotations of %s name no type for its output: %r", tool.name, error)
        return None


def _tell(context: CallContext, kind: str, payload: bytes) -> None:
    if kind == "L":
        context.log(for_terminal(payload.decode("utf-8", "replace"), one_line=True))
        return
    try:
        value = from_json(payload, allow_inf_nan=False)
    except ValueError:
        log.info("call %s sent progress that is no JSON; it is left out", context.call_id)
        return
    context.progress(value)


def _ending(result: ExecResult) -> str:
    if result.status == "timeout":
        return "it took longer than it may"
    if result.status == "exited":
        return f"its process ended with {result.exit_code} and without an answer"
    if result.status == "signalled":
        return f"its process was ended by signal {result.signal}"
    return f"it was ended ({result.status})"
