"""An engine beside the first, with everything of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from tests.sandbox.docker.running import eventually

from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, ask_engine
from sandboxed_tools.sandbox.docker.images import image_tag

__all__ = ["MARKS", "SecondEngine", "second_engine"]

MARKS = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("dockerd") is None,
        reason="starting a second engine needs root and dockerd",
    ),
]

_HIDE = 'while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done; shift; exec "$@"'


class SecondEngine:
    """It can be ended and started again, and does not see what is in the ``hidden`` folders.

    ``options`` are further ones of ``dockerd``.
    """

    def __init__(
        self, folder: Path, *, hidden: Sequence[Path] = (), options: Sequence[str] = ()
    ) -> None:
        self.url = f"unix://{folder}/e.sock"
        self._folder = folder
        self._hidden = hidden
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # In a network of its own: an engine without a bridge removes the docker0 that it finds.
        words = ["unshare", "--net"]
        if self._hidden:
            words += ["--mount", "sh", "-e", "-c", _HIDE, "sh", *map(str, self._hidden), "--"]
        words += ["dockerd", f"--host={self.url}", "--bridge=none"]
        words += [f"--pidfile={self._folder}/e.pid", f"--data-root={self._folder}/data"]
        words += [f"--exec-root={self._folder}/exec", "--iptables=false"]
        words += self._options
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        eventually(self._answers, within_s=90)

    def found(self) -> object:
        return ask_engine(Endpoint(self.url, source="a test", is_explicit=True), timeout_s=2)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        return isinstance(self.found(), Engine)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


@contextmanager
def second_engine(
    api: docker.APIClient,
    image: str,
    *,
    hidden: Sequence[Path] = (),
    options: Sequence[str] = (),
) -> Iterator[SecondEngine]:
    """One that runs and has the image; nothing is left of it."""
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    engine = SecondEngine(folder, hidden=hidden, options=options)
    try:
        engine.start()
        target = docker.APIClient(base_url=engine.url, timeout=120)
        try:
            for _ in target.load_image(api.get_image(image_tag(image))):  # type: ignore[no-untyped-call]
                pass
        finally:
            target.close()
        yield engine
    finally:
        engine.end()
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            if str(folder) in line:
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(folder, ignore_errors=True)
