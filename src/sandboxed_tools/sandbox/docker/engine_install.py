"""Making sure that an engine answers: the one that does, or the distribution's own, installed and
started.

Nothing is asked of a person, nothing is replaced, and an engine that the operator named is the only
one that counts. Where something is not allowed, the error says what to type.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandboxed_tools.errors import EngineForbidden, EngineNotFound
from sandboxed_tools.sandbox.docker.endpoints import candidate_endpoints
from sandboxed_tools.sandbox.docker.engine import Engine, NoEngineAnswers, find_engine
from sandboxed_tools.sandbox.docker.host_process import run_program
from sandboxed_tools.sandbox.docker.packages import install_packages, root_prefix
from sandboxed_tools.sandbox.docker.progress import Progress, SilentProgress
from sandboxed_tools.tool.state import state_dir

__all__ = ["EnginePlaces", "ensure_engine"]

START_DEADLINE_S = 60.0
COMMAND_DEADLINE_S = 90.0
PACKAGE = "docker.io"

BY_HAND = (
    "install and start one by hand: 'sudo apt-get install docker.io && sudo service docker start', "
    "a rootless one with 'dockerd-rootless-setuptool.sh install', or podman with "
    "'systemctl --user start podman.socket'"
)


@dataclass(frozen=True, slots=True)
class EnginePlaces:
    """Where the distribution's engine keeps its things, and how it is started directly."""

    pid_file: Path = Path("/var/run/docker.pid")
    init_script: Path = Path("/etc/init.d/docker")
    systemd_marker: Path = Path("/run/systemd/system")
    daemon: tuple[str, ...] = ("dockerd",)
    log: Path | None = None


def ensure_engine(
    *,
    progress: Progress | None = None,
    environ: Mapping[str, str] = os.environ,
    find: Callable[[], Engine] = find_engine,
    places: EnginePlaces | None = None,
    deadline_s: float = START_DEADLINE_S,
) -> Engine:
    """The engine that answers; else start the installed one; else install ``docker.io`` and start.

    Blocks for minutes when a package has to be installed. Does nothing when an engine answers.

    Raises:
        EngineNotFound: none answers, and none could be installed or started; the message says what
            to do, ``operator_detail`` what was tried.
        EngineForbidden: there is one, and this user may not talk to it.
        ConfigurationError: ``DOCKER_HOST`` or ``DOCKER_CONTEXT`` is unusable.
    """
    progress = progress or SilentProgress()
    places = places or EnginePlaces()
    try:
        return find()
    except EngineNotFound as error:
        missing = error
    if any(endpoint.is_explicit for endpoint in candidate_endpoints(environ)):
        raise EngineNotFound(
            "the engine that DOCKER_HOST or DOCKER_CONTEXT names does not answer: start it, or "
            "unset the variable to use an engine of this machine",
            operator_detail=missing.operator_detail,
        )
    if isinstance(missing, NoEngineAnswers) and any(t.code == "silent" for t in missing.trials):
        raise EngineNotFound(
            "an engine is there and does not answer: restart it ('sudo systemctl restart docker' "
            "or 'sudo service docker restart')",
            operator_detail=missing.operator_detail,
        )
    _install_if_missing(places, progress=progress)
    return _start(find, places, progress=progress, deadline_s=deadline_s)


def _path() -> str:
    """An ordinary user's PATH has no sbin folders, where Debian puts the engine and iptables."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _daemon_program(places: EnginePlaces) -> str | None:
    return shutil.which(places.daemon[0], path=_path())


def _install_if_missing(places: EnginePlaces, *, progress: Progress) -> None:
    if _daemon_program(places) is not None:
        return
    progress.step(f"no container engine is installed: installing the package {PACKAGE}")
    # iptables is only recommended by docker.io, but the engine does not start without it.
    installed = install_packages([PACKAGE, "iptables"], progress=progress)
    if not installed.ok or _daemon_program(places) is None:
        raise EngineNotFound(
            f"no container engine is installed here: {BY_HAND}",
            operator_detail=installed.detail or f"{PACKAGE} did not bring {places.daemon[0]}",
        )


def _start(
    find: Callable[[], Engine], places: EnginePlaces, *, progress: Progress, deadline_s: float
) -> Engine:
    prefix = root_prefix()
    if prefix is None:
        raise EngineNotFound(
            "a container engine is installed and not running, and this user may not start it: "
            "'sudo systemctl start docker' or 'sudo service docker start'"
        )
    _remove_stale_pid_file(places.pid_file, prefix=prefix, progress=progress)
    tried: list[str] = []
    for words, command in _start_commands(places, prefix=prefix):
        progress.step(f"starting the engine: {words}")
        try:
            done = run_program(
                command,
                deadline_s=COMMAND_DEADLINE_S,
                on_line=progress.line,
                env={**os.environ, "PATH": _path()},
            )
        except OSError as error:
            tried.append(f"{words}: {error.strerror}")
            continue
        if not done.ok:
            tried.append(f"{words}: ended with {done.exit_code}: {' | '.join(done.tail[-3:])}")
            continue
        engine = _wait_for(find, deadline_s=deadline_s)
        if engine is not None:
            return engine
        tried.append(f"{words}: no answer within {deadline_s:g} s")
    log = _log_file(places)
    raise EngineNotFound(
        f"the container engine is installed and could not be started: see its log, or {BY_HAND}",
        operator_detail="; ".join([*tried, *_last_lines(log)]),
    )


def _remove_stale_pid_file(pid_file: Path, *, prefix: tuple[str, ...], progress: Progress) -> None:
    """Remove a PID file that names no living engine.

    The engine only looks whether *some* process has that number, so after a crash or a restart of
    the machine it may refuse to start because of a stranger.
    """
    try:
        text = pid_file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return
    if text.isdecimal() and _runs_an_engine(int(text)):
        return
    progress.step(f"removing the stale {pid_file}")
    run_program([*prefix, "rm", "-f", "--", str(pid_file)], deadline_s=10)


def _runs_an_engine(pid: int) -> bool:
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return False
    return name == "dockerd"


def _log_file(places: EnginePlaces) -> Path:
    return places.log or state_dir() / "dockerd.log"


def _start_commands(
    places: EnginePlaces, *, prefix: tuple[str, ...]
) -> list[tuple[str, list[str]]]:
    commands: list[tuple[str, list[str]]] = []
    if places.systemd_marker.is_dir():
        commands.append(("systemctl start docker", [*prefix, "systemctl", "start", "docker"]))
    if places.init_script.exists():
        commands.append(("service docker start", [*prefix, "service", "docker", "start"]))
    program = _daemon_program(places)
    if program is not None:
        # setsid --fork: the engine outlives this program, and its terminal.
        script = 'log=$1; shift; exec setsid --fork "$@" >>"$log" 2>&1 </dev/null'
        log = str(_log_file(places))
        argv = ["sh", "-c", script, "sh", log, program, *places.daemon[1:]]
        commands.append((" ".join(places.daemon[:1]), [*prefix, *argv]))
    return commands


def _wait_for(find: Callable[[], Engine], *, deadline_s: float) -> Engine | None:
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        try:
            return find()
        except EngineForbidden:
            raise
        except EngineNotFound:
            time.sleep(0.2)
    return None


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-5:]
