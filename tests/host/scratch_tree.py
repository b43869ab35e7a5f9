"""A workspace as the labelled commands of ``tests/data/bash_readonly.tsv`` expect it."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "data" / "bash_readonly.tsv"

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


GIT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    # The folder may belong to the user that commands run as.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""The environment for making a repository."""


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled command of the corpus."""

    label: str
    command: str
    category: str


def corpus() -> Iterator[Row]:
    """Every row whose command can be given to a shell at all."""
    for line in CORPUS.read_text(encoding="utf-8").split("\n"):
        if not line or line.startswith("#"):
            continue
        label, text, _why, _evidence, category = line.split("\t")
        command = re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text)
        if "\0" not in command:
            yield Row(label, command, category)


def build(folder: Path) -> None:
    """Fill ``folder`` with what the commands read, and with what hostile ones want to run."""
    folder.chmod(0o755)
    for name in ("src", "docs", "sub dir", "d", "tmp", "lib", "tests"):
        (folder / name).mkdir()
    texts = {
        "a.txt": "alpha\nbeta\nTODO one\n",
        "b.txt": "beta\ngamma\n",
        "c.txt": "gamma\n",
        "f.txt": "one two three\n",
        "f": "one\n",
        "g": "two\n",
        "file": "content\n",
        "notes.txt": "notes\n",
        "README.md": "# Read me\nTODO\n",
        "nums.txt": "3\n1\n2\n",
        "a.json": '{"a": 1, "b": [1, 2], "name": "x"}\n',
        "data.json": '{"items": [{"id": 1}], "name": "y"}\n',
        "package.json": '{"name": "x", "version": "1.0.0"}\n',
        "data.csv": "a,b\n1,2\n3,4\n",
        "app.log": "INFO start\nERROR stop\n",
        "log.txt": "error one\nwarn two\n",
        "Makefile": "all:\n\ttouch pwned\n",
        "src/main.py": "import os\n\ndef main():\n    return 1  # TODO\n",
        "src/util.py": "def util():\n    return 2\n",
        "docs/guide.md": "# Guide\n",
        "sub dir/x y.txt": "spaces\n",
        "d/e.txt": "e\n",
        "evil.sh": "#!/bin/sh\ntouch pwned\n",
        "ls": "#!/bin/sh\ntouch pwned\n",
        "p.awk": 'BEGIN { system("touch pwned") }\n',
        "p.sed": "w pwned\n",
        "s.sed": "s/a/b/w pwned\n",
        "json.py": "open('pwned', 'w')\n",
        ".hidden": "hidden\n",
        "-n": "option\n",
        "-opwned": "an option that writes\n",
        "-delete": "an option that deletes\n",
        "cmds.txt": "touch pwned\n",
        "list.txt": "a.txt\n",
        "evil.awk": 'BEGIN { system("touch pwned") }\n',
        "evil.sed": "w pwned\n",
        "evil.js": "require('fs').writeFileSync('pwned', '')\n",
        "evilpy/x.py": "open('pwned', 'w')\n",
        "evilbin/ls": "#!/bin/sh\ntouch pwned\n",
        "evilbin/cat": "#!/bin/sh\ntouch pwned\n",
        "evilbin/echo": "#!/bin/sh\ntouch pwned\n",
        "script.sh": "#!/bin/sh\ntouch pwned\n",
        "configure": "#!/bin/sh\ntouch pwned\n",
        "p.diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-alpha\n+changed\n",
        "a.hex": "00000000: 6162 630a\n",
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["x", "y"], ["1", "2"]])
    for name in ("a.zip", "arch.zip"):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("inside.txt", "inside\n")
    quiet = {"cwd": folder, "check": True, "capture_output": True, "timeout": 60}
    subprocess.run(["tar", "czf", "a.tgz", "a.txt", "src"], **quiet)  # type: ignore[call-overload]
    subprocess.run(["tar", "cf", "a.tar", "a.txt"], **quiet)  # type: ignore[call-overload]
    shutil.copy(folder / "a.tar", folder / "arch.tar")
    shutil.copy(folder / "a.tgz", folder / "arch.tgz")
    with closing(sqlite3.connect(folder / "db.sqlite")) as database:
        database.execute("create table t (x)")
        database.commit()
    (folder / "link").symlink_to("a.txt")


def make_repository(folder: Path) -> None:
    """Make the folder a git repository with two commits, a branch and a tag."""
    for step in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "someone@example.org"),
        ("config", "user.name", "Someone"),
        ("add", "a.txt", "src", "README.md"),
        ("commit", "-q", "-m", "First"),
        ("tag", "v1"),
        ("branch", "feature"),
        ("add", "b.txt"),
        ("commit", "-q", "-m", "Second"),
    ):
        subprocess.run(
            ["git", *step], cwd=folder, check=True, env=GIT, capture_output=True, timeout=60
        )


def give_to_command(folder: Path) -> None:
    """Let the user that commands run as own everything, so that only the gate is in the way."""
    if os.geteuid() != 0:
        return
    for base, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.chown(os.path.join(base, name), 65534, 65534, follow_symlinks=False)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that a change of the tree would show in: content, mode, owner, times, attributes."""
    found: dict[str, tuple[object, ...]] = {}
    for base, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(base, name)
            status = path.lstat()
            facts: list[object] = [status.st_mode, status.st_uid, status.st_gid, status.st_nlink]
            facts += [status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
            facts.append(tuple(os.listxattr(path, follow_symlinks=False)))
            if path.is_symlink():
                facts.append(os.readlink(path))
            elif path.is_file():
                facts.append(hashlib.sha256(path.read_bytes()).hexdigest())
            found[str(path.relative_to(folder))] = tuple(facts)
    return found
