"""Limits hold, what touched them is said, and nothing that a program says about them counts."""

from __future__ import annotations

from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, output_of, require
from sandboxed_tools.testing.conformance.check import Expected, Suite
from sandboxed_tools.tool.result import ExecResult

__all__ = ["SUITE"]

SUITE = Suite("limits")
MIB = 1024 * 1024

EAT_MEMORY = "python3 -ISc 'b = bytearray(10**9)'"
FORK_WITHOUT_END = "bomb() { bomb | bomb & }; bomb; while :; do sleep 1; done"

SUITE.row(
    "memory-of-the-command",
    "the command itself running out of memory ends the call as oom",
    f"echo before; exec {EAT_MEMORY}",
    Expected(status="oom", stdout=b"before\n", hit=frozenset({"memory"})),
    memory_bytes=64 * MIB,
)
SUITE.row(
    "memory-of-a-child",
    "a child that ran out of memory is a limit that was touched, not the end",
    f"{EAT_MEMORY}; echo went-on; exit 4",
    Expected(exit_code=4, stdout=b"went-on\n", hit=frozenset({"memory"})),
    memory_bytes=64 * MIB,
)
SUITE.row(
    "memory-over-processes",
    "the memory of all processes together is limited",
    "for i in $(seq 20); do python3 -ISc 'import time; b = bytearray(16 << 20); time.sleep(3)' &"
    " done; wait; echo end",
    Expected(hit=frozenset({"memory"})),
    memory_bytes=96 * MIB,
)
SUITE.row(
    "tmp-counts-as-memory",
    "files in /tmp count as memory",
    f"head -c 48M /dev/zero > /tmp/f; python3 -ISc 'b = bytearray({40 * MIB})' && echo fits; true",
    Expected(exit_code=0, stdout=b"", hit=frozenset({"memory"})),
    memory_bytes=64 * MIB,
)
SUITE.row(
    "tmp-bytes",
    "/tmp ends where its limit says",
    "head -c 64M /dev/zero > /tmp/f 2>/tmp/err; stat -c %s /tmp/f",
    Expected(exit_code=0, stdout=str(4 * MIB).encode() + b"\n"),
    tmp_bytes=4 * MIB,
)
SUITE.row(
    "open-files",
    "the number of open files is limited, and the limit cannot be raised",
    "ulimit -n; ulimit -Hn; ulimit -n 4096 2>/dev/null && echo raised; ulimit -n",
    Expected(exit_code=0, stdout=b"200\n200\n200\n"),
    open_files=200,
)
SUITE.row(
    "core-dumps",
    "no core file can be written",
    "ulimit -c; ulimit -c unlimited 2>/dev/null; ulimit -Hc",
    Expected(exit_code=0, stdout=b"0\n0\n"),
)


@SUITE.check("tmp-inodes", "the number of files in /tmp is limited")
async def tmp_inodes(bench: Bench) -> None:
    text = "cd /tmp; for i in $(seq 1 2000); do : > f$i || break; done 2>/dev/null; ls | wc -l"
    made = int(await output_of(bench, text, limits={"tmp_inodes": 128}))
    require(64 <= made <= 128, f"{made} files were made under a limit of 128")


@SUITE.check("locked-memory", "memory cannot be locked beyond a small amount")
async def locked_memory(bench: Bench) -> None:
    kib = int(await output_of(bench, "ulimit -Hl"))
    require(kib <= 8192, f"{kib} KiB can be locked")


@SUITE.check("file-size", "a single file cannot grow beyond its limit")
async def file_size(bench: Bench) -> None:
    text = "head -c 8M /dev/zero > /tmp/f; stat -c %s /tmp/f"
    equal(await output_of(bench, text, limits={"file_bytes": MIB}), f"{MIB}\n", "size of the file")


@SUITE.check("processes", "the number of processes is limited, and touching it is said")
async def processes(bench: Bench) -> None:
    code = (
        "import os, time\n"
        "n = 0\n"
        "try:\n"
        "    while n < 500:\n"
        "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "        n += 1\n"
        "except OSError: pass\n"
        "print(n)\n"
    )
    result = await bench.python(code, limits={"pids": 32})
    ended(result, "exited", exit_code=0)
    require(10 <= int(result.stdout) <= 32, f"{result.stdout!r} processes under a limit of 32")
    require("pids" in result.limits_hit, f"limits_hit is {sorted(result.limits_hit)}")
    _peak_within(result, 32)


def _peak_within(result: ExecResult, pids: int) -> None:
    peak = result.usage.pids_peak
    require(peak is None or peak <= pids + 2, f"pids_peak is {peak} under a limit of {pids}")


@SUITE.check("fork-bomb", "a fork bomb ends with the deadline", alone=True)
async def fork_bomb(bench: Bench) -> None:
    result = await bench.bash(FORK_WITHOUT_END, limits={"wall_s": 3, "pids": 64})
    ended(result, "timeout")
    equal(await output_of(bench, "echo alive"), "alive\n", "output of the next call")


@SUITE.check("processor", "processor time stays below its share", alone=True)
async def processor(bench: Bench) -> None:
    code = (
        "import os, resource, time\n"
        "start = time.monotonic(); children = []\n"
        "for _ in range(4):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        while time.monotonic() - start < 3: pass\n"
        "        os._exit(0)\n"
        "    children.append(pid)\n"
        "for pid in children: os.waitpid(pid, 0)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print((used.ru_utime + used.ru_stime) / (time.monotonic() - start))\n"
    )
    result = await bench.python(code, limits={"cpus": 0.5})
    ended(result, "exited", exit_code=0)
    share = float(result.stdout)
    require(share < 0.75, f"used {share:.2f} of a processor under a limit of 0.5")


@SUITE.check("tiny-processor-share", "the smallest share still ends at its deadline", alone=True)
async def tiny_processor_share(bench: Bench) -> None:
    text = "for i in $(seq 50); do (while :; do :; done) & done; echo before; wait"
    result = await bench.bash(text, limits={"cpus": 0.1, "wall_s": 5})
    ended(result, "timeout")


@SUITE.check("usage", "what a call used is reported, or honestly unknown")
async def usage(bench: Bench) -> None:
    code = (
        "import os, time\n"
        "b = bytearray(50 << 20)\n"
        "kids = [p for p in (os.fork() for _ in range(1)) if p]\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
    )
    result = await bench.python(code)
    ended(result, "exited", exit_code=0)
    used = result.usage
    require(used.cpu_s is None or 0.3 <= used.cpu_s < 20, f"cpu_s is {used.cpu_s}")
    require(
        used.memory_peak_bytes is None or 50 * MIB <= used.memory_peak_bytes <= 600 * MIB,
        f"memory_peak_bytes is {used.memory_peak_bytes}",
    )
    require(used.pids_peak is None or 2 <= used.pids_peak <= 16, f"pids_peak is {used.pids_peak}")


@SUITE.check("untouched", "a quiet call touches no limit")
async def untouched(bench: Bench) -> None:
    result = await bench.bash("echo quiet")
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"quiet\n", "stdout")
    equal(result.limits_hit, frozenset(), "limits_hit")
