"""What the machine is made with: what is missing is named, and a failure shows its last lines."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from tests.vm.programs import Failed, require_programs, run

from sandboxed_tools.sandbox.docker.progress import SilentProgress


@pytest.mark.skipif(platform.machine() != "x86_64", reason="is refused there before anything")
def test_what_is_missing_and_cannot_be_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.vm.programs.SYSTEM_FOLDERS", str(tmp_path))
    with pytest.raises(Failed, match=r"qemu-system-x86_64, mmdebstrap, .*apt"):
        require_programs(SilentProgress())


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(Failed, match=r"Linux on amd64 only; this is .* on aarch64"):
        require_programs(SilentProgress())


def test_a_program_that_fails_shows_its_last_lines() -> None:
    with pytest.raises(Failed, match=r"no space left\nsh failed with 3"):
        run(
            ["sh", "-c", "echo no space left; exit 3"],
            deadline_s=60,
            progress=SilentProgress(),
        )


def test_a_program_that_does_not_end_or_does_not_exist_fails() -> None:
    with pytest.raises(Failed, match="took too long"):
        run(["sleep", "600"], deadline_s=0.2, progress=SilentProgress())
    with pytest.raises(Failed, match="cannot be run"):
        run(["no-such-program"], deadline_s=60, progress=SilentProgress())
