"""What the command is given: arguments, environment, directory, script, descriptors."""

from __future__ import annotations

import hashlib

from sandboxed_tools.testing.conformance.bench import (
    ORDINARY_ENV,
    Bench,
    ended,
    equal,
    output_of,
    require,
)
from sandboxed_tools.testing.conformance.check import Expected, Suite
from sandboxed_tools.tool.command import MAX_ARGUMENT_BYTES

__all__ = ["SUITE"]

SUITE = Suite("process")

ODD_TEXTS = (
    "",
    " ",
    "-rf",
    "--help",
    "two\nlines",
    "tab\tquote'double\"back\\slash",
    "$(id) `id` ${HOME} *",
    "é中😀",
    "\x1b]0;title\x07",
    "\udcff\udcfe",
    "\u202egpj.exe",
)


@SUITE.check("arguments", "arguments arrive byte for byte")
async def arguments(bench: Bench) -> None:
    result = await bench.run("printf", "%s\\0", *ODD_TEXTS)
    ended(result, "exited", exit_code=0)
    expected = b"".join(text.encode("utf-8", "surrogateescape") + b"\0" for text in ODD_TEXTS)
    equal(result.stdout, expected, "arguments")


@SUITE.check("longest-argument", "the longest argument that the kernel takes arrives whole")
async def longest_argument(bench: Bench) -> None:
    result = await bench.run("printf", "%s", "x" * MAX_ARGUMENT_BYTES)
    ended(result, "exited", exit_code=0)
    equal(result.stdout_bytes, MAX_ARGUMENT_BYTES, "bytes printed")


@SUITE.check("environment", "the command gets exactly the given environment")
async def environment(bench: Bench) -> None:
    env = {f"V{number}": text for number, text in enumerate(ODD_TEXTS)} | {"PATH": "/usr/bin"}
    result = await bench.run("/usr/bin/env", "-0", env=env)
    ended(result, "exited", exit_code=0)
    expected = {f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in env.items()}
    equal(set(result.stdout.rstrip(b"\0").split(b"\0")), expected, "environment")


@SUITE.check("empty-environment", "an empty environment is empty")
async def empty_environment(bench: Bench) -> None:
    result = await bench.run("/usr/bin/env", env={})
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"", "environment")


@SUITE.check("environment-is-private", "no other process of the sandbox shows the environment")
async def environment_is_private(bench: Bench) -> None:
    secret = "s3cr3t-of-this-call"
    text = "grep -la s3cr3t-of-this-call /proc/1/environ /proc/1/cmdline 2>/dev/null; true"
    result = await bench.bash(text, env={**ORDINARY_ENV, "TOKEN": secret})
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"", "files that show the secret")


@SUITE.check("directory", "the command starts in the given directory")
async def directory(bench: Bench) -> None:
    equal(await output_of(bench, "pwd -P", cwd="/usr/lib"), "/usr/lib\n", "directory")


@SUITE.check("directory-through-a-descriptor", "a directory cannot be a leaked descriptor")
async def directory_through_a_descriptor(bench: Bench) -> None:
    # CVE-2024-21626: a working directory of /proc/self/fd/N was a folder of the host.
    for number in (3, 6, 7, 8, 9, 10):
        result = await bench.bash("ls -a; pwd -P", cwd=f"/proc/self/fd/{number}")
        require(
            b"containers" not in result.stdout and b"cgroup" not in result.stdout,
            f"descriptor {number} led to {result.stdout[:200]!r}",
        )


@SUITE.check("final-directory", "the result says where the command ended, when it is known")
async def final_directory(bench: Bench) -> None:
    result = await bench.bash("cd /usr/share; exit 4")
    ended(result, "exited", exit_code=4)
    require(result.cwd in (None, "/usr/share"), f"cwd is {result.cwd!r}")


@SUITE.check("long-script", "a script of two megabytes arrives whole")
async def long_script(bench: Bench) -> None:
    body = b"".join(b": padding line %07d of a long script\n" % line for line in range(55_000))
    script = body + b"cksum_me=done; echo $cksum_me; exit 9\n"
    require(len(script) > 2_000_000, "the script is too short to prove anything")
    result = await bench.run("bash", "/proc/self/fd/3", script=script)
    ended(result, "exited", exit_code=9)
    equal(result.stdout, b"done\n", "stdout")


@SUITE.check("script-bytes", "a script is data: any byte arrives")
async def script_bytes(bench: Bench) -> None:
    script = bytes(range(256)) * 4000
    result = await bench.run("sha256sum", "/proc/self/fd/3", script=script)
    ended(result, "exited", exit_code=0)
    equal(result.stdout.split()[0].decode(), hashlib.sha256(script).hexdigest(), "digest")


SUITE.row(
    "descriptors",
    "the command inherits its three streams and nothing else",
    'exec python3 -ISc \'import os; d = "/proc/self/fd/"; '
    "print(sorted(n for n in os.listdir(d) if os.path.exists(d + n)))'",
    Expected(exit_code=0, stdout=b"['0', '1', '2']\n"),
)
SUITE.row(
    "signal-dispositions",
    "no signal is ignored or blocked at the start",
    "grep -E '^Sig(Blk|Ign):' /proc/self/status | awk '{print $2}' | sort -u",
    Expected(exit_code=0, stdout=b"0000000000000000\n"),
)
SUITE.row(
    "no-terminal",
    "there is no terminal to steal input from or push it into",
    "test -t 0 || test -t 1 || test -t 2 && echo terminal; (: < /dev/tty) 2>/dev/null && echo tty;"
    " true",
    Expected(exit_code=0, stdout=b""),
)
SUITE.row(
    "kill-everything",
    "a command that kills all that it can reach cannot keep its own end from being reported",
    "echo before; kill -9 -1; echo after; exit 3",
    Expected(stdout_has=b"before\n", exit_code=3),
)
