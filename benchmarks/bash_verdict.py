"""What a verdict costs: the median over the labelled commands, and the worst long text.

Run ``python -m benchmarks.bash_verdict``; it fails when the median is 100 µs or more, or a text of
10,000 characters takes 50 ms or more (processor time, the best of three).
"""

from __future__ import annotations

import statistics
import sys
import time

from tests.bash.bash_corpus import read_rows

from sandboxed_tools.bash.verdict import _cached, classify

MEDIAN_BUDGET_S = 100e-6
WORST_BUDGET_S = 50e-3
LENGTH = 9_990
_UNITS = r"""
( $( { ` " ' \ $ [[_ a; a_ {a, {a,b} {1..9} a| !_ time_ <<E_ $((1 ((1 ${x:- "$( <( * [ [* -n_ a=1_
# if_ for_x_in_ case_x_in_ && || ;; é ~ a~ x=~:~ {} $x "$x" '' "" $'a' $((1)) / ../ a/ proc/ % 2>&1_
command_ env_ xargs_ nice_ proc/*/ s/a/b/; /a/ , ; -- <a ls; x=a;
"""
_STARTS = (
    "",
    "sed '",
    "awk '",
    "find ",
    "cat ",
    "sort ",
    "grep ",
    "git log ",
    "printf '",
    "[ ",
    "tar tf ",
    "xargs ",
    "echo {",
    "ps ",
    "sqlite3 -readonly -safe 'file:x?immutable=1' 'select ",
)


def _seconds(command: str) -> float:
    _cached.cache_clear()
    start = time.process_time()
    classify(command, trusted_workspace=True)
    return time.process_time() - start


def main() -> int:
    commands = [row.command for row in read_rows("bash_readonly.tsv")]
    median = statistics.median(_seconds(command) for command in commands)
    worst, where = 0.0, ""
    for start in _STARTS:
        for unit in _UNITS.split():
            text = unit.replace("_", " ")
            command = (start + text * (LENGTH // len(text)))[:LENGTH]
            for ending in ("", "'"):
                taken = min(_seconds(command + ending) for _ in range(3))
                if taken > worst:
                    worst, where = taken, f"{start}{text}…{ending}"
    sys.stdout.write(
        f"median {median * 1e6:.0f} µs over {len(commands)} commands; "
        f"worst of {LENGTH} characters {worst * 1e3:.1f} ms ({where!r})\n"
    )
    return 0 if median < MEDIAN_BUDGET_S and worst < WORST_BUDGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
