"""Whatever a command leaves in its workspace is shown, decided about, and taken back exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from tests.security.abuse_changes import OUTCOMES, ROWS, VIEWS, Row
from tests.security.abuse_changes_run import Found, conduct

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, engine: Engine, base_image: str) -> Found:
    """All selected rows on their views, run a few at a time."""
    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.workspace import WorkspaceViews

    calls = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [
        (call.params["row"], call.params["view"])
        for call in calls
        if call is not None and "row" in call.params and call.params.get("view") in VIEWS
    ]

    async def run() -> Found:
        sandbox = DockerSandbox(engine, views=WorkspaceViews(), warm=False)
        try:
            return await conduct(chosen, sandbox, base_image)
        finally:
            await sandbox.aclose()

    return anyio.run(run)


@pytest.mark.timeout(600)  # the first of them waits for all
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_hostile_changes_come_to_what_is_expected(found: Found, row: Row, view: str) -> None:
    assert not found[row.id, view], f"{row.note}\n" + "\n".join(found[row.id, view])


def test_the_corpus_has_cases_of_every_outcome() -> None:
    assert {row.outcome for row in ROWS} == set(OUTCOMES)
    assert len({row.id for row in ROWS}) == len(ROWS) >= 100
