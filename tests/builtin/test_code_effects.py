"""What the text of Python code proves about it: nothing, unless every construct is known."""

from __future__ import annotations

import pytest

from sandboxed_tools.builtin.code_effects import python_effect

NO_EFFECT = [
    "1 + 1",
    "import math\nmath.sqrt(2)",
    "from collections import Counter\nCounter('abc').most_common(1)",
    "x = [i * i for i in range(10)]\nprint(sum(x), f'{x!r:>5}')",
    "import json as j\nj.dumps({'a': [1]})",
    "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(10)",
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    print(error)",
    "class P:\n    def __init__(self, x):\n        self.x = x\nP(1).x",
    "from datetime import date\ndate(2026, 1, 1).isoformat()",
]
CONTAINED = [
    "open('x', 'w').write('y')",
    "import pandas as pd\npd.read_csv('data.csv').describe()",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
    "import os\nopen(os.path.join(os.environ['ARTIFACTS'], 'x'), 'w').write('y')",
    "from pathlib import Path\nPath('x').write_text('y')",
    "import sys\nsys.exit(3)",
    "import functools\nfunctools.singledispatch(print)",
    "import json\nk = json\nk.codecs",
    "import collections.abc",
    "import time\ntime.sleep(1)",
]
ANYTHING = [
    "import subprocess",
    "import os\nos.system('ls')",
    "import os as o\no.fork()",
    "import os\np = os\np.system('ls')",
    "from os import system",
    "from os import *",
    "import socket",
    "import random\nrandom._os",
    "import logging\nlogging.os.system('x')",
    "(x for x in ()).gi_frame.f_builtins['eval']('1')",
    "import ctypes",
    "import threading",
    "__import__('os').system('ls')",
    "eval('1')",
    "exec('1')",
    "getattr(print, '__self__')",
    "().__class__.__base__.__subclasses__()",
    "print.__self__.eval('1')",
    "[x for x in (1,)].__iter__.__self__",
    "import sys\nsys.modules['os']",
    "import sys\nsys._getframe()",
    "from . import x",
    "x = (",
    "a\0b",
    "globals()['x']",
    "import importlib",
    "import pickle",
    "import urllib.request",
    "(" * 5000 + ")" * 5000,
    "x = 1\n" * 100_000,
]


@pytest.mark.parametrize("code", NO_EFFECT)
def test_code_that_only_computes_has_no_effect(code: str) -> None:
    assert python_effect(code) == "none"


@pytest.mark.parametrize("code", CONTAINED)
def test_code_over_files_and_data_is_contained(code: str) -> None:
    assert python_effect(code) == "contained"


@pytest.mark.parametrize("code", ANYTHING, ids=[code[:40] for code in ANYTHING])
def test_everything_else_may_do_anything(code: str) -> None:
    assert python_effect(code) == "unknown"


ESCAPES = [
    # ways from an innocent object to the builtins, to a module, or to code
    "(x for x in ()).gi_frame.f_builtins",
    "def g():\n    yield\ng().gi_code",
    "try:\n    1/0\nexcept Exception as e:\n    e.__traceback__.tb_frame",
    "def f(): pass\nf.__globals__",
    "import random\nrandom._os.system('ls')",
    "import re\nre.enum.sys.modules",
    "import json\njson.codecs.open('x')",
    "import json\nj = json",
    "import json\nprint(json)",
    "import statistics\nstatistics.sys",
    "from random import _os",
    "from json import codecs",
    "from math import *",
    "import math\nmath.sqrt = print",
    "import math\ndef f(math):\n    return math.system\n",
    "import math\nmath = 1",
    "import functools\n@functools.singledispatch\ndef f(x): pass",
    "class C:\n    __match_args__ = ('gi_frame',)\nmatch 1:\n    case C(x): pass",
    "async def f():\n    await g()",
    "with open('x') as f:\n    pass",
    "__builtins__",
    "__loader__",
    "int.__subclasses__()",
    "int.mro()",
    "import string\nstring.re.enum",
]


@pytest.mark.parametrize("code", ESCAPES)
def test_no_way_around_counts_as_without_effect(code: str) -> None:
    assert python_effect(code) != "none"
