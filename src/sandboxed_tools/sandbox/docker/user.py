"""Which numeric user a container runs as."""

from __future__ import annotations

import os
import secrets

from sandboxed_tools.sandbox.contract import ContainerUser

__all__ = ["FIRST_UID", "LAST_UID", "choose_user"]

FIRST_UID = 0x7000_0000
LAST_UID = 0x7FFF_FFFE
"""Own UIDs lie here: above anything that useradd, LDAP and subuid ranges give out, and below 2**31,
where old tools see a negative number."""


FIRST_MAPPED_UID = 20_000
LAST_MAPPED_UID = 59_999
"""The same for an engine that maps users: its range has 65,536 of them (subuid(5))."""


def choose_user(*, is_mapped: bool = False) -> ContainerUser:
    """The user for one container; never 0. ``is_mapped``: the engine has a user namespace.

    A client that is not root runs containers as itself, because only it may then write to its
    workspace. A root client gives each container a UID of its own, because the kernel counts
    inotify instances, pending signals, pipes and message queues for a UID, not for a container.
    """
    uid = os.geteuid()
    if uid != 0:
        return ContainerUser(uid=uid, gid=os.getegid() or uid)
    first, last = (FIRST_MAPPED_UID, LAST_MAPPED_UID) if is_mapped else (FIRST_UID, LAST_UID)
    own = first + secrets.randbelow(last - first + 1)
    return ContainerUser(uid=own, gid=own)
