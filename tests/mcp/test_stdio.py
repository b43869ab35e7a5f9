"""The server on standard input and output, by the SDK's own client, in both eras of MCP."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, MCPError
from tests.mcp.serving import DEADLINE_S, PROGRAM, stdio_server, texts, until

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.mcp.stdio import MAX_UNANSWERED

ERAS = ["legacy", "auto"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


@pytest.mark.parametrize("era", ERAS)
async def test_the_shipped_tools_are_listed_with_closed_schemas_and_all_hints(
    workspace: Path, era: str
) -> None:
    async with Client(stdio_server("-w", workspace), mode=era) as client:
        tools = (await client.list_tools()).tools
        assert {"Bash", "Read", "Write", "Edit", "Glob", "Grep"} <= {tool.name for tool in tools}
        for tool in tools:
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            hints = tool.annotations
            assert hints is not None
            assert None not in (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
                hints.open_world_hint,
            )
        assert client.server_info is not None
        assert client.server_info.name == "sandboxed-tools"


@pytest.mark.engine
@pytest.mark.parametrize("era", ERAS)
async def test_a_contained_call_tells_where_it_ran_what_it_used_and_what_it_changed(
    workspace: Path, era: str
) -> None:
    async with Client(stdio_server("-w", workspace), mode=era) as client:
        result = await client.call_tool("Bash", {"command": "echo hi; echo new > made; exit 3"})
        assert not result.is_error, "a command that fails is a result"
        found = result.structured_content
        assert (found["status"], found["exit_code"], found["stdout"]) == ("exited", 3, "hi\n")
        assert found["placement"] == "container"
        assert found["reasons"]
        assert found["usage"]["memory_peak_bytes"] > 0
        assert found["changes"]["decision"] == "held"
        assert result.meta is not None
        assert result.meta["sandboxed-tools/placement"] == "container"
        assert result.meta["sandboxed-tools/changes"] == found["changes"]
        assert "<untrusted" in texts(result)
        assert not (workspace / "made").exists()

        uri = f"sandboxed-tools://changes/{found['changes']['id']}"
        assert [item.uri for item in (await client.list_resources()).resources] == [uri]
        content = (await client.read_resource(uri)).contents[0]
        assert "+new" in content.text  # type: ignore[union-attr]

        again = await client.call_tool("Bash", {"command": "cat made && touch more"})
        assert again.structured_content["stdout"] == "new\n", "the session sees its own changes"


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_on_the_host_needs_no_engine(workspace: Path, era: str) -> None:
    server = stdio_server("-w", workspace, env={"DOCKER_HOST": "unix:///nonexistent/engine.sock"})
    async with Client(server, mode=era) as client:
        result = await client.call_tool("Glob", {"pattern": "*.txt"})
        assert not result.is_error
        assert result.structured_content["placement"] == "host"
        assert "a.txt" in result.structured_content["text"]
        failed = await client.call_tool("Bash", {"command": "touch x"})
        assert failed.is_error, "never on the host instead"
        assert failed.meta is not None
        assert failed.meta["sandboxed-tools/error"]["code"] == "engine_not_found"
        assert not (workspace / "x").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_a_wrong_input_is_a_result_that_names_the_field(workspace: Path, era: str) -> None:
    async with Client(stdio_server("-w", workspace), mode=era) as client:
        for wrong in ({}, {"pattern": 3}, {"pattern": "*", "extra": 1}, {"pattern": ["*"]}):
            result = await client.call_tool("Glob", wrong)
            assert result.is_error
            assert result.meta is not None
            assert result.meta["sandboxed-tools/error"]["fields"]


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_an_error_of_the_protocol(workspace: Path, era: str) -> None:
    async with Client(stdio_server("-w", workspace), mode=era) as client:
        with pytest.raises(MCPError, match="no tool 'Nope'") as caught:
            await client.call_tool("Nope", {})
        assert caught.value.error.code == -32602


@pytest.mark.engine
async def test_output_is_shown_live_and_progress_is_told(workspace: Path) -> None:
    seen: list[str] = []
    told: list[float] = []
    is_shown = anyio.Event()

    async def on_log(params: Any) -> None:
        seen.append(params.data)
        is_shown.set()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    server = stdio_server("-w", workspace)
    async with Client(server, mode="legacy", logging_callback=on_log) as client:
        fifo_like = "printf '\\033[31mfirst\\033[0m\\n'; while [ ! -e /tmp/go ]; do sleep 0.1; "
        fifo_like += "[ $((n=n+1)) -gt 25 ] && touch /tmp/go; done; echo last"
        result = await client.call_tool(
            "Bash", {"command": fifo_like}, progress_callback=on_progress
        )
        assert result.structured_content["exit_code"] == 0
    assert is_shown.is_set()
    assert "".join(seen) == "first\nlast\n", "and no control sequence"
    assert told
    assert told == sorted(set(told)), "progress only grows"


@pytest.mark.engine
async def test_a_cancelled_call_ends_its_container(workspace: Path, api: Any) -> None:
    import docker.errors

    from sandboxed_tools.tool.state import installation_id

    started = anyio.Event()

    async def on_log(params: Any) -> None:
        started.set()

    def running() -> list[Any]:
        labels = {"label": f"sandboxed-tools.installation={installation_id()}"}
        processes: list[str] = []
        for item in api.containers(filters=labels):
            with suppress(docker.errors.APIError):  # it is just going
                processes += [" ".join(p) for p in api.top(item["Id"])["Processes"] or ()]
        return [process for process in processes if "sleep 987" in process]

    async with Client(
        stdio_server("-w", workspace), mode="legacy", logging_callback=on_log
    ) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                client.call_tool, "Bash", {"command": "touch x; echo started; sleep 987"}
            )
            with anyio.fail_after(DEADLINE_S):
                await started.wait()
            await until(running, what="the command sleeps")
            tasks.cancel_scope.cancel()
        await until(lambda: not running(), what="the command has ended")
        assert (await client.call_tool("Glob", {"pattern": "*"})).is_error is False


@contextmanager
def raw_server(
    *words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*PROGRAM, *map(str, words)],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        if process.poll() is None:
            process.kill()
        process.wait(60)


def send(process: subprocess.Popen[bytes], *messages: bytes) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(message + b"\n")
    process.stdin.flush()


def receive(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
).encode()
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
PING = b'{"jsonrpc":"2.0","id":"after","method":"ping"}'


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"this is no JSON", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b"{}", -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":9,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"1.0","id":9,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', -32600),
        (b"null", -32600),
    ],
)
def test_what_is_no_message_is_answered_and_the_server_goes_on(line: bytes, code: int) -> None:
    with raw_server() as process:
        send(process, INITIALIZE)
        assert receive(process)["id"] == 1
        send(process, INITIALIZED, line, b"", PING)
        answers = [receive(process), receive(process)]
        assert [a["error"]["code"] for a in answers if "error" in a] == [code]
        assert [a["id"] for a in answers if "result" in a] == ["after"]


def test_a_request_that_is_no_message_is_answered_by_its_id() -> None:
    """Half a character, for one, as clients send whose text was cut in the middle of it."""
    wrong = (
        '"method":"tools/call","params":{"name":"Glob","arguments":{"pattern":"\\ud83d"}}',
        '"method":"ping","params":[]',
        '"method":"\\udc00"',
        '"method":3',
    )
    with raw_server() as process:
        for rest, identity in itertools.product(wrong, ("mine", 7, -1, "")):
            send(process, f'{{"jsonrpc":"2.0","id":{json.dumps(identity)},{rest}}}'.encode())
            answer = receive(process)
            assert (answer["id"], answer["error"]["code"]) == (identity, -32600), rest


def test_what_is_no_request_is_never_answered_by_its_id() -> None:
    """The id of an answer is one of the server's own; an id that is none cannot be given back."""
    lines = (
        b'{"jsonrpc":"2.0","id":7,"result":3}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":"x","message":3}}',
        b'{"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    )
    with raw_server() as process:
        send(process, *lines)
        for line in lines:
            answer = receive(process)
            assert (answer["id"], answer["error"]["code"]) == (None, -32600), line


def test_a_list_that_is_known_is_given_only_to_a_request_that_is_right() -> None:
    def asked(identity: int, params: object) -> bytes:
        request = {"jsonrpc": "2.0", "id": identity, "method": "tools/list", "params": params}
        return json.dumps(request).encode()

    with raw_server() as process:
        send(process, asked(7, {}))
        assert "error" in receive(process), "not before the handshake"
        send(process, INITIALIZE)
        assert receive(process)["id"] == 1
        send(process, INITIALIZED)
        kinds: tuple[dict[str, object], ...] = ({}, {"_meta": {}}, {})
        for identity, params in enumerate(kinds, start=2):
            send(process, asked(identity, params))
            assert receive(process)["result"]["tools"]
        send(process, asked(8, {"cursor": 3}))
        assert receive(process)["error"]["code"] == -32602
        send(process, asked(9, {"_meta": 3}))
        receive(process)
        send(process, PING)
        assert receive(process)["id"] == "after"


def test_a_line_of_a_hundred_megabytes_is_refused_in_bounded_memory() -> None:
    with raw_server() as process:
        send(process, INITIALIZE)
        receive(process)
        send(process, INITIALIZED)
        assert process.stdin is not None
        for _ in range(100):
            process.stdin.write(b"x" * 1024 * 1024)
        send(process, b"", PING)
        answers = [receive(process), receive(process)]
        assert [a["error"]["code"] for a in answers if "error" in a] == [-32600]
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_kib = int(next(line for line in status.splitlines() if "VmHWM" in line).split()[1])
        assert peak_kib < 400 * 1024


def flooded(process: subprocess.Popen[bytes], requests: Iterator[bytes]) -> int:
    """Send requests and read nothing, until the server takes no more; how many it took whole."""
    assert process.stdin is not None
    descriptor = process.stdin.fileno()
    os.set_blocking(descriptor, False)
    taken = 0
    for request in requests:
        rest = request + b"\n"
        deadline = time.monotonic() + 5
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return taken
                time.sleep(0.01)
        taken += 1
    return taken


@pytest.mark.parametrize("same_id", [False, True])
def test_a_client_that_reads_no_answers_is_read_no_further_and_loses_none(same_id: bool) -> None:
    def lists() -> Iterator[bytes]:
        for number in range(100_000):
            identity = 7 if same_id else number
            yield f'{{"jsonrpc":"2.0","id":{identity},"method":"tools/list"}}'.encode()

    with raw_server() as process:
        send(process, INITIALIZE)
        receive(process)
        send(process, INITIALIZED)
        taken = flooded(process, lists())
        assert taken < 10 * MAX_UNANSWERED
        for _ in range(taken):
            assert receive(process)["result"]["tools"]
        process.terminate()
        assert process.wait(60) in (0, 130)


def test_answers_that_cannot_be_written_end_no_server_with_a_traceback() -> None:
    messages = b"\n".join([INITIALIZE, INITIALIZED, PING, b""])
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            PROGRAM, input=messages, stdout=full, stderr=subprocess.PIPE, timeout=170, check=False
        )
    assert done.returncode == 0
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_client_that_goes_without_having_read_its_answers_ends_the_server() -> None:
    list_tools = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    with raw_server() as process:
        send(process, INITIALIZE)
        receive(process)
        send(process, INITIALIZED)
        flooded(process, itertools.repeat(list_tools))
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.close()
        process.stdin.close()
        assert process.wait(60) in (0, 130)


