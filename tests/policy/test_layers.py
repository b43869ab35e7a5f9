"""Layers: each can tighten what a higher one says, none can loosen it, and files are suspected."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import Consents, LayeredPolicy, Policy, Rule, merge_of
from sandboxed_tools.policy.layers import LAYERS, Layer, LayerName, layer_of, merge_layers
from sandboxed_tools.policy.settings import Merge
from sandboxed_tools.tool import Limits
from sandboxed_tools.workspace import WorkspaceRoot

MONOTONE = {
    "mode": "read-only",
    "deny": ["Bash(rm:*)"],
    "ask": ["Bash(git push:*)"],
    "sandbox": "always",
    "minimum_defaults": 2,
    "ceiling": {"wall_s": 10},
    "untrusted": ["Glob"],
    "denied_paths": ["secrets/**"],
    "require": ["seccomp"],
    "confirm_by": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "etc"
    path.mkdir(mode=0o755)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Iterator[WorkspaceRoot]:
    path = tmp_path / "ws"
    path.mkdir()
    with WorkspaceRoot.open(path) as opened:
        yield opened


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


def sources(folder: Path, root: WorkspaceRoot | None = None, session: Any = None) -> LayeredPolicy:
    return LayeredPolicy(
        session,
        root=root,
        organisation=folder / "policy.toml",
        user=folder / "user.toml",
        consents=Consents(folder),
    )


def agree(policy: LayeredPolicy) -> None:
    file = policy.project_file
    assert file is not None
    policy.agree(file)


def merged(**layers: dict[str, Any]) -> Policy:
    made = [layer_of(name, name, values) for name, values in layers.items()]  # type: ignore[arg-type]
    return merge_layers(made).policy


def test_every_field_declares_how_it_merges_and_what_the_project_may_do() -> None:
    for field in Policy.model_fields:
        merge = merge_of(field)
        assert merge.kind in ("union", "intersection", "min", "and", "operator_only")
        if merge.project == "yes":
            assert merge.kind in ("union", "intersection", "min")
        if merge.kind == "min" and not merge.order:
            assert field == "ceiling"


def test_a_field_without_a_declaration_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    field = Policy.model_fields["mode"]
    rest = [item for item in field.metadata if not isinstance(item, Merge)]
    monkeypatch.setattr(field, "metadata", rest)
    with pytest.raises(ConfigurationError, match="mode"):
        merge_layers([])


def test_the_project_may_set_exactly_what_only_tightens() -> None:
    allowed = {field for field in Policy.model_fields if merge_of(field).project == "yes"}
    assert allowed == set(MONOTONE)
    never = (
        "network trusted_tools trusted_workspace read_roots protected_paths images runtime "
        "program_specs audit"
    )
    for field in never.split():
        with pytest.raises(ConfigurationError, match=field):
            layer_of("project", "x", {field: getattr(Policy(), field)})


def test_without_layers_the_defaults_hold() -> None:
    found = merge_layers([])
    assert found.policy == Policy()
    assert not found.origins


@pytest.mark.parametrize("field", ["mode", "sandbox", "network", "minimum_defaults", "audit"])
def test_the_tightest_value_of_an_ordered_field_wins_wherever_it_is_said(field: str) -> None:
    order = merge_of(field).order
    names = [name for name in LAYERS if name != "project"]
    for tight, loose in itertools.combinations(order, 2):
        for high, low in itertools.permutations(names, 2):
            assert getattr(merged(**{high: {field: tight}, low: {field: loose}}), field) == tight


@pytest.mark.parametrize("high", LAYERS)
@pytest.mark.parametrize("low", LAYERS)
def test_no_layer_brings_back_a_confirmer_that_another_took_away(high: str, low: str) -> None:
    if high != low:
        layers: dict[str, Any] = {high: {"confirm_by": []}, low: {"confirm_by": ["elicitation"]}}
        policy = merged(**layers)
        assert policy.confirm_by == frozenset()
    assert merged(**{high: {"confirm_by": []}}).confirm_by == frozenset()


def test_the_project_alone_adds_no_confirmer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy.model_fields["confirm_by"], "default", frozenset())
    assert merged(project={"confirm_by": ["elicitation"]}).confirm_by == frozenset()
    assert merged(user={"confirm_by": ["elicitation"]}).confirm_by == {"elicitation"}


@pytest.mark.parametrize("value", ["elicitation", ["me"], ["elicitation", "terminal"], True, None])
def test_a_confirmer_that_is_none_is_an_error(value: object) -> None:
    with pytest.raises(ConfigurationError, match="confirm_by"):
        layer_of("user", "x", {"confirm_by": value})


def test_rules_add_up_and_each_keeps_its_layer() -> None:
    policy = merged(
        user={"deny": ["Bash(rm:*)"], "allow": ["Bash(ls)"]},
        session={"deny": ["Bash(dd:*)"]},
        project={"deny": ["Bash(curl:*)"]},
    )
    assert [(str(rule), rule.layer) for rule in policy.deny] == [
        ("Bash(rm:*)", "user"),
        ("Bash(dd:*)", "session"),
        ("Bash(curl:*)", "project"),
    ]


def test_a_layer_cannot_claim_that_its_rule_is_another_layers() -> None:
    forged = Policy(allow=(Rule.parse("Bash", layer="organisation"),))
    policy = merge_layers([Layer("session", "x", forged)]).policy
    assert [rule.layer for rule in policy.allow] == ["session"]


def test_a_ceiling_takes_the_smallest_of_each_limit_and_a_table_caps_only_what_it_names() -> None:
    policy = merged(
        organisation={"ceiling": {"memory_bytes": "1g", "wall_s": 600}},
        user={"ceiling": {"wall_s": 60}},
        session={"ceiling": {"memory_bytes": "2g", "wall_s": 3600}},
    )
    assert policy.ceiling is not None
    assert policy.ceiling.memory_bytes == 1 << 30
    assert policy.ceiling.wall_s == 60
    capped = Limits(pids=512, cpus=64, output_kept_bytes=1 << 30).tightened(policy.ceiling)
    assert (capped.pids, capped.cpus, capped.output_kept_bytes) == (512, 64, 1 << 30)


def test_the_highest_layer_that_speaks_pins_what_only_operators_decide() -> None:
    policy = merged(
        session={"runtime": "runc", "images": ["mine"], "read_roots": ["/b"]},
        organisation={"runtime": "runsc", "images": ["theirs"]},
        user={"read_roots": ["/a"]},
    )
    assert policy.runtime == "runsc"
    assert policy.images == ("theirs",)
    assert policy.read_roots == ("/a",)


def test_trust_in_the_workspace_needs_everybody_who_speaks() -> None:
    yes, no = {"trusted_workspace": True}, {"trusted_workspace": False}
    assert merged(user=yes).trusted_workspace
    assert merged(user=yes, session=yes).trusted_workspace
    assert not merged(organisation=no, session=yes).trusted_workspace
    assert not merged(user=yes, session=no).trusted_workspace


LAYER_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["deny-all", "read-only", "ask", "auto", "accept-edits"]),
        "sandbox": st.sampled_from(["auto", "always"]),
        "network": st.sampled_from(["none", "bridge"]),
        "minimum_defaults": st.sampled_from([1, 2]),
        "trusted_workspace": st.booleans(),
        "untrusted": st.frozensets(st.sampled_from(["Bash", "Glob"])),
        "deny": st.lists(st.sampled_from(["Bash(rm:*)", "Glob"]), max_size=2),
    },
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["organisation", "user", "environment"]), LAYER_VALUES))
def test_adding_a_lower_layer_never_loosens(layers: dict[str, dict[str, Any]]) -> None:
    before = merged(**layers)
    added = {
        "mode": "accept-edits",
        "sandbox": "auto",
        "network": "bridge",
        "minimum_defaults": 1,
        "untrusted": [],
        "deny": [],
    }
    for field, value in added.items():
        stated = any(field in values for values in layers.values())
        after = merged(**layers, session={field: value})
        if stated or field in ("untrusted", "deny"):
            assert getattr(after, field) == getattr(before, field)


@pytest.mark.parametrize(
    ("user", "expected"),
    [({}, "auto"), ({"mode": "accept-edits"}, "accept-edits"), ({"mode": "ask"}, "ask")],
)
def test_a_project_alone_does_not_loosen_the_default(user: dict[str, Any], expected: str) -> None:
    project = {"mode": "accept-edits", "sandbox": "auto", "minimum_defaults": 1}
    found = merge_layers([layer_of("project", "p", project), layer_of("user", "u", user)])
    assert found.policy.mode == expected
    assert ("mode" in user) == bool(found.origins["mode"])
    assert merged(project={"mode": "read-only"}).mode == "read-only"


def test_each_value_names_where_it_comes_from(folder: Path) -> None:
    write(folder / "policy.toml", 'mode = "ask"\n')
    write(folder / "user.toml", 'mode = "auto"\ndeny = ["Bash(rm:*)"]\n')
    found = sources(folder, session={"deny": ["Bash(dd:*)"]}).current()
    assert [origin.layer for origin in found.origins["mode"]] == ["organisation"]
    assert [origin.layer for origin in found.origins["deny"]] == ["user", "session"]
    assert found.origins["mode"][0].source == str(folder / "policy.toml")
    assert "sandbox" not in found.origins


@pytest.mark.parametrize(
    "text",
    [
        "mode = ",
        "mode = 'lenient'",
        "moode = 'ask'",
        "deny = 'Bash'",
        "denied_paths = ['../x']",
        "denied_paths = ['!secrets/**']",
        "denied_paths = ['']",
        "deny = ['Bash(a && b)']",
        "allow = ['Bash(']",
        "ceiling = {memory_bytes = 'lots'}",
        "ceiling = {memory = '1g'}",
        "trusted_workspace = 'perhaps'",
        "program_specs = {foo = {shorts = 'a'}}",
        "program_specs = {rm = {short = 'f'}}",
        "program_specs = {sort = {short = 'o'}}",
        "mode = 'ask'\nmode = 'auto'",
        "x = " + "[" * 5000,
        "# " + "x" * 70_000,
        "mode = '\ud800'",
    ],
)
def test_a_malformed_file_closes(folder: Path, text: str) -> None:
    (folder / "policy.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "policy.toml").chmod(0o644)
    with pytest.raises(ConfigurationError) as caught:
        sources(folder).current()
    assert "lots" not in str(caught.value)


def test_a_file_that_others_can_write_or_that_is_a_link_closes(folder: Path) -> None:
    for number, name in enumerate(("policy.toml", "user.toml")):
        path = write(folder / name, "mode = 'ask'\n")
        path.chmod(0o666)
        with pytest.raises(ConfigurationError, match="written to by others"):
            sources(folder).current()
        path.chmod(0o644)
        assert sources(folder).current().policy.mode == "ask"
        path.rename(folder / f"real{number}")
        path.symlink_to(folder / f"real{number}")
        with pytest.raises(ConfigurationError, match="symlink"):
            sources(folder).current()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(ConfigurationError, match="no regular file"):
            sources(folder).current()
        path.unlink()
        path.mkdir()
        with pytest.raises(ConfigurationError):
            sources(folder).current()
        path.rmdir()


def test_a_folder_in_which_others_could_put_another_file_closes(folder: Path) -> None:
    write(folder / "policy.toml", "mode = 'ask'\n")
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match=re.escape(str(folder))):
        sources(folder).current()
    folder.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_closes(folder: Path) -> None:
    path = write(folder / "user.toml", "mode = 'ask'\n")
    os.chown(path, 12345, 12345)
    with pytest.raises(ConfigurationError, match="another user"):
        sources(folder).current()


def test_a_change_of_a_file_holds_from_the_next_call_on(folder: Path) -> None:
    policy = sources(folder)
    assert policy.current().policy.mode == "auto"
    path = write(folder / "policy.toml", "mode = 'ask'\n")
    assert policy.current().policy.mode == "ask"
    path.write_text("mode = 'auto'\n")
    assert policy.current().policy.mode == "auto"
    path.write_text("mode = 'ask' \n")
    assert policy.current().policy.mode == "ask"
    path.write_text("mode = ")
    with pytest.raises(ConfigurationError):
        policy.current()
    path.unlink()
    assert policy.current().policy.mode == "auto"


def test_an_unchanged_old_file_is_read_once(folder: Path, monkeypatch: Any) -> None:
    import sandboxed_tools.policy.policy_files as files

    write(folder / "policy.toml", "mode = 'ask'\n")
    monkeypatch.setattr(files, "_RACY_S", -1.0)
    policy = sources(folder)
    assert policy.current() is policy.current()


def test_the_project_tightens_by_its_file(folder: Path, root: WorkspaceRoot) -> None:
    (root.path / "sandboxed-tools.toml").write_text(
        'mode = "read-only"\ndeny = ["Bash(rm:*)"]\n[ceiling]\nwall_s = 5\n'
    )
    write(folder / "user.toml", 'mode = "auto"\n')
    policy = sources(folder, root).current().policy
    assert policy.mode == "read-only"
    assert policy.ceiling is not None
    assert policy.ceiling.wall_s == 5


@pytest.mark.parametrize("kind", ["link out", "link in", "fifo", "folder", "long", "malformed"])
def test_a_hostile_project_file_closes(folder: Path, root: WorkspaceRoot, kind: str) -> None:
    path = root.path / "sandboxed-tools.toml"
    target = write(folder / "elsewhere.toml", "mode = 'auto'\n")
    inside = write(root.path / "inside.toml", "mode = 'auto'\n")
    if kind == "link out":
        path.symlink_to(target)
    elif kind == "link in":
        path.symlink_to(inside.name)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("#" * 70_000 if kind == "long" else "mode = [")
    with pytest.raises(ConfigurationError):
        sources(folder, root).current()


def test_what_would_widen_waits_for_consent_to_this_very_file(
    folder: Path, root: WorkspaceRoot
) -> None:
    path = root.path / "sandboxed-tools.toml"
    path.write_text('allow = ["Bash(make:*)"]\ndeny = ["Bash(rm:*)"]\n')
    policy = sources(folder, root)
    found = policy.current()
    assert not found.policy.allow
    assert found.policy.deny
    assert any("agrees" in note for note in found.notes)
    agree(policy)
    assert [str(rule) for rule in policy.current().policy.allow] == ["Bash(make:*)"]
    assert policy.current().policy.allow[0].layer == "project"
    assert sources(folder, root).current().policy.allow, "it is remembered"
    path.write_text('allow = ["Bash(sh:*)"]\n')
    assert not policy.current().policy.allow, "another content is another question"
    path.write_text('allow = ["Bash(make:*)"]\ndeny = ["Bash(rm:*)"]\n')
    assert policy.current().policy.allow
    copy = root.path / "copy"
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    assert not policy.current().policy.allow, "another file is another question"


def test_a_consent_in_a_place_with_a_very_long_name_is_for_one_content_too(
    folder: Path, tmp_path: Path
) -> None:
    place = tmp_path
    while len(str(place)) < 3800:
        place = place / ("x" * 200)
        place.mkdir()
    with WorkspaceRoot.open(place) as deep:
        file = place / "sandboxed-tools.toml"
        file.write_text('allow = ["Bash(make:*)"]\n')
        agree(sources(folder, deep))
        assert sources(folder, deep).current().policy.allow
        file.write_text('allow = ["Bash(sh:*)"]\n')
        assert not sources(folder, deep).current().policy.allow


def test_a_consent_that_was_tampered_with_is_none(folder: Path, root: WorkspaceRoot) -> None:
    (root.path / "sandboxed-tools.toml").write_text('allow = ["Bash(make:*)"]\n')
    policy = sources(folder, root)
    agree(policy)
    (consent,) = (folder / "consents").iterdir()
    assert consent.stat().st_mode & 0o777 == 0o600
    consent.write_text("yes")
    assert not sources(folder, root).current().policy.allow


def test_the_environment_is_a_layer_and_an_unknown_variable_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOXED_TOOLS_MODE", "ask")
    monkeypatch.setenv("SANDBOXED_TOOLS_DENY", '["Bash(rm:*)"]')
    monkeypatch.setenv("SANDBOXED_TOOLS_CEILING__MEMORY_BYTES", "64m")
    found = sources(folder).current()
    assert found.policy.mode == "ask"
    assert [(str(rule), rule.layer) for rule in found.policy.deny] == [
        ("Bash(rm:*)", "environment")
    ]
    assert found.policy.ceiling is not None
    assert found.policy.ceiling.memory_bytes == 64 << 20
    assert found.policy.ceiling.pids == 512
    for name, value in (
        ("SANDBOXED_TOOLS_MOODE", "ask"),
        ("sandboxed_tools_deny_", "[]"),
        ("SANDBOXED_TOOLS_CEILING__MEMORY", "1g"),
        ("SANDBOXED_TOOLS_", "x"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(ConfigurationError, match="no variable"):
                sources(folder)
    for name, value in (
        ("SANDBOXED_TOOLS_MODE", "lenient"),
        ("SANDBOXED_TOOLS_MODE", ""),
        ("SANDBOXED_TOOLS_DENY", "Bash"),
        ("SANDBOXED_TOOLS_DENY", '"Bash"'),
        ("SANDBOXED_TOOLS_CEILING__MEMORY_BYTES", "lots"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(ConfigurationError):
                sources(folder)


def test_a_layer_is_given_once() -> None:
    names: tuple[LayerName, ...] = ("user", "user")
    with pytest.raises(ConfigurationError, match="twice"):
        merge_layers([layer_of(name, "x", {}) for name in names])


def test_the_digest_tells_policies_apart_and_nothing_else() -> None:
    one = merge_layers([layer_of("user", "x", {"untrusted": ["B", "A"]})])
    two = merge_layers([layer_of("session", "y", {"untrusted": ["A", "B"]})])
    other = merge_layers([layer_of("user", "x", {"untrusted": ["A"]})])
    assert one.digest == two.digest != other.digest
