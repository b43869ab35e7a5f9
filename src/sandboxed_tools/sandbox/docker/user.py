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


def choose_user() -> ContainerUser:
    """The user for one container; never 0.

    A client that is not root runs containers as itself, because only it may then write to its
    workspace. A root client gives each container a UID of its own, because the kernel counts
    inotify instances, pending signals, pipes and message queues for a UID, not for a container.
    """
    uid = os.geteuid()
    if uid != 0:
        return ContainerUser(uid=uid, gid=os.getegid() or uid)
    own = FIRST_UID + secrets.randbelow(LAST_UID - FIRST_UID + 1)
    return ContainerUser(uid=own, gid=own)
