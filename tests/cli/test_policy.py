"""``policy``: what holds and why, on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.command_line import Done, command_line


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "config" / "sandboxed-tools").mkdir(parents=True)
    return tmp_path


def policy(place: Path, *words: str | Path, stdin: bytes = b"", **env: str) -> Done:
    variables = {
        **os.environ,
        "XDG_CONFIG_HOME": str(place / "config"),
        "SANDBOXED_TOOLS_STATE_DIR": str(place / "state"),
        **env,
    }
    return command_line("policy", *words, stdin=stdin, env=variables)


def user_policy(place: Path, text: str) -> Path:
    path = place / "config" / "sandboxed-tools" / "policy.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_show_names_the_origin_of_each_value(place: Path) -> None:
    path = user_policy(place, 'deny = ["Bash(rm:*)"]\nmode = "auto"\n')
    (place / "ws" / "sandboxed-tools.toml").write_text('mode = "ask"\n')
    done = policy(place, "show", "-w", place / "ws", "--json", SANDBOXED_TOOLS_NETWORK="none")
    fields = done.object["fields"]
    assert fields["mode"]["value"] == "ask"
    assert [origin["layer"] for origin in fields["mode"]["from"]] == ["project"]
    assert fields["deny"]["from"] == [{"layer": "user", "source": str(path)}]
    assert [origin["layer"] for origin in fields["network"]["from"]] == ["environment"]
    assert fields["sandbox"]["from"] == []
    assert {field["merges"] for field in fields.values()} == {
        "union",
        "intersection",
        "min",
        "and",
        "operator_only",
    }
    shown = policy(place, "show")
    assert "Bash(rm:*)" in shown.text
    assert "user (" in shown.text


def test_check_ends_with_2_for_a_layer_that_cannot_be_used(place: Path) -> None:
    assert policy(place, "check").code == 0
    path = user_policy(place, 'moode = "ask"\n')
    done = policy(place, "check")
    assert done.code == 2
    assert "moode" in done.errors
    user_policy(place, 'deny = ["Bsh(rm:*)"]\n')
    assert "Bsh" in policy(place, "check").errors
    path.chmod(0o666)
    assert policy(place, "check").code == 2
    path.unlink()
    unknown = policy(place, "check", SANDBOXED_TOOLS_MOOD="ask")
    assert unknown.code == 2
    assert "SANDBOXED_TOOLS_MODE" in unknown.errors


def test_explain_names_the_rule_and_its_layer_and_runs_nothing(place: Path) -> None:
    user_policy(place, 'deny = ["Bash(rm:*)"]\nallow = ["Bash(make:*)"]\n')
    workspace = place / "ws"
    for command, decision, layer in (
        ("make all; rm -rf .", "deny", "user"),
        ("make all", "allow", "user"),
        ("touch pwned", "allow", "default"),
    ):
        call = json.dumps({"command": command})
        found = policy(place, "explain", "Bash", call, "-w", workspace, "--json").object
        assert (found["decision"], found["layer"]) == (decision, layer)
    assert not list(workspace.iterdir())
    shown = policy(place, "explain", "Bash", json.dumps({"command": "rm \x1b[2Jx"}))
    assert "Bash(rm:*)" in shown.text
    assert "\x1b" not in shown.text


def test_consent_is_for_one_file_with_one_content(place: Path) -> None:
    workspace = place / "ws"
    file = workspace / "sandboxed-tools.toml"
    file.write_text('allow = ["Bash(make:*)"]\n')

    def rules() -> list[str]:
        found = policy(place, "show", "-w", workspace, "--json").object
        return [item["rule"] for item in found["rules"]]

    assert not rules()
    refused = policy(place, "consent", "-w", workspace)
    assert refused.code == 2
    assert "Bash(make:*)" in refused.errors
    assert not rules()
    assert policy(place, "consent", "-w", workspace, "--yes").code == 0
    assert rules() == ["Bash(make:*)"]
    file.write_text('allow = ["Bash(sh:*)"]\n')
    assert not rules()


def test_a_hostile_project_file_paints_nothing_on_the_terminal(place: Path) -> None:
    workspace = place / "ws"
    (workspace / "sandboxed-tools.toml").write_text('allow = ["Fetch(\\u001b[2J\\u202e)"]\n')
    for words in (("show",), ("check",), ("consent", "--yes")):
        done = policy(place, *words, "-w", workspace)
        assert done.code == 2
        assert "\x1b" not in done.text + done.errors
        assert "\u202e" not in done.text + done.errors
