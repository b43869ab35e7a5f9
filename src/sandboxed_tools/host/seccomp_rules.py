"""What the gate's seccomp filter refuses, and what it reports.

Landlock decides about files, TCP, signals and abstract sockets. This filter closes what Landlock
leaves open: metadata (mode, owner, times, attributes), every other kind of socket, other processes,
clocks, mounts, and kernel interfaces that a command that only looks has no use for. It is a list of
refusals over a list of known calls: a call newer than the list does not exist in the gate.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from sandboxed_tools.host.bpf import NOTIFY, Condition, Rule, assemble, fail_with
from sandboxed_tools.host.syscalls import Machine

__all__ = ["REFUSED", "WATCHED", "filter_program"]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


REFUSED: Final = _names(
    """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
    setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr mknod mknodat
    ptrace process_vm_readv process_vm_writev kcmp process_madvise process_mrelease
    pidfd_getfd pidfd_send_signal migrate_pages move_pages
    mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree
    mount_setattr unshare setns swapon swapoff reboot sethostname setdomainname
    acct quotactl quotactl_fd vhangup
    init_module finit_module delete_module create_module kexec_load kexec_file_load
    bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    keyctl add_key request_key settimeofday clock_settime clock_adjtime adjtimex
    iopl ioperm modify_ldt lookup_dcookie nfsservctl uselib lsm_set_self_attr vmsplice
    name_to_handle_at open_by_handle_at fanotify_init fanotify_mark memfd_create memfd_secret
    shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    """
)
"""Calls that fail with EPERM whatever their arguments.

``memfd_create`` is among them because an anonymous file lies on no path that Landlock knows, so it
could be executed; ``open_by_handle_at`` because it opens without a path.
"""

WATCHED: Final = _names(
    """
    creat openat2 mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat
    symlink symlinkat truncate
    """
)
"""Calls that Landlock decides about; the supervisor only notes what was attempted."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_AF_UNIX, _AF_NETLINK, _NETLINK_ROUTE, _NETLINK_SOCK_DIAG = 1, 16, 0, 4
# What glibc asks for when it looks for a name service cache, on every ls -l (nscd/nscd_helper.c).
_NAME_CACHE_SOCKET = 1 | os.O_CLOEXEC | os.O_NONBLOCK

# CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}. CLONE_NEWTIME lies in the byte of the exit signal and
# means nothing to clone(2).
_NEW_NAMESPACES: Final = 0x7E020000

# Questions about a terminal, a pipe or a file's flags. Anything else could change something through
# a descriptor that is open for reading only: FS_IOC_SETFLAGS, BTRFS_IOC_SNAP_CREATE, FIFREEZE, …
_IOCTLS: Final = (
    0x5401,  # TCGETS
    0x540F,  # TIOCGPGRP
    0x5413,  # TIOCGWINSZ
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
    0x5460,  # FIOQSIZE
    0x80086601,  # FS_IOC_GETFLAGS
    0x80087601,  # FS_IOC_GETVERSION
    0x801C581F,  # FS_IOC_FSGETXATTR
)

# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SET_RW_HINT, F_SET_FILE_RW_HINT: signals
# to others, stalls for others who open the file, and hints that stay with it.
_FCNTLS: Final = (8, 10, 15, 1024, 1026, 1036, 1038)


# SYSLOG_ACTION_READ_ALL, SIZE_UNREAD, SIZE_BUFFER
_SYSLOG_QUESTIONS: Final = (3, 9, 10)


def filter_program(
    *, machine: Machine, landlock_abi: int, notify: bool, refuses_truncation: bool = False
) -> bytes:
    """The filter as bytes for ``seccomp(2)``.

    ``landlock_abi`` says which Landlock rights are missing and must be made up for here;
    ``refuses_truncation`` that the one to truncate is, though the ABI knows it.
    ``notify`` reports refusals and attempts to a supervisor, which must answer; without it refused
    calls fail at once and nothing is reported.
    """
    refuse = NOTIFY if notify else fail_with(errno.EPERM)
    refuses_truncation = refuses_truncation or landlock_abi < 3
    rules = _opening(notify=notify, refuses_truncation=refuses_truncation)
    rules += _sockets(refuse) + _processes(refuse) + _descriptors(refuse)
    rules += [Rule(call, refuse) for call in REFUSED]
    if refuses_truncation:
        # Not by notification: the supervisor lets watched calls go on to Landlock.
        rules.append(Rule("truncate", fail_with(errno.EPERM)))
    if landlock_abi < 6:
        # Without Landlock's signal scope a signal could reach any process of this user.
        signals = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
        rules += [Rule(call, refuse) for call in signals]
    if notify:
        rules += [Rule(call, NOTIFY) for call in WATCHED]
    return assemble(rules, machine=machine)


