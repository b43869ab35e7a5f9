"""The nightly fuzzer itself: it sees an effect, and it makes commands that are accepted."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

from tests.bash.fuzz_accepted import effect_of, generate, plant

from sandboxed_tools.bash import classify


def run_plainly(command: str, folder: Path) -> None:
    """A runner without namespaces, for the few commands of this file."""
    subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", "--", command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_it_sees_every_kind_of_change_and_restores_the_folder(tmp_path: Path) -> None:
    plant(tmp_path)
    for command, changed in (
        ("touch pwned", ["pwned"]),
        ("find . -maxdepth 1 -name -delete -delete", ["-delete"]),
        ("echo x >> src/api.py", ["src/api.py"]),
        ("chmod 600 a.txt", ["a.txt"]),
        ("./ls", ["pwned"]),
        ("cd h1 && sort *", ["h1/pwned"]),
        ("cd h0; find -d*", ["h0/-delete", "h0/a.txt", "h0/b.txt"]),
        ("ls -la; cat a.txt; find . -type f", []),
    ):
        assert effect_of(command, tmp_path, runner=run_plainly) == changed, command


def test_it_makes_the_same_commands_from_the_same_seed_and_many_are_accepted() -> None:
    first = list(itertools.islice(generate(5), 500))
    assert first == list(itertools.islice(generate(5), 500))
    assert sum(classify(command, trusted_workspace=True).read_only for command in first) > 20
