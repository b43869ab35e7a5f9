"""The layers of one overlay view: the way down to the workspace, and the folder of the changes."""

from __future__ import annotations

import os

from sandboxed_tools.tool.mounts import ContainerUser, Mount
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.idmap import IdMap, mount_folder
from sandboxed_tools.workspace.overlay import read_only_options, writable_options
from sandboxed_tools.workspace.view_folder import ViewFolder
from sandboxed_tools.workspace.view_source import Source

__all__ = ["NoOverlay", "lead_to_held", "lead_to_workspace", "make_upper", "overlay_mount"]


class NoOverlay(Exception):
    """Why an overlay cannot be had, for the operator."""


def lead_to_workspace(folder: ViewFolder, source: Source, user: ContainerUser) -> None:
    """Make ``folder.lower`` lead to the workspace under a name that mount options can carry."""
    if os.geteuid() != 0:
        folder.lower.symlink_to(source.path)
        return
    folder.lower.mkdir(mode=0o700)
    ids = IdMap(source.info.st_uid, source.info.st_gid, user.uid, user.gid)
    try:
        mount_folder(source.fd, folder.lower, ids=ids)
    except OSError as error:
        raise NoOverlay(f"the workspace cannot be mounted with other owners: {error}") from error


def lead_to_held(
    folder: ViewFolder, source: Source, user: ContainerUser, held: tuple[str, ...]
) -> tuple[str, ...]:
    """Paths of held change sets as layers, topmost first, shown as the container's user's."""
    store = ChangeStore()
    paths = []
    for index, change_set_id in enumerate(reversed(held)):
        upper = store.upper(change_set_id)
        if os.geteuid() != 0:
            paths.append(str(upper))
            continue
        place = folder.held(index)
        place.mkdir(mode=0o700)
        ids = IdMap(source.info.st_uid, source.info.st_gid, user.uid, user.gid)
        fd = os.open(upper, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            mount_folder(fd, place, ids=ids)
        except OSError as error:
            raise NoOverlay(f"held changes cannot be mounted: {error}") from error
        finally:
            os.close(fd)
        paths.append(str(place))
    return tuple(paths)


def make_upper(folder: ViewFolder, source: Source, user: ContainerUser) -> None:
    """Make the layer of the changes; its attributes are those that the workspace will show."""
    folder.make_work()
    folder.upper.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(folder.work, user.uid, user.gid)
        os.chown(folder.upper, user.uid, user.gid)
    folder.upper.chmod(source.info.st_mode & 0o777)
    os.utime(folder.upper, ns=(source.info.st_atime_ns, source.info.st_mtime_ns))


def overlay_mount(
    folder: ViewFolder, targets: tuple[str, ...], *, held: tuple[str, ...], writable: bool
) -> Mount:
    """The mount that the engine is asked for; the workspace is always its lowest layer."""
    if not writable:
        # The second layer is only there because the kernel asks for two.
        lowers = (*held, str(folder.lower), str(folder.empty))
        return Mount("overlay", targets, lowers=lowers, options=read_only_options())
    privileged = os.geteuid() == 0
    return Mount(
        "overlay",
        targets,
        lowers=(*held, str(folder.lower)),
        upper=str(folder.upper),
        work=str(folder.work),
        read_only=False,
        options=writable_options(privileged=privileged, volatile=privileged),
    )
