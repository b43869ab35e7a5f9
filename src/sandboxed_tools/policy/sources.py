"""Where the layers come from, and when they are read again."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.consent import Consents
from sandboxed_tools.policy.environment import environment_layer
from sandboxed_tools.policy.layers import Layer, MergedPolicy, layer_of, merge_layers
from sandboxed_tools.policy.policy_files import (
    ORGANISATION_FILE,
    PROJECT_FILE,
    PolicyFile,
    Signature,
    read_operator_file,
    read_project_file,
    signature_at,
    user_file,
)
from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.workspace import WorkspaceRoot

__all__ = ["LayeredPolicy"]


class LayeredPolicy:
    """The policy of all layers, as it is at this moment. Safe to share between threads.

    Files are looked at on every :meth:`current` and read again when they changed; variables are
    read once, here.

    Args:
        session: what the program itself states; only fields that it sets count.
        root: the workspace, for the project's file; without one there is no such layer.
        organisation, user: where these files are; the usual places when omitted.
        consents: what people agreed to; those in the state folder when omitted.

    Raises:
        ConfigurationError: a variable with our prefix is unknown or cannot be used.
    """

    def __init__(
        self,
        session: Policy | Mapping[str, Any] | None = None,
        *,
        root: WorkspaceRoot | None = None,
        organisation: Path = ORGANISATION_FILE,
        user: Path | None = None,
        consents: Consents | None = None,
    ) -> None:
        self._session = _session_layer(session)
        self._root = root
        self._organisation = organisation
        self._user = user or user_file()
        self._consents = consents or Consents()
        self._environment = environment_layer()
        self._lock = threading.Lock()
        self._seen: tuple[Signature | None, ...] | None = None
        self._merged: MergedPolicy | None = None

    def in_workspace(self, root: WorkspaceRoot) -> LayeredPolicy:
        """The same sources, and the project's file of a workspace."""
        bound = LayeredPolicy.__new__(LayeredPolicy)
        bound.__dict__.update(self.__dict__)
        bound._root = root
        bound._lock = threading.Lock()
        bound._seen = bound._merged = None
        return bound

    @property
    def project_file(self) -> PolicyFile | None:
        """The project's file as it is now, for showing it before a person agrees to it.

        Raises:
            ConfigurationError: as :meth:`current`.
        """
        return None if self._root is None else read_project_file(self._root)

    def agree(self, file: PolicyFile) -> None:
        """Remember that a person agreed to this file, as it was read; it may have changed since.

        Raises:
            ConfigurationError: there is no workspace, or the consent cannot be remembered.
        """
        if self._root is None:
            raise ConfigurationError("There is no workspace whose file could be agreed to.")
        self._consents.give(file, workspace=self._root.path)

    def current(self) -> MergedPolicy:
        """What holds now.

        Raises:
            ConfigurationError: a file is malformed, unreadable, a symlink, or others could write
                it; or it says what its layer may not say. Nothing may be called then.
        """
        with self._lock:
            seen = self._signatures()
            if self._merged is not None and seen == self._seen:
                return self._merged
            merged, is_settled = self._read()
            self._merged = merged
            self._seen = seen if is_settled else None
            return merged

    def _signatures(self) -> tuple[Signature | None, ...]:
        root = self._root
        project = None if root is None else signature_at(PROJECT_FILE, dir_fd=root.tree.fd)
        return (
            signature_at(self._organisation),
            None if self._user is None else signature_at(self._user),
            project,
            # Without a file there is nothing that anybody could have agreed to.
            None if project is None else self._consents.signature(),
        )

    def _read(self) -> tuple[MergedPolicy, bool]:
        mine = frozenset({0, os.geteuid()})
        # A program that names another place than the system's vouches for it.
        is_system = self._organisation == ORGANISATION_FILE
        theirs = frozenset({0}) if is_system else mine
        files = {
            "organisation": read_operator_file(self._organisation, owners=theirs),
            "user": None if self._user is None else read_operator_file(self._user, owners=mine),
            "project": self.project_file,
        }
        layers: list[Layer] = [
            layer_of(name, file.source, file.values)  # type: ignore[arg-type]
            for name, file in files.items()
            if file is not None
        ]
        layers += [layer for layer in (self._environment, self._session) if layer is not None]
        project, root = files["project"], self._root
        merged = merge_layers(
            layers,
            has_consent=lambda: (
                project is not None
                and root is not None
                and self._consents.is_given(project, workspace=root.path)
            ),
        )
        return merged, all(file is None or file.is_settled for file in files.values())


def _session_layer(session: Policy | Mapping[str, Any] | None) -> Layer | None:
    if session is None:
        return None
    if isinstance(session, Policy):
        return Layer("session", "session", session)
    return layer_of("session", "session", session)
