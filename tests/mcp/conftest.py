"""What the tests of the server share."""

from __future__ import annotations

import mcp.client.stdio
import pytest


@pytest.fixture(autouse=True)
def _patient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's client kills a server that does not end within two seconds; on a busy machine a
    server needs longer to remove its containers."""
    monkeypatch.setattr(mcp.client.stdio, "PROCESS_TERMINATION_TIMEOUT", 60.0)
