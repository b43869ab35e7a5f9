"""What a person agreed to: the project file of one identity with one content, and nothing else.

A consent is a small file in the state folder, whose name is the digest of what was agreed to. A
project file that is edited, replaced, or copied elsewhere has another name, so it has no consent.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.policy_files import PolicyFile, Signature, signature_at
from sandboxed_tools.tool.state import state_dir

__all__ = ["Consents"]

_FOLDER: Final = "consents"


class Consents:
    """The consents of this user; ``folder`` is the state folder when omitted."""

    def __init__(self, folder: Path | None = None) -> None:
        self._base = folder
        self._watched: Path | None = None

    def is_given(self, file: PolicyFile, *, workspace: Path) -> bool:
        """Whether a person agreed to this very file. Never raises: in doubt, no."""
        try:
            path = self._folder() / _name(file, workspace)
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ConfigurationError):
            return False
        try:
            return os.read(fd, 4096) == _record(file, workspace)
        except OSError:
            return False
        finally:
            os.close(fd)

    def give(self, file: PolicyFile, *, workspace: Path) -> None:
        """Remember that a person agreed to this file.

        Raises:
            ConfigurationError: it cannot be remembered.
        """
        folder = self._folder()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            draft = folder / f".{os.getpid()}.{_name(file, workspace)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(draft, flags, 0o600)
            with open(fd, "wb") as opened:
                opened.write(_record(file, workspace))
            os.replace(draft, folder / _name(file, workspace))
        except OSError as error:
            raise ConfigurationError(
                "The consent could not be remembered.", operator_detail=str(error)
            ) from error

    def withdraw(self, file: PolicyFile, *, workspace: Path) -> None:
        """Forget a consent; does nothing when there is none."""
        (self._folder() / _name(file, workspace)).unlink(missing_ok=True)

    def signature(self) -> Signature | None:
        """What tells whether consents were added or withdrawn.

        It decides nothing but when to look again, so the folder is found once: to check the state
        folder with its parents takes 60 µs, and this is asked before every call.
        """
        try:
            self._watched = self._watched or self._folder()
        except ConfigurationError:
            return None
        return signature_at(self._watched)

    def _folder(self) -> Path:
        return (self._base or state_dir()) / _FOLDER


def _record(file: PolicyFile, workspace: Path) -> bytes:
    place = hashlib.sha256(os.fsencode(workspace)).hexdigest()
    digest = hashlib.sha256(file.content).hexdigest()
    return json.dumps([place, file.device, file.inode, digest]).encode()


def _name(file: PolicyFile, workspace: Path) -> str:
    return hashlib.sha256(_record(file, workspace)).hexdigest()
