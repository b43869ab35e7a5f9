"""The pytest plug-in: fixtures that run untrusted commands in disposable containers.

Loaded by its entry point in every pytest run of the environment, so importing it costs little and
touches nothing: the engine is looked for when the first test asks for a fixture.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxed_tools.testing.marked import MarkedOptions
from sandboxed_tools.testing.scratch import Scratch

if TYPE_CHECKING:
    from sandboxed_tools.runtime import SyncToolbox
    from sandboxed_tools.testing.backend import Backend
    from sandboxed_tools.testing.record import Record
    from sandboxed_tools.testing.runner import SandboxRunner

__all__: list[str] = []

RECORD = pytest.StashKey["Record"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("sandbox_image", "image of sandboxed commands", default="sandboxed-tools/base")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "sandbox(memory=..., cpus=..., pids=..., timeout=..., network=..., services=..., "
        "changes=..., image=..., runtime=...): what the sandboxed commands of this test may use",
    )


@pytest.fixture(scope="session")
def _sandbox_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The engine, for this process; nothing of it is left afterwards, or the run fails."""
    from sandboxed_tools.errors import SandboxedToolsError
    from sandboxed_tools.testing.backend import Backend

    try:
        backend = Backend.open(image=request.config.getini("sandbox_image"))
    except SandboxedToolsError as error:
        reason = f"{error} ({error.operator_detail})" if error.operator_detail else str(error)
        if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    yield backend
    if leaks := backend.close():
        pytest.fail("left behind by sandboxed calls:\n" + "\n".join(leaks), pytrace=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Scratch:
    """A scratch tree; ``workspace.difference()`` says what has really changed in it."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Scratch(folder)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, _sandbox_backend: Backend) -> Iterator[SandboxRunner]:
    """Runs commands, each in a container of its own, on the ``workspace`` if the test has one."""
    from sandboxed_tools.testing.runner import SandboxRunner

    runner = SandboxRunner(
        _sandbox_backend,
        options=_marked(request),
        workspace=_workspace_of(request),
        record=_record(request),
    )
    yield runner
    runner.forget_changes()


@pytest.fixture
def toolbox(request: pytest.FixtureRequest, _sandbox_backend: Backend) -> Iterator[SyncToolbox]:
    """The shipped tools on the ``workspace``, under the limits that the test's marker states."""
    from sandboxed_tools.runtime import SyncToolbox
    from sandboxed_tools.testing.record import RecordedSandbox
    from sandboxed_tools.testing.runner import discard_held

    options, place = _marked(request), _workspace_of(request)
    session = f"test-{secrets.token_hex(8)}"
    with SyncToolbox(
        sandbox=RecordedSandbox(_sandbox_backend.sandbox, _record(request)),
        workspace=place,
        limits=options.limits,
        image=options.image or _sandbox_backend.image,
        network=options.network,
        services=dict(options.services),
        changes=options.changes,
        runtime=options.runtime,
        session=session if place is not None else None,
        confirmer=options.confirmer,
    ) as box:
        yield box
    if place is not None:
        discard_held(place, session)


@pytest.fixture(scope="session")
def sandbox_image(_sandbox_backend: Backend) -> Callable[..., str]:
    """Builds an image from a folder with a Dockerfile, once for its content, and names it."""
    return _sandbox_backend.build


def _record(request: pytest.FixtureRequest) -> Record:
    """What the commands of this test came to, whichever fixture ran them."""
    from sandboxed_tools.testing.record import Record

    stash: pytest.Stash = request.node.stash
    return stash.setdefault(RECORD, Record())


def _marked(request: pytest.FixtureRequest) -> MarkedOptions:
    # The closest marker wins, keyword by keyword: a module states the rule, a test its exception.
    values: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("sandbox"))):
        if marker.args:
            raise pytest.UsageError("@pytest.mark.sandbox takes keywords only")
        values |= marker.kwargs
    return MarkedOptions.of(values)


def _workspace_of(request: pytest.FixtureRequest) -> Path | None:
    if "workspace" not in request.fixturenames:
        return None
    # A project may have a fixture of this name of its own; a path is all that is needed of it.
    return Path(os.fspath(request.getfixturevalue("workspace")))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Attach what the sandboxed commands of a failing test and its fixtures printed and changed."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
    record = item.stash.get(RECORD, None)
    if record is not None and report.failed:
        report.sections.extend(record.sections())
