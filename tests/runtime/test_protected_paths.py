"""Protected paths of the policy hold the changes of contained calls for an explicit yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.builtin import Bash
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy, Policy
from sandboxed_tools.runtime import Toolbox


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "deploy").mkdir(parents=True)
    return folder


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
async def test_a_protected_path_is_held_even_where_edits_are_accepted(workspace: Path) -> None:
    policy = Policy(mode="accept-edits", protected_paths=("deploy",))
    async with Toolbox([Bash], workspace=workspace, policy=policy, changes="apply") as box:
        plain = await box.call("Bash", {"command": "echo x > plain.txt"})
        held = await box.call("Bash", {"command": "echo x > deploy/prod.yml"})
        assert plain.exec is not None
        assert held.exec is not None
        assert plain.exec.changes is not None
        assert held.exec.changes is not None
        assert plain.exec.changes.decision == "applied"
        assert held.exec.changes.decision == "held"
        assert held.exec.changes.id is not None
        assert not (workspace / "deploy" / "prod.yml").exists()
        assert not (await box.apply(held.exec.changes.id)).done
        assert (await box.apply(held.exec.changes.id, allow_protected=True)).done
    assert (workspace / "deploy" / "prod.yml").read_text() == "x\n"


async def test_protected_paths_must_not_change_under_an_open_workspace(
    workspace: Path, tmp_path: Path
) -> None:
    organisation = tmp_path / "policy.toml"
    policy: Any = LayeredPolicy(organisation=organisation)
    async with Toolbox([Bash], workspace=workspace, policy=policy) as box:
        organisation.write_text('protected_paths = ["deploy"]\n')
        with pytest.raises(ConfigurationError, match="Open the Toolbox again"):
            await box.call("Bash", {"command": "ls"})
