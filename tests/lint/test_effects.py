"""What work does to the world is seen behind aliases, methods, partials and what it hands on."""

from __future__ import annotations

import pytest

from sandboxed_tools.lint import check_text

HEAD = """
from __future__ import annotations
import asyncio, ast, base64, builtins, codecs, csv, functools, glob, gzip, hashlib, importlib, io
import json, logging, multiprocessing, operator, os, pathlib, pickle, re, shutil, socket, sqlite3
import subprocess, sys, tarfile, tempfile, threading, urllib.parse, urllib.request, zipfile, ctypes
import anyio, httpx, requests, yaml
import os as operating
import subprocess as sp
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import remove as rm, path
from pathlib import Path
from subprocess import run
from shutil import *

class In(ToolInput):
    a: str = Field(description="Something.")
    b: Path = Field(description="Something.")
"""


def codes(work: str, **stated: str) -> list[str]:
    keywords = "".join(f", {name}={value}" for name, value in stated.items())
    text = (
        f'{HEAD}\n{work}\nT = build_tool(name="T", description="d", input_schema=In, '
        f"defaults=1{keywords})\n"
    )
    return [finding.code for finding in check_text(text, "t.py")]


def of_body(body: str, **stated: str) -> list[str]:
    indented = body.replace("\n", "\n    ")
    return codes(f"def work(i, ctx):\n    {indented}\n", call="work", **stated)


PROMISES = {"is_read_only": "True", "is_concurrency_safe": "True", "needs_sandbox": "True"}


@pytest.mark.parametrize(
    "body",
    [
        # aliases and other ways to a function
        "operating.unlink(i.a)",
        "rm(i.a)",
        "sp.check_output(['ls'])",
        "run(['ls'])",
        "rmtree(i.a)",
        "delete = os.remove\ndelete(i.a)",
        "delete = os.remove if i.a else os.rmdir\ndelete(i.a)",
        "(os.remove)(i.a)",
        "getattr(os, 'remove')(i.a)",
        "getattr(os, i.a)()",
        "getattr(subprocess, 'run')(i.a)",
        "__import__('os').remove(i.a)",
        "__import__(i.a)",
        "importlib.import_module('shutil').rmtree(i.a)",
        "importlib.import_module(i.a).main()",
        "sys.modules['os'].remove(i.a)",
        "os.__dict__['remove'](i.a)",
        "vars(os)['remove'](i.a)",
        "globals()['rm'](i.a)",
        "builtins.exec(i.a)",
        "operator.methodcaller('unlink')(Path(i.a))",
        "import os as o\no.remove(i.a)",
        "from os import unlink\nunlink(i.a)",
        # handed on, not called here
        "list(map(os.remove, [i.a]))",
        "asyncio.to_thread(shutil.rmtree, i.a)",
        "anyio.to_thread.run_sync(os.unlink, i.a)",
        "threading.Thread(target=os.remove, args=(i.a,)).start()",
        "ThreadPoolExecutor().submit(subprocess.run, ['ls'])",
        "partial(os.remove, i.a)()",
        "functools.partial(shutil.copy, i.a, 'x')()",
        "{'rm': os.remove, 'ls': os.listdir}[i.a]('x')",
        "[os.remove][0](i.a)",
        "action = lambda p: os.remove(p)\naction(i.a)",
        "def inner(p):\n    os.remove(p)\ninner(i.a)",
        "sorted([i.a], key=lambda p: os.remove(p))",
        # files
        "open(i.a, mode='w')",
        "MODE = 'a'\nopen(i.a, MODE)",
        "io.open(i.a, 'x')",
        "codecs.open(i.a, 'w', 'utf-8')",
        "gzip.open(i.a, 'wt')",
        "tarfile.open(i.a, 'w:gz')",
        "tarfile.open(i.a).extractall()",
        "zipfile.ZipFile(i.a, 'w')",
        "os.open(i.a, os.O_WRONLY | os.O_CREAT)",
        "os.truncate(i.a, 0)",
        "os.chdir(i.a)",
        "os.environ['A'] = i.a",
        "del os.environ['A']",
        "os.environ.update(A=i.a)",
        "os.kill(int(i.a), 9)",
        "Path(i.a).replace('x')",
        "Path(i.a).with_suffix('.x').replace(i.a)",
        "i.b.replace('x')",
        "i.b.write_text('x')",
        "i.b.open('w')",
        "(Path(i.a) / 'x').touch()",
        "p = pathlib.Path(i.a)\np.parent.mkdir()",
        "pathlib.Path.unlink(i.b)",
        "for p in Path(i.a).iterdir():\n    p.unlink()",
        "with open(i.a, 'r+') as f:\n    f.truncate()",
        "json.dump({}, open(i.a, 'w'))",
        "tempfile.mkdtemp()",
        "shutil.move(i.a, 'x')",
        "shutil.unpack_archive(i.a)",
        "frame.to_csv(i.a)",
        "logging.FileHandler(i.a)",
        # databases
        "sqlite3.connect(i.a).execute('DELETE FROM t')",
        "c = sqlite3.connect('x.db')\nc.execute(f'update t set a = {i.a}')\nc.commit()",
        "sqlite3.connect(i.a).executescript('drop table t')",
        "with sqlite3.connect(i.a) as c:\n    c.cursor().execute('insert into t values (1)')",
        # programs
        "os.popen(i.a)",
        "os.execv('/bin/ls', ['ls'])",
        "os.posix_spawn('/bin/ls', ['ls'], {})",
        "multiprocessing.Process(target=print).start()",
        "asyncio.create_subprocess_shell(i.a)",
        "anyio.run_process(['ls'])",
        "subprocess.Popen(['ls']).communicate()",
        # the network
        "requests.Session().post(i.a)",
        "with httpx.Client() as client:\n    client.get(i.a)",
        "urllib.request.urlopen(i.a)",
        "socket.create_connection((i.a, 80))",
        "asyncio.open_connection(i.a, 80)",
        "anyio.connect_tcp(i.a, 80)",
        # code
        "exec(i.a)",
        "eval(compile(i.a, 'x', 'eval'))",
        "pickle.loads(base64.b64decode(i.a))",
        "yaml.load(i.a, Loader=yaml.Loader)",
        "ctypes.CDLL(i.a)",
    ],
)
def test_a_change_is_seen_however_it_is_written(body: str) -> None:
    assert "STL103" in of_body(body, **PROMISES)


