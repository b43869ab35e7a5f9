"""What the text of Python code proves about it: nothing, unless every construct is known."""

from __future__ import annotations

import pytest

from sandboxed_tools.builtin import ExecuteCode
from sandboxed_tools.builtin.code_effects import python_effect
from sandboxed_tools.builtin.execute_code import ExecuteCodeInput

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
    "import functools\n@functools.lru_cache\ndef f(n):\n    return n\nf(1)",
    "from functools import reduce, partial\nreduce(partial(max, 1), [2, 3])",
    "import functools as f\nclass A:\n    @f.cached_property\n    def x(s): return 1\nA().x",
    "import string\nstring.Template('$a').substitute(a=string.digits)",
    "from collections import namedtuple\nP = namedtuple('P', 'x y')\nP(1, 2).x",
    "import re\n[m.group() for m in re.finditer(r'\\d+', 'a1b22')]",
    "import random\nrandom.seed(1)\nrandom.sample(range(9), 3)",
    "import statistics as s\ns.mean([1, 2]), s.median([1, 2])",
    "import itertools\nlist(itertools.permutations('abc', 2))",
    "import hashlib\nhashlib.sha256(b'x').hexdigest()",
    "import base64, json, textwrap\ntextwrap.fill(base64.b64encode(b'x').decode())",
    "from decimal import Decimal, getcontext\ngetcontext().prec = 9\nDecimal(1) / 3",
    "from fractions import Fraction\nFraction(1, 3) + 1",
    "import difflib\n'\\n'.join(difflib.unified_diff(['a'], ['b']))",
    "import calendar\nprint(calendar.month(2026, 1))",
    "import heapq, bisect, copy\nheapq.nsmallest(2, copy.deepcopy([3, 1, 2]))",
    "x: dict[str, int] = {}\nx['a'] = 1\ndel x['a']\nassert not x",
    "def g():\n    got = yield 1\n    yield from [got]\nlist(g())",
    "def f(*a, k=1, **kw):\n    global y\n    y = 2\n    return lambda: (a, k, kw)\nf()()",
    "if (n := len('abc')) > 2:\n    print(n, end='')\nelse:\n    raise ValueError(n)",
    "while True:\n    break",
    "class B(dict):\n    def get(self, k):\n        return super().get(k)\nB(a=1).get('a')",
    "{**{'a': 1}, 'b': [*range(2)]}, 1 if 2 else 3, not 1, ~1, 2 ** 3, 1 < 2 < 3",
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
    "import string\nstring.Formatter().format('{}', 1)",
    "from functools import wraps\ndef d(f):\n    @wraps(f)\n    def g(): return 1\n    return g",
    "match 1:\n    case int():\n        pass",
    "with open('a') as f:\n    f.read()",
    "import csv\nlist(csv.reader(open('a.csv')))",
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nA(1)",
    "import sqlite3\nsqlite3.connect(':memory:').execute('select 1')",
    "import numpy as np\nnp.linalg.norm([1, 2])",
    "from datetime import datetime\nimport enum\nclass E(enum.Enum):\n    A = 1",
    "import io, zipfile\nzipfile.ZipFile(io.BytesIO(), 'w').writestr('a', 'b')",
    "type(1)",
    "import os\nos.remove('x')\nos.listdir('.')",
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
    "import requests\nrequests.get('http://x')",
    "import asyncio\nasyncio.run(f())",
    "import multiprocessing",
    "import os\nos.popen('ls')",
    "import os\nos.execv('/bin/sh', [])",
    "import os\nos.kill(1, 9)",
    "from os import popen as p",
    "import pathlib\npathlib.os.system('x')",
    "import tempfile\ntempfile._os.system('x')",
    "import timeit\ntimeit.timeit.__globals__",
    "import mod",
    "import numpy\nnumpy.ctypeslib",
    "import pty",
    "import signal",
    "import sys\nsys.path.insert(0, '.')",
    "compile('1', 'x', 'eval')",
    "vars()",
    "breakpoint()",
    "import shutil\nshutil.rmtree('x')",
    "import webbrowser",
    "import builtins",
    "import code",
    "import gc",
    "import inspect",
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
    "import string\nstring.Formatter().get_field('0.__globals__', (print,), {})",
    "from string import Formatter as F\nclass C(F):\n    pass\nC().format('{0.__globals__}', C)",
    "import functools\nfunctools.update_wrapper(C(), f, ['__globals__'], [])",
    "from functools import wraps\nwraps(f, ['__globals__'], [])(C())",
    "import functools\nfunctools.partial(functools.wraps, assigned=['__globals__'])",
    "class A:\n    import json\nA.json.codecs.open('x', 'w')",
    "class A:\n    if 1:\n        class B:\n            import json\nA.B.json.codecs",
    "try:\n    pass\nexcept* ValueError:\n    pass",
    "(lambda x=open: x)('a')",
    "x: open('a', 'w') = 1",
    "print('x', file=open('x', 'w'))",
    "def f(json):\n    return json.codecs\nimport json\n",
    "import json as re, re as json\njson.sys",
    "from json import *",
    "import json.decoder",
    "import json.tool\njson.tool.main()",
    "license()",
    "help('modules')",
    "exit()",
    "type('A', (), {})",
    "dir()",
    "memoryview(b'a')",
    "object.__getattribute__(print, '__self__')",
    "class A:\n    g = object.__getattribute__",
    "super().__getattribute__('x')",
    "[].__reduce_ex__(4)",
    "print.__module__",
    "def f():\n    import os\n    return os",
    "for json in ():\n    import json\n",
    "import hashlib\nhashlib.file_digest(open('x', 'rb'), 'md5')",
    "__annotations__",
    "(f for f in ()).gi_yieldfrom",
    "import decimal\ndecimal._decimal",
    "input()",
    "aiter(x)",
    "x = yield_ = await_ = open",
]


