"""Workspaces on an engine that is told that it does not share our files: the whole way and back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV, eventually
from tests.workspace.local_carrier import sees_nothing

from sandboxed_tools.errors import EngineFault, UnsupportedOnEngine
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import helper as helper_module
from sandboxed_tools.sandbox.docker.backend import DockerSandbox, StopRequest
from sandboxed_tools.sandbox.docker.carrier import DockerCarrier
from sandboxed_tools.sandbox.docker.cleanup import gc, ps
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def box(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    views = WorkspaceViews(engine_sees=sees_nothing, carrier=DockerCarrier(engine))
    box = DockerSandbox(engine, views=views)
    yield box
    box.close()


def spec_for(image: str, workspace: Path, **choices: Any) -> SandboxSpec:
    limits = Limits.of(**{"wall_s": 60, **choices.pop("limits", {})})
    return SandboxSpec(image, limits=limits, workspace=WorkspaceMount(workspace, **choices))


def run_on(
    box: DockerSandbox, image: str, workspace: Path, text: str, **choices: Any
) -> ExecResult:
    command = Command(("bash", "-c", text), env=ENV)
    return anyio.run(box.run, spec_for(image, workspace, **choices), command)


def helpers_and_trees(api: docker.APIClient, *, pid: int) -> list[str]:
    """What a process has on the engine for carried workspaces."""
    return [
        item.name
        for item in ps(api)
        if item.ownership is not None
        and item.ownership.owner.pid == pid
        and item.name.startswith(("sandboxed-tools-helper-", "sandboxed-tools-tree-"))
    ]


def test_workspace_stands_at_its_own_path_and_at_workspace(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    text = f"pwd; cat private.txt; echo new >new; cat /workspace/new '{workspace}/new'; id -u >&2"
    for _ in range(2):  # nothing of the first is there for the second
        result = run_on(box, base_image, workspace, text)
        assert result.stdout_text == f"{workspace}\nprivatenew\nnew\n"
        assert (result.exit_code, result.view, result.cwd) == (0, "copy", str(workspace))
        assert result.stderr_text != "0\n"
        assert any("does not share this machine's files" in note for note in result.warnings)


def test_changes_come_back_and_are_applied_and_undone(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    (workspace / "gone").touch()
    text = (
        "echo more >>kept.txt; rm gone; mkdir d; echo x >d/x; ln d/x d/y; chmod 0 d/x; ln -s / l;"
        "truncate -s 1G sparse; echo end >>sparse; chmod 750 private.txt; echo >$'\\xff'"
    )
    result = run_on(box, base_image, workspace, text, changes="hold", limits={"file_bytes": "2g"})
    assert (result.status, result.exit_code) == ("exited", 0)
    assert result.changes is not None
    assert result.changes.id is not None
    assert result.changes.decision == "held"
    assert not (workspace / "d").exists()
    store = ChangeStore()
    decision = apply_set(store, result.changes.id, allow_protected=True)
    assert decision.done, decision.problems
    assert (workspace / "kept.txt").read_text() == "keptmore\n"
    assert (workspace / "d" / "x").stat().st_ino == (workspace / "d" / "y").stat().st_ino
    assert (workspace / "d" / "x").stat().st_mode & 0o777 == 0
    assert (workspace / "sparse").stat().st_blocks * 512 < 2**20
    assert os.path.lexists(os.fsencode(workspace) + b"/\xff")
    owner = workspace.stat().st_uid
    assert {path.lstat().st_uid for path in workspace.rglob("*")} == {owner}
    assert undo_set(store, result.changes.id).done
    assert sorted(path.name for path in workspace.iterdir()) == ["gone", "kept.txt", "private.txt"]


def test_read_only_workspace_cannot_be_written(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    result = run_on(
        box, base_image, workspace, "cat kept.txt; touch x || exit 3", access="read_only"
    )
    assert (result.exit_code, result.stdout, result.view) == (3, b"kept", "copy")


def test_too_many_changes_end_the_call_while_it_runs(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    for text, limits in (
        ("while :; do head -c 2000000 /dev/zero >>big; sleep .05; done", {"changes_bytes": "8m"}),
        ("i=0; while :; do i=$((i+1)); : >f$i; done", {"changes_entries": 50}),
    ):
        result = run_on(box, base_image, workspace, text, changes="hold", limits=limits)
        assert (result.status, "disk" in result.limits_hit) == ("disk_limit", True)
    assert sorted(path.name for path in workspace.iterdir()) == ["kept.txt", "private.txt"]


def test_more_than_the_limit_is_discarded_with_a_word_about_it(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    result = run_on(
        box,
        base_image,
        workspace,
        "head -c 9000000 /dev/zero >big",
        changes="hold",
        limits={"changes_bytes": "1m"},
    )
    assert result.changes is not None
    assert result.changes.decision == "discarded"
    assert any("discarded" in note for note in result.warnings)


def test_killed_call_is_held_and_applies_nothing(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    text = "echo x >new; trap '' TERM; (setsid sleep 300 &) ; while :; do :; done"
    result = run_on(box, base_image, workspace, text, changes="apply", limits={"wall_s": 1})
    assert result.status == "timeout"
    assert not (workspace / "new").exists()


def test_helpers_have_no_network_no_privileges_and_a_closed_tree(
    box: DockerSandbox,
    base_image: str,
    workspace: Path,
    api: docker.APIClient,
) -> None:
    running, stop = threading.Event(), StopRequest()

    def helpers() -> list[str]:
        names = helpers_and_trees(api, pid=os.getpid())
        return [name for name in names if "-helper-" in name]

    async def call() -> None:
        command = Command(("bash", "-c", "echo; sleep 300"), env=ENV)
        await box.run(spec_for(base_image, workspace), command, lambda *_: running.set(), stop=stop)

    thread = threading.Thread(target=lambda: anyio.run(call))
    thread.start()
    try:
        assert running.wait(60)
        eventually(lambda: len(helpers()) == 1)  # those of earlier calls go behind their backs
        (helper,) = helpers()
        found = api.inspect_container(helper)
        host = found["HostConfig"]
        assert host["CapDrop"] == ["ALL"]
        assert [name.removeprefix("CAP_") for name in host["CapAdd"]] == ["DAC_READ_SEARCH"]
        assert (host["NetworkMode"], host["ReadonlyRootfs"]) == ("none", True)
        assert [(mount["Destination"], mount["RW"]) for mount in found["Mounts"]] == [
            ("/tree", False)
        ]
    finally:
        stop.set()
        thread.join(60)
    eventually(lambda: helpers_and_trees(api, pid=os.getpid()) == [])


def test_volumes_of_the_engine_are_no_overlays(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    with pytest.raises(UnsupportedOnEngine):
        run_on(box, base_image, workspace, "true", view="overlay")


CLIENT = """
import sys, threading, time
from pathlib import Path
from sandboxed_tools.sandbox.docker import find_engine
from sandboxed_tools.sandbox.docker.carrier import DockerCarrier
from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
from sandboxed_tools.workspace.views import WorkspaceViews

