"""The programs of which every option is accepted unseen: none has one that does more than read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from sandboxed_tools.bash.builtins import BUILTINS
from sandboxed_tools.bash.options import Spec
from sandboxed_tools.bash.table import TABLE

# Held against the manuals of coreutils 9.1 and 9.7, diffutils 3.8 and 3.10, grep 3.8 and 3.11,
# util-linux 2.38 and 2.41, procps 4.0.2 and 4.0.4, jq 1.6 and 1.7, and bc 1.07.
_TEXT = """
: arch b2sum base32 base64 basename basenc bc break cat cksum cmp column comm continue cut diff dir
dirname du echo egrep expand expr factor false fgrep fmt fold free grep groups hd head help hexdump
id join jq locale logname ls lscpu lsmod md5sum mountpoint namei nl nproc numfmt od paste pgrep pr
printenv pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat
sum tac tail times tr true tsort tty type uname unexpand uptime users vdir w wc whereis which whoami
yes
"""
_OF_THE_SHELL = frozenset({":", "break", "continue", "help", "times", "type"})
_ABOUT_THE_STREAM = {"tr": {"--delete"}}
_WRITES = re.compile(
    r"(?<![\w-])--(?:output|output-file|outfile|in-place|inplace|exec|execute|pre|pager|delete|remove"
    r"|compress-program|use-compress-program|filter|save|log-file|logfile|write|append|backup"
    r"|edit|editor|shell|command|to-command|preprocessor|kill|temporary-directory)(?![\w-])"
)


def _open_ended() -> set[str]:
    return {
        name
        for name, rule in TABLE.items()
        if isinstance(rule, Spec) and (rule.anything or rule.unknown == "any")
    }


def test_only_programs_whose_manual_was_read_for_it_may_be_given_anything() -> None:
    assert _open_ended() == set(_TEXT.split())
    assert not _open_ended() & BUILTINS.keys()


def _help_of(program: str) -> str:
    done = subprocess.run(
        [program, "--help"],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": os.devnull},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def test_no_installed_version_of_such_a_program_has_an_option_that_writes() -> None:
    found = {}
    for name in sorted(_open_ended() - _OF_THE_SHELL):
        program = shutil.which(name, path="/usr/bin:/bin")
        if program is not None:
            options = set(_WRITES.findall(_help_of(program)))
            found[name] = options - _ABOUT_THE_STREAM.get(name, set())
    assert {name: options for name, options in found.items() if options} == {}
    assert len(found) > 40


def test_the_pattern_sees_the_options_of_programs_that_do_write() -> None:
    program = shutil.which("sort", path="/usr/bin:/bin")
    assert program is not None
    assert {"--output", "--compress-program"} <= set(_WRITES.findall(_help_of(program)))
