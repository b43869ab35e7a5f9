"""What a command in the gate may do to files, as rules for Landlock.

Landlock denies every right that a ruleset handles and no rule grants (landlock(7),
Documentation/userspace-api/landlock.rst). Rights that a kernel does not know yet are left out here
and made up for by the seccomp filter.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

__all__ = [
    "EXECUTE",
    "MINIMUM_ABI",
    "READ",
    "SCOPE_SIGNAL",
    "WRITE_BELOW",
    "WRITE_FILE",
    "PathRule",
    "handled_attributes",
    "known_rights",
    "scope_attributes",
    "system_rules",
]

MINIMUM_ABI: Final = 1

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REMOVE_DIR: Final = 1 << 4
REMOVE_FILE: Final = 1 << 5
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
TRUNCATE: Final = 1 << 14

READ: Final = READ_FILE | READ_DIR
WRITE_BELOW: Final = READ | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR
"""In the private temporary folder: regular files and folders. No links, sockets, FIFOs, devices."""

FILE_RIGHTS: Final = WRITE_FILE | READ_FILE | EXECUTE | TRUNCATE
"""Rights that make sense for something that is no folder; the kernel refuses others with EINVAL."""

SCOPE_ABSTRACT_UNIX: Final = 1 << 0
SCOPE_SIGNAL: Final = 1 << 1
_NET_TCP: Final = 0b11

# Programs and what they load. Not /usr/local: it is where operators put what was never looked at.
_EXECUTE_ROOTS: Final = (
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32"),
    *("/usr/libexec", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
)

# Below /sys, what describes hardware. Not debugfs, tracefs (reading trace_pipe consumes it),
# configfs or firmware variables.
_READ_ROOTS: Final = (
    *("/usr", "/proc", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"),
    *("/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/module"),
    *("/sys/hypervisor", "/sys/fs/cgroup", "/sys/kernel/mm"),
    # What is installed, which is public: dpkg -l, dpkg -L.
    "/var/lib/dpkg",
)

# Each one is readable by everybody on a plain system and holds no secret.
_READ_BELOW_ETC: Final = (
    *("alternatives", "bash_completion.d", "crypto-policies", "debian_version", "default/locale"),
    *("DIR_COLORS", "file/magic", "gai.conf", "group", "host.conf", "hostname", "hosts"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "ldap.conf", "locale.alias"),
    *("locale.conf", "localtime", "lsb-release", "magic", "magic.mime", "mime.types"),
    *("networks", "nsswitch.conf", "os-release", "passwd", "protocols", "redhat-release"),
    *("resolv.conf", "rpc", "services", "shells", "ssl/openssl.cnf", "terminfo", "timezone"),
    *("vconsole.conf", "inputrc", "dpkg/dpkg.cfg", "dpkg/dpkg.cfg.d", "iproute2"),
)


@dataclass(frozen=True, slots=True)
class PathRule:
    """Rights below a path, or on it when it is no folder."""

    path: bytes
    rights: int


def known_rights(abi: int) -> int:
    """Every file right that this ABI can handle, as a mask."""
    newest = 15 if abi >= 5 else 14 if abi >= 3 else 13 if abi >= 2 else 12
    return int((1 << (newest + 1)) - 1)


def handled_attributes(abi: int, *, rights: int) -> bytes:
    """``struct landlock_ruleset_attr`` that handles ``rights``, as long as the ABI has it."""
    fields = [rights]
    if abi >= 4:
        fields.append(_NET_TCP)
    if abi >= 6:
        fields.append(SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL)
    return b"".join(field.to_bytes(8, "little") for field in fields)


def scope_attributes(abi: int) -> bytes:
    """A ruleset that only confines signals; empty where the ABI cannot."""
    if abi < 6:
        return b""
    return b"".join(field.to_bytes(8, "little") for field in (0, 0, SCOPE_SIGNAL))


def system_rules(abi: int) -> tuple[PathRule, ...]:
    """What may be read and executed of this machine, whatever the workspace.

    Paths that are not there are left out. Links are followed when the rule is made.
    """
    known = known_rights(abi)
    rights: dict[str, int] = {"/dev/null": READ_FILE | WRITE_FILE | TRUNCATE}
    for path in _EXECUTE_ROOTS:
        rights[path] = READ | EXECUTE
    for path in (*_READ_ROOTS, *(f"/etc/{name}" for name in _READ_BELOW_ETC)):
        rights[path] = rights.get(path, 0) | READ
    rules: dict[str, int] = {}
    for path, wanted in rights.items():
        real = os.path.realpath(path)
        if os.path.exists(real) and not _leads_elsewhere(path, real):
            granted = wanted if os.path.isdir(real) else wanted & FILE_RIGHTS
            rules[real] = rules.get(real, 0) | (granted & known)
    return tuple(PathRule(os.fsencode(path), mask) for path, mask in rules.items())


def _leads_elsewhere(path: str, real: str) -> bool:
    """Whether a link takes a listed name to something that is not meant by it.

    ``/etc/resolv.conf`` is a link on many systems. A folder that is really
    another one (``/etc/alternatives`` → ``/``) would open that one.
    """
    if path == real or not os.path.isdir(real):
        return False
    return not real.startswith(("/usr/", "/proc/", "/sys/"))
