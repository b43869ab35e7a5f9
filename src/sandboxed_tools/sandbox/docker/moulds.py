"""From a spec to the mould of its containers: the image by id, and where the launcher comes from.

Asking the engine costs more than a warm call, so answers are kept for a moment, and refreshed in
the background while calls go on.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sandboxed_tools.errors import ImageRefused, ImageUnavailable, SandboxUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.errands import Errands
from sandboxed_tools.sandbox.docker.images import ResolvedImage, resolve_image
from sandboxed_tools.sandbox.docker.launcher_volume import LauncherVolume
from sandboxed_tools.sandbox.docker.runtimes import Runtimes
from sandboxed_tools.tool.limits import Limits

__all__ = ["Moulds", "Moved", "shelf_mould"]

_log = logging.getLogger(__name__)

FRESH_S = 2.0
"""How old an answer may be: so long may a call still get the image that a tag pointed to before."""

REFRESH_S = 1.0
IN_USE_S = 60.0
MAX_UNTOLD = 64
"""Moves that are kept until somebody asks about them."""

_DEFAULTS = Limits()


@dataclass(slots=True)
class _Known:
    image: ResolvedImage
    asked_at: float
    used_at: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A reference that led to the image ``old_id``, and what it leads to now, if anything."""

    reference: str
    old_id: str
    image: ResolvedImage | None


class Moulds:
    """Resolves specs. Safe to share by threads."""

    def __init__(
        self,
        clients: Clients,
        *,
        errands: Errands,
        runtimes: Runtimes | None = None,
        cgroup_parent: str = "",
    ) -> None:
        self._clients = clients
        self._errands = errands
        self._runtimes = runtimes
        self._cgroup_parent = cgroup_parent
        self._launcher_volume = LauncherVolume(clients)
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._moved: deque[Moved] = deque(maxlen=MAX_UNTOLD)
        self._told: set[str] = set()

    def mould(self, spec: SandboxSpec, *, is_wanted: Callable[[], bool] = lambda: True) -> Mould:
        """The mould for ``spec`` now. Blocking, while ``is_wanted``.

        Raises:
            UnsupportedOnEngine: as ``Runtimes.check``, where they are given.
            ImageUnavailable, ImageRefused, EngineFault: as ``resolve_image``.
        """
        runtimes, runtime = self._runtimes, spec.runtime
        if runtimes is not None and runtime is not None and not runtimes.is_known(runtime):
            self._errands.run(lambda: runtimes.check(runtime), is_wanted=is_wanted)
        image = self._resolved(spec.image, is_wanted=is_wanted)
        if _reads_programs(spec.runtime):
            return Mould(spec, image, "none", cgroup_parent=self._cgroup_parent)
        if image.has_launcher:
            return Mould(spec, image, "image", cgroup_parent=self._cgroup_parent)
        volume = self._launcher_volume.name()
        if volume is None:
            self._tell_once(image)
            return Mould(spec, image, "none", cgroup_parent=self._cgroup_parent)
        return Mould(spec, image, "volume", volume, cgroup_parent=self._cgroup_parent)

    def refresh(self) -> Iterable[Moved]:
        """Ask again about images in use.

        Returns each reference that leads to another image since it was last asked here, whoever
        noticed: a call may, after a pause in which nobody asked. An engine that does not answer
        says nothing about its images.
        """
        now = time.monotonic()
        with self._lock:
            due = [
                (reference, known.image.id)
                for reference, known in self._known.items()
                if now - known.used_at < IN_USE_S and now - known.asked_at >= REFRESH_S
            ]
        for reference, old_id in due:
            try:
                self._ask(reference)
            except (ImageUnavailable, ImageRefused) as error:
                _log.info("the image %s cannot be used any more: %s", reference, error)
                with self._lock:
                    self._known.pop(reference, None)
                    self._moved.append(Moved(reference, old_id, None))
            except SandboxUnavailable as error:
                _log.info("the engine cannot be asked about %s: %s", reference, error)
        with self._lock:
            moved = tuple(self._moved)
            self._moved.clear()
        return moved

    def close(self) -> None:
        """Remove what was made for foreign images, once no container uses it any more."""
        self._launcher_volume.close()

    def has_work(self) -> bool:
        """Whether :meth:`refresh` will be needed within the next while."""
        now = time.monotonic()
        with self._lock:
            return any(now - known.used_at < IN_USE_S for known in self._known.values())

    def _resolved(self, reference: str, *, is_wanted: Callable[[], bool]) -> ResolvedImage:
        now = time.monotonic()
        with self._lock:
            known = self._known.get(reference)
            if known is not None:
                known.used_at = now
                if now - known.asked_at < FRESH_S:
                    return known.image
        return self._errands.run(lambda: self._ask(reference), is_wanted=is_wanted)

    def _ask(self, reference: str) -> ResolvedImage:
        asked_at = time.monotonic()
        with self._clients.lend() as api:
            image = resolve_image(api, reference)
        with self._lock:
            known = self._known.get(reference)
            if known is not None and known.asked_at > asked_at:
                return known.image  # somebody asked later, and was answered before
            if known is not None and known.image.id != image.id:
                self._moved.append(Moved(reference, known.image.id, image))
            used_at = known.used_at if known is not None else asked_at
            self._known[reference] = _Known(image, asked_at, used_at)
        return image

    def _tell_once(self, image: ResolvedImage) -> None:
        with self._lock:
            if image.id in self._told:
                return
            self._told.add(image.id)
        _log.warning(
            "the image %s runs without our launcher, because the launcher image is not on the "
            "engine: no figures, no warm start; build it with 'sandboxed-tools images build'",
            image.reference,
        )


def _reads_programs(runtime: str | None) -> bool:
    """Whether the runtime cannot start an execute-only program.

    gVisor refuses one that its user may not read ("failed to load", release 20240729), and a
    launcher that can be read protects nothing: there the engine alone is asked.
    """
    return runtime is not None and runtime.startswith("runsc")


def shelf_mould(mould: Mould) -> Mould:
    """The mould without what makes no difference to the container: the limits that are kept by the
    client and the launcher travel with the command."""
    limits = _shelf_limits(mould.spec.limits)
    return replace(mould, spec=replace(mould.spec, limits=limits))


@functools.lru_cache(maxsize=64)
def _shelf_limits(limits: Limits) -> Limits:
    return limits.model_copy(
        update={
            "wall_s": _DEFAULTS.wall_s,
            "idle_s": None,
            "output_kept_bytes": _DEFAULTS.output_kept_bytes,
            "output_total_bytes": _DEFAULTS.output_total_bytes,
            "file_bytes": _DEFAULTS.file_bytes,
            "changes_bytes": _DEFAULTS.changes_bytes,
            "changes_entries": _DEFAULTS.changes_entries,
        }
    )
