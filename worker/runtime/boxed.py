"""The part of a container runtime that works on files: boxes on the local disk, and a watch on them.

A runtime with real containers (``docker``) inherits it and adds the engine. Nothing here asks the engine, so stops,
leases and ends work while it hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from inotify_simple import INotify, flags

from headway.ids import AttemptId
from headway.logs import get_logger

from .. import box as boxes
from ..box import Box, BoxStanding, LaunchSpec, StopWord, Stream
from ..machine.cgroups import ContainerGroup, Hierarchies, counters_of, group_of
from ..model import attempt_of_folder
from ..ports import AttemptProgress, ContainerCounters, StartOrder
from .secret_offers import SecretOffers

log = get_logger(__name__)

T = TypeVar("T")

_KILL_S = 10.0  # for the kernel to end all processes of a container
_WATCHED = ("started", "taken", "end")
_LOOK_OFTEN = 10  # so often, one look after the other, for a launcher's process; then at each 60th call


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A box that is ready. ``digest`` proves to the launcher that the spec is the Worker's.

    It is empty where a launcher has been there and the spec can't be read any more.

    A spec without a place is of an older Headway, whose launcher has another place: no container is made for it.
    """

    box: Box
    spec: LaunchSpec
    digest: str


class BoxedRuntime:
    """Boxes in ``attempts_dir/<attempt.folder>/box``. See ``ports.Runtime`` for the contract of each call.

    A subclass calls ``lay_out`` before it creates a container. Its ``open`` and ``close`` call those of this class.
    """

    def __init__(self, attempts_dir: Path, launcher: Path | None, *, boot_id: str = "") -> None:
        self._attempts_dir = attempts_dir
        self._launcher = launcher
        self._boot_id = boot_id or boxes.boot_id()
        self._watch = BoxWatch()
        # Threads of their own: an engine that hangs must never delay the renewal of a lease.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="box")
        self._laying_out: dict[AttemptId, int | None] = {}  # the newest lease of boxes that are being made
        self._hierarchies: Hierarchies | None = None
        self._groups: dict[AttemptId, ContainerGroup] = {}
        self._secrets = SecretOffers(self.box)
        self._looks: dict[AttemptId, int] = {}  # for a launcher's process, in vain

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        self._watch.open(on_change)

    async def close(self) -> None:
        self._watch.close()
        self._secrets.close()
        self._threads.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def box(self, attempt: AttemptId) -> Box:
        """The attempt's box. It may not exist."""
        return Box(self._attempts_dir / attempt.folder / "box")

    async def lay_out(self, order: StartOrder) -> LaidOut:
        """Make the box ready for the container, and watch it. Safe twice: what a launcher may have read stays.

        The ticket comes last, and only once. A container may exist as soon as it is there. So from then on the spec in
        the box counts, whatever the order says.

        Raises OSError, BoxError, or ValueError for a value that no process can have. Then a new box is gone again,
        since no container can exist.
        """
        attempt, box = order.attempt, self.box(order.attempt)
        self._laying_out[attempt] = order.lease_until_boot_ns
        try:
            laid_out = await self._in_thread(lambda: self._lay_out(order, box))
            # Without a box there was nothing to renew: a renewal that came meanwhile counts from here on.
            written = order.lease_until_boot_ns
            while self._laying_out[attempt] != written:
                written = newest = self._laying_out[attempt]
                await self._in_thread(lambda newest=newest: boxes.write_lease(box, newest))  # type: ignore[misc]
        finally:
            self._laying_out.pop(attempt, None)
        await self._secrets.listen(attempt)
        self.watch(attempt)
        return laid_out

    def _lay_out(self, order: StartOrder, box: Box) -> LaidOut:
        """Blocks."""
        standing = self._judge(order.attempt)
        if standing is BoxStanding.UNUSED:
            self._make(order, box)
        elif standing is BoxStanding.MAY_START and not boxes.exists(box.lease):
            boxes.write_lease(box, order.lease_until_boot_ns)
        try:
            data = boxes.spec_bytes(box)
            return LaidOut(box, boxes.parse_spec(data), boxes.spec_digest(data))
        except (OSError, boxes.BoxError):
            if standing in (BoxStanding.UNUSED, BoxStanding.MAY_START):
                raise
            return LaidOut(box, order.spec, "")

    def _make(self, order: StartOrder, box: Box) -> None:
        """Blocks."""
        try:
            boxes.create(box.root, launcher=self._launcher, command=order.command)
            boxes.write_spec(box, order.spec)
            boxes.write_lease(box, order.lease_until_boot_ns)
            boxes.write_atomic(box.launch, order.launch)
            boxes.write_ticket(box, attempt=order.attempt.folder, boot_id=self._boot_id)
        except BaseException:
            with contextlib.suppress(OSError):
                boxes.remove_tree(box.root)
            raise

    async def give_secrets(self, attempt: AttemptId, values: Sequence[bytes]) -> None:
        await self._secrets.give(attempt, values)

    def forget_secrets(self, attempt: AttemptId) -> None:
        self._secrets.forget(attempt)

    def watch(self, attempt: AttemptId) -> None:
        """Nudge when the attempt's launcher writes one of the watched files. Safe twice."""
        self._watch.add(attempt, self.box(attempt).run)

    def unwatch(self, attempt: AttemptId) -> None:
        """Safe twice."""
        self._watch.remove(attempt)

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        box = self.box(attempt)
        # Three small files in the page cache: a thread would cost more than these reads.
        with contextlib.suppress(OSError, boxes.BoxError):
            end = boxes.read_end(box)
            return AttemptProgress(started=_started(box), end=end, timeout_ms=_taken(box))
        return AttemptProgress(started=_started(box), timeout_ms=_taken(box))

    async def standing(self, attempt: AttemptId) -> BoxStanding:
        # As in progress: a few small files.
        return self._judge(attempt)

    def _judge(self, attempt: AttemptId) -> BoxStanding:
        return boxes.judge(boxes.look(self.box(attempt), attempt=attempt.folder, boot_id=self._boot_id))

    async def withdraw(self, attempt: AttemptId) -> bool:
        return await self._in_thread(lambda: self._withdraw(attempt))

    def _withdraw(self, attempt: AttemptId) -> bool:
        """Blocks. A box that was never made needs no withdrawal."""
        if self._judge(attempt) is BoxStanding.UNUSED:
            return True
        try:
            return boxes.withdraw(self.box(attempt))
        except OSError as error:
            log.warning("ticket.not_withdrawn", attempt=str(attempt), reason=str(error))
            return False

    async def launcher_lives(self, attempt: AttemptId) -> bool:
        return boxes.is_locked(self.box(attempt)) is True

    async def is_inhabited(self, attempt: AttemptId) -> bool:
        box = self.box(attempt)
        if boxes.is_locked(box):
            return True
        # In a thread of asyncio's: it looks at every process of the machine.
        return bool(await asyncio.to_thread(boxes.inhabitants, box))

    async def boxes(self) -> Collection[AttemptId]:
        def find() -> list[AttemptId]:
            found = (attempt_of_folder(folder.name) for folder in self._attempts_dir.iterdir())
            return [attempt for attempt in found if attempt is not None and boxes.exists(self.box(attempt).run)]

        return await self._in_thread(find)

    async def stored_launch(self, attempt: AttemptId) -> bytes | None:
        return await self._in_thread(lambda: boxes.read_launch(self.box(attempt)))

    async def kill_launcher(self, attempt: AttemptId) -> bool:
        # In a thread of asyncio's: it waits for the kernel, and must not keep a lease from being renewed.
        return await asyncio.to_thread(boxes.kill_launcher, self.box(attempt), within_s=_KILL_S)

    async def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None = None) -> None:
        box = self.box(attempt)
        if boxes.exists(box.run):
            await self._in_thread(lambda: _write_stop(box, word, grace_ms))

    async def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        box = self.box(attempt)

        def extend() -> None:
            if not boxes.exists(box.run):
                return
            with contextlib.suppress(boxes.BoxError):
                before = boxes.read_limits(box)
                if before is not None and before >= timeout_ms:
                    return
            boxes.write_limits(box, timeout_ms=timeout_ms)

        await self._in_thread(extend)

    async def renew(self, until_boot_ns: Mapping[AttemptId, int | None]) -> None:
        self._laying_out.update({a: until for a, until in until_boot_ns.items() if a in self._laying_out})

        def renew() -> None:
            for attempt, until in until_boot_ns.items():
                box = self.box(attempt)
                # Only boxes that exist. A file that already says `none` stays as it is.
                if boxes.exists(box.lease) and not (until is None and _says_none(box)):
                    try:
                        boxes.write_lease(box, until)
                    except OSError as error:
                        # A full disk: the old lease counts, and the launcher ends the attempt after it.
                        log.warning("lease.not_written", attempt=str(attempt), reason=str(error))

        if until_boot_ns:
            await self._in_thread(renew)

    async def remove_box(self, attempt: AttemptId) -> None:
        """Remove the box from the disk. Safe twice."""
        self.unwatch(attempt)
        self._secrets.forget(attempt)
        self._groups.pop(attempt, None)
        self._looks.pop(attempt, None)
        folder = self._attempts_dir / attempt.folder

        def remove() -> None:
            try:
                boxes.remove_tree(folder)
            except OSError as error:
                log.warning("box.not_removed", attempt=str(attempt), reason=str(error))

        await self._in_thread(remove)

    def counters(self, attempt: AttemptId) -> ContainerCounters | None:
        group = self._groups.get(attempt) or self._find_group(attempt)
        found = None if group is None else counters_of(group)
        if found is None:
            self._groups.pop(attempt, None)
        return found

    def _find_group(self, attempt: AttemptId) -> ContainerGroup | None:
        """By the launcher, which is the container's first process and holds the box's lock."""
        looks = self._looks[attempt] = self._looks.get(attempt, 0) + 1
        if looks > _LOOK_OFTEN and looks % 60:
            return None
        pid = boxes.holder(self.box(attempt))
        if pid is None:
            return None
        if self._hierarchies is None:
            self._hierarchies = Hierarchies.of_machine()
        group = group_of(pid, self._hierarchies)
        if group is not None:
            self._groups[attempt] = group
            self._looks.pop(attempt, None)
        return group

    def spool(self, attempt: AttemptId, stream: Stream) -> Path | None:
        return self.box(attempt).spool(stream)

    def index(self, attempt: AttemptId) -> Path | None:
        return self.box(attempt).index


