"""testcontainers: ``DockerContainer``, started and executed in; kept or one for each call."""

from __future__ import annotations

import sys
from collections.abc import Callable

from driver import ARGV, EXIT, nothing, require, serve

require("testcontainers")

from testcontainers.core.container import DockerContainer  # noqa: E402


def started() -> DockerContainer:
    container = DockerContainer(sys.argv[1], command=["sleep", "3600"])
    return container.with_kwargs(entrypoint="", network_mode="none", init=True).start()


def run_in(container: DockerContainer) -> None:
    result = container.exec(ARGV)
    assert (result.exit_code, result.output) == (EXIT, b"hi\n"), result


def fresh() -> Callable[[], object]:
    container = started()
    try:
        run_in(container)
    except BaseException:
        container.stop()
        raise
    return container.stop


kept = started()


def again() -> Callable[[], object]:
    run_in(kept)
    return nothing


serve(
    "testcontainers",
    {"fresh": ("a container a call", fresh), "kept": ("a container that is kept", again)},
    close=kept.stop,
)
