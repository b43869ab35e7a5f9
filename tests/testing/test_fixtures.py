"""The plug-in's fixtures in this very suite, without a pytest of its own in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sandboxed_tools.sandbox.docker.images import BASE_IMAGE
from sandboxed_tools.testing.backend import Backend
from sandboxed_tools.testing.runner import SandboxRunner
from sandboxed_tools.testing.scratch import Difference, Scratch

if TYPE_CHECKING:
    from sandboxed_tools.runtime import SyncToolbox

pytestmark = [pytest.mark.engine, pytest.mark.sandbox(pids=40, changes="apply", open_files=77)]


@pytest.fixture(scope="module")
def _sandbox_backend() -> Iterator[Backend]:
    """For this module alone: other tests of this process look whether anything is left."""
    backend = Backend.open(image=BASE_IMAGE)
    yield backend
    assert backend.close() == []


def test_the_marker_of_a_module_is_the_rule(sandbox: SandboxRunner, workspace: Scratch) -> None:
    workspace.write({"a": "old"})
    result = sandbox.run("ulimit -n; echo new > a")
    assert result.stdout_text == "77\n"
    assert workspace.difference() == Difference(changed=("a",))


@pytest.mark.sandbox(changes="discard", open_files=99)
def test_the_marker_of_a_test_is_the_exception(sandbox: SandboxRunner, workspace: Scratch) -> None:
    assert sandbox.run("ulimit -n; echo new > a").stdout_text == "99\n"
    assert not workspace.difference()
    forked = sandbox.run("for i in $(seq 60); do sleep 9 & done 2>/dev/null; kill $(jobs -p)")
    assert "pids" in forked.limits_hit, "what the test does not state stays as the module has it"


def test_a_toolbox_applies_what_the_marker_says_and_asks_nobody(
    toolbox: SyncToolbox, workspace: Scratch
) -> None:
    workspace.write({"a": "old\n"})
    toolbox.call("Bash", {"command": "echo new > b"})
    toolbox.call("Read", {"file_path": "a"})
    toolbox.call("Edit", {"file_path": "a", "old_string": "old", "new_string": "newer"})
    assert workspace.difference() == Difference(added=("b",), changed=("a",))
    assert (workspace / "a").read_text() == "newer\n"


@pytest.mark.sandbox(network="none")
def test_a_command_knows_nothing_of_the_suite_around_it(
    sandbox: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "secret")
    seen = sandbox.run("cat /proc/self/environ | tr '\\0' '\\n'; ls -A $PWD; ls /home")
    assert "DEPLOY_TOKEN" not in seen.stdout_text
    assert "PYTEST" not in seen.stdout_text
    assert "conftest" not in seen.stdout_text
