"""Where the engine has AppArmor, its profile confines every command, and none gets out of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.sandbox.docker.running import Run

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = pytest.mark.engine

CONFINED = "docker-default (enforce)"
# apparmor(7): a task asks for another profile by writing into its own attributes.
LEAVE = """
import json, os, subprocess

def read():
    with open("/proc/self/attr/current") as file:
        return file.read().rstrip("\\0\\n")

def wish(name, words):
    try:
        file = os.open("/proc/thread-self/attr/" + name, os.O_WRONLY)
        try:
            os.write(file, words.encode())
        finally:
            os.close(file)
    except OSError as error:
        return error.strerror
    return "granted"

answers = {}
for profile in ("unconfined", "docker-default//free", "/usr/bin/man", ":root:unconfined"):
    for verb, name in (("changeprofile", "current"), ("exec", "exec"), ("stack", "current")):
        answers[f"{verb} {profile}"] = wish(name, f"{verb} {profile}")
        answers[f"{verb} {profile} (new)"] = wish("apparmor/" + name, f"{verb} {profile}")
answers["changehat"] = wish("current", "changehat 0000000000000001^free")
child = subprocess.run(["cat", "/proc/self/attr/current"], capture_output=True, text=True)
print(json.dumps([read(), child.stdout.rstrip("\\0\\n"), answers]))
"""
# The profile denies locks below /sys; nothing else that confines a command has an opinion on them.
LOCK = """
import fcntl, sys
try:
    with open(sys.argv[1]) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
    print("locked")
except PermissionError:
    print("refused")
"""


@pytest.fixture(autouse=True)
def _only_with_apparmor(engine: Engine) -> None:
    if not any(option.startswith("name=apparmor") for option in engine.security_options):
        pytest.skip("this engine has no AppArmor")


def test_every_command_is_confined_by_the_engine_s_profile(run: Run) -> None:
    assert run("cat /proc/self/attr/current").stdout.decode().rstrip("\0\n") == CONFINED
    # Processes of the same user in there, the launcher among them.
    seen = run("cat /proc/[0-9]*/attr/current 2>/dev/null | tr -d '\\0' | sort -u")
    assert seen.stdout.decode().split("\n") == [CONFINED, ""]


def test_the_profile_really_refuses_something(run: Run) -> None:
    lock = ("python3", "-ISc", LOCK)
    assert run((*lock, "/etc/passwd")).stdout == b"locked\n"
    assert run((*lock, "/sys/devices/system/cpu/online")).stdout == b"refused\n"


def test_no_command_leaves_the_profile(run: Run) -> None:
    done = run(("python3", "-ISc", LEAVE))
    assert (done.status, done.exit_code) == ("exited", 0), done.stderr
    own, child, answers = json.loads(done.stdout)
    assert (own, child) == (CONFINED, CONFINED)
    assert len(answers) == 25
    assert "granted" not in answers.values(), answers