def _started(box: Box) -> boxes.StartedRecord | None:
    with contextlib.suppress(OSError, boxes.BoxError):
        return boxes.read_started(box)
    return None


def _taken(box: Box) -> int | None:
    with contextlib.suppress(OSError, boxes.BoxError):
        return boxes.read_taken(box)
    return None


def _says_none(box: Box) -> bool:
    with contextlib.suppress(OSError, boxes.BoxError):
        return boxes.read_lease(box) is None
    return False


def _write_stop(box: Box, word: StopWord, grace_ms: int | None) -> None:
    """The first word counts. A later order can only shorten the grace."""
    with contextlib.suppress(boxes.BoxError):
        before = boxes.read_stop(box)
        if before is not None:
            if grace_ms is None or (before.grace_ms is not None and before.grace_ms <= grace_ms):
                return
            word = before.word
    boxes.write_stop(box, word, grace_ms=grace_ms)


class BoxWatch:
    """Calls back when ``started``, ``taken`` or ``end`` appears in a box. It uses inotify, so waiting costs nothing.

    Where inotify has reached its limit of instances or watches, the Worker's sweep notices later.
    """

    def __init__(self) -> None:
        self._inotify: INotify | None = None
        self._on_change: Callable[[AttemptId], None] = lambda attempt: None
        self._by_watch: dict[int, AttemptId] = {}
        self._by_attempt: dict[AttemptId, int] = {}

    def open(self, on_change: Callable[[AttemptId], None]) -> None:
        """Begin to watch. Call it on the event loop."""
        self._on_change = on_change
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            log.warning("watch.unavailable", reason=str(error))
            return
        asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._read)

    def close(self) -> None:
        """Safe twice."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None
        self._by_watch.clear()
        self._by_attempt.clear()

    def add(self, attempt: AttemptId, folder: Path) -> None:
        """Watch a box's ``run`` folder. Safe twice."""
        if self._inotify is None or attempt in self._by_attempt:
            return
        try:
            watch = self._inotify.add_watch(os.fspath(folder), flags.MOVED_TO | flags.ONLYDIR | flags.DONT_FOLLOW)
        except OSError as error:
            log.warning("watch.not_added", attempt=str(attempt), reason=str(error))
            return
        self._by_watch[watch] = attempt
        self._by_attempt[attempt] = watch

    def remove(self, attempt: AttemptId) -> None:
        """Safe twice."""
        watch = self._by_attempt.pop(attempt, None)
        if watch is None or self._inotify is None:
            return
        self._by_watch.pop(watch, None)
        # The folder may be gone, and the watch with it.
        with contextlib.suppress(OSError):
            self._inotify.rm_watch(watch)

    def _read(self) -> None:
        if self._inotify is None:
            return
        nudged: set[AttemptId] = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                nudged.update(self._by_attempt)
            elif event.name in _WATCHED and event.wd in self._by_watch:
                nudged.add(self._by_watch[event.wd])
        for attempt in nudged:
            self._on_change(attempt)
