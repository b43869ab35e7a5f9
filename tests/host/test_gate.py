from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.host.attacker import Run, require_system_python

from sandboxed_tools.host import gate_status
from sandboxed_tools.host.gate import landlock_abi, probe_gate
from sandboxed_tools.host.landlock import READ, TRUNCATE, PathRule, known_rights, system_rules
from sandboxed_tools.host.report import Denial, Report


def test_the_status_is_proved_and_says_so() -> None:
    status = gate_status()
    assert status.available
    assert status.landlock_abi == landlock_abi() > 0
    assert "refused every attempt" in status.reasons[0]
    assert gate_status() is status


@pytest.mark.parametrize("abi", range(1, 8))
@pytest.mark.parametrize("notify", [True, False])
def test_the_gate_holds_with_what_older_kernels_offer(abi: int, notify: bool) -> None:
    if abi > landlock_abi():
        pytest.skip("this kernel does not have that ABI")
    status, plan = probe_gate(abi=abi, notify=notify)
    assert status.available, status
    assert plan is not None
    assert plan.landlock_abi == abi


@pytest.mark.parametrize("filters", [True, False], ids=["by the filter", "by what there is"])
@pytest.mark.parametrize("abi", [1, 2, 3, 7])
def test_truncation_is_refused_on_every_abi(
    abi: int, filters: bool, run: Run, workspace: Path
) -> None:
    require_system_python()
    plan = probe_gate(abi=abi, filters_truncation=filters)[1]
    assert plan is not None
    assert bool(plan.file_rights & TRUNCATE) == (not filters and plan.landlock_abi >= 3)
    for attempt in (
        'os.truncate("kept", 0)',
        'os.open("kept", os.O_RDONLY | os.O_TRUNC)',
        'open("kept", "w")',
    ):
        outcome = run(f"/usr/bin/python3 -I -c 'import os; {attempt}'", gate=plan)
        assert outcome.result.exit_code == 1
        assert (workspace / "kept").read_text(encoding="utf-8") == "as it was\n"


def test_a_probe_that_gets_through_means_no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_rules(abi: int) -> tuple[PathRule, ...]:
        return (PathRule(b"/", known_rights(abi)),)

    monkeypatch.setattr("sandboxed_tools.host.gate.system_rules", open_rules)
    status, plan = probe_gate()
    assert not status.available
    assert plan is None
    assert "changed a file" in status.reasons[0]


def test_a_gate_that_cannot_be_applied_means_no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxed_tools.host.gate.filter_program", lambda **_kw: b"\0" * 8)
    status, _plan = probe_gate()
    assert not status.available
    assert "seccomp" in status.reasons[0]


def test_an_unknown_machine_means_no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    uname = os.uname()
    other = os.uname_result((*uname[:4], "riscv64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    status, _plan = probe_gate()
    assert not status.available
    assert "riscv64" in status.reasons[0]


def test_no_rule_opens_a_folder_that_holds_secrets() -> None:
    opened = {rule.path for rule in system_rules(7) if rule.rights & READ}
    closed = (b"/", b"/etc", b"/var", b"/run", b"/home", b"/root", b"/tmp", b"/dev", b"/sys")
    assert not opened & set(closed)
    assert b"/etc/passwd" in opened
    assert not any(b"shadow" in path or b"ssh" in path for path in opened)


def test_a_report_is_read_in_pieces_and_strictly() -> None:
    report = Report()
    lines = b"started\ndenied openat 2f780a\ndenied socket \nended self 768 1500000 2048 2f77\n"
    for index in range(len(lines)):
        report.feed(lines[index : index + 1])
    assert report.started
    assert report.denied == [Denial("openat", "/x\n"), Denial("socket", None)]
    assert report.ended is not None
    assert (report.ended.exit_code, report.ended.signal) == (3, None)
    assert (report.ended.cpu_s, report.ended.memory_peak_bytes) == (1.5, 2 << 20)
    assert report.ended.cwd == "/w"
    assert report.problem is None
    strange = Report()
    strange.feed(b"something else\n")
    assert strange.problem == "something else"
    endless = Report()
    endless.feed(b"x" * 100_000)
    assert endless.problem is not None


AS_A_USER = """
    import anyio, os, sys, tempfile
    from pathlib import Path
    from sandboxed_tools.host import bash_command, gate_status, run_on_host
    from sandboxed_tools.host.gate import probe_gate
    from sandboxed_tools.tool.limits import Limits
    assert os.geteuid() == 23456 and gate_status().available, gate_status()
    assert probe_gate(abi=1)[0].available
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "mine").write_text("mine")
        text = '''cat mine; id -u; echo x > mine; rm mine; chmod 700 mine
                  kill -9 %d; cat /proc/%d/environ; sleep 327 & setsid sleep 327 &'''
        command = bash_command(text % (os.getpid(), os.getpid()))
        outcome = anyio.run(
            lambda: run_on_host(command, workspace=Path(name), limits=Limits(wall_s=100))
        )
        assert outcome.result.stdout == b"mine23456\\n", outcome
        assert {"openat", "unlinkat", "fchmodat"} <= {d.call for d in outcome.denied}
        complaints = outcome.result.stderr_text
        assert complaints.count("denied") + complaints.count("not permitted") == 5, complaints
        assert (Path(name) / "mine").read_text() == "mine"
    print("held")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="this is the user already")
def test_the_gate_holds_for_a_client_that_is_not_root(workspace: Path) -> None:
    require_system_python()
    version = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys; print(sys.version_info[:2])"],
        capture_output=True,
        check=True,
    ).stdout.decode()
    if version.strip() != str(sys.version_info[:2]):
        pytest.skip("the system's Python cannot import what is installed for this one")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    source = str(Path(__file__).parents[2] / "src")
    if not all(_everybody_may_enter(path) for path in (*packages, source)):
        pytest.skip("what is installed lies where another user may not read")
    done = subprocess.run(
        ["/usr/bin/python3", "-B", "-c", textwrap.dedent(AS_A_USER)],
        env={
            "PYTHONPATH": ":".join([source, *packages]),
            "PATH": "/usr/bin:/bin",
            "TMPDIR": "/tmp",
        },
        cwd="/",
        user=23456,
        group=23456,
        extra_groups=[],
        capture_output=True,
        timeout=150,
        check=False,
    )
    assert done.stdout == b"held\n", done.stderr.decode()


def _everybody_may_enter(path: str) -> bool:
    folder = Path(path).resolve()
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (folder, *folder.parents))
