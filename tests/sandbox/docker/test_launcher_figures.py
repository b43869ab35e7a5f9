"""The launcher's figures in both layouts of control groups, without an engine around it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import docker
import pytest

from sandboxed_tools.sandbox.docker.images import LAUNCHER_IMAGE, image_tag
from sandboxed_tools.sandbox.docker.protocol import (
    MarkScanner,
    Report,
    ReportReader,
    call_frames,
    new_mark,
)
from sandboxed_tools.tool.command import Command

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces and mounts"),
]

V2 = {
    "memory.events": "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n",
    "memory.peak": "7340032\n",
    "pids.events": "max 4\n",
    "pids.peak": "9\n",
    "cpu.stat": "usage_usec 1000\nuser_usec 1\nsystem_usec 1\nnr_periods 0\nthrottled_usec 500\n",
}
V1 = {
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "memory/memory.max_usage_in_bytes": "7340032\n",
    "pids/pids.events": "max 4\n",
    "pids/pids.peak": "9\n",
    "cpuacct/cpuacct.usage": "1000000\n",
    "cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 500000\n",
}
V1_JOINED = {
    **{name: text for name, text in V1.items() if not name.startswith("cpu")},
    "cpu,cpuacct/cpuacct.usage": V1["cpuacct/cpuacct.usage"],
    "cpu,cpuacct/cpu.stat": V1["cpu/cpu.stat"],
}
LATER = (
    "find /sys/fs/cgroup -type f | while read f; do "
    "t=$(sed 's/oom_kill 2/oom_kill 3/; s/max 4/max 9/; s/usage_usec 1000/usage_usec 251000/;"
    "s/throttled_usec 500/throttled_usec 200500/; s/^1000000/251000000/;"
    's/throttled_time 500000/throttled_time 200500000/\' "$f");'
    'echo "$t" >"$f"; done'  # in place: the launcher holds the files open
)


@pytest.fixture(scope="module")
def launcher(engine: object, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher of this version, taken out of its image (which has never run)."""
    api = docker.APIClient()
    made = api.create_container_from_config(  # type: ignore[no-untyped-call]
        {"Image": image_tag(LAUNCHER_IMAGE), "HostConfig": {"NetworkMode": "none"}}, None
    )["Id"]
    try:
        stream, _ = api.get_archive(made, "/.sandboxed-tools/launcher")
        data = io.BytesIO(b"".join(stream))
    finally:
        api.remove_container(made)
        api.close()
    path = tmp_path_factory.mktemp("launcher") / "launcher"
    with tarfile.open(fileobj=data) as archive:
        member = archive.extractfile("launcher")
        assert member is not None
        path.write_bytes(member.read())
    path.chmod(0o755)
    return path


def reported(launcher: Path, files: Mapping[str, str], text: str) -> Report:
    """Run a command behind the launcher, with ``files`` standing for the control group."""
    prepare = ["mount -t tmpfs none /sys/fs/cgroup"]
    for name, content in files.items():
        prepare.append(f"mkdir -p /sys/fs/cgroup/$(dirname '{name}')")
        prepare.append(f"printf '{content}' >'/sys/fs/cgroup/{name}'")
    prepare.append(f"exec {launcher} 20")
    words = ["unshare", "--fork", "--pid", "--mount", "--mount-proc", "sh", "-ec"]
    mark = new_mark()
    command = Command(("sh", "-c", text), env={"PATH": "/usr/bin:/bin"})
    frames = call_frames(command, mark=mark, cwd="/", file_bytes=1 << 30, deadline_s=20)
    with subprocess.Popen(
        [*words, "; ".join(prepare)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"".join(frames))
        scanner, reader = MarkScanner(mark), ReportReader()
        report: Report | None = None
        ended = False
        while report is None:
            data = os.read(process.stderr.fileno(), 65536)
            assert data, "the launcher ended without a report"
            if not ended:
                scanned = scanner.feed(data)
                ended, data = scanned.ended, scanned.rest
            if ended:
                report = reader.feed(data)
        process.stdin.close()
    return report


@pytest.mark.parametrize("files", [V2, V1, V1_JOINED], ids=["v2", "v1", "v1 joined"])
def test_figures_are_differences_over_the_call(launcher: Path, files: Mapping[str, str]) -> None:
    report = reported(launcher, files, LATER)
    assert (report.why, report.exit_code) == ("exit", 0)
    assert (report.oom_kills, report.pids_refused) == (1, 5)
    assert report.cpu_s == pytest.approx(0.25)
    assert report.throttled_s == pytest.approx(0.2)
    assert (report.pids_peak, report.memory_peak_bytes) == (9, 7340032)


def test_without_control_groups_nothing_is_made_up(launcher: Path) -> None:
    report = reported(launcher, {}, "exit 3")
    assert (report.exit_code, report.cwd) == (3, "/")
    assert report.oom_kills is report.pids_refused is report.cpu_s is report.pids_peak is None


def test_launcher_outside_of_a_container_refuses_to_run(launcher: Path) -> None:
    # Its way to end a call is to kill everything that it may kill.
    done = subprocess.run([launcher, "5"], capture_output=True, check=False, timeout=10)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"process 1" in done.stderr
