"""Making sure of an engine: with fakes for apt and the service managers, and with a real daemon."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandboxed_tools.errors import EngineForbidden, EngineNotFound
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, NoEngineAnswers, Trial, ask_engine
from sandboxed_tools.sandbox.docker.engine_install import EnginePlaces, ensure_engine

FOUND = Engine(
    endpoint=Endpoint("unix:///fake", source="a fake"),
    kind="docker",
    version="1",
    api_version="1.41",
    local=True,
    rootless=False,
    desktop=False,
    userns_remap=False,
    cgroup_version="1",
    runtimes=(),
    security_options=(),
    facts={},
)


class Machine:
    """A machine made of scripts: which programs exist, and what makes the engine answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.log = folder / "log"
        self.marker = folder / "engine-answers"
        self.places = EnginePlaces(
            pid_file=folder / "docker.pid",
            init_script=folder / "init-script",
            systemd_marker=folder / "systemd",
            daemon=("dockerd-of-the-test",),
            log=folder / "dockerd.log",
        )
        for name in ("sh", "rm", "setsid", "env", "touch", "cat", "chmod"):
            (self.programs / name).symlink_to(str(shutil.which(name)))

    def program(self, name: str, script: str = "") -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{script}\n')
        path.chmod(0o755)

    @property
    def starts(self) -> str:
        return f"touch {self.marker}"

    def find(self) -> Engine:
        if self.marker.exists():
            return FOUND
        raise EngineNotFound("none", operator_detail="nothing there")

    @property
    def commands(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


class Recorder:
    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def line(self, text: str) -> None: ...


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(made.programs))
    # The rest of this file plays root; who may install what has its own tests.
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return made


def ensure(machine: Machine, *, deadline_s: float = 2.0) -> Engine:
    return ensure_engine(
        environ={}, find=machine.find, places=machine.places, deadline_s=deadline_s
    )


def test_an_engine_that_answers_is_used_and_nothing_is_run(machine: Machine) -> None:
    machine.marker.touch()
    machine.program("apt-get")
    machine.program("dockerd-of-the-test")
    assert ensure(machine) is FOUND
    assert machine.commands == []


def test_a_missing_engine_is_installed_then_started_directly(machine: Machine) -> None:
    dockerd = machine.programs / "dockerd-of-the-test"
    machine.program(
        "apt-get",
        f'case "$*" in *install*) printf "#!/bin/sh\\ntouch {machine.marker}\\n" >{dockerd};'
        f" chmod 755 {dockerd};; esac",
    )
    assert ensure(machine) is FOUND
    update, install = machine.commands
    assert "update" in update
    assert "install -y --no-install-recommends -- docker.io" in install


def test_systemd_is_asked_first_where_it_runs(machine: Machine) -> None:
    machine.program("dockerd-of-the-test")
    machine.places.systemd_marker.mkdir()
    machine.places.init_script.touch()
    machine.program("systemctl", machine.starts)
    machine.program("service")
    assert ensure(machine) is FOUND
    assert machine.commands == ["systemctl start docker"]


def test_without_systemd_the_init_script_is_asked(machine: Machine) -> None:
    machine.program("dockerd-of-the-test")
    machine.places.init_script.touch()
    machine.program("systemctl", machine.starts)
    machine.program("service", machine.starts)
    assert ensure(machine) is FOUND
    assert machine.commands == ["service docker start"]


def test_where_the_service_manager_fails_the_daemon_is_started_directly(machine: Machine) -> None:
    machine.places.systemd_marker.mkdir()
    machine.program("systemctl", "echo Unit docker.service is masked; exit 1")
    machine.program("dockerd-of-the-test", machine.starts)
    assert ensure(machine) is FOUND


def test_every_failed_start_is_told_with_the_end_of_the_log(machine: Machine) -> None:
    machine.places.init_script.touch()
    machine.program("service", "echo cannot do it; exit 3")
    machine.program("dockerd-of-the-test", "echo no cgroup mount >&2; exit 1")
    with pytest.raises(EngineNotFound, match="could not be started") as caught:
        ensure(machine, deadline_s=0.5)
    detail = str(caught.value.operator_detail)
    assert "service docker start: ended with 3: cannot do it" in detail
    assert "no answer within" in detail
    assert "no cgroup mount" in detail


def test_a_failed_installation_says_what_to_type(machine: Machine) -> None:
    machine.program("apt-get", "echo E: Unable to locate package; exit 100")
    with pytest.raises(EngineNotFound, match=r"apt-get install docker\.io") as caught:
        ensure(machine)
    assert "Unable to locate package" in str(caught.value.operator_detail)


def test_where_there_is_no_apt_the_error_says_so(machine: Machine) -> None:
    with pytest.raises(EngineNotFound) as caught:
        ensure(machine)
    assert "there is no apt here" in str(caught.value.operator_detail)


