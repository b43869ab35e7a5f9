"""Removing a container that comes when nobody removes containers any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from docker.errors import NotFound

from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.container import launch
from sandboxed_tools.sandbox.docker.disposal import Disposal
from sandboxed_tools.sandbox.docker.errands import Errands
from sandboxed_tools.sandbox.docker.moulds import Moulds
from sandboxed_tools.sandbox.docker.quiet import Quiet

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.contract import SandboxSpec
    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = pytest.mark.engine


def test_container_that_comes_after_the_end_is_removed_by_who_brings_it(
    engine: Engine, spec: SandboxSpec, api: docker.APIClient
) -> None:
    clients = Clients(engine)
    disposal = Disposal(clients, quiet=Quiet())
    try:
        mould = Moulds(clients, errands=Errands()).mould(spec)
        late = launch(engine, clients, mould, kind="call", lifetime_s=60, views=None)
        assert disposal.close(timeout_s=60)
        removed: list[str] = []
        disposal.dispose(late, then=lambda: removed.append(late.id), is_urgent=True)
        assert removed == [late.id]
        with pytest.raises(NotFound):
            api.inspect_container(late.id)
        assert disposal.failures == 0
    finally:
        clients.close()
