"""``mcp --http`` as a program: what it prints, who can use that, and how it ends."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.mcp.serving import PROGRAM


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
async def test_whoever_reads_its_standard_error_can_call(
    tmp_path: Path, ending: signal.Signals
) -> None:
    (tmp_path / "a.txt").write_text("a")
    with subprocess.Popen(
        [*PROGRAM, "--http", "--workspace", tmp_path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            url = process.stderr.readline().removeprefix("url: ").strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
            shown = process.stderr.readline().removeprefix("header: ").strip()
            name, _, value = shown.partition(": ")
            async with create_mcp_http_client({name: value}) as http:
                async with Client(streamable_http_client(url, http_client=http)) as client:
                    found = await client.call_tool("Glob", {"pattern": "*.txt"})
                    assert "a.txt" in found.structured_content["text"]
            process.send_signal(ending)
            assert process.wait(100) in (0, 130)
            assert process.stdout.read() == ""
            assert "Traceback" not in process.stderr.read()
        finally:
            if process.poll() is None:
                process.kill()
