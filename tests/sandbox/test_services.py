"""What may be named as a network or a service."""

from __future__ import annotations

from typing import Any

import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.sandbox.contract import SandboxSpec


@pytest.mark.parametrize(
    ("network", "services"),
    [
        ("host", ()),
        ("container:abc", ()),
        ("compose:", ()),
        ("compose:a/b/c", ()),
        ("compose:../x", ()),
        ("bridge", (("db", "c"),)),
        ("none", (("db\n10.0.0.1 evil", "c"),)),
        ("none", (("localhost", "c"),)),
        ("none", (("sandbox", "c"),)),
        ("none", (("db", "../containers/x"),)),
        ("none", (("db", "a"), ("DB", "b"))),
        ("none", (("db",),)),
        ("none", tuple((f"s{n}", "c") for n in range(33))),
    ],
)
def test_what_is_no_network_and_no_service_is_refused(network: str, services: Any) -> None:
    with pytest.raises(ConfigurationError):
        SandboxSpec("image", network=network, services=services)


@pytest.mark.parametrize(
    ("network", "services", "joins"),
    [
        ("none", (), False),
        ("bridge", (), False),
        ("none", (("db", "project-db-1"),), True),
        ("compose:shop/back_end", (), True),
        ("compose:shop/default", (("cache", "0123abcdef"),), True),
    ],
)
def test_a_call_joins_services_when_it_names_some(network: str, services: Any, joins: bool) -> None:
    assert SandboxSpec("image", network=network, services=services).joins_services is joins
