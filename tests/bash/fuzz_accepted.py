"""Nightly: run what the classifier accepts, and fail on any effect.

Commands are made from a hostile alphabet and by mutating the labelled corpus; those judged
read-only are run in a throw-away folder full of files whose *names* are options. Any change of
the folder is an error of the classifier::

    python -m tests.bash.fuzz_accepted --seconds 600 --seed 1

The runner can be replaced (:data:`Runner`); the default uses new mount, network and process
namespaces with everything but the folder mounted read-only, and needs root and util-linux.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bash.bash_corpus import read_rows

from sandboxed_tools.bash import classify
from sandboxed_tools.bash.table import TABLE

__all__ = ["Runner", "effect_of", "fuzz", "generate", "plant", "run_in_namespaces"]

Runner = Callable[[str, Path], None]
"""Runs a command text with the folder as its current one, and returns when all of it has ended."""

_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "TMPDIR": "/dev/shm",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
}
_SCRIPT = """
mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro / || exit 99
for place in /dev/shm /tmp /run /var/tmp; do
  case "$1" in $place/*) ;; *) mount -t tmpfs none $place 2>/dev/null ;; esac
done
cd "$1" && exec timeout -s KILL 2 bash --norc --noprofile -c -- "$2"
"""
_PLANTED = {
    "a.txt": "alpha\nfoo\ngamma\n",
    "b.txt": "beta\nfoo\n",
    "nums.txt": "3\n1\n2\n",
    "list.txt": "a.txt\nb.txt\n-delete\n",
    "data.csv": "id,v\n1,7\n2,9\n",
    "data.json": '{"items": [{"n": 1}], "name": "x"}\n',
    "cmds.txt": "touch pwned\n-opwned\n",
    "opts": "--plugin ./evil.so\n",
    "src/main.py": "import os\n",
    "src/api.py": "x = 1\n",
    "evil.sh": "#!/bin/sh\ntouch pwned\n",
    "evilbin/ls": "#!/bin/sh\ntouch pwned\n",
    "ls": "#!/bin/sh\ntouch pwned\n",
    "5/cat": "#!/bin/sh\ntouch pwned\n",
    "evil.sed": "w pwned\n",
    "evil.awk": 'BEGIN { system("touch pwned") }\n',
    "-delete": "",
    "-opwned": "",
    "--pre=sh": "",
    "--output=pwned": "",
    "--files0-from=list.txt": "",
    "-i": "",
    "-n": "",
    "-C": "",
    "-e1w pwned": "",
    "-exec": "",
    "-fls": "",
    "@opts": "",
    "+touch": "",
    "host:arch.tar": "",
    "x=y": "",
    "$(touch pwned)": "",
    "; touch pwned": "",
    "a b": "two words\n",
    "(": "",
    "!": "",
}


_HOSTILE_NAMES = ("-delete", "-opwned", "--pre=sh", "--output=pwned", "-i", "-e1w pwned", "-fls")
"""Each also alone in a folder ``h0``, ``h1``, …: together they are errors to most programs."""


def _items(text: str) -> list[str]:
    """The items of ``text``: two blanks or the end of a line part them, ``⏎`` is a newline."""
    return [item.replace("⏎", "\n") for item in re.split(r"\s{2,}", text.strip())]


_OPTIONS = _items(
    """
    -n  -i  -e  -f  -o  -r  -x  -c  -a  -l  -s  -t  -k  -1  -5  -d  -u  -v  -w  -z  -H  -I  -L  -P
    -R  -C  -S  -p  -q  -E  -0  -n1  -I{}  -exec  -ok  -delete  -print  -printf  -fprint  -name
    -newer  -type  -maxdepth  -not  -o  -a  --  --output=pwned  --output  -opwned  -Opwned
    --pre=sh  --pre  --files  --help  --version  --stdout  -dc  -tf  tf  tvf  -xf  --list  -F/x
    -vx=1  -F,  --sandbox  --in-place  -ni  -Ei  --file=evil.sed  -w  -W  -b  -B  -h  -T.  -S1b
    --color=auto  --color  --compress-program=./evil.sh  --filelimit=1  -u/dev/null  -readonly
    -safe  -slt  -lh  -V  -g  -m  -M  -j  -J  --gzip  --to-stdout  -X
    """
)
_OPERANDS = _items(
    r"""
    a.txt  b.txt  nums.txt  list.txt  data.csv  data.json  cmds.txt  src  src/main.py  .  ..
    pwned  ./pwned  evil.sh  ./evil.sh  evil.awk  evil.sed  @opts  host:arch.tar  x=y  +  +%s
    +touch  {}  ;  \;  {a.txt,pwned}  {-n,-opwned}  *  ?  *.txt  src/*.py  ./*  -*  [-]*
    [a-b].txt  ~  ~/x  $x  "$x"  ${x}  $HOME  $?  $#  $@  "$@"  $(ls)  "$(ls)"  `ls`
    $((1+1))  <(ls)  /dev/null  /dev/stdin  /proc/self/environ  1  2  5  -1  foo  ''  ""
    's/a/b/'  's/a/b/e'  's/a/b/w pwned'  'w pwned'  1p  '1e touch pwned'  '{print}'
    '{print $1}'  '{print>"pwned"}'  'BEGIN{system("touch pwned")}'  'BEGIN{print|"touch pwned"}'
    '/a/'  'a/b;p'  's/[/]/w pwned/'  'y/a/b/;w pwned'  '/x/{s/a/b/;w pwned⏎}'  'a[$(touch pwned)]'
    PATH=5  PATH  x  y  '%s\n'  '%n'  '%s%n'  '%d'  "a\⏎b"  'a b'  OPTIND  touch  rm  sh
    'sh -c "touch pwned"'  select  'select 1'  "select writefile('pwned','x')"  '.shell touch pwned'
    '. as $x|input'  cache  -eq  -lt  =  ==  -f  -v  ]  ]]  =~  <  >  7
    """
)
_JOINTS = _items(
    r"""
    ;  |  &&  ||  |&  &  ⏎  >  >>  <  2>&1  2>/dev/null  >/dev/null  &>/dev/null  <<<  <<E  <(
    (  )  {  }  !  #  $(  `  if  then  fi  else  while  do  done  for  in  case  esac  [[  ]]
    time  ;;  >&  <&  <>  >|  \⏎  <<'E'  ⏎E⏎  ⏎E)  ⏎E touch pwned)⏎E⏎)  read  REPLY=a;  "$REPLY"
    """
)
_STARTERS = ("xargs", "env", "nice", "timeout", "command", "builtin", "exec", "stdbuf", "find")


def plant(folder: Path) -> None:
    """Fill the folder with ordinary files and with files whose names are options."""
    for name, text in _PLANTED.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)
    for index, name in enumerate(_HOSTILE_NAMES):
        alone = folder / f"h{index}"
        alone.mkdir(exist_ok=True)
        for file in (name, "a.txt", "b.txt"):
            (alone / file).write_text("alpha\nfoo\n")


def _digest(folder: Path) -> dict[str, tuple[int, str]]:
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root, name)
            status = path.lstat()
            regular = path.is_file() and not path.is_symlink()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if regular else ""
            found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


def run_in_namespaces(command: str, folder: Path) -> None:
    """The default runner: bash in namespaces of its own, with all but ``folder`` read-only."""
    process = subprocess.Popen(
        ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
         "/bin/bash", "-c", _SCRIPT, "-", str(folder), command],
        env=_ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    if process.wait(timeout=120) == 99:
        raise RuntimeError("the namespaces could not be made; root and util-linux are needed")


def effect_of(command: str, folder: Path, *, runner: Runner = run_in_namespaces) -> list[str]:
    """The names that the command added, removed or changed in the folder, which is restored."""
    before = _digest(folder)
    runner(command, folder)
    after = _digest(folder)
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    if changed:
        for item in folder.iterdir():
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        plant(folder)
    return changed


def generate(seed: int) -> Iterator[str]:
    """Endless commands: half from the alphabet, half mutations of the corpus."""
    chance = random.Random(seed)
    programs = sorted(TABLE)
    corpus = [row.command for row in read_rows("bash_readonly.tsv")]
    corpus += [row.command for row in read_rows("bash_more.tsv")]
    while True:
        if chance.random() < 0.5:
            yield _from_alphabet(chance, programs)
        else:
            yield _mutated(chance, corpus)


def _from_alphabet(chance: random.Random, programs: list[str]) -> str:
    words: list[str] = []
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        if chance.random() < 0.2:
            words.append(chance.choice(_STARTERS))
            words += chance.choices(_OPTIONS, k=chance.randrange(2))
        words.append(chance.choice(programs))
        for _ in range(chance.randrange(5)):
            words.append(chance.choice(_OPTIONS if chance.random() < 0.4 else _OPERANDS))
        if chance.random() < 0.6:
            words.append(chance.choice(_JOINTS))
    if chance.random() < 0.3:
        words.insert(0, f"cd h{chance.randrange(len(_HOSTILE_NAMES))} &&")
    if chance.random() < 0.3:
        words.insert(0, f"x={chance.choice(_OPERANDS + _OPTIONS)};")
    return " ".join(words)


def _mutated(chance: random.Random, corpus: list[str]) -> str:
    text = chance.choice(corpus)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(text) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + 1 :]
        elif kind == 1:
            text = text[:at] + chance.choice("'\"\\`$(){}[]<>|&;#*?~! \n/-=eiwo") + text[at:]
        elif kind == 2:
            text = text[:at] + f" {chance.choice(_OPTIONS + _OPERANDS + _JOINTS)} " + text[at:]
        elif kind == 3:
            other = chance.choice(corpus)
            text = text[:at] + other[chance.randrange(len(other) + 1) :]
        else:
            words = text.split(" ")
            chance.shuffle(words)
            text = " ".join(words)
    return text


def fuzz(
    *, seconds: float, seed: int, runner: Runner = run_in_namespaces
) -> tuple[int, int, list[tuple[str, list[str]]]]:
    """How many commands were made, how many of them accepted and run, and those with an effect."""
    made = ran = 0
    wrong: list[tuple[str, list[str]]] = []
    seen: set[str] = set()
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fuzz-accepted-") as name:
        folder = Path(name)
        plant(folder)
        for command in generate(seed):
            if time.monotonic() > deadline:
                break
            made += 1
            if command in seen or not classify(command, trusted_workspace=True).read_only:
                continue
            seen.add(command)
            ran += 1
            changed = effect_of(command, folder, runner=runner)
            if changed:
                wrong.append((command, changed))
    return made, ran, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Run accepted commands and look for effects.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made, ran, wrong = fuzz(seconds=options.seconds, seed=options.seed)
    sys.stdout.write(f"{made} commands made, {ran} accepted and run, {len(wrong)} with an effect\n")
    for command, changed in wrong:
        sys.stdout.write(f"{command!r}: {', '.join(changed)}\n")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
