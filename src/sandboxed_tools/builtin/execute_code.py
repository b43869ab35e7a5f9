"""ExecuteCode: a piece of Python, Bash or JavaScript, always in a container of its own."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Final, Literal

from pydantic import Field

from sandboxed_tools.bash import classify
from sandboxed_tools.builtin.code_effects import Effect, python_effect
from sandboxed_tools.builtin.code_result import (
    MAX_ANSWER_BYTES,
    code_result,
    model_text,
    person_text,
)
from sandboxed_tools.inside.place import RUNNER_ARGV, RUNNER_VERSION
from sandboxed_tools.tool import Command, Reason, ToolInput, build_tool
from sandboxed_tools.tool.frames import FrameChannel

__all__ = ["ExecuteCode", "ExecuteCodeInput"]

MAX_CODE_CHARS: Final = 1_000_000
MAX_FILES: Final = 64
_IMPORTABLE: Final = re.compile(r"\.(py|pyc|so)\Z")


class ExecuteCodeInput(ToolInput):
    """Input of the ExecuteCode tool."""

    language: Literal["python", "bash", "javascript"] = Field(
        default="python", description="The language of the code."
    )
    code: str = Field(min_length=1, max_length=MAX_CODE_CHARS, description="What to execute.")
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        strict=True,
        description="Seconds after which the code is killed. Default: the operator's limit.",
    )
    files: dict[str, str] = Field(
        default_factory=dict,
        max_length=MAX_FILES,
        description="Texts to put into files before, by relative path; they stand in $FILES.",
    )


def code_effect(tool_input: ExecuteCodeInput) -> Effect:
    """What the code may do, as far as its text proves it."""
    if tool_input.language == "python":
        # The folder of the files comes first: a random.py there is what `import random` imports.
        is_shadowed = any(_IMPORTABLE.search(name) for name in tool_input.files)
        return "unknown" if is_shadowed else python_effect(tool_input.code)
    if tool_input.language == "bash" and classify(tool_input.code).read_only:
        return "none"
    return "unknown"


def code_command(tool_input: ExecuteCodeInput) -> Command:
    """The call of the runner that waits in the image with Python."""
    channel = FrameChannel(max_bytes=MAX_ANSWER_BYTES)
    head = {"version": RUNNER_VERSION, "token": channel.token, "kind": "code"}
    body = {
        "language": tool_input.language,
        "code": tool_input.code,
        "files": dict(tool_input.files),
    }
    request = f"{json.dumps(head)}\n{json.dumps(body)}".encode("ascii")
    return Command(RUNNER_ARGV, stdin=request, channel=channel)


def _problem(tool_input: ExecuteCodeInput) -> str | None:
    for text in (tool_input.code, *tool_input.files.values(), *tool_input.files):
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return "a text holds a lone surrogate"
    for name in tool_input.files:
        path = PurePosixPath(name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
            return f"files: {name[:80]!r} is no relative path below $FILES"
        if len(name) > 255:
            return "files: a path is longer than 255 characters"
    return None


def _is_read_only(tool_input: ExecuteCodeInput) -> bool:
    return code_effect(tool_input) == "none"


def _reasons(tool_input: ExecuteCodeInput) -> tuple[Reason, ...]:
    effect = code_effect(tool_input)
    said = {
        "none": "the code only computes and prints",
        "contained": "the code uses well-known modules for files and data only",
        "unknown": "the code may do anything",
    }
    return (Reason(f"code_effect_{effect}", said[effect]),)


ExecuteCode = build_tool(
    name="ExecuteCode",
    description=(
        "Execute Python, Bash or JavaScript in a disposable container without network. Gives what "
        "it printed, the value of the last expression, exceptions, and every file that the code "
        "puts into the folder $ARTIFACTS; figures of matplotlib are among them."
    ),
    input_schema=ExecuteCodeInput,
    command=code_command,
    map_result=code_result,
    runs_in="python",
    validate_input=_problem,
    timeout=lambda tool_input: tool_input.timeout,
    is_read_only=_is_read_only,
    is_concurrency_safe=_is_read_only,
    is_idempotent=_is_read_only,
    is_destructive=lambda tool_input: not _is_read_only(tool_input),
    needs_sandbox=True,
    requires_confirmation=lambda tool_input: code_effect(tool_input) == "unknown",
    flag_reasons=_reasons,
    permission_pattern=lambda tool_input: tool_input.code,
    summarize_use=lambda tool_input: f"{tool_input.language}: {tool_input.code[:80]}",
    render_use=lambda tool_input: f"ExecuteCode ({tool_input.language}): {tool_input.code}",
    render_result=person_text,
    to_model_text=model_text,
    examples=(
        {"code": "1 + 1"},
        {"code": "import pandas\npandas.read_csv('data.csv').describe()"},
        {"code": "import subprocess\nsubprocess.run(['make'])"},
        {"language": "bash", "code": "ls"},
        {"language": "javascript", "code": "console.log(1)"},
    ),
    defaults=1,
)
