"""Our words are bash's words: the same text is given to both."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from sandboxed_tools.bash import split_commands

_TEXT = r"""
a  b  1  -  -o  {a,b}  {1..3}  {3..1}  {01..3}  {a..c}  {1..5..2}  {  }  ,  ..  {a  {a,b  a}
{}  {,x}  {a,{b,c}}  'q'  "s"  \a  \{  \,  ","  '{'  $'x\ty'  ~  "~"  #  \#  =  x=  [  ]
a.b  {a}{b,c}  {a,b}{c,d}  {{a,b},c}  {a..b}  {1..1}  {-1..1}  {x,"y,z"}  !  {a}  }  {{  }}
{x,y}z  {1,2,}  {..}  {1..}  {a..3}  {a,b}}  {{a,b}  \}  ''  ""
"""
_PIECES = _TEXT.split()


def _words(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    texts = []
    for _ in range(count):
        words = [
            "".join(chance.choices(_PIECES, k=chance.randrange(1, 5)))
            for _ in range(chance.randrange(1, 4))
        ]
        texts.append(" ".join(words))
    return texts


@pytest.mark.parametrize("seed", range(4))
def test_arguments_known_to_the_letter_are_those_that_bash_passes(
    seed: int, tmp_path: Path
) -> None:
    compared = 0
    script = []
    expected = []
    for text in _words(seed, 1500):
        found = split_commands(f"printf '%s\\0' {text}")
        if found is None or len(found) != 1 or None in found[0].argv or found[0].redirects:
            continue
        expected.append([str(item) for item in found[0].argv[2:]] or [""])
        script.append(f"printf '%s\\0' {text}\nprintf '\\n'")
        compared += 1
    file = tmp_path / "words.sh"
    file.write_text("\n".join(script))
    output = subprocess.run(
        ["bash", "--norc", "--noprofile", str(file)],
        cwd=tmp_path,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        capture_output=True,
        timeout=150,
        check=True,
    ).stdout.decode()
    got = [line.split("\0")[:-1] for line in output.split("\n")[:-1]]
    assert compared > 300
    wrong = [(s, g, e) for s, g, e in zip(script, got, expected, strict=True) if g != e]
    assert wrong == []
