"""What a client sees of a call while it runs, when it is slow to take it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from tests.mcp.serving import DEADLINE_S

from sandboxed_tools.mcp import live as live_view
from sandboxed_tools.mcp.live import LiveView


class SlowSession:
    """Takes nothing until it is let go."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.is_asked = anyio.Event()
        self.let_go = anyio.Event()

    async def send_notification(self, notification: Any, **_: Any) -> None:
        self.is_asked.set()
        await self.let_go.wait()
        self.taken.append(notification.params.data)


async def test_the_end_of_an_output_does_not_overtake_what_a_slow_client_keeps_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_view, "LAST_FLUSH_S", DEADLINE_S)
    session = SlowSession()
    ctx: Any = SimpleNamespace(
        session=session, request_id=1, protocol_version="2025-11-25", meta=None
    )
    live = LiveView(ctx, tool=None, log_level="debug")
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            live.on_output("stdout", b"first ")
            live.on_output("stderr", b"second ")
            tasks.start_soon(live.run)
            await session.is_asked.wait()
            live.on_output("stdout", b"last")
            async with anyio.create_task_group() as ending:
                ending.start_soon(live.finish)
                await anyio.wait_all_tasks_blocked()
                session.let_go.set()
            tasks.cancel_scope.cancel()
    assert session.taken == ["first ", "second ", "last"]
