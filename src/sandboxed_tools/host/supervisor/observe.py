"""Refused and watched calls of the command, as the kernel reports them (seccomp_unotify(2))."""

import posix

from sandboxed_tools.host.supervisor.libc import buffer, ioctl, number, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Call = tuple[str, bool, tuple[tuple[int, int], ...]]

__all__ = ["Observer"]

_NOTIF_RECV, _NOTIF_SEND = 0xC0502100, 0xC0182101
_EPERM = 1
_AT_FDCWD = 0xFFFFFF9C
_MAX_NOTED = 64
_MAX_PATH_BYTES = 4096
_O_CLOEXEC = 0o2000000


class Observer:
    """Answers the kernel: refused calls fail with EPERM, watched ones go on to Landlock.

    ``calls`` maps numbers to names, whether they are refused, and the places of their paths.
    ``note`` is called once for each different call and path, at most 64 times.
    """

    def __init__(
        self,
        listener: int,
        *,
        calls: "Mapping[int, Call]",
        writable: bytes,
        note: "Callable[[str, bytes], None]",
    ) -> None:
        self.listener = listener
        self._calls = calls
        self._writable = writable
        self._note = note
        self._noted: set[tuple[str, bytes]] = set()

    def answer(self) -> None:
        """Take one report and answer it."""
        asked = buffer(80)
        try:
            ioctl(self.listener, _NOTIF_RECV, asked)
        except OSError:
            # The caller died in the meantime.
            return
        raw = asked.raw
        pid, call = number(raw[8:12]), number(raw[16:20])
        name, refused, places = self._calls.get(call, (f"call-{call}", True, ()))
        # Error and flags. SECCOMP_USER_NOTIF_FLAG_CONTINUE is safe here, whatever the memory holds
        # by then: Landlock decides, on the kernel's own copy of the path.
        verdict = words(-_EPERM, 0, width=4) if refused else words(0, 1, width=4)
        arguments = [number(raw[32 + 8 * i : 40 + 8 * i]) for i in range(6)]
        for folder, place in places:
            low = _AT_FDCWD if folder < 0 else arguments[folder] & 0xFFFFFFFF
            path = _path(pid, low, arguments[place] if place >= 0 else None)
            if not self._is_harmless(path):
                self._note_once(name, path)
        if not places:
            self._note_once(name, b"")
        try:
            ioctl(self.listener, _NOTIF_SEND, buffer(24, raw[:8] + words(0) + verdict))
        except OSError:
            return

    def _note_once(self, name: str, path: bytes) -> None:
        path = path[:_MAX_PATH_BYTES]
        if (name, path) not in self._noted and len(self._noted) < _MAX_NOTED:
            self._noted.add((name, path))
            self._note(name, path)

    def _is_harmless(self, path: bytes) -> bool:
        """A write that is allowed, or that can only reach a stream which is open already."""
        if path.startswith((self._writable + b"/", b"/dev/fd/", b"/proc/self/fd/")):
            return True
        # bash opens /dev/tty at every start.
        return path in (b"/dev/null", b"/dev/tty", b"/dev/stdout", b"/dev/stderr")


def _path(pid: int, folder: int, place: int | None) -> bytes:
    """The path that the caller's memory names, made absolute; ``?`` where it cannot be read.

    With no place in memory it is the path of the descriptor ``folder``.
    """
    try:
        if place is None:
            return posix.readlink(f"/proc/{pid}/fd/{folder}".encode())
        fd = posix.open(f"/proc/{pid}/mem", posix.O_RDONLY | _O_CLOEXEC)
        try:
            path = posix.pread(fd, 4096, place).split(b"\0")[0]
        finally:
            posix.close(fd)
        if not path.startswith(b"/"):
            here = "cwd" if folder == _AT_FDCWD else f"fd/{folder}"
            path = posix.readlink(f"/proc/{pid}/{here}".encode()) + b"/" + path
    except (OSError, OverflowError):
        return b"?"
    parts: list[bytes] = []
    for part in path.split(b"/"):
        if part == b"..":
            parts = parts[:-1]
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/" + b"/".join(parts)