@pytest.mark.parametrize(
    "body",
    [
        "open(i.a).read()",
        "open(i.a, 'rb').read(10)",
        "MODE = 'rb'\nopen(i.a, MODE).read()",
        "with open(i.a, encoding='utf-8') as f:\n    return f.read()",
        "gzip.open(i.a, 'rt').read()",
        "zipfile.ZipFile(i.a).open('w').read()",
        "tarfile.open(i.a, 'r:gz').getnames()",
        "os.open(i.a, os.O_RDONLY)",
        "Path(i.a).read_text().replace('a', 'b')",
        "i.b.name.replace('a', 'b')",
        "i.a.replace('a', 'b')",
        "os.getcwd().replace('a', 'b')",
        "os.path.join(i.a, 'x')",
        "io.StringIO().write('x')",
        "out = io.StringIO()\ncsv.writer(out).writerow([1])\nout.write('x')",
        "sys.stdout.write('x')",
        "ast.literal_eval(i.a)",
        "yaml.load(i.a, Loader=yaml.SafeLoader)",
        "yaml.safe_load(i.a)",
        "json.dumps(json.loads(i.a))",
        "hashlib.sha256(i.a.encode()).hexdigest()",
        "re.compile('a').sub('b', i.a)",
        "urllib.parse.quote(i.a)",
        "socket.inet_aton(i.a)",
        "socket.gethostname()",
        "subprocess.list2cmdline([i.a])",
        "tempfile.gettempdir()",
        "shutil.which('ls')",
        "shutil.disk_usage('/').free",
        "glob.glob(i.a)",
        "isinstance(i.a, socket.socket)",
        "try:\n    pass\nexcept subprocess.CalledProcessError:\n    pass",
        "try:\n    pass\nexcept requests.exceptions.RequestException:\n    pass",
        "x: subprocess.Popen | None = None",
        "def f(s: socket.socket) -> subprocess.Popen: ...",
        "sqlite3.connect('file:x?mode=ro', uri=True).execute('SELECT 1').fetchall()",
        "QUERY = 'with a as (select 1) select * from a'\nsqlite3.connect('x').execute(QUERY)",
        "sqlite3.connect('x').execute('PRAGMA table_info(t)')",
        "getattr(os, 'O_DIRECT', 0)",
        "__import__('json').dumps({})",
        "importlib.import_module('json').dumps({})",
        "asyncio.sleep(0)",
        "anyio.to_thread.run_sync(os.listdir, i.a)",
        "open = len\nopen(i.a, 'w')",
        "logging.getLogger('x').info('read')",
        "ctx.progress(1)",
        "multiprocessing.cpu_count()",
        "1 / 0 if subprocess.PIPE else socket.AF_INET",
    ],
)
def test_work_that_changes_nothing_may_say_that_it_is_read_only(body: str) -> None:
    assert of_body(body, **PROMISES) == []


