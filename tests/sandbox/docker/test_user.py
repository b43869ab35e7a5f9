from __future__ import annotations

import os

import pytest

from sandboxed_tools.sandbox.docker.user import FIRST_UID, LAST_UID, choose_user


def test_root_client_gives_every_container_a_uid_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    users = {choose_user() for _ in range(200)}
    assert len(users) == 200
    assert all(FIRST_UID <= one.uid <= LAST_UID and one.gid == one.uid for one in users)
    assert all(0 < choose_user(is_mapped=True).uid < 65_536 for _ in range(200))


def test_other_clients_run_containers_as_themselves_but_never_in_group_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 0)
    assert (choose_user().uid, choose_user().gid) == (1000, 1000)
