"""ExecuteCode on the engine: value, output, exceptions and artifacts, whatever the code does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxed_tools.builtin import Bash, CodeResult, ExecuteCode
from sandboxed_tools.errors import InvalidInput, NotMovable, PermissionDenied
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.docker import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool import Limits
from sandboxed_tools.workspace import WorkspaceViews

pytestmark = pytest.mark.engine


async def agrees(_: object) -> bool:
    return True


@pytest.fixture(scope="module")
async def sandbox(engine: Engine, python_image: str) -> AsyncIterator[DockerSandbox]:
    sandbox = DockerSandbox(engine, views=WorkspaceViews())
    try:
        yield sandbox
    finally:
        await sandbox.aclose()


@pytest.fixture(scope="module")
async def box(sandbox: DockerSandbox) -> AsyncIterator[Toolbox]:
    limits = Limits.of(wall_s=120)
    async with Toolbox(
        [ExecuteCode, Bash], sandbox=sandbox, confirmer=agrees, limits=limits
    ) as opened:
        yield opened


async def execute(box: Toolbox, code: str, **rest: Any) -> CodeResult:
    result = await box.call(ExecuteCode, {"code": code, **rest})
    assert result.placement.where == "container"
    return result.output


async def test_the_value_of_the_last_expression_comes_back(box: Toolbox) -> None:
    assert (await execute(box, "1 + 1")).value == "2"
    assert (await execute(box, "x = 5")).value is None
    assert (await execute(box, "None")).value is None
    assert (await execute(box, "print('a')\n'b'")).stdout == "a\n"


async def test_an_exception_is_data_with_the_lines_of_the_code(box: Toolbox) -> None:
    result = await execute(box, "def f():\n    return 1 / 0\n\nf()")
    assert result.exit_code == 1
    assert result.error is not None
    assert result.error.type == "ZeroDivisionError"
    assert "return 1 / 0" in result.error.traceback
    assert "sandboxed" not in result.error.traceback


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("x = (", "SyntaxError"),
        ("a\0b", "ValueError|SyntaxError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class E(BaseException):\n    def __str__(self):\n        1/0\nraise E", "E"),
        ("def f():\n    f()\nf()", "RecursionError"),
    ],
)
async def test_code_that_fails_is_a_result(box: Toolbox, code: str, kind: str) -> None:
    result = await execute(box, code)
    assert result.exit_code == 1
    assert result.error is not None
    assert result.error.type in kind.split("|")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("import sys\nsys.exit(3)", 3), ("import os\nos._exit(7)", 7), ("raise SystemExit('bye')", 1)],
)
async def test_the_codes_own_exit_code_is_kept(box: Toolbox, code: str, exit_code: int) -> None:
    assert (await execute(box, code)).exit_code == exit_code


async def test_code_that_never_ends_is_ended_with_its_output_so_far(box: Toolbox) -> None:
    code = "print('before', flush=True)\nwhile True: pass"
    for timeout_s in (2.0, 20.0, 100.0):  # on a busy machine Python itself starts slowly
        result = await execute(box, code, timeout=timeout_s)
        assert result.status == "timeout"
        if result.stdout:
            break
    assert result.stdout == "before\n"
    threads = "import threading, time\nthreading.Thread(target=lambda: time.sleep(999)).start()\n5"
    assert (await execute(box, threads)).value == "5"


async def test_code_that_kills_its_runner_is_a_result(box: Toolbox) -> None:
    result = await execute(box, "import os\nos.kill(os.getpid(), 9)")
    assert (result.status, result.exit_code) == ("signalled", None)
    closed = await execute(box, "import os\nos.closerange(0, 65536)\n1")
    assert closed.value is None
    hidden = await execute(box, "import sys\nsys.stdout = sys.stderr = None\n1")
    assert hidden.value == "1"


async def test_bash_has_its_output_and_exit_code(box: Toolbox) -> None:
    result = await execute(box, "echo out; echo err >&2; exit 3", language="bash")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)


async def test_a_language_that_the_image_lacks_is_named(box: Toolbox) -> None:
    with pytest.raises(NotMovable, match="node"):
        await execute(box, "console.log(1)", language="javascript")


async def test_files_stand_ready_and_can_be_imported(box: Toolbox) -> None:
    files = {"mod.py": "answer = 42", "sub/data.txt": "text"}
    code = "import mod\nprint(open('sub/data.txt').read())\nmod.answer"
    result = await execute(box, code, files=files)
    assert (result.stdout, result.value) == ("text\n", "42")


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a\0b", "", ".", "x" * 300])
async def test_files_elsewhere_are_refused(box: Toolbox, name: str) -> None:
    with pytest.raises(InvalidInput):
        await execute(box, "1", files={name: ""})


async def test_artifacts_come_back_typed_by_content(box: Toolbox) -> None:
    code = (
        "import os\n"
        "folder = os.environ['ARTIFACTS']\n"
        "open(folder + '/liar.txt', 'wb').write(bytes([137]) + b'PNG\\r\\n\\x1a\\n....')\n"
        "open(folder + '/page.png', 'w').write('<script>')\n"
        "os.makedirs(folder + '/sub')\n"
        "open(folder + '/sub/raw', 'wb').write(bytes(range(256)))\n"
    )
    result = await execute(box, code)
    assert [(item.name, item.media_type) for item in result.artifacts] == [
        ("liar.txt", "image/png"),
        ("page.png", "text/plain"),
        ("sub/raw", "application/octet-stream"),
    ]
    assert result.artifacts[2].data == bytes(range(256))


async def test_links_devices_pipes_and_giants_are_no_artifacts(box: Toolbox) -> None:
    code = (
        "import os\n"
        "os.chdir(os.environ['ARTIFACTS'])\n"
        "os.symlink('/etc/passwd', 'link')\n"
        "os.mkfifo('fifo')\n"
        "open('giant', 'wb').truncate(6 << 20)\n"
        "open('good', 'w').write('x')\n"
        "os.symlink('/etc', 'folder')\n"
    )
    result = await execute(box, code)
    assert [item.name for item in result.artifacts] == ["good"]
    assert set(result.left_out) == {"fifo", "giant", "link"}


async def test_artifacts_are_bounded_in_number_and_total(box: Toolbox) -> None:
    code = (
        "import os\n"
        "os.chdir(os.environ['ARTIFACTS'])\n"
        "for n in range(20):\n"
        "    open(f'a{n:02}', 'wb').write(os.urandom(4 << 20))\n"
    )
    result = await execute(box, code)
    assert len(result.artifacts) == 2
    code = (
        "import os\n"
        "os.chdir(os.environ['ARTIFACTS'])\n"
        "for n in range(500):\n"
        "    open(f'a{n:03}', 'w').close()\n"
    )
    result = await execute(box, code)
    assert (len(result.artifacts), len(result.left_out)) == (64, 64)


async def test_what_a_model_sees_is_marked_and_holds_no_artifact(box: Toolbox) -> None:
    code = "import os\nopen(os.environ['ARTIFACTS'] + '/x', 'w').write('hidden text')\n'\\x1b[2J'"
    shown = await box.call(ExecuteCode, {"code": code})
    assert "untrusted" in shown.text
    assert "artifact x: text/plain, 11 bytes" in shown.text
    assert "hidden text" not in shown.text


async def test_the_workspace_is_read_only_for_code_that_only_computes(
    sandbox: DockerSandbox, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text("from the workspace")
    async with Toolbox(
        [ExecuteCode], sandbox=sandbox, workspace=tmp_path, changes="discard", confirmer=agrees
    ) as box:
        writing = await box.call(
            ExecuteCode, {"code": "open('new', 'w').write('x')\nopen('data.txt').read()"}
        )
        assert writing.output.value == "'from the workspace'"
        assert writing.exec is not None
        assert writing.exec.view in ("overlay", "copy")
        pure = await box.call(ExecuteCode, {"code": "1 + 1"})
        assert pure.exec is not None
        assert pure.exec.view == "read_only"
    assert [path.name for path in tmp_path.iterdir()] == ["data.txt"]


async def test_who_is_asked_depends_on_the_code(sandbox: DockerSandbox) -> None:
    asked: list[str] = []

    async def refuses(request: Any) -> bool:
        asked.append(request.use)
        return False

    async with Toolbox([ExecuteCode], sandbox=sandbox, confirmer=refuses) as box:
        await box.call(ExecuteCode, {"code": "1 + 1"})
        await box.call(ExecuteCode, {"code": "open('/tmp/x', 'w').write('1')"})
        for code in ("import socket", "x = (", "().__class__"):
            with pytest.raises(PermissionDenied):
                await box.call(ExecuteCode, {"code": code})
        with pytest.raises(PermissionDenied):
            await box.call(ExecuteCode, {"language": "javascript", "code": "1"})
    assert len(asked) == 4


async def test_nothing_of_one_run_is_seen_by_the_next(box: Toolbox) -> None:
    await execute(box, "leaked = 1\nopen('/tmp/leak', 'w').close()")
    result = await execute(box, "import os\n('leaked' in globals(), os.path.exists('/tmp/leak'))")
    assert result.value == "(False, False)"


@pytest.mark.slow
async def test_every_figure_comes_back_as_an_image(sandbox: DockerSandbox, data_image: str) -> None:
    code = (
        "import matplotlib.pyplot as plt\nimport numpy, pandas\n"
        "plt.plot([1, 2]); plt.figure(); plt.plot([2, 1])\n"
        "pandas.DataFrame({'a': numpy.arange(3)}).sum()['a']\n"
    )
    async with Toolbox([ExecuteCode], sandbox=sandbox, python_image=data_image) as box:
        with anyio.fail_after(120):
            result = (await box.call(ExecuteCode, {"code": code})).output
    assert result.error is None
    assert result.value == "3"
    assert [(item.name, item.media_type) for item in result.artifacts] == [
        ("figure-1.png", "image/png"),
        ("figure-2.png", "image/png"),
    ]
