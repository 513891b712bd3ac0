"""Hand-back: after an attempt its GPUs are checked before anybody is told that they are free.

A card is clean when no process of the attempt is on it, and its memory is back to what it was before. Most are clean
at once. On a card that others share, memory comes and goes, so only the processes count while others are on it.

A card that is not clean is held back: it is not offered, and launches that ask for it are refused. It is looked at
again with growing pauses and comes back by itself. If that takes long, the node says so as a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from headway.backoff import Backoff
from headway.clock import Clock
from headway.ids import AttemptId
from headway.logs import get_logger

from ..machine.conditions import Conditions
from ..machine.gpu_processes import most, roundly
from ..machine.offered_gpus import GpuLook, OfferedGpus
from ..model import AttemptRecord
from ..ports import GpuProcess, GpuReading
from ..store import WorkerStore

log = get_logger(__name__)

CONDITION = "gpu_not_clean"
_FIRST_PAUSE_S, _LONGEST_QUICK_S = 0.05, 0.5
_FIRST_AGAIN_S, _LONGEST_AGAIN_S = 0.5, 30.0


def own_use(gpu: GpuReading, others: Sequence[GpuProcess]) -> int | None:
    """Memory in use without that of processes outside Headway, which come and go. None: not known. Pure."""
    if gpu.memory_used_bytes is None or any(one.memory_used_bytes is None for one in others):
        return None
    return max(0, gpu.memory_used_bytes - sum(one.memory_used_bytes or 0 for one in others))


def why_not_clean(
    gpu: GpuReading | None,
    *,
    baseline_bytes: int | None,
    left: Sequence[GpuProcess],
    others: Sequence[GpuProcess],
    tolerance_bytes: int,
) -> str:
    """Why the card can't be given out again yet, as its note. Empty: it is clean. Pure.

    ``left`` are processes of the attempt. ``baseline_bytes`` is what ``own_use`` was before it.
    """
    last = most(left)
    if last is not None:
        what = f"{last.pid} ({last.command})" if last.command else str(last.pid)
        size = "" if last.memory_used_bytes is None else f", {roundly(last.memory_used_bytes)}"
        return f"process {what} of an ended task is still on it{size}"
    if baseline_bytes is None:
        return ""
    if gpu is None or gpu.memory_used_bytes is None:
        return "a task ended on it, and its memory could not be read since"
    used = own_use(gpu, others)
    if used is None:
        # Of a process outside Headway the memory is not told. Such a card is theirs anyway.
        return ""
    if used > baseline_bytes + tolerance_bytes:
        return f"{roundly(used - baseline_bytes)} of its memory are still in use after a task ended"
    return ""


@dataclass(slots=True)
class _HeldBack:
    record: AttemptRecord
    since_s: float  # monotonic


class HandBack:
    """See the module. ``in_use`` are the UUIDs of all live attempts."""

    def __init__(
        self,
        gpus: OfferedGpus,
        store: WorkerStore,
        conditions: Conditions,
        clock: Clock,
        *,
        node_id: str,
        in_use: Callable[[], Collection[str]],
        is_shared: Callable[[str, AttemptId], bool] = lambda uuid, without: False,
        tolerance_bytes: int,
        quick_s: float = 3.0,
        tell_after_s: float = 60.0,
    ) -> None:
        """``quick_s``: the report of an end waits so long. ``tell_after_s``: then the node has a condition."""
        self._gpus = gpus
        self._store = store
        self._conditions = conditions
        self._clock = clock
        self._node_id = node_id
        self._in_use = in_use
        self._is_shared = is_shared  # whether another attempt is on the card too
        self._tolerance_bytes = tolerance_bytes
        self._quick_s = quick_s
        self._tell_after_s = tell_after_s
        self._held: dict[str, _HeldBack] = {}
        gpus.on_return = self.look_again
        self._again = Backoff(_FIRST_AGAIN_S, _LONGEST_AGAIN_S)

    def refusal(self, uuids: Collection[str]) -> str:
        """Why a launch with these cards is refused, in one sentence. Empty: none of them is held back."""
        for uuid in uuids:
            if uuid in self._held:
                return f"GPU {uuid} of {self._node_id} is not clean yet: {self._gpus.held_back[uuid]}."
        return ""

    async def remember(self, record: AttemptRecord, uuids: Sequence[str]) -> None:
        """What the cards hold before the attempt. Not known after a restart in its midst, or without a reading."""
        look = await self._gpus.look(self._in_use())
        for uuid in uuids:
            gpu = look.card(uuid)
            if gpu is None or gpu.simulated or self._is_shared(uuid, record.attempt):
                continue  # the memory of a rehearsal follows its bookings, so it is never back before the end
            used = own_use(gpu, look.others.get(uuid, ()))
            if used is not None:
                record.gpus.baseline_bytes.setdefault(uuid, used)

    async def check(self, record: AttemptRecord, uuids: Sequence[str], *, stuck: bool = False) -> None:
        """Before the end is reported: hold back what is not clean soon. ``stuck``: its container can't be ended."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_QUICK_S)
        give_up_s = self._clock.monotonic() + (0.0 if stuck else self._quick_s)
        while True:
            look = await self._gpus.look(self._in_use())
            dirty = {uuid: why for uuid in uuids if (why := self._why(look, record, uuid))}
            if stuck:
                dirty = {uuid: dirty.get(uuid, "a task on it can't be ended") for uuid in uuids}
            if not dirty or self._clock.monotonic() >= give_up_s:
                break
            await self._clock.sleep(pauses.next_s())
        self._hold(record, dirty)

    def adopt(self, record: AttemptRecord) -> None:
        """After a restart: what was held back still is."""
        self._hold(record, dict(record.gpus.left))

    async def run(self) -> None:
        """Look at what is held back, until it is clean."""
        while True:
            await self._clock.sleep(self._again.next_s() if self._held else _FIRST_AGAIN_S)
            if self._held:
                await self.look_again()

    async def look_again(self) -> None:
        """Give back what is clean now, and tell of the rest."""
        look = await self._gpus.look(self._in_use())
        for uuid, held in list(self._held.items()):
            why = self._why(look, held.record, uuid)
            if why:
                self._gpus.held_back[uuid] = held.record.gpus.left[uuid] = why
            else:
                self._release(uuid)
            late = why and self._clock.monotonic() - held.since_s >= self._tell_after_s
            self._conditions.set(CONDITION, self._sentence(look, uuid, why) if late else "", blocks_work=False, of=uuid)

    # -- inside -----------------------------------------------------------------------------------

    def _why(self, look: GpuLook, record: AttemptRecord, uuid: str) -> str:
        return why_not_clean(
            look.card(uuid),
            baseline_bytes=None if self._is_shared(uuid, record.attempt) else record.gpus.baseline_bytes.get(uuid),
            left=look.ours.get(uuid, {}).get(record.attempt.folder, ()),
            others=look.others.get(uuid, ()),
            tolerance_bytes=self._tolerance_bytes,
        )

    def _hold(self, record: AttemptRecord, dirty: dict[str, str]) -> None:
        for uuid, why in dirty.items():
            self._held[uuid] = _HeldBack(record, self._clock.monotonic())
            self._gpus.held_back[uuid] = record.gpus.left[uuid] = why
            log.warning("gpu.held_back", uuid=uuid, attempt=str(record.attempt), reason=why)
        if dirty:
            self._again.reset()
            self._conditions.changed.set()  # so that the status, without these cards, goes out at once

    def _release(self, uuid: str) -> None:
        record = self._held.pop(uuid).record
        del self._gpus.held_back[uuid]
        record.gpus.left.pop(uuid, None)
        self._store.put_later(record)
        self._conditions.changed.set()
        log.info("gpu.clean_again", uuid=uuid, attempt=str(record.attempt))

    def _sentence(self, look: GpuLook, uuid: str, why: str) -> str:
        gpu = look.card(uuid)
        name = f"GPU {gpu.index}" if gpu is not None else f"GPU {uuid}"
        attempt: AttemptId = self._held[uuid].record.attempt
        return (
            f"{name} of {self._node_id} is not given out after the attempt {attempt}: {why}. It comes back by itself "
            "when it is clean."
        )
