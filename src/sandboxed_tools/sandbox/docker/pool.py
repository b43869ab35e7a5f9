"""Containers made ahead of the call: each is used once, and the shelf is filled up behind it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tenacity

from sandboxed_tools.errors import InvalidWorkspace, SandboxUnavailable
from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.images import ResolvedImage
from sandboxed_tools.sandbox.docker.moulds import Moved, shelf_mould
from sandboxed_tools.sandbox.docker.shelf import MAX_AGE_S, Shelf, ShelfStatus
from sandboxed_tools.sandbox.docker.threads import started_thread

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.contract import ViewProvider

__all__ = ["WARM_LIFETIME_S", "Pool"]

_log = logging.getLogger(__name__)

WARM_LIFETIME_S = MAX_AGE_S + 60
FILLERS = 3
MAX_STANDING = 32
"""Containers that stand ready at once, over all shelves, beside those that were asked for."""

FIRST_FILL_DELAY_S = 0.2
"""A program that makes one call and ends should not start containers that nobody will use."""

WAIT_FOR_FILL_S = 10.0
TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class _Key:
    """What two containers must have in common to replace each other.

    ``folder`` is what the workspace's path leads to; ``version`` what its view would show.
    """

    mould: Mould
    folder: tuple[int, ...] = ()
    version: Hashable = None

    def with_image(self, image: ResolvedImage) -> _Key:
        return replace(self, mould=replace(self.mould, image=image))


@dataclass(slots=True)
class _Order:
    """One container to be made; a void one is counted as failed already."""

    shelf: Shelf
    is_void: bool = False


class Pool:
    """Shelves by mould. Every method may be called from any thread.

    ``make`` starts a warm container (blocking), ``dispose`` gives one away for removal,
    ``before_fill`` may hold a filler while its ``can_wait`` says yes, ``on_tick`` is called about
    every second while there is anything to look after.
    """

    def __init__(
        self,
        *,
        make: Callable[[Mould], Container],
        dispose: Callable[[Container], None],
        views: ViewProvider | None,
        before_fill: Callable[..., None],
        on_tick: Callable[[], bool],
    ) -> None:
        self._make = make
        self._dispose = dispose
        self._views = views
        self._before_fill = before_fill
        self._on_tick = on_tick
        self._changed = threading.Condition()
        self._shelves: dict[_Key, Shelf] = {}
        self._fillers = ThreadPoolExecutor(FILLERS, thread_name_prefix="sandbox-pool-fill")
        self._keeper: threading.Thread | None = None
        self._closed = False

    # ---- for calls ----

    def take(self, mould: Mould, *, is_wanted: Callable[[], bool]) -> Container | None:
        """A waiting container that still lives, or ``None`` when one must be made for the call.

        When as many are being started already as are waited for, one of those comes sooner than a
        new one would.
        """
        key = self._key(mould)
        if key is None:
            return None
        deadline = time.monotonic() + WAIT_FOR_FILL_S
        with self._changed:
            shelf = self._shelf(key)
            shelf.note_use(time.monotonic())
            while True:
                while shelf.ready:
                    container = shelf.ready.popleft()
                    if container.is_waiting:
                        shelf.deaths = 0
                        if not shelf.ready:
                            self._changed.notify_all()  # else the end of this call does it
                        return container
                    shelf.note_death(time.monotonic())
                    self._dispose(container)
                if shelf.filling <= shelf.waiting or self._closed:
                    return None
                shelf.waiting += 1
                try:
                    self._changed.wait(0.1)
                finally:
                    shelf.waiting -= 1
                if time.monotonic() >= deadline or not is_wanted():
                    return None

    def called(self, mould: Mould, *, view_kind: str) -> None:
        """A call with this mould is over: from now on containers may be made ahead of the next."""
        key = self._key(mould)
        if key is None:
            return
        with self._changed:
            shelf = self._shelf(key)
            now = time.monotonic()
            self._keep()
            if shelf.is_usable and shelf.active_at <= now:
                if shelf.deficit(now):
                    self._changed.notify_all()
                return
            # A copy of the workspace would be of the past by the time it is used.
            shelf.is_usable = view_kind != "copy"
            shelf.active_at = min(shelf.active_at, now + FIRST_FILL_DELAY_S)
            self._changed.notify_all()

    def prewarm(self, mould: Mould, count: int, *, timeout_s: float) -> int:
        """Have ``count`` containers stand ready from now on; waits, returns how many of them do.

        Raises:
            SandboxUnavailable: they cannot be made.
        """
        key = self._key(mould)
        if key is None:
            raise SandboxUnavailable("containers of this kind cannot be made ahead of the call")
        deadline = time.monotonic() + timeout_s
        with self._changed:
            shelf = self._shelf(key)
            shelf.pinned = count
            shelf.active_at = 0.0
            failures = shelf.failures
            self._changed.notify_all()
            while len(shelf.ready) < count and shelf.is_usable and not self._closed:
                self._keep()
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, 1.0))
                if shelf.failures > failures:
                    raise SandboxUnavailable(
                        "no containers could be made ahead of the call",
                        operator_detail=shelf.last_error,
                    )
            return min(count, len(shelf.ready))  # recent calls may have more stand here

    def replace_image(self, moved: Moved) -> None:
        """Empty the shelves of an image that its reference does not lead to any more.

        The shelves of where it leads now are filled in their place. Those of another reference,
        which may lead to the same image as before, are left alone.
        """
        image = moved.image
        with self._changed:
            for key, shelf in list(self._shelves.items()):
                old = shelf.mould.image
                if (old.reference, old.id) != (moved.reference, moved.old_id):
                    continue
                del self._shelves[key]
                shelf.is_usable = False
                for container in shelf.ready:
                    self._dispose(container)
                shelf.ready.clear()
                if image is not None:
                    successor = self._shelf(key.with_image(image))
                    successor.pinned = max(successor.pinned, shelf.pinned)
                    successor.active_at = min(successor.active_at, shelf.active_at)
                    successor.used_at = max(successor.used_at, shelf.used_at)
            self._changed.notify_all()

    def status(self) -> list[ShelfStatus]:
        now = time.monotonic()
        with self._changed:
            return [ShelfStatus.of(shelf, now=now) for shelf in self._shelves.values()]

    def close(self) -> None:
        """Give every container away and wait for those that are being made."""
        with self._changed:
            self._closed = True
            for shelf in self._shelves.values():
                for container in shelf.ready:
                    self._dispose(container)
                shelf.ready.clear()
            keeper = self._keeper
            self._changed.notify_all()
        self._fillers.shutdown(wait=True, cancel_futures=True)
        if keeper is not None:
            keeper.join(10)

    # ---- keys ----

    def _key(self, mould: Mould) -> _Key | None:
        """The shelf's key; ``None`` when such containers are never made ahead."""
        if mould.launcher == "none" or mould.spec.joins_services:
            return None  # a network of its own belongs to one call, and costs services a place
        workspace = mould.spec.workspace
        if workspace is None:
            return _Key(shelf_mould(mould))
        if workspace.view == "copy":
            return None
        version: Callable[..., Hashable] | None = getattr(self._views, "version", None)
        if version is None and workspace.session is not None:
            return None  # a view made before the session's last changes would not show them
        try:
            folder = os.stat(workspace.source)
        except OSError:
            return None
        return _Key(
            shelf_mould(mould),
            (folder.st_dev, folder.st_ino, folder.st_uid, folder.st_gid),
            version(workspace) if version is not None else None,
        )

    def _shelf(self, key: _Key) -> Shelf:
        shelf = self._shelves.get(key)
        if shelf is None:
            shelf = Shelf(key.mould)
            for other in [s for k, s in self._shelves.items() if k.mould == key.mould]:
                # Another folder at this path, or changes that have passed: every change of a
                # session would leave containers behind that no call will ask for.
                shelf.succeed(other)
                self._drop(other)
            self._shelves[key] = shelf
        return shelf

    # ---- filling ----

    def _keep(self) -> None:
        """Start the keeper when there is none."""
        if self._keeper is not None or self._closed:
            return
        self._keeper = started_thread(
            self._run_keeper,
            name="sandbox-pool",
            log=_log,
            without="nothing can be made ahead of calls",
        )

    def _run_keeper(self) -> None:
        next_tick = 0.0
        while True:
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + TICK_S
                if not self._tick(now):
                    return
            with self._changed:
                if self._closed:
                    return
                self._start_fillers(now)
                begins = [
                    at - now
                    for shelf in self._shelves.values()
                    for at in (shelf.active_at, shelf.retry_at, shelf.revive_at)
                    if at > now
                ]
                self._changed.wait(max(0.001, min([next_tick - now, *begins])))

    def _tick(self, now: float) -> bool:
        """Look after everything once; ``False`` when the keeper may go."""
        try:
            has_work = self._on_tick()
        except Exception:  # noqa: BLE001  logged with its traceback
            # This thread must live on: without it nothing is replaced, and nothing is given up.
            _log.exception("the pool could not look after itself")
            has_work = True
        with self._changed:
            for key, shelf in list(self._shelves.items()):
                for container in shelf.surplus(now):
                    self._dispose(container)
                if shelf.is_over(now):
                    del self._shelves[key]
            if self._shelves or has_work:
                return True
            self._keeper = None
            return False

    def _start_fillers(self, now: float) -> None:
        for shelf in self._shelves.values():
            busy = sum(other.filling for other in self._shelves.values())
            for _ in range(min(shelf.deficit(now), max(0, FILLERS - busy))):
                if not self._has_room(shelf):
                    break
                self._start_filler(shelf)

    def _start_filler(self, shelf: Shelf) -> None:
        order = _Order(shelf)
        shelf.filling += 1
        try:
            self._fillers.submit(self._fill, order)
        except RuntimeError as error:
            # No thread can be started. The executor has queued the order all the same, and another
            # thread may come to it.
            order.is_void = True
            shelf.filling -= 1
            self._note_failure(shelf, error)

    def _has_room(self, shelf: Shelf) -> bool:
        """Whether one more may be made: what was used longest ago makes room, if it must."""
        standing = sum(len(other.ready) + other.filling for other in self._shelves.values())
        if standing < MAX_STANDING or shelf.pinned:
            return True
        others = [s for s in self._shelves.values() if s.ready and not s.pinned and s is not shelf]
        oldest = min(others, key=lambda other: other.used_at, default=None)
        if oldest is None or oldest.used_at >= shelf.used_at:
            return False
        self._dispose(oldest.ready.popleft())
        return True

    def _fill(self, order: _Order) -> None:
        shelf = order.shelf
        with self._changed:
            if order.is_void:
                return
        container: Container | None = None
        error: Exception | None = None
        try:
            self._before_fill(can_wait=shelf.is_stocked)
            if not self._closed and shelf.is_usable:
                container = self._make(shelf.mould)
        except Exception as failure:  # noqa: BLE001  reported and backed off from, below
            error = failure
        finally:
            with self._changed:
                shelf.filling -= 1
                if error is not None:
                    self._note_failure(shelf, error)
                elif container is not None:
                    shelf.failures = 0
                    shelf.retry_at = 0.0
                    if container.view is not None and container.view.kind == "copy":
                        shelf.is_usable = False
                    if self._closed or not shelf.is_usable:
                        self._dispose(container)
                    else:
                        shelf.ready.append(container)
                self._changed.notify_all()

    def _note_failure(self, shelf: Shelf, error: Exception) -> None:
        shelf.failures += 1
        detail = getattr(error, "operator_detail", None) or type(error).__name__
        shelf.last_error = f"{error} ({detail})"
        shelf.retry_at = time.monotonic() + _backoff_s(shelf.failures)
        _log.warning("a container could not be made ahead of the call: %s", shelf.last_error)
        if isinstance(error, InvalidWorkspace):
            # Deleted, replaced, or not to be used any more: a later call makes a new shelf.
            self._drop(shelf)

    def _drop(self, shelf: Shelf) -> None:
        shelf.is_usable = False
        for container in shelf.ready:
            self._dispose(container)
        shelf.ready.clear()
        for key, other in list(self._shelves.items()):
            if other is shelf:
                del self._shelves[key]


_wait = tenacity.wait_exponential_jitter(multiplier=0.5, jitter=0.5, max=30)


def _backoff_s(failures: int) -> float:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = failures
    return float(_wait(state))
