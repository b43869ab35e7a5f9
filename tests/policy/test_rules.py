"""Rules: deny before ask before allow, and what cannot be told is never allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.rules import Rule, RuleSet, Scope, suggested_rules
from sandboxed_tools.tool import AnyTool, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


def tool(name: str = "Bash", **stated: Any) -> AnyTool:
    options: dict[str, Any] = {
        "permission_pattern": lambda tool_input: tool_input.text,
        **stated,
    }
    return build_tool(
        name=name,
        description="x",
        input_schema=TextInput,
        call=lambda _, ctx: None,
        **options,
    )


BASH = tool()
EDIT = tool("Edit", paths_written=lambda tool_input: (PurePath(tool_input.text),))
READ = tool("Read", paths_read=lambda tool_input: (PurePath(tool_input.text),))
FETCH = tool("Fetch")
PLAIN: AnyTool = build_tool(
    name="Plain", description="x", input_schema=TextInput, call=lambda _, ctx: None
)


def rules(*texts: str) -> list[Rule]:
    return [Rule.parse(text) for text in texts]


def verdict(
    made: AnyTool,
    text: str,
    *,
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    allow: Iterable[str] = (),
    scope: Scope = Scope(),  # noqa: B008  (frozen)
) -> str | None:
    made_rules = RuleSet(deny=rules(*deny), ask=rules(*ask), allow=rules(*allow))
    found = made_rules.verdict(made, TextInput(text=text), scope)
    return None if found is None else found.behavior


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bash(",
        "Bash()",
        "Bash(  )",
        "Bash)x(",
        "9Bash",
        "Bash(ls) and more",
        "*",
        "Bash(ls && rm:*)",
        "Bash(ls | wc)",
        "Bash($x)",
        "Bash(git *)",
        "Bash(rm 'x)",
        "Bash(:*)",
        "Bash(a\nb)",
        "Bash(a\x1b[2Jb)",
        "Edit(!src/**)",
        "Edit(../x)",
        "Edit(~root/x)",
        "Read(a\\)",
        "Read(/)",
        "Bash(" + "x" * 5000 + ")",
        None,
        7,
        ["Bash"],
    ],
)
def test_a_text_that_is_no_rule_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError):
        Rule.parse(text)


def test_a_rule_is_written_as_it_was_read() -> None:
    for text in ("Bash", "Bash(git status:*)", "Edit(src/**)", "Read(~/.ssh/**)", "Fetch(https*)"):
        assert str(Rule.parse(text)) == text


@pytest.mark.parametrize(
    ("allow", "command"),
    [
        ("Bash(git status:*)", "git status"),
        ("Bash(git status:*)", "git status -s"),
        ("Bash(git status:*)", "'git' \"status\" \\-s"),
        ("Bash(git status:*)", "git status $x"),
        ("Bash(git status:*)", "git status 2>&1 >/dev/null"),
        ("Bash(git status:*)", "for f in a b; do git status $f; done"),
        ("Bash(git status:*)", "{ git status; git status -s; } 2>/dev/null"),
        ("Bash(npm run test)", "npm run test"),
        ("Bash(npm run test)", "npm  run   test"),
        ("Bash(echo hi > out.txt)", "echo hi > out.txt"),
        ("Bash(CI=1 npm test:*)", "CI=1 npm test -- a"),
        ("Bash(X=1)", "X=1"),
        ("Bash", "git push && rm -rf x > y"),
    ],
)
def test_an_allow_rule_matches_what_it_spells(allow: str, command: str) -> None:
    assert verdict(BASH, command, allow=[allow]) == "allow"


@pytest.mark.parametrize(
    ("allow", "command"),
    [
        ("Bash(git status:*)", "git statusx"),
        ("Bash(git status:*)", "git"),
        ("Bash(git status:*)", "git -C / status"),
        ("Bash(git status:*)", "git status && rm x"),
        ("Bash(git status:*)", "git status; rm x"),
        ("Bash(git status:*)", "git status | sh"),
        ("Bash(git status:*)", "git status\nrm x"),
        ("Bash(git status:*)", "git status $(rm x)"),
        ("Bash(git status:*)", "git status `rm x`"),
        ("Bash(git status:*)", 'git status "$(rm x)"'),
        ("Bash(git status:*)", "git status <(rm x)"),
        ("Bash(git status:*)", 'git status <<< "$(rm x)"'),
        ("Bash(git status:*)", "git status # quiet\nrm x"),
        ("Bash(git status:*)", "[[ -n $(rm x) ]] && git status"),
        ("Bash(git status:*)", "case $(rm x) in a) git status;; esac"),
        ("Bash(git status:*)", "git status 2>&$(rm x)"),
        ("Bash(git status:*)", "coproc git status"),
        ("Bash(git status:*)", "git status & rm x"),
        ("Bash(git status:*)", "git status > x"),
        ("Bash(git status:*)", "git status >> x"),
        ("Bash(git status:*)", "git status &> x"),
        ("Bash(git status:*)", "git status >& x"),
        ("Bash(git status:*)", "git status 2> x"),
        ("Bash(git status:*)", "git status > $x"),
        ("Bash(git status:*)", "{ git status; } > x"),
        ("Bash(git status:*)", "GIT_DIR=/x git status"),
        ("Bash(git status:*)", "PATH=/x; git status"),
        ("Bash(git status:*)", "for PATH in /x; do git status; done"),
        ("Bash(git status:*)", "/tmp/git status"),
        ("Bash(git status:*)", "./git status"),
        ("Bash(git status:*)", "$g status"),
        ("Bash(git status:*)", "git $s"),
        ("Bash(git status:*)", "git() { rm x; }; git status"),
        ("Bash(git status:*)", "alias git=rm; git status"),
        ("Bash(git status:*)", "timeout 5 git status"),
        ("Bash(git status:*)", "git status\r"),
        ("Bash(git status:*)", "git\u00a0status"),
        ("Bash(git status:*)", "git status 'x"),
        ("Bash(git status:*)", "git status \0"),
        ("Bash(git status:*)", ""),
        ("Bash(git status:*)", "git status # \ud800"),
        ("Bash(npm run test)", "npm run test --x"),
        ("Bash(npm run test)", "npm run"),
        ("Bash(npm run test)", "npm run test*"),
        ("Bash(echo hi > out.txt)", "echo hi > out.txt2"),
        ("Bash(echo hi > out.txt)", "echo hi >> out.txt"),
        ("Bash(echo hi > out.txt)", "echo hi"),
        ("Bash(CI=1 npm test:*)", "CI=2 npm test"),
        ("Bash(CI=1 npm test:*)", "CI=$x npm test"),
        ("Bash(cat:*)", "cat <<EOF\n$(rm x)\nEOF"),
        ("Bash(cat:*)", "cat ${x:=$(rm x)}"),
        ("Bash(cat:*)", "cat ${x@P}"),
        ("Bash(cat:*)", "cat $((a[$(rm x)]))"),
        ("Bash(cat:*)", 'cat "${a[$(rm x)]}"'),
        ("Bash(cat:*)", "cat < /etc/shadow"),
        ("Bash(cat:*)", "cat {fd}> x"),
        ("Bash(cat:*)", "cat <> x"),
        ("Bash(cat:*)", "cat >/dev/null/../../tmp/x"),
        ("Bash(cat:*)", "cat </dev/tcp/192.0.2.1/80"),
        ("Bash(cat:*)", "[[ -v 'a[$(rm x)]' ]] && cat"),
        ("Bash(cat:*)", "((a[$(rm x)])); cat"),
        ("Bash(cat:*)", "cat ${!x}"),
        ("Bash(cat:*)", "hash -p /tmp/x cat; cat"),
        ("Bash(cat:*)", "enable -f x cat; cat"),
        ("Bash(cat:*)", "unset PATH; cat"),
        ("Bash(cat:*)", "printf -v PATH /x; cat"),
        ("Bash(cat:*)", "source x; cat"),
        ("Bash(cat:*)", "for PATH; do cat; done"),
        ("Bash(cat:*)", "command cat x"),
        ("Bash", "$x y"),
        ("Bash", "a() { :; }"),
        ("Bash", "ls " + "x" * 20_000),
        ("Fetch", "git status"),
    ],
)
def test_an_allow_rule_matches_nothing_else(allow: str, command: str) -> None:
    assert verdict(BASH, command, allow=[allow]) is None


@pytest.mark.parametrize("behavior", ["deny", "ask"])
@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "ls; rm x",
        "ls && rm -rf x",
        "ls | xargs rm",
        "ls | xargs -0 -n1 rm -f",
        "find . -exec rm {} +",
        "echo $(rm x)",
        "if true; then rm x; fi",
        "\\rm x",
        "'r'm x",
        "/bin/rm x",
        "X=1 rm x",
        "rm x > y",
        "env A=1 rm x",
        "timeout 5 rm x",
        "sudo rm x",
        "nice -n 5 rm x",
        "eval 'rm x'",
        "eval rm x",
        "bash -c 'rm x'",
        "sh -ec 'ls; rm x'",
        "env sh -c 'rm x'",
        "env -S 'rm x'",
        "env '-Srm x'",
        "env '--split-string=rm x'",
        "watch 'rm x'",
        "flock f -c 'rm x'",
        "trap 'rm x' EXIT",
        "xargs -I{} sh -c 'rm {}'",
        'bash -c "$x"',
        "$x",
        "$(echo rm) x",
        "r$m x",
        "rm() { :; }",
        "ls &",
        'eval "$x"',
        "echo 'unclosed",
        # a shell's text behind its other options, and a shell that is told what to do by a stream
        "bash -o pipefail -c 'rm x'",
        "bash +x -c -- 'rm x'",
        "sh -c \"sh -c 'rm x'\"",
        "bash <<< 'rm x'",
        "bash <<'EOF'\nrm x\nEOF",
        "echo 'rm x' | sh",
        "echo 'rm x' | bash -s",
        "echo 'rm x' | sudo bash",
        "sh < f",
        "bash /dev/stdin < f",
        "source /dev/stdin < f",
        ". /proc/self/fd/0 < f",
        "trap -- 'rm x' EXIT",
        # other programs that run what they are told
        "su root -c 'rm x'",
        "runuser -u x -- rm x",
        "script -qc 'rm x'",
        "ssh host rm x",
        "systemd-run --user rm x",
        "fakeroot rm x",
        "find . -ok rm {} ;",
        "{rm,x}",
        "$'\\x72m' x",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <(rm x)",
        "coproc rm x",
        "! rm x",
        ">x rm y",
        "/bin/r[m] x",
        "[[ -v 'a[$(rm x)]' ]]",
        "x\r",
    ],
)
def test_a_strict_rule_matches_what_is_or_may_be_it(behavior: str, command: str) -> None:
    stated: dict[str, Any] = {behavior: ["Bash(rm:*)"]}
    assert verdict(BASH, command, **stated, allow=["Bash"]) == behavior


@pytest.mark.parametrize(
    "command",
    [
        *("ls", "git rm x", "echo rm", "cat rm", "rmdir x", "ls > rm", "docker rm x", "which rm"),
        *("bash build.sh", "bash -o pipefail build.sh", "sh -e ./x -c y", "bash --version"),
        *("bash -c ls", "command -v sh", "find . -name bash", "timeout 5 bash build.sh"),
        *("source venv/bin/activate", ". ./env", "trap - EXIT", "trap '' INT", "ssh host ls"),
    ],
)
def test_a_strict_rule_leaves_other_commands_alone(command: str) -> None:
    assert verdict(BASH, command, deny=["Bash(rm:*)"]) is None


def test_every_part_needs_a_rule_and_several_rules_may_share_the_parts() -> None:
    allow = ["Bash(git status:*)", "Bash(wc -l)"]
    assert verdict(BASH, "git status -s | wc -l", allow=allow) == "allow"
    assert verdict(BASH, "git status -s | wc -l", allow=allow[:1]) is None
    assert verdict(BASH, "git status -s | wc -l | tee x", allow=allow) is None


def test_deny_comes_before_ask_and_ask_before_allow() -> None:
    everything: dict[str, Any] = {"deny": ["Bash"], "ask": ["Bash"], "allow": ["Bash"]}
    for behavior in ("deny", "ask", "allow"):
        assert verdict(BASH, "ls", **everything) == behavior
        del everything[behavior]


def test_unknown_words_may_be_what_is_denied() -> None:
    for command in ("git $x", "git *", 'git "$x" y', "git {push,x}"):
        assert verdict(BASH, command, deny=["Bash(git push:*)"]) == "deny"
    assert verdict(BASH, "git log $x", deny=["Bash(git push:*)"]) is None


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    for folder in ("src", "secrets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "a.py").write_text("")
    (tmp_path / "secrets" / "key").write_text("")
    os.symlink("secrets", tmp_path / "alias")
    os.symlink("../secrets/key", tmp_path / "src" / "link")
    return Scope(tmp_path, tmp_path)


def test_path_rules_match_every_spelling_of_the_workspace(scope: Scope) -> None:
    spellings = ("src/a.py", "./src//a.py", "/workspace/src/a.py", f"{scope.workspace}/src/a.py")
    for text in spellings:
        assert verdict(EDIT, text, allow=["Edit(src/**)"], scope=scope) == "allow"
        assert verdict(EDIT, text, allow=["Edit(*.py)"], scope=scope) == "allow"
        assert verdict(EDIT, text, deny=["Edit(src/**)"], scope=scope) == "deny"


def test_a_relative_path_starts_at_the_current_directory(scope: Scope) -> None:
    assert scope.workspace is not None
    inside = Scope(scope.workspace, scope.workspace / "src")
    assert verdict(EDIT, "a.py", allow=["Edit(src/**)"], scope=inside) == "allow"
    assert verdict(EDIT, "a.py", allow=["Edit(src/**)"], scope=scope) is None


@pytest.mark.parametrize(
    "text",
    [
        "src/../secrets/key",
        "src/../src/a.py",
        "secrets/key",
        "src/link",
        "/etc/passwd",
        "/src/a.py",
        "srcx/a.py",
    ],
)
def test_a_path_that_is_or_leads_elsewhere_is_not_allowed(scope: Scope, text: str) -> None:
    assert verdict(EDIT, text, allow=["Edit(src/**)"], scope=scope) is None


@pytest.mark.parametrize(
    "text", ["secrets/key", "alias/key", "src/link", "src/../secrets/key", "SECRETS/KEY", "secrets"]
)
def test_a_denied_path_is_denied_by_every_way_to_it(scope: Scope, text: str) -> None:
    assert verdict(READ, text, deny=["Read(secrets/**)"], scope=scope) == "deny"


def test_a_folder_around_the_workspace_leads_to_what_is_denied_in_it(scope: Scope) -> None:
    assert scope.workspace is not None
    for text in ("/", "/proc/self/root", str(scope.workspace.parent), str(scope.workspace)):
        assert verdict(READ, text, deny=["Read(secrets/**)"], scope=scope) == "deny"
    for text in ("/etc", f"{scope.workspace}2", f"{scope.workspace}2/secrets/key"):
        assert verdict(READ, text, deny=["Read(secrets/**)"], scope=scope) is None
    assert verdict(READ, "/", deny=["Read(secrets/**)"]) is None


@pytest.mark.parametrize(
    ("rule", "text", "allowed"),
    [
        ("Edit(src/*)", "src/deep/b.py", False),
        ("Edit(src/*.py)", "src/deep/b.py", False),
        ("Edit(src/**/b.py)", "src/deep/b.py", True),
        ("Edit(src/**/b.py)", "src/b.py", True),
        ("Edit(src/{a,b}.py)", "src/a.py", False),
        ("Edit(src/[a-c].py)", "src/d.py", False),
        ("Edit(src/\\[x\\].py)", "src/[x].py", True),
        ("Edit(src/[x].py)", "src/[x].py", False),
        ("Edit(src/**)", "SRC/a.py", False),
        ("Edit(src/**)", "src\\a.py", False),
        ("Edit(src/**)", "\uff53rc/a.py", False),
        ("Edit(caf\u00e9/**)", "cafe\u0301/x", False),
        ("Edit(caf\u00e9/**)", "caf\u00e9/x", True),
        ("Edit(src/**)", "/workspacesrc/a", False),
        ("Edit(src/**)", "/workspace/../src/a", False),
        ("Edit(src/**)", "~/src/a", False),
        ("Edit(/src/**)", "src/a.py", False),
        ("Edit(src/**)", "src/root/etc/passwd", False),
    ],
)
def test_an_allowed_path_is_matched_to_the_letter(
    scope: Scope, rule: str, text: str, allowed: bool
) -> None:
    assert scope.workspace is not None
    os.symlink("/", Path(scope.workspace, "src", "root"))
    assert (verdict(EDIT, text, allow=[rule], scope=scope) == "allow") is allowed


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("Read(secrets/**)", "\uff53ecrets/key"),
        ("Read(secrets/**)", "/workspace"),
        ("Read(secrets/**)", "alias"),
        ("Read(secrets/k*)", "secrets/KEY"),
        ("Read(caf\u00e9/**)", "CAFE\u0301/x"),
        ("Read(stra\u00dfe)", "STRASSE"),
        ("Read(.env)", "sub/.ENV"),
        ("Read(/etc/**)", "//etc//passwd"),
        ("Read(/etc/**)", "/proc/self/root/etc/passwd"),
        ("Read(~/.ssh/**)", os.path.expanduser("~")),
    ],
)
def test_a_denied_path_is_matched_in_every_spelling(scope: Scope, rule: str, text: str) -> None:
    assert verdict(READ, text, deny=[rule], scope=scope) == "deny"


def test_a_line_feed_in_a_name_hides_nothing(scope: Scope) -> None:
    assert verdict(READ, "secrets/a\nb", deny=["Read(secrets/**)"], scope=scope) == "deny"
    assert verdict(READ, "a\nb.pem", deny=["Read(*.pem)"], scope=scope) == "deny"
    assert verdict(READ, "a.py\n", allow=["Read(*.py)"], scope=scope) is None


def test_home_patterns_stand_for_the_home_folder(scope: Scope, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", "/home/we*ird")
    assert verdict(READ, "/home/we*ird/.ssh/id", deny=["Read(~/.ssh/**)"], scope=scope) == "deny"
    assert verdict(READ, "/home/weXird/.ssh/id", deny=["Read(~/.ssh/**)"], scope=scope) is None


def test_a_call_that_names_no_path_is_not_allowed_and_is_denied(scope: Scope) -> None:
    none = tool("Edit", paths_written=lambda _: ())
    broken = tool("Edit", paths_written=lambda _: 1 / 0)
    for made in (none, broken):
        assert verdict(made, "", allow=["Edit(src/**)"], scope=scope) is None
        assert verdict(made, "", deny=["Edit(src/**)"], scope=scope) == "deny"


def test_other_tools_are_matched_by_their_text_and_an_alias_is_as_good_as_the_name() -> None:
    fetch = tool("Fetch", aliases=("Get",))
    for name in ("Fetch", "Get"):
        assert verdict(fetch, "https://a/b", allow=[f"{name}(https://a/*)"]) == "allow"
        assert verdict(fetch, "https://b/a", allow=[f"{name}(https://a/*)"]) is None
    assert verdict(FETCH, "https://a.b", allow=["Fetch(https://a?b)"]) is None


def test_a_tool_with_nothing_to_match_against_is_denied_and_never_allowed_by_pattern() -> None:
    broken = tool("Fetch", permission_pattern=lambda _: 1 / 0)
    for made in (PLAIN, broken):
        assert verdict(made, "", deny=[f"{made.name}(x)"]) == "deny"
        assert verdict(made, "", allow=[f"{made.name}(x)"]) is None
        assert verdict(made, "", allow=[made.name]) == "allow"


@pytest.mark.parametrize(
    "command", ["git status -s", "git status | wc -l", "echo 'a b' > 'c d'", "X=1 make", "ls ''"]
)
def test_a_suggested_rule_answers_this_question_and_no_other(command: str) -> None:
    suggested = suggested_rules(BASH, TextInput(text=command), Scope())
    assert suggested
    made = RuleSet(allow=suggested)
    found = made.verdict(BASH, TextInput(text=command), Scope())
    assert found is not None
    assert found.behavior == "allow"
    assert made.verdict(BASH, TextInput(text=f"{command} more"), Scope()) is None


@pytest.mark.parametrize("command", ["$x", "rm $x", "rm *", "a() { :; }", "ls &", ""])
def test_nothing_is_suggested_for_what_no_rule_can_spell(command: str) -> None:
    assert suggested_rules(BASH, TextInput(text=command), Scope()) == ()


WORDS = st.sampled_from(
    [
        "git",
        "status",
        "rm",
        "$x",
        "'",
        '"',
        ";",
        "&&",
        "||",
        "|",
        ">",
        "f",
        "$(",
        ")",
        "`",
        "{",
        "}",
        "\n",
        "X=1",
        "bash",
        "-c",
        "eval",
        "*",
        "\\",
        "<(",
        "#",
        "if",
        "then",
        "fi",
        "xargs",
        "~",
        "&",
    ]
)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=12).map(" ".join))
def test_no_command_makes_the_rules_raise_or_allows_what_is_also_denied(command: str) -> None:
    allowed = verdict(BASH, command, allow=["Bash(git status:*)"]) == "allow"
    denied = verdict(BASH, command, deny=["Bash(rm:*)"]) == "deny"
    assert not (allowed and denied and "rm" not in command)
    if allowed:
        assert command.lstrip(" \n#{").startswith(("git", "if", "X")) or "git status" in command


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_text_makes_parsing_a_rule_raise_anything_else(text: str) -> None:
    for name in ("Bash", "Edit", "Fetch"):
        try:
            rule = Rule.parse(f"{name}({text})")
        except ConfigurationError:
            continue
        made = {"Bash": BASH, "Edit": EDIT, "Fetch": FETCH}[name]
        RuleSet(deny=[rule], allow=[rule]).verdict(made, TextInput(text=text), Scope())


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "*b", "a" * 250),
        ("*a" * 30 + "*b", "a/" * 1000 + "a"),
        ("/".join(["**", "a"] * 30) + "/b", "a/" * 1000 + "a"),
        ("/".join(["**", "*a*a*a*b"] * 10) + "/b", "aaaaaaaaaaaa/" * 300),
    ],
)
def test_a_project_cannot_stall_the_host_with_a_pattern(pattern: str, path: str) -> None:
    # In a process of its own: a stalled regular expression can be interrupted by nothing.
    script = (
        "import sys\n"
        "from pathlib import PurePath\n"
        "from sandboxed_tools.policy.path_rules import path_pattern, touched_path\n"
        "path = touched_path(sys.argv[2], workspace=PurePath('/w'), cwd=None)\n"
        "print(path_pattern(sys.argv[1]).may_match(path))"
    )
    command = [sys.executable, "-c", script, pattern, path]
    ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
    assert ended.stdout == b"False\n"
