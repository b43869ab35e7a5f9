"""How the bridge of a service network is kept from the host, by what the engine can do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.sandbox.docker.service_network import _bridge_options, new_network_name

ISOLATED = {"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}
INHIBITED = {"com.docker.network.bridge.inhibit_ipv4": "true"}


@pytest.mark.parametrize(
    ("api_version", "options"),
    [
        ("1.41", INHIBITED),
        ("1.45", INHIBITED),
        ("1.47", INHIBITED),
        ("1.48", ISOLATED),
        ("1.51", ISOLATED),
        ("1.100", ISOLATED),
        ("2.0", ISOLATED),
    ],
)
def test_engines_from_28_on_have_a_gateway_mode_for_it(
    api_version: str, options: dict[str, str]
) -> None:
    api = cast(Any, SimpleNamespace(api_version=api_version))
    assert _bridge_options(api) == options


@pytest.mark.engine
def test_the_engine_that_answers_here_takes_what_it_is_given(engine: Engine) -> None:
    api = engine.api()
    name = new_network_name()
    labels = Owner.current().labels(deadline_s=600, kind="test")
    try:
        api.create_network(
            name, driver="bridge", internal=True, labels=labels, options=_bridge_options(api)
        )
        made = api.inspect_network(name)
        assert made["Options"] == _bridge_options(api)
        assert made["Internal"]
    finally:
        for item in api.networks(names=[name]):
            api.remove_network(item["Id"])
        api.close()
