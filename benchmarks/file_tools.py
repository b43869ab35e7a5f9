"""The file tools against what people use today: ``python benchmarks/file_tools.py``.

Makes its own tree (100,000 files in 10,000 folders) and files (10 MB, 1 GB) in a temporary folder,
runs everything several times in turn, prints medians and ratios, and removes what it made. About
two minutes and 1.5 GB of disk. Timings are warm: the page cache has seen everything once.
"""

# ruff: noqa: T201 - a benchmark prints
from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from sandboxed_tools.builtin.ripgrep import grep_with_ripgrep, ripgrep_path
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot, find_files, remove_tree
from sandboxed_tools.workspace.edit_file import EditRequest, edit_file
from sandboxed_tools.workspace.grep_files import grep_tree
from sandboxed_tools.workspace.grep_result import GrepOptions
from sandboxed_tools.workspace.read_file import ReadOptions, read_file
from sandboxed_tools.workspace.regex import compile_search

LINE = b"the quick brown fox jumps over the lazy dog, again and again, line by line ........\n"


@contextmanager
def scratch(folders: int, big_bytes: int) -> Iterator[Path]:
    """A workspace with a tree, a 10 MB file and a big one; gone afterwards."""
    base = Path(tempfile.mkdtemp(prefix="file-tools-"))
    try:
        for number in range(folders):
            folder = base / "tree" / f"d{number // 100}" / f"e{number % 100}"
            folder.mkdir(parents=True)
            for name in range(10):
                (folder / f"f{name}.txt").write_bytes(LINE)
        (base / "ten-megabytes.txt").write_bytes(LINE * (10_000_000 // len(LINE)) + b"needle\n")
        with open(base / "big.txt", "wb") as file:
            for _ in range(big_bytes // (len(LINE) * 10_000)):
                file.write(LINE * 10_000)
        yield base
    finally:
        remove_tree(base)


def median_s(rounds: int, tasks: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each task; the tasks take turns, so that a busy moment hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def show(title: str, times: dict[str, float], *, ours: str) -> None:
    """Milliseconds, and how many times as long as ours the others take."""
    print(f"\n{title}")
    for name, seconds in times.items():
        ratio = "" if name == ours else f"   {seconds / times[ours]:5.2f} x ours"
        print(f"  {name:42} {seconds * 1000:9.1f} ms{ratio}")


def glob(root: WorkspaceRoot, base: Path, rounds: int) -> None:
    tree = base / "tree"

    def by_pathlib() -> object:
        found = tree.rglob("*.txt")
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:100]

    tasks: dict[str, Callable[[], object]] = {
        "Glob **/*.txt, the 100 newest": lambda: find_files(root, "**/*.txt", path="tree"),
        "pathlib rglob, sorted by mtime": by_pathlib,
    }
    rg = shutil.which("rg")
    if rg is not None:
        command = [rg, "--no-config", "--files", "--sortr", "modified", str(tree)]
        tasks["rg --files --sortr modified"] = lambda: subprocess.run(
            command, stdout=subprocess.DEVNULL, check=True
        )
    show("Glob", median_s(rounds, tasks), ours="Glob **/*.txt, the 100 newest")


def grep(root: WorkspaceRoot, base: Path, rounds: int) -> None:
    pattern, options = compile_search("lazy cat"), GrepOptions()
    place = root.locate("tree")
    tasks: dict[str, Callable[[], object]] = {
        "Grep in this process": lambda: grep_tree(root, place, pattern, options)
    }
    program = ripgrep_path()
    if program is not None:
        command = [program, "--no-config", "-l", "-e", "lazy cat", str(base / "tree")]
        tasks["rg alone"] = lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        with anyio.from_thread.start_blocking_portal() as portal:
            tasks["Grep with rg behind the gate"] = lambda: portal.call(
                grep_with_ripgrep, program, root, place, pattern, options
            )
            times = median_s(rounds, tasks)
        show("Grep, nothing found", times, ours="Grep with rg behind the gate")
        extra = times["Grep with rg behind the gate"] - times["rg alone"]
        print(f"  the gate and our own checks cost {extra * 1000:.1f} ms")
    else:
        show("Grep, nothing found", median_s(rounds, tasks), ours="Grep in this process")


def read_and_edit(root: WorkspaceRoot, rounds: int) -> None:
    cache = FileStateCache()
    read_file(root, "ten-megabytes.txt", cache=cache)
    words = ["needle", "haystack"]

    def edit() -> object:
        request = EditRequest(words[0], words[1])
        words.reverse()
        return edit_file(root, "ten-megabytes.txt", request, cache=cache)

    def read(first: int) -> object:
        options = ReadOptions(first_line=first, line_count=10)
        return read_file(root, "big.txt", cache=cache, options=options)

    lines = (root.path / "big.txt").stat().st_size // len(LINE)
    tasks: dict[str, Callable[[], object]] = {
        "Edit of a 10 MB file, with fsync": edit,
        "Read of the first lines of the big file": lambda: read(1),
        "Read of lines in its middle": lambda: read(lines // 2),
        "Read of its last lines": lambda: read(lines - 10),
    }
    print("\nEdit and Read")
    for name, seconds in median_s(rounds, tasks).items():
        print(f"  {name:42} {seconds * 1000:9.1f} ms")


def main() -> int:
    """Parse arguments, make the tree, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--big-bytes", type=int, default=1_000_000_000)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} processors, {sys.version.split()[0]}, {' '.join(os.uname()[:3:2])}")
    with scratch(arguments.folders, arguments.big_bytes) as base:
        with WorkspaceRoot.open(base) as root:
            glob(root, base, arguments.rounds)
            grep(root, base, arguments.rounds)
            read_and_edit(root, arguments.rounds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
