"""Which image configurations are refused, and that ordinary ones are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.errors import ImageRefused
from sandboxed_tools.sandbox.docker.image_policy import check_image, image_objections

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image(**config: Any) -> dict[str, Any]:
    return {"Os": "linux", "Config": {"Env": [PATH], **config}}


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"Env": [PATH, "LANG=C.UTF-8", "PYTHON_VERSION=3.13.1", "GOLDEN=1", "OLD_ENV=x"]},
        {"Env": None, "Volumes": None, "Labels": None, "OnBuild": None},
        {"Volumes": {}, "Labels": {"maintainer": "x", "not-sandboxed-tools.pid": "1"}},
        {"WorkingDir": "/usr/src/processor", "User": "root", "Healthcheck": {"Test": ["CMD"]}},
        {"Env": ["EMPTY=", "WITH_EQUALS=a=b=c"]},
    ],
)
def test_an_ordinary_image_has_no_objections(config: dict[str, Any]) -> None:
    assert image_objections(image(**config)) == ()


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"Volumes": {"/data": {}}}, "/data"),
        ({"Volumes": ["/data"]}, "malformed"),
        ({"Env": ["LD_PRELOAD=/evil.so"]}, "LD_PRELOAD"),
        ({"Env": ["LD_AUDIT=/evil.so"]}, "LD_AUDIT"),
        ({"Env": ["BASH_ENV=/evil.sh"]}, "BASH_ENV"),
        ({"Env": ["ENV=/evil.sh"]}, "ENV"),
        ({"Env": ["BASH_FUNC_ls%%=() { id; }"]}, "BASH_FUNC_ls"),
        ({"Env": ["SHELLOPTS=xtrace", "PS4=$(id)"]}, "PS4"),
        ({"Env": ["GLIBC_TUNABLES=x"]}, "GLIBC_TUNABLES"),
        ({"Env": ["BASH_ENV"]}, "BASH_ENV"),
        ({"Env": ["=x"]}, "unusable name"),
        ({"Env": ["NOSIGN"]}, "unusable name"),
        ({"Env": "PATH=/bin"}, "malformed"),
        ({"Labels": {"sandboxed-tools.pid": "1"}}, "sandboxed-tools.pid"),
        ({"Labels": {"Sandboxed-Tools.kind": "call"}}, "Sandboxed-Tools.kind"),
        ({"OnBuild": ["RUN id"]}, "ONBUILD"),
        ({"WorkingDir": "/proc/self/fd/7"}, "/proc/self/fd/7"),
        ({"WorkingDir": "/a/../proc/self/fd/7"}, ".."),
        ({"WorkingDir": "//proc"}, "//proc"),
    ],
)
def test_a_configuration_that_weakens_the_sandbox_is_refused_by_name(
    config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ImageRefused) as caught:
        check_image(image(**config), reference="evil:1")
    assert named in str(caught.value)
    assert "evil:1" in str(caught.value)


def test_every_objection_is_listed_at_once() -> None:
    inspected = image(Volumes={"/a": {}, "/b": {}}, Env=["ENV=x"])
    assert len(image_objections(inspected)) == 3


@pytest.mark.parametrize("system", ["windows", "", None, 7])
def test_an_image_for_another_system_is_refused(system: object) -> None:
    assert image_objections({"Os": system, "Config": {}})


def test_an_error_never_carries_control_characters_from_the_image() -> None:
    with pytest.raises(ImageRefused) as caught:
        check_image(image(Volumes={"/\x1b[2J\u202e": {}}), reference="x\x1b]0;t\x07")
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["Env", "Volumes", "Labels", "OnBuild", "WorkingDir"]), json_values
    )
)
def test_no_configuration_makes_the_check_crash(config: dict[str, Any]) -> None:
    image_objections({"Os": "linux", "Config": config})


@given(name=st.from_regex(r"LD_[A-Z_]{0,12}", fullmatch=True), value=st.text(max_size=8))
def test_no_loader_variable_gets_past(name: str, value: str) -> None:
    assert image_objections(image(Env=[PATH, f"{name}={value}"]))
