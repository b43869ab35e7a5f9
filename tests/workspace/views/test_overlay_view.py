"""A container works on a workspace whose files it neither owns nor can change."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from sandboxed_tools.errors import InvalidWorkspace, UnsupportedOnEngine
from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import OpenView, PlainContainer, give_to, left_in, picture

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts with other owners need root"),
]

WORK = """
set -e
test "$(cat secret.txt)" = secret
sed -i s/secret/public/ secret.txt
cat secret.txt
echo new > src/new.txt
rm src/deep/data.bin
mkdir -p src/other/below
rm link; ln -s /etc/passwd link
chmod 4755 run.sh
test -w src && ./run.sh
"""


@pytest.mark.parametrize("owner", [0, 1234])
@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_edits_creates_and_deletes_over_private_files_and_the_host_stays_identical(
    owner: int, choice: str, workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    give_to(workspace, owner)
    before = picture(workspace)
    view = open_view(workspace, view=choice)
    outcome = container.run(view, WORK)
    assert outcome.output.split() == ["public", "ran"]
    assert outcome.code == 0
    assert view.kind == choice
    assert picture(workspace) == before
    assert view.settle(ended_by_itself=True).decision == "discarded"
    view.close()
    assert picture(workspace) == before


def test_stands_at_its_own_path_and_at_workspace(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    view = open_view(workspace)
    assert view.cwd == str(workspace)
    script = f"pwd; echo one > a; cat /workspace/a; echo two > /workspace/a; cat {workspace}/a"
    outcome = container.run(view, script)
    assert outcome.output.split() == [str(workspace), "one", "two"]


def test_everything_seems_to_belong_to_the_container_user(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    give_to(workspace, 1234)
    outcome = container.run(open_view(workspace), "stat -c %u:%g . secret.txt src; id -u")
    assert set(outcome.output.split()) == {"1879052852:1879052852", "1879052852"}


def test_files_of_third_parties_keep_their_owner(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    give_to(workspace, 1234)
    os.chown(workspace / "secret.txt", 777, 777)
    outcome = container.run(open_view(workspace), "stat -c %u secret.txt; cat secret.txt")
    assert outcome.output.startswith("777\n")
    assert "Permission denied" in outcome.output


def test_the_root_of_the_workspace_keeps_its_mode_and_time(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    workspace.chmod(0o750)
    os.utime(workspace, (1_000_000_000, 1_000_000_000))
    outcome = container.run(open_view(workspace), "stat -c '%a %Y' .")
    assert outcome.output.split() == ["750", "1000000000"]


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_a_read_only_view_shows_private_files_and_takes_no_change(
    choice: str, workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    before = picture(workspace)
    view = open_view(workspace, access="read_only", view=choice)
    script = "cat secret.txt; (echo x > new) 2>&1; rm -f secret.txt; chmod 777 src; touch src"
    outcome = container.run(view, script)
    assert outcome.output.startswith("secret\n")
    assert outcome.output.count("Read-only file system") == 4
    assert picture(workspace) == before
    assert view.settle(ended_by_itself=True).decision == "none"


@pytest.mark.parametrize("access", ["read_only", "copy_on_write"])
def test_sockets_and_fifos_of_the_host_lead_nowhere(
    access: str, workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    os.mkfifo(workspace / "fifo")
    (workspace / "fifo").chmod(0o666)
    reader = os.open(workspace / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace / "socket"))
        server.listen()
        (workspace / "socket").chmod(0o777)
        connect = "import socket; socket.socket(socket.AF_UNIX).connect('socket')"
        script = f'python3 -c "{connect}"; timeout 1 sh -c "echo out > fifo"; true'
        outcome = container.run(open_view(workspace, access=access), script)
    try:
        assert "ConnectionRefusedError" in outcome.output
        assert os.read(reader, 100) == b""
    finally:
        os.close(reader)


def test_set_id_files_and_devices_of_the_workspace_are_dead_inside(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    os.mknod(workspace / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (workspace / "null").chmod(0o666)
    view = open_view(workspace)
    outcome = container.run(view, "cat null; grep ' /workspace ' /proc/self/mounts")
    assert "Permission denied" in outcome.output
    assert "nosuid,nodev" in outcome.output


def test_nothing_of_a_view_can_be_reached_by_other_users(
    workspace: Path, open_view: OpenView, container: PlainContainer, state: Path
) -> None:
    view = open_view(workspace)
    container.run(view, "cp /bin/sh shell; chmod 6777 shell; chmod 777 .")
    for folder in (state, state / "views", *(state / "views").iterdir()):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_uid == os.geteuid()
    planted = next((state / "views").rglob("shell"))
    assert planted.stat().st_mode & stat.S_ISUID
    reached = os.system(f"setpriv --reuid 4321 --clear-groups test -e '{planted}'")
    assert reached != 0


def test_two_views_of_one_workspace_never_see_each_other(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    first, second = open_view(workspace), open_view(workspace)
    container.run(first, "echo one > mine; rm secret.txt")
    assert container.run(second, "ls").output.split() == ["link", "run.sh", "secret.txt", "src"]


def test_usage_counts_what_was_changed_and_not_what_was_there(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    for choice in ("overlay", "copy"):
        view = open_view(workspace, view=choice)
        assert view.usage().entries == 0
        assert view.usage().changed_bytes == 0
        container.run(
            view,
            "head -c 3M /dev/zero | tr '\\0' x > big; mkdir locked; "
            "echo > locked/file; chmod 000 locked",
        )
        usage = view.usage()
        assert usage.entries == 3
        assert 3 * 2**20 <= usage.changed_bytes < 4 * 2**20


@pytest.mark.parametrize(
    "name", ["comma,name", "col:on", "a space", "new\nline", "back\\slash", 'qu"ote', "%s", "é"]
)
@pytest.mark.parametrize("access", ["read_only", "copy_on_write"])
def test_names_that_mount_options_cannot_carry(
    name: str, access: str, tmp_path: Path, open_view: OpenView, container: PlainContainer
) -> None:
    root = tmp_path / name
    root.mkdir()
    (root / "file").write_text("content")
    view = open_view(root, access=access)
    assert view.kind == ("overlay" if access == "copy_on_write" else "read_only")
    assert container.run(view, "cat file; pwd").output == f"content{root}\n"


def test_a_name_that_is_not_utf_8_is_found_at_workspace_with_a_note(
    tmp_path: Path, open_view: OpenView, container: PlainContainer
) -> None:
    root = tmp_path / os.fsdecode(b"bad\xff\xfe")
    root.mkdir()
    (root / "file").write_text("content")
    view = open_view(root)
    assert view.cwd == "/workspace"
    assert any("UTF-8" in note for note in view.warnings)
    assert container.run(view, "cat file; pwd").output == "content/workspace\n"


def test_a_symlinked_workspace_stands_at_its_real_path(
    workspace: Path, tmp_path: Path, open_view: OpenView, container: PlainContainer
) -> None:
    (tmp_path / "alias").symlink_to(workspace)
    view = open_view(tmp_path / "alias")
    assert container.run(view, "pwd; cat secret.txt").output == f"{workspace}\nsecret\n"


def test_a_state_folder_that_options_cannot_name_gives_a_copy(
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    container: PlainContainer,
) -> None:
    state = tmp_path / "sta,te:x"
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(state))
    provider = WorkspaceViews()
    with pytest.raises(UnsupportedOnEngine, match="overlay"):
        provider.open(
            WorkspaceMount(source=workspace, view="overlay"), ContainerUser(uid=5000, gid=5000)
        )
    user = ContainerUser(uid=5000, gid=5000)
    view = provider.open(WorkspaceMount(source=workspace), user)
    try:
        assert view.kind == "copy"
        assert any("copy" in note for note in view.warnings)
        assert container.run(view, "cat secret.txt", user=user).output == "secret\n"
    finally:
        view.close()
    assert left_in(state) == []


def test_the_number_of_files_in_the_workspace_makes_no_difference(
    tmp_path: Path, open_view: OpenView, state: Path
) -> None:
    root = tmp_path / "large"
    for index in range(20):
        (root / str(index)).mkdir(parents=True)
        for number in range(500):
            os.mknod(root / str(index) / str(number))
    open_view(root)
    made = next((state / "views").iterdir())
    # What a view is made of: everything else is a mount of the workspace itself.
    assert sorted(path.name for path in made.iterdir()) == ["lower", "upper", "work"]
    assert list((made / "upper").iterdir()) == []


def test_what_is_mounted_inside_the_workspace_is_not_shown_and_said(
    workspace: Path, open_view: OpenView, container: PlainContainer
) -> None:
    inside = workspace / "mounted"
    inside.mkdir()
    assert os.system(f"mount -t tmpfs none '{inside}'") == 0
    try:
        (inside / "hidden").write_text("")
        view = open_view(workspace)
        assert any("mounted" in note for note in view.warnings)
        assert container.run(view, "ls mounted").output == ""
        view.close()
    finally:
        assert os.system(f"umount '{inside}'") == 0


def test_closing_takes_the_mount_away(workspace: Path, views: WorkspaceViews, state: Path) -> None:
    view = views.open(WorkspaceMount(source=workspace), ContainerUser(uid=70000, gid=70000))
    assert str(state) in Path("/proc/self/mountinfo").read_text()
    view.close()
    view.close()
    assert str(state) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("uid", [0, -1])
def test_a_container_never_gets_user_0(uid: int, workspace: Path, views: WorkspaceViews) -> None:
    with pytest.raises(UnsupportedOnEngine):
        views.open(WorkspaceMount(source=workspace), ContainerUser(uid=uid, gid=5))


def test_a_missing_or_forbidden_workspace_leaves_nothing(
    tmp_path: Path, views: WorkspaceViews
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "missing", tmp_path / "file", Path("/"), Path("/etc")):
        with pytest.raises(InvalidWorkspace):
            views.open(WorkspaceMount(source=place), ContainerUser(uid=5000, gid=5000))
