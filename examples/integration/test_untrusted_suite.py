"""Run a test suite that nobody has read: it talks to its cache, and to nobody beyond.

pytest examples/integration
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxed_tools.testing.runner import SandboxRunner
from sandboxed_tools.testing.scratch import Scratch

UNTRUSTED = Path(__file__).parent / "untrusted"


@pytest.fixture
def checkout(workspace: Scratch) -> Scratch:
    workspace.write({file.name: file.read_bytes() for file in UNTRUSTED.glob("*.py")})
    return workspace


def test_the_suite_passes_with_its_cache_and_nothing_else(
    checkout: Scratch, suite: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "not for them")
    result = suite.run("python3 -m unittest -v")
    assert result.ok, result.stderr_text
    assert "OK" in result.stderr_text
    assert not checkout.difference()
    changes = suite.changed_by(result)
    assert changes is not None
    assert b"report.txt" in {change.path for change in changes.changes}


def test_without_the_services_it_reaches_no_cache(sandbox: SandboxRunner) -> None:
    assert not sandbox.run("exec 3<>/dev/tcp/cache/6379").ok
