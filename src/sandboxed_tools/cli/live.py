"""Live output of a command, written without ever holding up whoever reads the engine."""

from __future__ import annotations

import codecs
import sys
import tempfile
import threading
from types import TracebackType
from typing import BinaryIO, Self

from sandboxed_tools.tool import for_terminal
from sandboxed_tools.tool.result import Stream

__all__ = ["LiveOutput"]


class LiveOutput:
    """Writes both streams to this process's own, in order, from a thread of its own.

    A slow reader costs nothing but space: what waits to be written lies in a temporary file, which
    the limit on total output bounds. On a terminal control sequences are stripped, unless ``raw``.
    Leaving the block waits until everything is written, or the reader has gone.

    Raises:
        OSError: on leaving, when something could not be written, as on a full disk.
    """

    def __init__(self, *, raw: bool = False) -> None:
        self._outputs = {
            "stdout": _Output(sys.stdout.buffer, strip=sys.stdout.isatty() and not raw),
            "stderr": _Output(sys.stderr.buffer, strip=sys.stderr.isatty() and not raw),
        }

    def __enter__(self) -> Self:
        sys.stdout.flush()
        sys.stderr.flush()
        for output in self._outputs.values():
            output.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failures = [output.finish() for output in self._outputs.values()]
        for failure in failures:
            if failure is not None and error is None:
                raise failure

    def __call__(self, stream: Stream, data: bytes) -> None:
        self._outputs[stream].put(data)


class _Output:
    """One stream: a spool that grows at one end and is written out at the other."""

    def __init__(self, target: BinaryIO, *, strip: bool) -> None:
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if strip else None
        self._spool = tempfile.SpooledTemporaryFile(max_size=4 * 1024 * 1024)  # noqa: SIM115
        self._written = 0
        self._size = 0
        self._ended = False
        self._failure: OSError | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_out, daemon=True, name="live-output")

    def start(self) -> None:
        self._thread.start()

    def put(self, data: bytes) -> None:
        with self._changed:
            self._spool.seek(self._size)
            self._spool.write(data)
            self._size += len(data)
            self._changed.notify()

    def finish(self) -> OSError | None:
        """Wait until all is written; returns what kept it from being so."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()
        self._spool.close()
        return self._failure

    def _next(self) -> bytes:
        with self._changed:
            while self._written == self._size and not self._ended:
                self._changed.wait()
            self._spool.seek(self._written)
            data = self._spool.read(65_536)
            self._written += len(data)
            return data

    def _write_out(self) -> None:
        try:
            has_more = True
            while has_more:
                data = self._next()
                has_more = bool(data)
                if self._decoder is not None:
                    data = for_terminal(self._decoder.decode(data, final=not has_more)).encode()
                self._target.write(data)
                self._target.flush()
        except BrokenPipeError:
            return  # the reader has gone; the command's own end is reported all the same
        except OSError as error:
            self._failure = error
