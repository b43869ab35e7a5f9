"""What became of a run of code: output, value, exception and artifacts, each foreign data."""

from __future__ import annotations

import base64
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    EncodedBytes,
    EncoderProtocol,
    Field,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError

from sandboxed_tools.builtin.media_type import media_type
from sandboxed_tools.errors import NotMovable, ToolFailed
from sandboxed_tools.tool import ExecResult, Status, for_model

__all__ = ["Artifact", "CodeError", "CodeResult", "code_result", "model_text", "person_text"]

MAX_ENCODED_BYTES: Final = 7 * 1024 * 1024
"""Of one artifact as it travels: the runner sends files of up to 5 MiB, in base64."""

MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Base64(EncoderProtocol):
    """Base64 as it is written: the decoder of pydantic passes over what is none."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        try:
            return base64.b64decode(data, validate=True)
        except ValueError as error:
            raise PydanticCustomError("base64", "this is no base64") from error

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return base64.b64encode(value)

    @classmethod
    def get_json_format(cls) -> str:
        return "base64"


class CodeError(_Data):
    """An exception that the code raised."""

    type: str = Field(max_length=400)
    module: str = Field(max_length=400)
    message: str = Field(max_length=20_000)
    traceback: str = Field(max_length=200_000)


class Artifact(_Data):
    """A file that the code left. ``name`` is its path below the folder of artifacts."""

    name: str = Field(min_length=1, max_length=4096)
    data: Annotated[bytes, EncodedBytes(encoder=_Base64)] = Field(
        max_length=MAX_ENCODED_BYTES, repr=False
    )

    @field_validator("name")
    @classmethod
    def _is_below(cls, name: str) -> str:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise ValueError("an artifact's name is a relative path")
        return name

    @property
    def media_type(self) -> str:
        """What it is, told by its content."""
        return media_type(self.data)


class CodeResult(_Data):
    """One run. ``exit_code`` is ``None`` when it did not end by itself; ``status`` says how it did.

    ``value`` is the ``repr`` of the last expression, for Python. ``left_out`` names files that were
    too large, too many, or no regular files.
    """

    status: Status
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    error: CodeError | None = None
    artifacts: tuple[Artifact, ...] = ()
    left_out: tuple[str, ...] = ()
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.status == "exited" and self.exit_code == 0


class _Answer(_Data):
    exit_code: int = Field(ge=0, le=255)
    value: str | None = Field(max_length=200_000)
    error: CodeError | None
    artifacts: tuple[Artifact, ...] = Field(max_length=64)
    left_out: tuple[str, ...] = Field(max_length=64)
    missing: str | None = Field(default=None, max_length=100)


class _Lack(_Data):
    what: str = Field(max_length=20)
    name: str = Field(max_length=2000)


def code_result(result: ExecResult) -> CodeResult:
    """Put the result of the runner and its answer together.

    Raises:
        NotMovable: the image has no runner, or an other one, or lacks the language.
        ToolFailed: what came back is no answer.
    """
    frames: dict[str, bytes] = {}
    for kind, payload in result.frames:
        frames.setdefault(kind, payload)
    try:
        if "M" in frames:
            lack = _Lack.model_validate_json(frames["M"])
            raise NotMovable(f"The code was not run: this program has {lack.name}.")
        answer = _Answer.model_validate_json(frames["C"]) if "C" in frames else None
        error = CodeError.model_validate_json(frames["X"]) if "X" in frames else None
    except ValidationError:
        raise ToolFailed("What came back from the container is no answer of the runner.") from None
    if answer is not None and answer.missing:
        raise NotMovable(f"The code was not run: the image has no {answer.missing}.")
    if answer is None and not result.frames and result.exit_code in (126, 127):
        raise NotMovable("The code was not run: the image has no runner. Use sandboxed-tools/data.")
    return CodeResult(
        status=result.status,
        exit_code=answer.exit_code if answer and result.status == "exited" else result.exit_code,
        stdout=result.stdout_text,
        stderr=result.stderr_text,
        value=answer.value if answer else None,
        error=answer.error if answer else error,
        artifacts=answer.artifacts if answer else (),
        left_out=answer.left_out if answer else (),
        truncated=result.truncated,
    )


def model_text(result: CodeResult) -> str:
    """For a model: everything but the content of the artifacts, marked as foreign."""
    text = _text(result)
    shown = for_model(text, source="code") if text else "(no output)"
    return f"{shown}\n{_ending(result)}"


def person_text(result: CodeResult) -> str:
    """For a person; what it says about artifacts is in :func:`model_text` too."""
    ending = "" if result.ok else _ending(result)
    return "\n".join(part for part in (_text(result), ending) if part)


def _text(result: CodeResult) -> str:
    parts = [result.stdout.rstrip("\n")]
    if result.stderr:
        parts.append(f"[stderr]\n{result.stderr.rstrip()}")
    if result.value is not None:
        parts.append(f"[value]\n{result.value}")
    if result.error is not None:
        parts.append(result.error.traceback.rstrip())
    parts += [
        f"[artifact {item.name}: {item.media_type}, {len(item.data)} bytes]"
        for item in result.artifacts
    ]
    if result.left_out:
        parts.append(f"[not taken along: {', '.join(result.left_out)}]")
    return "\n".join(part for part in parts if part)


def _ending(result: CodeResult) -> str:
    if result.status == "exited":
        return f"[exit code {result.exit_code}]"
    return f"[{result.status}]"
