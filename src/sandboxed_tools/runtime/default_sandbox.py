"""The sandbox that a Toolbox makes for itself when it is given none."""

from __future__ import annotations

from sandboxed_tools.sandbox.contract import Sandbox

__all__ = ["open_default_sandbox"]


def open_default_sandbox(*, protected: tuple[str, ...] = (), warm: bool = True) -> Sandbox:
    """The Docker backend on the engine that answers here. Blocking; nothing is started yet.

    ``warm`` starts containers ahead of calls, which a program that makes one call has no use for.

    ``protected`` are further patterns of paths whose changes are never applied without a yes.

    Raises:
        EngineNotFound, EngineForbidden: with what was tried and what to do.
    """
    # Imported late: the docker client takes 110 ms to import, and host calls never need it.
    from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
    from sandboxed_tools.sandbox.docker.carrier import DockerCarrier
    from sandboxed_tools.sandbox.docker.sight import path_question
    from sandboxed_tools.workspace import WorkspaceViews

    engine = find_engine()
    views = WorkspaceViews(
        engine_sees=path_question(engine), carrier=DockerCarrier(engine), protected=protected
    )
    return DockerSandbox(engine, views=views, warm=warm)