def test_an_ordinary_user_without_sudo_is_told_and_nothing_is_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    machine.program("apt-get", "exit 1")
    with pytest.raises(EngineNotFound, match="no container engine is installed") as caught:
        ensure(machine)
    assert "may not install packages" in str(caught.value.operator_detail)
    machine.program("dockerd-of-the-test", machine.starts)
    with pytest.raises(EngineNotFound, match="this user may not start it"):
        ensure(machine)
    assert machine.commands == []


def test_sudo_that_would_ask_for_a_password_counts_as_not_allowed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    machine.program("dockerd-of-the-test", machine.starts)
    machine.program("sudo", "exit 1")
    with pytest.raises(EngineNotFound, match="may not start it"):
        ensure(machine)
    assert machine.commands == ["sudo -n true"]
    machine.program("sudo", 'shift; exec "$@"')
    (machine.programs / "true").symlink_to(str(shutil.which("true", path="/bin:/usr/bin")))
    assert ensure(machine) is FOUND


@pytest.mark.parametrize("content", ["", "garbage", "999999999", "1", "-5", "\0"])
def test_a_stale_pid_file_is_removed_first(machine: Machine, content: str) -> None:
    # PID 1 lives, but it is no engine: the number was reused.
    machine.places.pid_file.write_text(content)
    machine.program("dockerd-of-the-test", f"test -e {machine.places.pid_file} || {machine.starts}")
    assert ensure(machine) is FOUND


def test_an_engine_that_somebody_named_is_never_replaced(machine: Machine) -> None:
    machine.program("apt-get", machine.starts)
    machine.program("dockerd-of-the-test", machine.starts)
    with pytest.raises(EngineNotFound, match="DOCKER_HOST"):
        ensure_engine(
            environ={"DOCKER_HOST": "tcp://10.0.0.1:2375"},
            find=machine.find,
            places=machine.places,
        )
    assert machine.commands == []


def test_an_engine_that_hangs_is_not_joined_by_a_second_one(machine: Machine) -> None:
    machine.program("dockerd-of-the-test", machine.starts)

    def find() -> Engine:
        silent = Trial(Endpoint("unix:///x", source="test"), "silent", "no answer in 5 s")
        raise NoEngineAnswers("none", trials=(silent,))

    with pytest.raises(EngineNotFound, match="restart it"):
        ensure_engine(environ={}, find=find, places=machine.places)
    assert machine.commands == []


def test_an_engine_without_permission_is_left_alone(machine: Machine) -> None:
    machine.program("dockerd-of-the-test", machine.starts)

    def find() -> Engine:
        raise EngineForbidden("no")

    with pytest.raises(EngineForbidden):
        ensure_engine(environ={}, find=find, places=machine.places)
    assert machine.commands == []


def test_progress_names_the_long_steps(machine: Machine) -> None:
    machine.program("dockerd-of-the-test", machine.starts)
    machine.places.pid_file.write_text("999999999")
    recorder = Recorder()
    ensure_engine(
        environ={}, find=machine.find, places=machine.places, progress=recorder, deadline_s=5
    )
    assert recorder.steps == [
        f"removing the stale {machine.places.pid_file}",
        "starting the engine: dockerd-of-the-test",
    ]


@pytest.fixture
def real_daemon() -> Iterator[tuple[EnginePlaces, Callable[[], Engine]]]:
    """A second engine with everything of its own, ended afterwards."""
    if (
        os.geteuid() != 0
        or shutil.which("dockerd", path="/usr/sbin:/usr/bin:/usr/local/bin") is None
    ):
        pytest.skip("starting a second engine needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    url = f"unix://{folder}/e.sock"
    pid_file = folder / "e.pid"
    options = (
        f"--host={url}",
        f"--pidfile={pid_file}",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        "--bridge=none",
        "--iptables=false",
        "--storage-driver=vfs",
    )
    places = EnginePlaces(
        pid_file=pid_file,
        init_script=folder / "none",
        systemd_marker=folder / "none",
        # In a network of its own: an engine without a bridge removes the docker0 that it finds.
        daemon=("unshare", "--net", "dockerd", *options),
        log=folder / "log",
    )

    def find() -> Engine:
        found = ask_engine(Endpoint(url, source="test"), timeout_s=2)
        if isinstance(found, Engine):
            return found
        raise EngineNotFound("none", operator_detail=str(found))

    try:
        yield places, find
    finally:
        _end_daemon(pid_file)
        shutil.rmtree(folder)


def _end_daemon(pid_file: Path) -> None:
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}/exe").exists():
        assert time.monotonic() < deadline, "the second engine did not end"
        time.sleep(0.1)


@pytest.mark.engine
def test_a_real_daemon_is_started_despite_a_stale_pid_file_and_socket(
    real_daemon: tuple[EnginePlaces, Callable[[], Engine]],
) -> None:
    places, find = real_daemon
    places.pid_file.write_text("1")
    stale = places.pid_file.with_name("e.sock")
    import socket

    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(stale))
    assert stat.S_ISSOCK(stale.stat().st_mode)
    engine = ensure_engine(environ={}, find=find, places=places, deadline_s=60)
    assert engine.base_url.endswith("e.sock")
    again = ensure_engine(environ={}, find=find, places=places)
    assert again == engine
