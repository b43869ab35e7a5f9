"""A command that was judged read-only and is not: the gate holds it, and the container has it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Toolbox


@pytest.mark.engine
async def test_what_the_gate_refused_is_logged_as_an_error_and_run_again_in_a_container(
    tmp_path: Path, engine: object, caplog: pytest.LogCaptureFixture
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    # Whoever adds a program vouches for it, here wrongly: that is an error of the verdict.
    policy = Policy.model_validate({"program_specs": {"mkfifo": {}}})
    async with Toolbox(workspace=workspace, policy=policy, changes="discard") as box:
        text = "cd \"$HOME\" && mkfifo $'pipe\\nERROR made up' && ls"
        command = {"command": text}
        assert box.explain("Bash", command).placement.where == "host"
        with caplog.at_level(logging.ERROR):
            result = await box.call("Bash", command)
    assert result.placement.where == "container"
    assert result.placement.reasons[0].code == "gate_denied"
    assert result.output.exit_code == 0, result.output.stderr
    assert b"made up" in result.output.stdout
    assert list(workspace.iterdir()) == []
    (error,) = [r.getMessage() for r in caplog.records if "classifier error" in r.getMessage()]
    assert "mknod" in error
    # The name of the file is foreign text, which must not write lines of its own.
    assert "\n" not in error