@pytest.mark.parametrize(
    "body",
    [
        "return Path(i.a).read_text().count('x')",
        "return [p.name for p in Path(i.a).rglob('*.py')]",
        "with open(i.a) as f:\n    return json.load(f)",
        "return os.stat(i.a).st_size",
        "return sorted(os.listdir(i.a), key=len)",
        "return hashlib.sha256(i.b.read_bytes()).hexdigest()",
        "return asyncio.to_thread(os.listdir, i.a)",
        "c = sqlite3.connect('x')\nreturn c.execute('select 1').fetchall()",
        "return os.environ.get(i.a)",
        "return zipfile.ZipFile(i.a).read('x')",
    ],
)
def test_work_that_only_reads_is_told_to_say_so_however_it_is_written(body: str) -> None:
    assert "STL101" in of_body(body)


@pytest.mark.parametrize("body", ["open(*i.a)", "open(i.a, **options)", "gzip.open(i.a, mode)"])
def test_a_file_that_is_opened_in_an_unknown_way_is_not_called_read(body: str) -> None:
    assert of_body(f"return {body}") == []


WORKS = """
class Base:
    def clean(self, p):
        os.remove(p)

class Tidy(Base):
    def __init__(self):
        self.client = requests.Session()
    def remove(self, i, ctx):
        return self.clean(i.a)
    def fetch(self, i, ctx):
        return self.client.get(i.a)
    @staticmethod
    def static(i, ctx):
        return rm(i.a)
    @classmethod
    def of_class(cls, i, ctx):
        return cls.static(i, ctx)
    def __call__(self, i, ctx):
        return self.clean(i.a)
    def looks(self, i, ctx):
        return os.listdir(i.a)

class Opened:
    def __enter__(self):
        os.mkdir("x")
    def __exit__(self, *_):
        pass

def logged(function):
    @functools.wraps(function)
    def inner(i, ctx):
        with open("log", "a") as f:
            f.write("x")
        return function(i, ctx)
    return inner

@logged
def decorated(i, ctx):
    return os.listdir(i.a)

def entering(i, ctx):
    with Opened():
        return 1

def general(action, i, ctx):
    return action(i.a)

def first(i, ctx):
    return second(i)

def second(i):
    return third(i) if i.a else first(i, None)

def third(i):
    return os.rename(i.a, "x")

tidy = Tidy()
alias = first
made = lambda i, ctx: os.remove(i.a)
"""


@pytest.mark.parametrize(
    "call",
    [
        *("tidy.remove", "Tidy().remove", "tidy.fetch", "Tidy.static", "Tidy.of_class", "tidy"),
        *("Tidy()", "decorated", "entering", "partial(general, os.remove)", "first", "alias"),
        *("made", "partial(first)", "logged(tidy.looks)", "lambda i, ctx: first(i, ctx)"),
    ],
)
def test_what_a_class_a_decorator_or_a_helper_does_is_the_tools(call: str) -> None:
    assert "STL103" in codes(WORKS, call=call, **PROMISES)


def test_methods_and_functions_of_one_name_are_kept_apart() -> None:
    assert "STL103" not in codes(WORKS, call="tidy.looks", **PROMISES)
    text = """
class Cleaner:
    def work(self, i, ctx):
        os.remove(i.a)

def elsewhere():
    def work(i, ctx):
        os.remove(i.a)

def work(i, ctx):
    return os.listdir(i.a)
"""
    assert codes(text, call="work", **PROMISES) == []


def test_an_own_module_that_is_named_like_a_library_is_not_the_library() -> None:
    assert codes("from .requests import get\n", call="lambda i, ctx: get(i.a)", **PROMISES) == []