def stop_here():
    print("here", flush=True)
    time.sleep(300)
    return True

class Carrier(DockerCarrier):
    def new_volume(self, *, lifetime_s):
        volume = super().new_volume(lifetime_s=lifetime_s)
        if sys.argv[2] == "volume":
            stop_here()
        return volume

views = WorkspaceViews(engine_sees=lambda path: False, carrier=Carrier(find_engine()))
wanted = stop_here if sys.argv[2] == "sending" else (lambda: True)
user = ContainerUser(uid=0x70000005, gid=0x70000005)
view = views.open(WorkspaceMount(Path(sys.argv[1])), user, is_wanted=wanted)
stop_here()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
@pytest.mark.parametrize("step", ["volume", "sending", "open"])
def test_sigkill_between_two_steps_then_gc_leaves_nothing(
    step: str, base_image: str, workspace: Path, api: docker.APIClient
) -> None:
    words = [sys.executable, "-c", CLIENT, str(workspace), step]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"here\n"
        assert helpers_and_trees(api, pid=client.pid) != []
        client.send_signal(signal.SIGKILL)

    def is_clean() -> bool:
        gc(api)
        return helpers_and_trees(api, pid=client.pid) == []

    eventually(is_clean)
    assert WorkspaceViews().gc() >= 1


