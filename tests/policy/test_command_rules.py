"""Rules for shell commands: allow to the letter, deny and ask what may be meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.judging import BASH, TextInput, verdict

from sandboxed_tools.policy.rules import RuleSet, Scope, suggested_rules


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
        "echo 'rm x' | bash -s -- first",
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


def test_unknown_words_may_be_what_is_denied() -> None:
    for command in ("git $x", "git *", 'git "$x" y', "git {push,x}"):
        assert verdict(BASH, command, deny=["Bash(git push:*)"]) == "deny"
    assert verdict(BASH, "git log $x", deny=["Bash(git push:*)"]) is None


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
