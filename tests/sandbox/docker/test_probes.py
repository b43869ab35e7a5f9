"""The doctor's probes: they say "enforced" where it holds, and notice where it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from sandboxed_tools.errors import EngineFault, ImageUnavailable
from sandboxed_tools.sandbox.contract import Capability
from sandboxed_tools.sandbox.docker import probes
from sandboxed_tools.sandbox.docker.advisories import check_advisories
from sandboxed_tools.sandbox.docker.create import create_request
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.probes import RULES, probe_engine
from sandboxed_tools.workspace import WorkspaceViews

RULE_NAMES = {rule.name for rule in RULES}


def states(items: tuple[Capability, ...]) -> dict[str, str]:
    return {item.name: item.state for item in items}


@pytest.mark.engine
def test_every_promised_limit_is_enforced_here_and_says_its_evidence(
    engine: Engine, base_image: str
) -> None:
    found = probe_engine(engine, views=WorkspaceViews())
    broken = [item for item in found.items if item.name in RULE_NAMES and item.state != "enforced"]
    assert broken == []
    assert {item.name for item in found.items} >= {
        *RULE_NAMES,
        "image",
        "storage_opt",
        "cgroup v2",
        "local engine",
        "copy-on-write workspace",
    }
    assert all(item.evidence for item in found.items)
    assert all(item.advice for item in found.items if item.state == "weaker")
    assert found.facts["engine"] == engine.version


def weakened(**host_config: Any) -> Callable[..., dict[str, Any]]:
    def request(*arguments: Any, **options: Any) -> dict[str, Any]:
        made = create_request(*arguments, **options)
        made["HostConfig"] |= host_config
        return made

    return request


@pytest.mark.engine
def test_the_probes_notice_every_option_that_is_missing(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = weakened(
        SecurityOpt=["seccomp=unconfined"],
        ReadonlyRootfs=False,
        NetworkMode="bridge",
        Dns=[],
        MaskedPaths=[],
        Memory=0,
        MemorySwap=0,
        PidsLimit=0,
        CpuQuota=0,
        CpuPeriod=0,
        Ulimits=[],
        Tmpfs={"/tmp": "rw,mode=1777"},
    )
    monkeypatch.setattr(probes, "create_request", request)
    found = states(probe_engine(engine).items)
    missing = {name for name in RULE_NAMES if found[name] == "missing"}
    assert missing >= {
        "no new privileges",
        "seccomp",
        "read-only root",
        "no network",
        "masked /proc",
        "no ptrace",
        "memory",
        "processes",
        "processor",
        "size of /tmp",
        "open files",
    }
    # These do not rest on an option that was taken away, so they must not cry wolf.
    assert found["user"] == found["no capabilities"] == "enforced"


@pytest.mark.engine
def test_the_probes_notice_root_and_its_capabilities(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = weakened(CapDrop=[])

    def request(*arguments: Any, **options: Any) -> dict[str, Any]:
        return plain(*arguments, **options) | {"User": "0:0"}

    monkeypatch.setattr(probes, "create_request", request)
    found = states(probe_engine(engine).items)
    assert found["user"] == found["no capabilities"] == "missing"
    assert found["read-only root"] == "enforced"


@pytest.mark.engine
def test_a_probe_that_cannot_run_leaves_unknown_never_enforced(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = weakened()
    broken = {"Entrypoint": ["/bin/false"], "Cmd": []}
    monkeypatch.setattr(probes, "create_request", lambda *a, **o: request(*a, **o) | broken)
    found = states(probe_engine(engine).items)
    assert {found[name] for name in RULE_NAMES} == {"unknown"}


@pytest.mark.engine
@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"uid": "x"}', "\x1b[2J", "{" * 9000])
def test_an_answer_that_makes_no_sense_is_unknown(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    request = weakened()
    monkeypatch.setattr(
        probes,
        "create_request",
        lambda *a, **o: request(*a, **o) | {"Entrypoint": ["echo"], "Cmd": ["-n", text]},
    )
    found = states(probe_engine(engine).items)
    assert "enforced" not in {found[name] for name in RULE_NAMES - {"user"}}


@pytest.mark.engine
def test_without_the_image_the_doctor_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ImageUnavailable("the image is not on the engine: build it")

    monkeypatch.setattr(probes, "resolve_image", missing)
    found = probe_engine(engine).items
    assert found[0].state == "missing"
    assert found[0].advice == "sandboxed-tools images build"
    assert {item.state for item in found if item.name in RULE_NAMES} == {"unknown"}


def test_an_engine_that_is_gone_is_not_probed(engine: Engine, tmp_path: object) -> None:
    gone = dataclasses.replace(engine, endpoint=Endpoint(f"unix://{tmp_path}/x", source="test"))
    items = states_or_fault(gone)
    assert items is None or "enforced" not in {items[name] for name in RULE_NAMES}


def states_or_fault(engine: Engine) -> dict[str, str] | None:
    try:
        return states(probe_engine(engine).items)
    except EngineFault:
        return None


@pytest.mark.parametrize(
    ("component", "version", "ids", "state"),
    [
        ("runc", "1.1.12", "CVE-2024-21626", "enforced"),
        ("runc", "1.1.11", "CVE-2024-21626", "weaker"),
        ("runc", "1.1.5+ds1", "CVE-2024-21626", "unknown"),
        ("runc", "1.1.5+ds1-1+deb12u1", "CVE-2024-21626", "enforced"),
        ("runc", "1.1.5+ds1-1+deb12u1", "CVE-2025-31133", "unknown"),
        ("runc", "1.1.5+ds1-1", "CVE-2024-21626", "unknown"),
        ("runc", "1.0.0", "CVE-2019-5736", "enforced"),
        ("runc", "1.2.8", "CVE-2025-31133", "enforced"),
        ("runc", "1.2.7", "CVE-2025-31133", "weaker"),
        ("runc", "1.3.2", "CVE-2025-31133", "weaker"),
        ("runc", "1.3.3", "CVE-2025-31133", "enforced"),
        ("runc", "2.0.0", "CVE-2025-31133", "enforced"),
        ("runc", "1.1.15", "CVE-2025-31133", "weaker"),
        ("runc", "v1.4.0", "CVE-2025-31133", "enforced"),
        ("containerd", "1.6.20~ds1", "CVE-2020-15257", "enforced"),
        ("containerd", "1.3.8", "CVE-2020-15257", "weaker"),
        ("engine", "29.5.1", "CVE-2026-41567", "enforced"),
        ("engine", "28.5.2", "CVE-2026-41567", "weaker"),
        ("engine", "20.10.24+dfsg1", "CVE-2026-41567", "unknown"),
        ("engine", "library-import", "CVE-2026-41567", "unknown"),
    ],
)
def test_versions_are_compared_with_the_advisories(
    component: str, version: str, ids: str, state: str
) -> None:
    items = check_advisories({component: version})
    found = {item.name: item for item in items}
    (name,) = (name for name in found if ids in name)
    assert found[name].state == state


def test_a_component_of_unknown_version_has_no_entry() -> None:
    assert check_advisories({}) == ()
    assert check_advisories({"runc": ""}) == ()
