"""The program that waits in a container for one moved call, executes it, and ends.

Started ahead of the call as ``python -I -B runner.py``, it imports what every call needs and then
reads its standard input to the end::

    one line of JSON: what this is (version, token of the frames, kind, sizes)
    the input, as JSON; then the work, as a pickle

Both come from the client, which trusts itself. What goes back is frames of JSON only: ``R`` the
output, ``X`` an exception, ``H`` that the work begins, ``M`` what is missing here, ``P`` progress,
``L`` a line for the log.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # isolated (-I): nothing else leads to our own packages
    sys.path.insert(0, "/opt/sandboxed-tools/site")

import asyncio
import importlib
import inspect
import io
import json
import os
import pickle
from pathlib import PurePath
from typing import Any

import cloudpickle
import pydantic
import pydantic_core

from sandboxed_tools.inside import code as code_call
from sandboxed_tools.inside.context import InsideContext
from sandboxed_tools.inside.frame_writer import FrameWriter
from sandboxed_tools.inside.place import RUNNER_VERSION
from sandboxed_tools.inside.remote_error import error_data

__all__ = ["main"]

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
IMPORTED_AHEAD = (cloudpickle, pydantic)


def main() -> None:
    """Execute the one call that comes on standard input, then end this process at once.

    Not by returning: threads and exit handlers of the work could keep the process for ever.
    """
    data = sys.stdin.buffer.read()
    head, _, rest = data.partition(b"\n")
    del data
    if not head:
        os._exit(0)  # nobody called
    request = json.loads(head)
    writer = FrameWriter(request["token"])
    _leave_stdin()
    cwd = os.environ.pop("SANDBOX_CWD", None) or os.getcwd()
    os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})
    status = 1
    try:
        status = _serve(request, rest, writer, cwd)
    except BaseException as error:  # noqa: BLE001  the work's own exception, whatever it is
        writer.send_json("X", error_data(error, skip_above=__file__))
    finally:
        _end(status)


def _serve(request: dict[str, Any], rest: bytes, writer: FrameWriter, cwd: str) -> int:
    problem = _mismatch(request)
    if problem is not None:
        writer.send_json("M", {"what": "version", "name": problem})
        return 1
    cwd = request.get("cwd") or cwd
    os.chdir(cwd)
    if request["kind"] == "code":
        return code_call.serve(json.loads(rest), writer)
    size = request["input_bytes"]
    return _call(request, rest[:size], rest[size:], writer, PurePath(cwd))


def _mismatch(request: dict[str, Any]) -> str | None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if request["version"] != RUNNER_VERSION:
        return f"version {request['version']} of the runner; the image has {RUNNER_VERSION}"
    if request["kind"] == "call" and request["python"] != here:
        return f"Python {request['python']}; the image has Python {here}"
    return None


def _call(
    request: dict[str, Any], raw_input: bytes, work: bytes, writer: FrameWriter, cwd: PurePath
) -> int:
    try:
        function, schema = pickle.loads(work)  # noqa: S301  the client's own, not the other way
    except ModuleNotFoundError as error:
        writer.send_json("M", {"what": "package", "name": str(error.name or error)})
        return 1
    except AttributeError as error:
        writer.send_json("M", {"what": "name", "name": str(error)})
        return 1
    tool_input = schema.model_validate_json(raw_input)
    writer.send("H", b"")  # from here on the work may have been done
    context = InsideContext(writer, call_id=request["call_id"], cwd=cwd)
    output = function(tool_input, context)
    if inspect.isawaitable(output):
        output = asyncio.run(_awaited(output))
    try:
        data = pydantic_core.to_json(output)
    except (ValueError, RecursionError) as error:
        writer.send_json("M", {"what": "output", "name": str(error)[:1000]})
        return 1
    if len(data) > request["output_bytes"]:
        text = f"it is {len(data)} bytes of JSON; at most {request['output_bytes']}"
        writer.send_json("M", {"what": "output", "name": text})
        return 1
    _flush()
    writer.send("R", data)
    return 0


async def _awaited(output: Any) -> Any:
    return await output


def _leave_stdin() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the work closed or replaced it


def _end(status: int) -> None:
    _flush()
    os._exit(status)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        importlib.import_module("asyncio")
        sys.exit(0)
    main()
