"""Where a reading command may read: paths, secrets, git, the gate."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from sandboxed_tools.bash import should_run_in_sandbox

WORKSPACE = PurePosixPath("/srv/project")


def codes(command: str, **changes: object) -> list[str]:
    reasons = should_run_in_sandbox(
        command,
        trusted_workspace=bool(changes.get("trusted", False)),
        workspace=WORKSPACE,
        read_roots=(PurePosixPath("/usr/share"), PurePosixPath("/home/me/notes")),
        gate_available=bool(changes.get("gate", True)),
    )
    return [reason.code for reason in reasons]


@pytest.mark.parametrize(
    "command",
    [
        "ls | head",
        "cat a.txt src/../b.txt ./c",
        "cat /srv/project/src/main.py",
        "ls /srv/project",
        "cat /usr/share/dict/words",
        "cat /usr/share/*",
        "grep -rn /etc/shadow src",
        "grep -e /etc/passwd a.txt",
        "sed -n '/etc/p' a.txt",
        "awk '/root/ {print}' a.txt",
        "jq ..name data.json",
        "rg '/absolute/' src",
        "echo /etc/shadow ~ ../x",
        "ls 2>/dev/null >&2",
        "diff <(sort a.txt) <(sort b.txt)",
        'cat "$x"',
        "find . -name '*.py' -exec cat {} +",
        "cat workspace/a src/workspace",
        "git --version",
        "cut -d/ -f2 a.txt",
        "cut -d / -f1 a.txt",
        "cut --delimiter=/ -sf1 a.txt",
        "sort -rt/ -k2 a.txt",
        "hexdump -v -e '/1 \"%02x\"' a.bin",
        "ls -I /x src",
        "grep -rne '/api/v1' --include='/x' src",
        "jq --arg a /x '.[$a]' data.json",
        "rg --iglob '/src/**' -e /x src",
        "tree -I /x -L 2",
        'pattern=/api/v1; grep -rn "$pattern" src',
        'cat "${x:-a.txt}" "${x##*/}" "${x%/*}" "${x//a/b}" "${y:-/usr/share/dict/words}"',
        'echo "${x:-/etc}"',
        "[[ -f src/a.txt && -n /etc/x && $x == /etc/* && -d $y ]] && ls",
        "zgrep -e /api/v1 a.gz",
        "echo src/*/a.py *.md /usr/share/*; for f in src/*; do echo $f; done",
        'pattern=/api/v1; grep -n "$pattern" src/*.py *.md',
        'for f in src/*.py ./b.txt; do wc -l "$f"; done',
        'while IFS=/ read -r a b; do cat "$a"; done < list',
        'for d in a b; do cat "$d/../README" src/*/../x; done',
    ],
)
def test_reading_in_the_workspace_and_its_read_roots_stays_on_the_host(command: str) -> None:
    assert codes(command) == []


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd",
        "cat ../x",
        "cat src/../../x",
        "ls ..",
        "ls ~",
        "cat ~/x",
        "cat ~root/x",
        "ls /",
        "cat /srv/project2/x",
        "cat /srv/projec*",
        "cat /srv/project*",
        "cat /usr/share/../lib/x",
        "cat < /etc/hosts",
        "wc -l </etc/hosts",
        "cat '/etc/hosts'",
        "cat /etc/{hosts,passwd}",
        "cat //etc/hosts",
        "grep -f /etc/hosts a.txt",
        "grep --file=/etc/hosts a.txt",
        "grep -rn x /var/log",
        "find /var -name '*.log'",
        "sort -k1 /etc/passwd",
        "sed -n 1p /etc/passwd",
        "awk 1 /etc/passwd",
        "cd /etc && ls",
        "cd .. && ls",
        "ls $(cat /etc/hosts)",
        'cat "/etc/$x"',
        "ls | xargs cat /etc/hosts",
        "xargs -a /etc/hosts echo",
        "test -f /etc/x",
        "cat -e /etc/hosts",
        "cut -f1 /etc/passwd",
        "cut -d: -f1 -- /etc/passwd",
        "grep -rf /etc/hosts .",
        "grep -xefoo /etc/hosts",
        "grep -rne foo /etc",
        "grep --reg foo /etc/hosts",
        "grep --fil /etc/hosts a.txt",
        "grep -fe /etc/hosts",
        "grep -Ae /etc/hosts x",
        "jq -nf /etc/hosts",
        "jq -ef a.jq /etc/hosts",
        "jq -f a.jq -e /etc/hosts",
        "jq --arg a b . /etc/hosts",
        "jq --rawfile a /etc/hosts .",
        "rg -e root /etc",
        "rg -f pats.txt /etc",
        "rg --files /etc",
        "tar --list --file=/etc/x.tar",
        "for f in a b; do cat /etc/$f; done",
        'for f in a /etc/hosts; do cat "$f"; done',
        "for d in ..; do cat $d/x; done",
        'for f in ../*; do cat "$f"; done',
        'f=/etc/hosts; head -1 "$f"',
        'f=~/x; cat "$f"',
        'd=..; wc -l < "a/$d/x"; cat "$d/x"',
        'for f in *; do cat "$f/../../x"; done',
        "cat a/*/../../../x",
        "cat /srv/project/a*/../../../etc/hosts",
        'cat "${x:-/etc/hosts}"',
        'cat "${x/#//etc/hosts}"',
        "cat ${x:-~/x}",
        "cat ${x-a /etc/hosts}",
        "cat ${x:-/etc}/hosts",
        'cat "src/${x:+../../x}"',
        "zgrep -e x /etc/hosts",
        "zgrep -nex /etc/hosts",
        "grep --exclude-from /etc/hosts x a.txt",
        "jq -L /etc . a.json",
        "echo /etc/*",
        "printf '%s' ~/*",
        "for f in /etc/*; do echo $f; done",
        "[[ -s ~/x ]] && ls",
        "if [[ ! ( -z x || a.txt -nt /etc/hosts ) ]]; then ls; fi",
        "f=/etc/hosts; [[ -f $f ]] && ls",
    ],
)
def test_a_path_elsewhere_goes_to_the_container(command: str) -> None:
    assert "outside_workspace" in codes(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id_rsa",
        "ls ~/.aws",
        "cat ~/.netrc",
        "cat /home/me/notes/.ssh/id_ed25519",
        "cat /etc/shadow",
        "cat /etc/gshadow",
        "ls /run/secrets/x",
        "cat ~/.bash_history",
        "cat ~/.docker/config.json",
        'for f in /etc/shadow; do cat "$f"; done',
        'key=~/.ssh/id_rsa; cat "$key"',
    ],
)
def test_a_place_of_secrets_goes_to_the_container_even_below_a_read_root(command: str) -> None:
    assert "secret" in codes(command)


def test_other_processes_are_never_read_on_the_host() -> None:
    assert "path" in codes("cat /proc/1/environ")


@pytest.mark.parametrize(
    "command",
    ["ls /workspace", "cat '/workspace/a'", "grep -f /workspace/x a.txt", "echo /workspace"],
)
def test_the_containers_own_name_for_the_workspace_goes_to_the_container(command: str) -> None:
    assert "workspace_name" in codes(command)


def test_a_workspace_that_really_is_below_that_name_is_read_in_place() -> None:
    assert not should_run_in_sandbox(
        "ls /workspace/app/src",
        trusted_workspace=False,
        workspace=PurePosixPath("/workspace/app"),
        read_roots=(),
        gate_available=True,
    )


def test_git_stays_on_the_host_in_a_trusted_workspace_alone() -> None:
    assert codes("git status")[0] == "git_untrusted"
    assert codes("git status", trusted=True) == []
    assert codes("git status && touch x", trusted=True) == ["unknown_command"]


@pytest.mark.parametrize(
    ("command", "elsewhere"),
    [
        ("git blame -L '/def foo/,+10' -- a.py", False),
        ("git log -S /api/v1 --grep /x --oneline", False),
        ("git grep -n /api/v1 src", False),
        ("git grep -e /api/v1 -- src", False),
        ("git grep --no-index -e foo /etc", True),
        ("git grep --no-index foo /etc", True),
        ("git grep --no-index foo -- ..", True),
        ("git diff --no-index .. src", True),
        ("git blame -S /etc/hosts a.py", True),
        ("git diff --no-index a.txt /etc/hosts", True),
        ("git ls-files -X /etc/hosts", True),
        ("git ls-files --exclude-from=/etc/hosts", True),
        ("git blame --ignore-revs-file=../x a.py", True),
        ("git grep -f/etc/hosts", True),
        ("git log --grep=/x -S/api -L/def/,+5:a.py", False),
    ],
)
def test_git_is_given_files_and_texts(command: str, elsewhere: bool) -> None:
    assert codes(command, trusted=True) == (["outside_workspace"] if elsewhere else [])


def test_without_the_second_gate_nothing_stays_on_the_host() -> None:
    assert codes("ls", gate=False) == ["no_gate"]


def test_a_command_that_writes_has_the_verdicts_reasons() -> None:
    assert codes("rm x") == ["unknown_command"]
    assert codes("ls > x") == ["redirect"]


def test_a_reason_points_at_the_path() -> None:
    command = "cat a.txt /etc/hosts"
    (reason,) = should_run_in_sandbox(
        command,
        trusted_workspace=False,
        workspace=WORKSPACE,
        read_roots=(),
        gate_available=True,
    )
    assert command[reason.start : reason.end] == "/etc/hosts"
