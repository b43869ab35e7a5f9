"""The operator's guide shows a complete policy; it is read as a call would read it."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from sandboxed_tools.policy import LayeredPolicy, Policy, merge_of
from sandboxed_tools.policy.layers import layer_of

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "operators.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_policy_of_the_guide_is_complete_and_can_be_used(tmp_path: Path) -> None:
    text = block("toml")
    assert set(tomllib.loads(text)) == set(Policy.model_fields), "the guide shows every field"
    path = tmp_path / "policy.toml"
    path.write_text(text)
    path.chmod(0o644)
    policy = LayeredPolicy(organisation=tmp_path / "none", user=path).current().policy
    assert policy.minimum_defaults == 2
    assert policy.ceiling is not None
    assert policy.ceiling.memory_bytes == 2 << 30
    assert {rule.layer for rule in policy.deny} == {"user"}


def test_the_variables_of_the_guide_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in block("sh").splitlines():
        name, _, value = shlex.split(line)[1].partition("=")
        monkeypatch.setitem(os.environ, name, value)
    found = LayeredPolicy(organisation=tmp_path / "none", user=tmp_path / "none").current()
    assert found.policy.mode == "ask"
    assert [str(rule) for rule in found.policy.deny] == ["Bash(rm:*)"]
    assert found.policy.ceiling is not None


def test_the_guide_says_how_each_field_merges_and_what_the_project_may_set() -> None:
    merging = GUIDE.partition("How fields merge:")[2].partition("\n\n")[0]
    for field in Policy.model_fields:
        assert f"`{field}`" in merging, field
    project = GUIDE.partition("## The project's own file")[2].partition("and nothing else")[0]
    named = set(re.findall(r"`(\w+)`", project))
    assert named == {f for f in Policy.model_fields if merge_of(f).project == "yes"}
    for field in named:
        value = Policy().model_dump(mode="json")[field]
        if value is not None:
            layer_of("project", "x", {field: value})
