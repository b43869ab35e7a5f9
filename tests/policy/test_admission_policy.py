"""Who may bound all contained calls together, and what a bound can be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy
from sandboxed_tools.policy.layers import layer_of, merge_layers


@pytest.mark.parametrize(
    "value",
    [
        {"calls": 0},
        {"calls": True},
        {"calls": "many"},
        {"calls_on_machine": -1},
        {"queue": -1},
        {"queue_s": 0},
        {"queue_s": float("nan")},
        {"queue_s": float("inf")},
        {"free_memory_bytes": "-1m"},
        {"load_per_cpu": float("nan")},
        {"cgroup_parent": ""},
        {"cgroup_parent": "/"},
        {"cgroup_parent": "/a/../../b"},
        {"cgroup_parent": ".."},
        {"cgroup_parent": "/a\n/b"},
        {"cgroup_parent": "/a b"},
        {"budget_cpu_s": 0},
        {"call": 3},
        [],
        "8",
    ],
)
def test_what_bounds_nothing_is_an_error(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="admission"):
        layer_of("user", "x", {"admission": value})


@pytest.mark.parametrize("parent", ["/sandboxes", "sandboxes.slice", "a/b-c_d.e", "/a/b"])
def test_control_groups_have_names(parent: str) -> None:
    stated = layer_of("user", "x", {"admission": {"cgroup_parent": parent}}).stated.admission
    assert stated is not None
    assert stated.cgroup_parent == parent


def test_the_highest_layer_decides_and_the_project_has_no_say() -> None:
    layers = [
        layer_of("session", "x", {"admission": {"calls": 100}}),
        layer_of("organisation", "x", {"admission": {"calls": 2, "free_memory_bytes": "1g"}}),
    ]
    admission = merge_layers(layers).policy.admission
    assert admission is not None
    assert (admission.calls, admission.free_memory_bytes) == (2, 1 << 30)
    with pytest.raises(ConfigurationError, match="admission"):
        layer_of("project", "x", {"admission": {"calls": 100}})


def test_variables_state_single_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SANDBOXED_TOOLS_ADMISSION__CALLS_ON_MACHINE", "3")
    monkeypatch.setitem(os.environ, "SANDBOXED_TOOLS_ADMISSION__FREE_DISK_BYTES", "2g")
    none = tmp_path / "none"
    admission = LayeredPolicy(organisation=none, user=none).current().policy.admission
    assert admission is not None
    assert (admission.calls_on_machine, admission.free_disk_bytes) == (3, 2 << 30)
    monkeypatch.setitem(os.environ, "SANDBOXED_TOOLS_ADMISSION__CALLS_ON_MACHIN", "3")
    with pytest.raises(ConfigurationError, match="CALLS_ON_MACHINE"):
        LayeredPolicy(organisation=none, user=none).current()