def test_an_error_of_the_client_s_is_an_answer_to_our_question(workspace: Path) -> None:
    """It is neither echoed nor waited for: the call goes on without roots, and without a yes."""
    hello = json.loads(INITIALIZE)
    hello["params"]["capabilities"] = {"roots": {}, "elicitation": {}}
    arguments = {"file_path": str(workspace / "new"), "content": "x"}
    call = {"jsonrpc": "2.0", "id": "call", "method": "tools/call"}
    call["params"] = {"name": "Write", "arguments": arguments}  # type: ignore[assignment]
    with raw_server("-w", workspace) as process:
        send(process, json.dumps(hello).encode())
        assert receive(process)["id"] == 1
        send(process, INITIALIZED, json.dumps(call).encode())
        for method in ("roots/list", "elicitation/create"):
            question = receive(process)
            assert question["method"] == method
            error = {"code": -32603, "message": "not now"}
            refusal = {"jsonrpc": "2.0", "id": question["id"], "error": error}
            send(process, json.dumps(refusal).encode())
        answer = receive(process)
        assert answer["id"] == "call"
        assert answer["result"]["isError"] is True
    assert not (workspace / "new").exists()


def test_messages_from_a_file_are_answered_to_the_last_byte(tmp_path: Path) -> None:
    messages = tmp_path / "messages"
    list_tools = b'{"jsonrpc":"2.0","id":"list","method":"tools/list"}'
    wrong = b'{"jsonrpc":"2.0","id":"wrong","method":"no/such"}'
    messages.write_bytes(b"\n".join([INITIALIZE, INITIALIZED, list_tools, wrong, PING, b"{", b""]))
    with messages.open("rb") as stdin:
        done = subprocess.run(PROGRAM, stdin=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = {answer.get("id"): answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers.keys() == {1, "list", "wrong", "after", None}
    assert len(answers["list"]["result"]["tools"]) == len(SHIPPED)


async def test_a_hundred_parallel_calls_are_all_answered(workspace: Path) -> None:
    results: list[Any] = []

    async def call(client: Client, number: int) -> None:
        results.append(await client.call_tool("Glob", {"pattern": f"{number}*"}))

    with anyio.fail_after(120):
        async with Client(stdio_server("-w", workspace), mode="legacy") as client:
            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(call, client, number)
    assert len(results) == 100
    assert not any(result.is_error for result in results)


@pytest.mark.parametrize("ending", ["end of input", signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_with_its_client_or_a_signal(ending: Any) -> None:
    with raw_server() as process:
        send(process, INITIALIZE)
        receive(process)
        assert process.stdin is not None
        if ending == "end of input":
            process.stdin.close()
        else:
            process.send_signal(ending)
        code = process.wait(60)
        assert code in (0, 130)


def test_standard_output_holds_messages_only(tmp_path: Path) -> None:
    module = tmp_path / "noisy.py"
    module.write_text(
        "import sys, os, subprocess\n"
        "from sandboxed_tools import ToolInput, build_tool\n"
        "class Nothing(ToolInput):\n    pass\n"
        "def noise(tool_input):\n"
        "    print('stray', repr(sys.stdin.read())); os.write(1, b'stray\\n')\n"
        "    subprocess.run(['echo', 'stray from a child'])\n"
        "    return True\n"
        "TOOLS = [build_tool(name='Noisy', description='x', input_schema=Nothing,\n"
        "    call=lambda tool_input, ctx: 'x', is_read_only=noise)]\n"
        "print('stray on import')\n"
    )
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/engine.sock"}
    call = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Noisy"}}'
    with raw_server("--tools", "noisy:TOOLS", cwd=tmp_path, env=env) as process:
        send(process, INITIALIZE)
        assert receive(process)["id"] == 1
        send(process, INITIALIZED, call, PING)
        assert {receive(process)["id"] for _ in range(2)} == {2, "after"}
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.stderr is not None
        errors = process.stderr.read()
    for stray in (b"stray on import", b"stray ''", b"stray\n", b"stray from a child"):
        assert stray in errors


@pytest.mark.engine
def test_a_client_that_vanishes_in_mid_call_leaves_nothing_running(workspace: Path) -> None:
    """The check for leaks at the end of the session would find the container."""
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "Bash", "arguments": {"command": "touch x; echo started; sleep 987"}},
    }
    with raw_server("-w", workspace) as process:
        send(process, INITIALIZE)
        receive(process)
        send(process, INITIALIZED, json.dumps(call).encode())
        shown = receive(process)
        assert shown["method"] == "notifications/message"
        assert shown["params"]["data"] == "started\n"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(100) == 0