def _opening(*, notify: bool, refuses_truncation: bool) -> list[Rule]:
    rules: list[Rule] = []
    for call, flags in (("openat", 2), ("open", 1)):
        if refuses_truncation:
            # Truncation by a descriptor that is open for reading only: no right covers it there.
            masks = os.O_ACCMODE | os.O_TRUNC
            cut = Condition(flags, (os.O_TRUNC,), mask=masks)
            rules.append(Rule(call, fail_with(errno.EPERM), (cut,)))
        if notify:
            reads_only = Condition(flags, (0,), mask=_WRITES, negated=True)
            rules.append(Rule(call, NOTIFY, (reads_only,)))
    if refuses_truncation:
        # Its flags lie in memory, where a filter cannot look. glibc and the shell do not use it.
        rules.append(Rule("openat2", fail_with(errno.ENOSYS)))
    return rules


def _sockets(refuse: int) -> list[Rule]:
    return [
        Rule(
            "socket",
            fail_with(errno.EACCES),
            (Condition(0, (_AF_UNIX,)), Condition(1, (_NAME_CACHE_SOCKET,))),
        ),
        Rule("socket", refuse, (Condition(0, (_AF_NETLINK,), negated=True),)),
        # ss(8) asks this first and then reads /proc/net.
        Rule("socket", fail_with(errno.EPERM), (Condition(2, (_NETLINK_SOCK_DIAG,)),)),
        Rule("socket", refuse, (Condition(2, (_NETLINK_ROUTE,), negated=True),)),
        Rule("socketpair", refuse, (Condition(0, (_AF_UNIX,), negated=True),)),
    ]


def _processes(refuse: int) -> list[Rule]:
    """Priorities, affinity and limits of itself only; no new namespaces."""
    return [
        Rule("clone", refuse, (Condition(0, (0,), mask=_NEW_NAMESPACES, negated=True),)),
        # A watch would tell what happens in folders that cannot be read. tail then polls.
        Rule("inotify_init", fail_with(errno.ENOSYS)),
        Rule("inotify_init1", fail_with(errno.ENOSYS)),
        # Its flags lie in memory; glibc falls back to clone.
        Rule("clone3", fail_with(errno.ENOSYS)),
        Rule("setpriority", refuse, (Condition(0, (0,), negated=True),)),
        Rule("setpriority", refuse, (Condition(1, (0,), negated=True),)),
        Rule("ioprio_set", refuse, (Condition(0, (1,), negated=True),)),
        Rule("ioprio_set", refuse, (Condition(1, (0,), negated=True),)),
        *(
            Rule(call, refuse, (Condition(0, (0,), negated=True),))
            for call in (
                "sched_setaffinity",
                "sched_setscheduler",
                "sched_setparam",
                "sched_setattr",
                "prlimit64",
            )
        ),
        # dmesg may read the kernel's messages where the kernel lets everybody; not clear them.
        Rule("syslog", refuse, (Condition(0, _SYSLOG_QUESTIONS, negated=True),)),
        Rule("personality", refuse, (Condition(0, (0, 0xFFFFFFFF), negated=True),)),
    ]


def _descriptors(refuse: int) -> list[Rule]:
    shared_and_anonymous = 0x21
    return [
        # Memory that RLIMIT_DATA does not count.
        Rule(
            "mmap",
            fail_with(errno.ENOMEM),
            (Condition(3, (shared_and_anonymous,), mask=shared_and_anonymous),),
        ),
        Rule("ioctl", fail_with(errno.ENOTTY), (Condition(1, _IOCTLS, negated=True),)),
        Rule("fcntl", refuse, (Condition(1, _FCNTLS),)),
    ]
