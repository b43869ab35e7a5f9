"""Numbers of the system calls that the gate's filter names, for both machines it knows.

From the kernel's ``arch/x86/entry/syscalls/syscall_64.tbl`` and, for arm64,
``include/uapi/asm-generic/unistd.h``. ``None`` where a machine has no such call.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

__all__ = ["AUDIT_ARCH", "NEWEST_KNOWN", "NUMBERS", "Machine", "number_of"]

Machine = Literal["x86_64", "aarch64"]

AUDIT_ARCH: Final[Mapping[Machine, int]] = MappingProxyType(
    {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
)
"""What ``seccomp_data.arch`` holds for native calls (include/uapi/linux/audit.h)."""

NEWEST_KNOWN: Final = 462
"""``mseal`` of Linux 6.10: the newest call that was looked at. Later ones do not exist in the gate.

x32 calls on x86_64 have bit 30 set, and so are above it as well.
"""

NUMBERS: Final[Mapping[str, tuple[int | None, int | None]]] = MappingProxyType(
    {
        "acct": (163, 89),
        "add_key": (248, 217),
        "adjtimex": (159, 171),
        "bpf": (321, 280),
        "chmod": (90, None),
        "chown": (92, None),
        "chroot": (161, 51),
        "clock_adjtime": (305, 266),
        "clock_settime": (227, 112),
        "clone": (56, 220),
        "clone3": (435, 435),
        "creat": (85, None),
        "create_module": (174, None),
        "delete_module": (176, 106),
        "fanotify_init": (300, 262),
        "fanotify_mark": (301, 263),
        "fchmod": (91, 52),
        "fchmodat": (268, 53),
        "fchmodat2": (452, 452),
        "fchown": (93, 55),
        "fchownat": (260, 54),
        "fcntl": (72, 25),
        "finit_module": (313, 273),
        "fremovexattr": (199, 16),
        "fsconfig": (431, 431),
        "fsetxattr": (190, 7),
        "fsmount": (432, 432),
        "fsopen": (430, 430),
        "fspick": (433, 433),
        "futimesat": (261, None),
        "init_module": (175, 105),
        "inotify_init": (253, None),
        "inotify_init1": (294, 26),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        "io_uring_setup": (425, 425),
        "ioctl": (16, 29),
        "ioperm": (173, None),
        "iopl": (172, None),
        "ioprio_set": (251, 30),
        "kcmp": (312, 272),
        "kexec_file_load": (320, 294),
        "kexec_load": (246, 104),
        "keyctl": (250, 219),
        "kill": (62, 129),
        "lchown": (94, None),
        "link": (86, None),
        "linkat": (265, 37),
        "lookup_dcookie": (212, 18),
        "lremovexattr": (198, 15),
        "lsetxattr": (189, 6),
        "lsm_set_self_attr": (460, 460),
        "memfd_create": (319, 279),
        "memfd_secret": (447, 447),
        "migrate_pages": (256, 238),
        "mkdir": (83, None),
        "mkdirat": (258, 34),
        "mknod": (133, None),
        "mknodat": (259, 33),
        "mmap": (9, 222),
        "modify_ldt": (154, None),
        "mount": (165, 40),
        "mount_setattr": (442, 442),
        "move_mount": (429, 429),
        "move_pages": (279, 239),
        "mq_getsetattr": (245, 185),
        "mq_notify": (244, 184),
        "mq_open": (240, 180),
        "mq_timedreceive": (243, 183),
        "mq_timedsend": (242, 182),
        "mq_unlink": (241, 181),
        "msgctl": (71, 187),
        "msgget": (68, 186),
        "msgrcv": (70, 188),
        "msgsnd": (69, 189),
        "name_to_handle_at": (303, 264),
        "nfsservctl": (180, 42),
        "open": (2, None),
        "open_by_handle_at": (304, 265),
        "open_tree": (428, 428),
        "openat": (257, 56),
        "openat2": (437, 437),
        "perf_event_open": (298, 241),
        "personality": (135, 92),
        "pidfd_getfd": (438, 438),
        "pidfd_send_signal": (424, 424),
        "pivot_root": (155, 41),
        "prlimit64": (302, 261),
        "process_madvise": (440, 440),
        "process_mrelease": (448, 448),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "ptrace": (101, 117),
        "quotactl": (179, 60),
        "quotactl_fd": (443, 443),
        "reboot": (169, 142),
        "removexattr": (197, 14),
        "rename": (82, None),
        "renameat": (264, 38),
        "renameat2": (316, 276),
        "request_key": (249, 218),
        "rmdir": (84, None),
        "rt_sigqueueinfo": (129, 138),
        "rt_tgsigqueueinfo": (297, 240),
        "sched_setaffinity": (203, 122),
        "sched_setattr": (314, 274),
        "sched_setparam": (142, 118),
        "sched_setscheduler": (144, 119),
        "semctl": (66, 191),
        "semget": (64, 190),
        "semop": (65, 193),
        "semtimedop": (220, 192),
        "setdomainname": (171, 162),
        "sethostname": (170, 161),
        "setns": (308, 268),
        "setpriority": (141, 140),
        "settimeofday": (164, 170),
        "setxattr": (188, 5),
        "shmat": (30, 196),
        "shmctl": (31, 195),
        "shmdt": (67, 197),
        "shmget": (29, 194),
        "socket": (41, 198),
        "socketpair": (53, 199),
        "swapoff": (168, 225),
        "swapon": (167, 224),
        "symlink": (88, None),
        "symlinkat": (266, 36),
        "sysfs": (139, None),
        "syslog": (103, 116),
        "tgkill": (234, 131),
        "tkill": (200, 130),
        "truncate": (76, 45),
        "umount2": (166, 39),
        "unlink": (87, None),
        "unlinkat": (263, 35),
        "unshare": (272, 97),
        "uselib": (134, None),
        "userfaultfd": (323, 282),
        "ustat": (136, None),
        "utime": (132, None),
        "utimensat": (280, 88),
        "utimes": (235, None),
        "vhangup": (153, 58),
        "vmsplice": (278, 75),
    }
)


def number_of(name: str, machine: Machine) -> int | None:
    """The number of the call on this machine, ``None`` where it has none.

    Raises:
        KeyError: the table does not know the call.
    """
    return NUMBERS[name][0 if machine == "x86_64" else 1]
