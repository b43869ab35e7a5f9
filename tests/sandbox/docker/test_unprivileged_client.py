"""A client that is not root, and may talk to the engine: its containers run as itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user"),
]

UID = 4321
CLIENT = """
import os, sys, anyio
from pathlib import Path
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.workspace.views import WorkspaceViews

image, folder, group = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
engine = find_engine()
plain = SandboxSpec(image, limits=Limits(memory_bytes=64 << 20))
# One call imports everything: the interpreter's own folder may be closed to the other user.
first = DockerSandbox(engine)
anyio.run(first.run, plain, Command(("true",), env={"PATH": "/bin"}))
first.close()
os.environ["SANDBOXED_TOOLS_STATE_DIR"] = str(folder / "state")
os.setgroups([group])
os.setresgid(4321, 4321, 4321)
os.setresuid(4321, 4321, 4321)
box = DockerSandbox(engine, views=WorkspaceViews())
spec = SandboxSpec(image, limits=Limits(memory_bytes=64 << 20),
                   workspace=WorkspaceMount(folder / "work"))
command = Command(
    ("bash", "-c", "id -u; cat private; echo changed >private; cat private; head -c1 /proc/1/mem"),
    env={"PATH": "/usr/bin:/bin"})
try:
    assert anyio.run(box.prewarm, spec, 1) == 1
    for _ in range(2):
        result = anyio.run(box.run, spec, command)
        print(result.status, result.exit_code, result.view, result.stdout_text.split())
except Exception as error:
    print(getattr(error, "operator_detail", error), file=sys.stderr)
    raise
finally:
    box.close()
print((folder / "work" / "private").read_text())
"""


def test_containers_of_an_ordinary_user_run_as_that_user(engine: Engine, base_image: str) -> None:
    socket = engine.endpoint.socket_path
    assert socket is not None
    group = os.stat(socket).st_gid
    folder = Path(tempfile.mkdtemp(prefix="pytest-"))
    folder.chmod(0o711)
    for name in ("work", "state"):
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, UID, UID)
    private = folder / "work" / "private"
    private.write_text("mine")
    private.chmod(0o600)
    os.chown(private, UID, UID)
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, base_image, str(folder), str(group)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", "--", folder], check=True)
    assert done.returncode == 0, done.stderr
    call = "exited 1 overlay ['4321', 'minechanged']\n"
    assert done.stdout == call + call + "mine\n"
