"""The engine that answers here, for commands that talk to it directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

__all__ = ["engine_api"]


@contextmanager
def engine_api() -> Iterator[tuple[Engine, docker.APIClient]]:
    """The engine and a client of it, closed at the end.

    Raises:
        EngineNotFound, EngineForbidden: with what was tried and what to do.
    """
    from sandboxed_tools.sandbox.docker.engine import find_engine

    engine = find_engine()
    api = engine.api()
    try:
        yield engine, api
    finally:
        api.close()
