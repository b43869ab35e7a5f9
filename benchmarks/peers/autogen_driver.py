"""autogen: its Docker code executor, kept or one for each call."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from driver import EXIT, TEXT, nothing, require, serve

require("autogen-ext", "autogen-core", "docker")

import docker  # noqa: E402
from autogen_core import CancellationToken  # noqa: E402
from autogen_core.code_executor import CodeBlock  # noqa: E402
from autogen_ext.code_executors.docker import DockerCommandLineCodeExecutor  # noqa: E402

loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
client = docker.from_env()
# Its own temporary folder is closed to the user that the image names.
folder = Path(tempfile.mkdtemp(prefix="bench-autogen-"))
folder.chmod(0o755)


def started() -> DockerCommandLineCodeExecutor:
    executor = DockerCommandLineCodeExecutor(sys.argv[1], work_dir=folder, stop_container=False)
    loop.run_until_complete(executor.start())
    return executor


def run_in(executor: DockerCommandLineCodeExecutor) -> None:
    block = CodeBlock(code=TEXT, language="bash")
    done = loop.run_until_complete(executor.execute_code_blocks([block], CancellationToken()))
    assert (done.exit_code, done.output) == (EXIT, "hi\n"), done


def removed(executor: DockerCommandLineCodeExecutor) -> None:
    # Its own stop waits out the engine's grace of ten seconds.
    client.containers.get(executor.container_name).remove(force=True)
    loop.run_until_complete(executor.stop())


def fresh() -> Callable[[], object]:
    executor = started()
    try:
        run_in(executor)
    except BaseException:
        removed(executor)
        raise
    return lambda: removed(executor)


kept = started()


def again() -> Callable[[], object]:
    run_in(kept)
    return nothing


def close() -> None:
    removed(kept)
    shutil.rmtree(folder)


serve(
    "autogen-ext",
    {"fresh": ("one a call", fresh), "kept": ("one that is kept", again)},
    close=close,
)
