"""Which runtimes the engine has: asked once, and again for a name that it did not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.docker.runtimes import Runtimes


class Clients:
    """An engine that answers with what it is said to have."""

    def __init__(self, has: object) -> None:
        self.has = has
        self.asked = 0

    @contextmanager
    def lend(self) -> Iterator[Any]:
        yield self

    def info(self) -> dict[str, object]:
        self.asked += 1
        return {"Runtimes": self.has}


def test_what_the_engine_has_is_asked_for_once() -> None:
    clients = Clients({"runc": {}, "crun": {}})
    runtimes: Any = Runtimes(clients)  # type: ignore[arg-type]
    assert not runtimes.is_known("crun")
    runtimes.check("crun")
    assert runtimes.is_known("crun")
    assert runtimes.is_known("runc")
    assert clients.asked == 1


def test_a_runtime_that_is_missing_is_named_with_those_there_are_until_it_comes() -> None:
    clients = Clients({"runc": {}, "crun": {}, "io.containerd.runc.v2": {}})
    runtimes = Runtimes(clients)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedOnEngine, match=r"no runtime 'runsc'; it has crun, runc$"):
        runtimes.check("runsc")
    clients.has = {"runsc": {}}
    runtimes.check("runsc")


@pytest.mark.parametrize("has", [None, {}, [], "runc"])
def test_an_engine_that_does_not_say_is_left_to_refuse_itself(has: object) -> None:
    Runtimes(Clients(has)).check("anything")  # type: ignore[arg-type]


def test_a_shim_by_its_full_name_is_the_engine_s_to_know() -> None:
    clients = Clients({"runc": {}})
    runtimes = Runtimes(clients)  # type: ignore[arg-type]
    assert runtimes.is_known("io.containerd.kata.v2")
    assert runtimes.is_known("/opt/kata/bin/containerd-shim-kata-v2")