@pytest.mark.parametrize("code", ESCAPES)
def test_no_way_around_counts_as_without_effect(code: str) -> None:
    assert python_effect(code) != "none"


@pytest.mark.parametrize(
    ("files", "read_only", "asks"),
    [
        ({"data.csv": "a,b"}, True, False),
        ({"random.txt/x": ""}, True, False),
        ({"random.py": "import os\nos.system('ls')"}, False, True),
        ({"random/__init__.py": ""}, False, True),
        ({"statistics.cpython-311-x86_64-linux-gnu.so": ""}, False, True),
    ],
)
def test_a_file_that_an_import_would_find_first_proves_nothing(
    files: dict[str, str], read_only: bool, asks: bool
) -> None:
    given = ExecuteCodeInput(code="import random\nrandom.random()", files=files)
    assert ExecuteCode.is_read_only(given) is read_only
    assert ExecuteCode.requires_confirmation(given) is asks
    shell = ExecuteCodeInput(language="bash", code='cat "$FILES"/*', files=files)
    assert ExecuteCode.is_read_only(shell)


@pytest.mark.parametrize(
    ("language", "code", "read_only"),
    [
        ("bash", "ls -l | wc -l", True),
        ("bash", "cat /etc/passwd; echo done", True),
        ("bash", "echo x > file", False),
        ("bash", "rm -rf .", False),
        ("bash", "eval ls", False),
        ("bash", "echo $(touch x)", False),
        ("bash", "f() { ls; }; f", False),
        ("bash", "((", False),
        ("bash", "ls\0", False),
        ("javascript", "1 + 1", False),
        ("javascript", "", False),
    ],
)
def test_other_languages_are_read_only_where_that_is_proven(
    language: str, code: str, read_only: bool
) -> None:
    given = ExecuteCodeInput.model_construct(language=language, code=code, files={}, timeout=None)
    assert ExecuteCode.is_read_only(given) is read_only
    assert ExecuteCode.requires_confirmation(given) is not read_only
