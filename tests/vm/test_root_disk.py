"""The root disk is kept for as long as it would be made the same."""

from __future__ import annotations

from tests.vm.places import CHECKOUT
from tests.vm.root_disk import requirements, root_key

PYPROJECT = """
[project]
name = "p"
version = "{version}"
dependencies = ["docker>=7.1,<8"]
optional-dependencies = {{test = ["openai>=2", "pytest>=8.2,<10", "pytest-docker>=3"]}}
"""


def key(version: str, **changes: str) -> str:
    text = PYPROJECT.format(version=version)
    for old, new in changes.items():
        text = text.replace(old, new)
    return root_key(requirements(text))


def test_a_change_of_the_project_itself_makes_no_new_disk() -> None:
    assert key("1") == key("2")
    assert key("1") == key("1", openai="anthropic")


def test_another_dependency_makes_a_new_disk() -> None:
    assert key("1") != key("1", docker="podman")
    assert root_key(("a", "b")) != root_key(("a", "c"))


def test_the_guest_gets_what_its_tests_need_and_no_other_test_dependency() -> None:
    wanted = requirements((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {text.partition(">")[0] for text in wanted}
    assert {"docker", "pytest", "pytest-timeout"} <= names
    assert not {"openai", "pytest-docker", "pytest-xdist"} & names
