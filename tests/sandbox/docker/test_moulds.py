"""From a spec to the mould of its containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.direct import direct_command
from sandboxed_tools.sandbox.docker.errands import Errands
from sandboxed_tools.sandbox.docker.moulds import Moulds
from sandboxed_tools.tool.command import Command

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    ("runtime", "launcher"),
    [
        (None, "image"),
        ("runc", "image"),
        ("crun", "image"),
        ("runsc", "none"),
        ("runsc-kvm", "none"),
    ],
)
def test_a_runtime_that_must_read_programs_gets_no_launcher(
    engine: Engine, base_image: str, runtime: str | None, launcher: str
) -> None:
    clients = Clients(engine)
    try:
        mould = Moulds(clients, errands=Errands()).mould(SandboxSpec(base_image, runtime=runtime))
    finally:
        clients.close()
    assert mould.launcher == launcher
    secret = Command(("true",), env={"TOKEN": "x"})
    if launcher == "none":
        with pytest.raises(UnsupportedOnEngine, match="TOKEN"):
            direct_command(mould, secret)
    else:
        assert direct_command(mould, secret) is None
