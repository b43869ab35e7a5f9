"""Every hostile case of the corpus comes to what it is expected to come to."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from tests.security.abuse import PATIENCE, ROWS, Row
from tests.security.abuse_run import conduct

from sandboxed_tools.builtin import SHIPPED

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TOOLS = {tool.name for tool in SHIPPED}
HOST_FILES = ("/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/ld.so.preload")


def is_run_here(row: Row) -> bool:
    """Whether the row is about what exists: a call of a shipped tool, or a contained command."""
    if row.outcome == "reaped" or row.needs_applied_changes:
        return False
    return row.tool_call is None or row.tool_call[0] in TOOLS


RUN_HERE = tuple(row for row in ROWS if is_run_here(row))


def host_files() -> dict[str, str]:
    return {
        name: hashlib.sha256(Path(name).read_bytes()).hexdigest()
        for name in HOST_FILES
        if Path(name).exists()
    }


def planted() -> set[str]:
    """What the cases plant on a host that they reach."""
    return {str(path) for path in Path("/tmp").glob("hard-*")}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, engine: Engine, base_image: str) -> dict[str, list[str]]:
    """All selected rows, run a few at a time, with a look at the host before and after."""
    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.workspace import WorkspaceViews

    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    selected = {p.params["row"].id for p in parameters if p is not None and "row" in p.params}
    rows = [row for row in RUN_HERE if row.id in selected]

    async def run() -> dict[str, list[str]]:
        # Each row has workspaces of its own, so that what stands ready after a call is for nobody,
        # and making it takes an emulated machine seconds.
        sandbox = DockerSandbox(engine, views=WorkspaceViews(), warm=PATIENCE == 1)
        try:
            return await conduct(rows, sandbox)
        finally:
            await sandbox.aclose()

    files, plants = host_files(), planted()
    outcome = anyio.run(run)
    assert host_files() == files
    assert planted() == plants
    return outcome


@pytest.mark.timeout(1200 * PATIENCE)  # the first of them waits for all
@pytest.mark.parametrize("row", RUN_HERE, ids=lambda row: row.id)
def test_hostile_case_comes_to_what_is_expected(found: dict[str, list[str]], row: Row) -> None:
    assert not found[row.id], f"{row.note}\n" + "\n".join(found[row.id])


def test_only_cases_about_what_does_not_exist_yet_are_left_out() -> None:
    left_out = [row for row in ROWS if row not in RUN_HERE and row.outcome != "reaped"]
    assert all(row.tool_call is not None or row.needs_applied_changes for row in left_out)
    assert len(RUN_HERE) > 100


def test_the_engine_answers_after_all_of_them(
    found: dict[str, list[str]], api: docker.APIClient
) -> None:
    started = time.monotonic()
    assert api.ping()
    assert time.monotonic() - started < 2 * PATIENCE


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.outcome == "reaped"], ids=lambda row: row.id
)
def test_the_death_of_the_client_ends_the_case(
    row: Row, api: docker.APIClient, base_image: str
) -> None:
    from sandboxed_tools.sandbox.docker.cleanup import ps

    client = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", "--", f"echo up; {row.command}"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        mine = {item.id for item in ps(api) if owner_pid(item) == client.pid}
        assert mine
    finally:
        os.kill(client.pid, signal.SIGKILL)
        client.communicate(timeout=60)
    deadline = time.monotonic() + (row.max_seconds or 60) * PATIENCE
    while left := [item.id for item in ps(api) if item.id in mine]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.1)


def owner_pid(item: object) -> int | None:
    ownership = getattr(item, "ownership", None)
    return None if ownership is None else int(ownership.owner.pid)
