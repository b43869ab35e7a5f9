"""``demo``: the pitch is honest. Its attacks work where nothing stops them, and it would say so."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.command_line import command_line
from typer.testing import CliRunner

from sandboxed_tools.cli import demo as demo_module
from sandboxed_tools.cli.demo_attacks import ATTACKS, Attack, script_path, titles
from sandboxed_tools.cli.demo_host import Bait, set_bait
from sandboxed_tools.cli.main import app

if TYPE_CHECKING:
    import docker

BAIT_VARIABLE = "DEMO_API_KEY"


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
def test_every_attack_is_contained_and_the_host_untouched() -> None:
    done = command_line("demo")
    assert done.code == 0, done.text + done.errors
    assert done.text.count("\ncontained ") == len(ATTACKS)
    assert f"{len(ATTACKS)} of {len(ATTACKS)} attacks contained" in done.text
    assert "\x1b" not in done.text


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
def test_the_verdict_is_one_object() -> None:
    done = command_line("demo", "--json")
    assert done.code == 0, done.errors
    found = done.object
    assert found["contained"] is True
    assert [attack["id"] for attack in found["attacks"]] == [attack.id for attack in ATTACKS]
    assert found["host"]["files"] > 8
    assert found["left_on_engine"] == []


def test_the_script_and_the_judges_know_the_same_attacks() -> None:
    known = titles(script_path().read_text(encoding="utf-8"))
    assert list(known) == [attack.id for attack in ATTACKS]


def test_the_script_refuses_to_run_outside_a_sandbox() -> None:
    for attack in ATTACKS:
        done = subprocess.run(
            ["bash", script_path(), attack.id], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 2
        assert b"would hurt" in done.stderr


# ---- the attacks have teeth


@pytest.fixture(scope="module")
def unprotected(api_of_module: docker.APIClient, base_image: str) -> dict[str, str]:
    """What the attacks print in a container as people start it: root, bridge, a bind mount."""
    outputs: dict[str, str] = {}
    with set_bait(script_path()) as bait:
        made = api_of_module.create_container(
            base_image,
            ["sleep", "900"],
            entrypoint=[],
            user="0:0",
            environment={BAIT_VARIABLE: bait.token},
            host_config=api_of_module.create_host_config(
                binds={str(bait.root): {"bind": str(bait.root), "mode": "rw"}},
                security_opt=["seccomp=unconfined"],
                extra_hosts={"stolen-secret.example.com": "127.0.0.1"},
            ),
        )
        try:
            api_of_module.start(made)
            networks = api_of_module.inspect_container(made)["NetworkSettings"]
            for attack in ("read-host", "steal-secrets", "network", "become-root", "follow-links"):
                script = (
                    f"cd {bait.workspace}; sed -i 's/172.17.0.1/{networks['Gateway']}/' "
                    f"untrusted.sh; bash untrusted.sh {attack} {bait.canary} {bait.port}"
                )
                run = api_of_module.exec_create(made, ["bash", "-c", script])
                outputs[attack] = api_of_module.exec_start(run["Id"]).decode("utf-8", "replace")
        finally:
            api_of_module.remove_container(made, force=True, v=True)
    return outputs


@pytest.fixture(scope="module")
def api_of_module(engine: Any) -> Iterator[docker.APIClient]:
    client = engine.api()
    yield client
    client.close()


@pytest.mark.engine
@pytest.mark.parametrize(
    ("attack", "way"),
    [
        ("read-host", "a file by its path"),
        ("read-host", "through PID 1"),
        ("read-host", "password hashes"),
        ("read-host", "search for it"),
        ("steal-secrets", "own environment"),
        ("steal-secrets", "others' environment"),
        ("steal-secrets", "kernel command line"),
        ("network", "the host by its bridge"),
        ("network", "leak through DNS"),
        ("network", "a raw packet"),
        ("become-root", "su"),
        ("become-root", "setuid"),
        ("become-root", "a set-id copy of sh"),
        ("follow-links", "read through a link"),
        ("follow-links", "write through a link"),
        ("follow-links", "above the workspace"),
        ("follow-links", "the planted link"),
    ],
)
def test_the_attack_succeeds_where_nothing_stops_it(
    unprotected: dict[str, str], attack: str, way: str
) -> None:
    assert f"ESCAPED-{attack}: {way}\n" in unprotected[attack], unprotected[attack]


# ---- and the demonstration would notice


def demo_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, body: str) -> Any:
    """Run the demonstration with one attack whose script is ``body``."""
    script = tmp_path / "untrusted.sh"
    script.write_text(f"# ATTACK read-host: read the host's files\n{body}\n", encoding="utf-8")
    (attack,) = (attack for attack in ATTACKS if attack.id == "read-host")
    only: tuple[Attack, ...] = (attack,)
    monkeypatch.setattr(demo_module, "script_path", lambda: script)
    monkeypatch.setattr(demo_module, "ATTACKS", only)
    return CliRunner().invoke(app, ["demo"])


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("echo 'blocked: a: b'; echo 'ESCAPED-read-host: got it'", "ESCAPED-read-host: got it"),
        ("echo 'blocked: a: b'; exit 3", "expected exit code 0"),
        ("true", "nothing was tried"),
    ],
)
def test_an_attack_that_is_not_contained_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, seen: str
) -> None:
    done = demo_of(monkeypatch, tmp_path, body=body)
    assert done.exit_code == 1
    assert seen in done.stdout
    assert "0 of 1 attacks contained" in done.stdout


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
def test_a_contained_attack_ends_with_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = demo_of(monkeypatch, tmp_path, body="echo 'blocked: a: b'")
    assert done.exit_code == 0
    assert "1 of 1 attacks contained" in done.stdout


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
def test_what_an_attack_prints_cannot_write_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = r"printf 'blocked: a: \033]0;title\007\033[2J\n'"
    done = demo_of(monkeypatch, tmp_path, body=body)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout


@pytest.fixture
def bait() -> Iterator[Bait]:
    with set_bait(script_path()) as bait:
        yield bait


def test_untouched_bait_is_reported_so(bait: Bait) -> None:
    assert bait.is_served()
    assert bait.report().is_untouched


def test_every_kind_of_change_is_noticed(bait: Bait) -> None:
    project = bait.workspace
    readme = project / "README.md"
    times = readme.stat().st_atime_ns, readme.stat().st_mtime_ns
    readme.write_text("# A small pr0ject\n", encoding="utf-8")
    os.utime(readme, ns=times)
    (project / "run.sh").chmod(0o755)
    (project / "src" / "app.py").unlink()
    (project / "new").write_text("", encoding="utf-8")
    (project / "planted-link").unlink()
    (project / "planted-link").symlink_to("/")
    changed = set(bait.report().changed)
    assert {"project/README.md", "project/run.sh", "project/src/app.py"} <= changed
    assert {"project/new", "project/planted-link"} <= changed
    assert not bait.report().is_untouched


def test_a_connection_to_the_host_is_noticed(bait: Bait) -> None:
    with socket.create_connection(("127.0.0.1", bait.port), timeout=5) as connection:
        connection.recv(1)
    assert bait.report().connections == 1
    assert not bait.report().is_untouched


def test_a_process_left_behind_is_noticed(bait: Bait) -> None:
    code = "import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, f"left-behind-{bait.port}"], stdin=subprocess.PIPE
    ) as process:
        assert bait.report().daemons == (process.pid,)
        process.communicate(b"")
    assert bait.report().daemons == ()


def test_the_bait_is_taken_away_again() -> None:
    with set_bait(script_path()) as bait:
        root = bait.root
        assert os.environ[BAIT_VARIABLE] == bait.token
    assert not root.exists()
    assert BAIT_VARIABLE not in os.environ