def test_a_helper_that_is_killed_is_an_engine_fault_and_leaves_nothing(
    engine: Engine, base_image: str, api: docker.APIClient
) -> None:
    volume = DockerCarrier(engine).new_volume(lifetime_s=300)
    try:
        helper = volume.helper(writable=False)
        try:
            api.kill(helper.name)
            with pytest.raises(EngineFault):
                helper.receive(1)
        finally:
            helper.close()
    finally:
        volume.close()
    eventually(lambda: volume.name not in helpers_and_trees(api, pid=os.getpid()))


def test_a_helper_that_says_nothing_is_given_up(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper_module, "STALL_S", 0.5)
    volume = DockerCarrier(engine).new_volume(lifetime_s=300)
    try:
        helper = volume.helper(writable=True)
        try:
            with pytest.raises(EngineFault, match="does not go on"):
                helper.receive(1)
        finally:
            helper.close()
    finally:
        volume.close()


def test_a_call_that_is_stopped_while_its_workspace_is_sent_leaves_nothing(
    box: DockerSandbox, base_image: str, workspace: Path, api: docker.APIClient
) -> None:
    with (workspace / "big").open("wb") as file:
        for _ in range(200):
            file.write(os.urandom(2**20))
    stop = StopRequest()
    results: list[ExecResult] = []

    async def call() -> None:
        command = Command(("sleep", "300"), env=ENV)
        results.append(await box.run(spec_for(base_image, workspace), command, stop=stop))

    thread = threading.Thread(target=lambda: anyio.run(call))
    thread.start()
    eventually(lambda: helpers_and_trees(api, pid=os.getpid()) != [])
    stop.set()
    thread.join(60)
    assert [result.status for result in results] == ["cancelled"]
    eventually(lambda: helpers_and_trees(api, pid=os.getpid()) == [])


ORDINARY = """
import os, sys, anyio
from pathlib import Path
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.sandbox.docker.carrier import DockerCarrier
from sandboxed_tools.tool.command import Command
from sandboxed_tools.workspace import ChangeStore, WorkspaceViews, apply_set
from sandboxed_tools.workspace.carry.program import program

image, folder, group = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
engine = find_engine()
# Everything is imported now: the interpreter's own folder may be closed to the other user.
first = DockerSandbox(engine)
anyio.run(first.run, SandboxSpec(image), Command(("true",), env={"PATH": "/bin"}))
first.close()
program()
os.environ["SANDBOXED_TOOLS_STATE_DIR"] = str(folder / "state")
os.setgroups([group])
os.setresgid(4321, 4321, 4321)
os.setresuid(4321, 4321, 4321)
views = WorkspaceViews(engine_sees=lambda path: False, carrier=DockerCarrier(engine))
box = DockerSandbox(engine, views=views, warm=False)
spec = SandboxSpec(image, workspace=WorkspaceMount(folder / "work", changes="hold"))
text = "id -u; cat private; echo changed >private; mkdir d; echo x >d/x; chmod 0 d/x d"
try:
    result = anyio.run(box.run, spec, Command(("bash", "-c", text), env={"PATH": "/usr/bin:/bin"}))
    print(result.status, result.exit_code, result.view, result.stdout_text.split())
    print(apply_set(ChangeStore(), result.changes.id).done)
except Exception as error:
    print(getattr(error, "operator_detail", error), file=sys.stderr)
    raise
finally:
    box.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_ordinary_user_gets_its_changes_back(engine: Engine, base_image: str) -> None:
    socket = engine.endpoint.socket_path
    assert socket is not None
    folder = Path(tempfile.mkdtemp(prefix="pytest-"))
    folder.chmod(0o711)
    for name in ("work", "state"):
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, 4321, 4321)
    (folder / "work" / "private").write_text("mine")
    os.chown(folder / "work" / "private", 4321, 4321)
    group = os.stat(socket).st_gid
    try:
        done = subprocess.run(
            [sys.executable, "-c", ORDINARY, base_image, str(folder), str(group)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.stdout == "exited 0 copy ['4321', 'mine']\nTrue\n", done.stderr
        assert (folder / "work" / "private").read_text() == "changed\n"
        assert (folder / "work" / "d").stat().st_mode & 0o777 == 0
    finally:
        shutil.rmtree(folder)
