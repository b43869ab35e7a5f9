"""The child of the supervisor: everything between fork and exec."""

import _signal  # type: ignore[import-not-found]
import posix

from sandboxed_tools.host.supervisor.libc import address, buffer, prctl, syscall, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["become_command", "confine_signals", "reset_signals"]

_O_CLOEXEC, _O_PATH = 0o2000000, 0o10000000
_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 1, 8, 24, 47
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_SIGKILL, _SIGPIPE = 9, 13
_ENOENT = 2


def confine_signals(attributes: bytes) -> None:
    """Let this process and its children signal only processes that are in the same domain."""
    ruleset = syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    posix.close(ruleset)


def reset_signals() -> None:
    """Undo what the client ignores: with SIGCHLD ignored no exit status could be had (wait(2)).

    SIGPIPE stays ignored, for a client that is gone must not end the supervisor.
    """
    for signal in range(1, 65):
        if signal != _SIGPIPE:
            try:
                _signal.signal(signal, _signal.SIG_DFL)
            except (OSError, ValueError):
                # SIGKILL, SIGSTOP, and those that the C library keeps for itself.
                continue


def become_command(told: "dict[str, Any]", *, report: int, go: int, supervisor: int) -> None:
    """Confine this process and execute the command. Never returns.

    On ``report`` goes ``L`` and the listener's number once the filter is on, after which one byte
    is awaited on ``go``; or ``E``, the stage and the errno when something could not be applied.
    """
    stage = "setup"
    try:
        posix.setsid()
        _signal.signal(_SIGPIPE, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
        for resource, limit in told["rlimits"]:
            syscall(told["prlimit64"], 0, resource, words(limit, limit), 0)
        posix.umask(0o077)
        posix.fchdir(told["cwd"])
        _prefer_as_oom_victim()
        stage = "landlock rules"
        ruleset = _ruleset(told)
        stage = "privileges"
        _drop_privileges(told)
        stage = "landlock"
        syscall(_LANDLOCK_RESTRICT, ruleset, 0)
        # Cleared by every change of credentials, so only now.
        prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if posix.getppid() != supervisor:
            posix._exit(126)
        for fd, stream in enumerate(told["streams"]):
            posix.dup2(stream, fd)
        kept = {0, 1, 2, report, go}
        if told["script"] >= 0:
            posix.dup2(told["script"], 3)
            kept.add(3)
        _close_all_but(kept)
        stage = "seccomp"
        listener = _install_filter(told)
        if told["notify"]:
            posix.write(report, b"L" + words(listener, width=4))
            posix.read(go, 1)
            posix.close(listener)
        stage = "exec"
        _execute(told["argv"], told["env"])
    except BaseException as error:  # noqa: BLE001 - this process must not run on unconfined
        code = error.errno if isinstance(error, OSError) and error.errno else 0
        posix.write(report, f"E{stage} {code}".encode())
    finally:
        posix._exit(127)


def _prefer_as_oom_victim() -> None:
    fd = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY | _O_CLOEXEC)
    try:
        posix.write(fd, b"500")
    except OSError:
        # Already higher than that.
        return
    finally:
        posix.close(fd)


def _ruleset(told: "dict[str, Any]") -> int:
    ruleset = syscall(_LANDLOCK_CREATE, told["landlock"], len(told["landlock"]), 0)
    for fd in told["readable"]:
        rule = words(told["folder_rights"]) + words(fd, width=4)
        syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0)
    for path, rights in told["path_rules"]:
        try:
            fd = posix.open(path, _O_PATH | _O_CLOEXEC)
        except OSError:
            # Fewer rules mean fewer rights.
            continue
        syscall(_LANDLOCK_ADD, ruleset, 1, words(rights) + words(fd, width=4), 0)
        posix.close(fd)
    return ruleset


def _drop_privileges(told: "dict[str, Any]") -> None:
    """Leave user 0 and every capability but those that are to be kept; neither can come back."""
    kept: int = told["capabilities"]
    if kept:
        # To become inheritable it must still be in the bounding set (capabilities(7)).
        _set_capabilities(told, permitted=told["permitted"], inheritable=kept)
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            # Beyond the last one, or not ours to drop: no-new-privileges keeps it out of reach.
            break
    if told["uid"] is not None:
        prctl(_PR_SET_KEEPCAPS, 1 if kept else 0, 0, 0, 0)
        posix.setgroups([])
        posix.setresgid(told["gid"], told["gid"], told["gid"])
        posix.setresuid(told["uid"], told["uid"], told["uid"])
    _set_capabilities(told, permitted=kept, inheritable=kept)
    for capability in range(64):
        if kept >> capability & 1:
            # PR_CAP_AMBIENT_RAISE
            prctl(_PR_CAP_AMBIENT, 2, capability, 0, 0)


def _set_capabilities(told: "dict[str, Any]", *, permitted: int, inheritable: int) -> None:
    sets = (permitted, permitted, inheritable)
    content = words(*sets, width=4) + words(*(item >> 32 for item in sets), width=4)
    # _LINUX_CAPABILITY_VERSION_3
    syscall(told["capset"], words(0x20080522, 0, width=4), content)


def _close_all_but(kept: set[int]) -> None:
    low = 0
    for fd in sorted(kept):
        if low < fd:
            posix.closerange(low, fd)
        low = fd + 1
    posix.closerange(low, 1 << 20)


def _install_filter(told: "dict[str, Any]") -> int:
    program = buffer(len(told["filter"]), told["filter"])
    header = words(len(told["filter"]) // 8, address(program))
    # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
    return syscall(told["seccomp"], 1, 8 if told["notify"] else 0, header)


def _execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    places = [argv[0]] if b"/" in argv[0] else [b"/usr/bin/" + argv[0], b"/bin/" + argv[0]]
    code, reason = 127, b"not found"
    for place in places:
        try:
            posix.execve(place, argv, env)
        except OSError as error:
            if error.errno != _ENOENT:
                code, reason = 126, b"cannot be executed here"
    posix.write(2, b"sandboxed-tools: %s: %s\n" % (argv[0], reason))
    posix._exit(code)
