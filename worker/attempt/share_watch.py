"""Shares of a GPU while attempts run: who holds how much of a card, and who is ended for taking more than a share.

The driver tells the memory of each process, and `/proc` tells whose process it is. Nothing stops a program from taking
more of a card than its share, so the Worker looks every second. An attempt that is above its share at two looks in a
row is ended. What that may have done to its neighbours is written down with them: one that fails then is repeated at
the platform's cost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.frozen import replace
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.gpu_shares import UNIT_BYTES
from headway.model.reasons import EndReason, EndWord
from headway.units import format_size, round_size

from ..machine.offered_gpus import GpuLook, OfferedGpus
from ..model import AttemptGpus, AttemptStage, EndDecision, LaunchAttempt
from .context import ExecutorContext
from .task_executor import TaskExecutor

log = get_logger(__name__)

_LOOK_S = 1.0
_LOOKS = 2  # above its share at so many in a row
_NEAR_S = 10.0  # a neighbour that fails so long after the last moment of a breach may have been hit by it
_MARGIN = 1.1  # of what it held, in the share that is suggested
# Ends that a lack of memory on the card may be the cause of. All others have a cause of their own.
_HIT = frozenset({EndWord.EXITED})


@dataclass(frozen=True, slots=True)
class ShareUse:
    """What an attempt holds of its card now. ``held_bytes`` None: the driver does not tell."""

    uuid: str
    share_bytes: int
    held_bytes: int | None

    @property
    def is_over(self) -> bool:
        return self.held_bytes is not None and self.held_bytes > self.share_bytes


def use_of(launch: LaunchAttempt, look: GpuLook) -> ShareUse | None:
    """What the processes of an attempt hold of its card; None: it has no share. Pure."""
    share = launch.spec.resources.gpu_share_bytes
    if not share or not launch.gpu_uuids:
        return None
    uuid = launch.gpu_uuids[0]
    held = [process.memory_used_bytes for process in look.ours.get(uuid, {}).get(launch.attempt.folder, ())]
    card = look.card(uuid)
    if look.inventory.problem or card is None or any(size is None for size in held):
        return ShareUse(uuid, share, None)
    return ShareUse(uuid, share, sum(size or 0 for size in held))


def suggested_share(held_bytes: int) -> int:
    """A share that would have been enough, with some room, in whole units. Pure."""
    return -(-int(held_bytes * _MARGIN) // UNIT_BYTES) * UNIT_BYTES


def breach_sentence(use: ShareUse, name: str) -> str:
    """Why it is ended, with the numbers. ``name``: its card's, for people. Pure."""
    held = use.held_bytes or 0
    return (
        f"It held {round_size(held)} of the memory of {name}, more than its share of {format_size(use.share_bytes)}; "
        f"CUDA's own part counts too. A share of {format_size(suggested_share(held))} would have been enough so far."
    )


def hit_sentence(name: str) -> str:
    """What is written down with the neighbours of an attempt that takes too much. Pure."""
    return f"It failed while another task on {name} held more memory than its share, so it may have been hit by that."


def with_hit(decision: EndDecision, gpus: AttemptGpus, now: float) -> EndDecision:
    """The end of an attempt after what a neighbour did to its card. ``now``: in epoch seconds. Pure."""
    reason = decision.reason
    near = gpus.hit and abs(now - gpus.hit_at) <= _NEAR_S
    if not near or reason.succeeded or reason.word not in _HIT:
        return decision
    hit = EndReason(EndWord.GPU_NEIGHBOUR, reason.exit_code, reason.signal, gpus.hit)
    return replace(decision, reason=hit)


class ShareWatch:
    """See the module. ``end`` ends an attempt, with a sentence for its owner."""

    def __init__(
        self,
        gpus: OfferedGpus,
        context: ExecutorContext,
        *,
        using_resources: Callable[[], Sequence[TaskExecutor]],
        in_use: Callable[[], Collection[str]],
        end: Callable[[AttemptId, str], Awaitable[None]],
    ) -> None:
        self._gpus = gpus
        self._context = context
        self._using_resources = using_resources
        self._in_use = in_use
        self._end = end
        self._over: dict[AttemptId, int] = {}  # at how many looks in a row
        self._held: dict[AttemptId, int] = {}

    def held_bytes(self, attempt: AttemptId) -> int | None:
        """What a live attempt with a share held of its card at the last look; None: not known."""
        return self._held.get(attempt)

    def is_shared(self, uuid: str, without: AttemptId) -> bool:
        """Whether another attempt has a share of this card now."""
        return any(uuid in one.launch.gpu_uuids for one in self._sharing() if one.record.attempt != without)

    async def run(self) -> None:
        while True:
            await self._context.clock.sleep(_LOOK_S)
            try:
                await self.look()
            except HeadwayError as error:
                log.warning("gpu.shares_not_watched", reason=str(error))

    async def look(self) -> None:
        """Look once at all cards of which attempts have shares."""
        sharing = self._sharing()
        if not sharing:
            self._over.clear()
            self._held.clear()
            return
        look = await self._gpus.look(self._in_use())
        uses = self._uses(sharing, look)
        self._held = {attempt: use.held_bytes for attempt, use in uses.items() if use.held_bytes is not None}
        over = {attempt: use for attempt, use in uses.items() if use.is_over}
        self._over = {attempt: self._over.get(attempt, 0) + 1 for attempt in over}
        # Before anybody is ended: a Worker that dies now must know it at the neighbours' ends.
        self._note_neighbours(sharing, over, look)
        for one in sharing:
            attempt = one.record.attempt
            if self._over.get(attempt, 0) >= _LOOKS and one.record.stop is None:
                sentence = breach_sentence(over[attempt], self._name(look, over[attempt].uuid))
                log.warning("attempt.gpu_share_exceeded", attempt=str(attempt), reason=sentence)
                await self._end(attempt, sentence)

    def ended(self, attempt: AttemptId, launch: LaunchAttempt, gpus: AttemptGpus, look: GpuLook) -> None:
        """At the end of an attempt: note a breach that the last look was too early to see."""
        mine = use_of(launch, look)
        if mine is None or self._over.get(attempt, 0):
            return  # who takes too much is nobody's victim
        others = [one for one in self._sharing() if one.record.attempt != attempt]
        if any(use.is_over and use.uuid == mine.uuid for use in self._uses(others, look).values()):
            gpus.hit, gpus.hit_at = hit_sentence(self._name(look, mine.uuid)), self._context.clock.now()

    # -- inside -----------------------------------------------------------------------------------

    def _sharing(self) -> list[TaskExecutor]:
        return [
            one
            for one in self._using_resources()
            if one.launch.spec.resources.gpu_share_bytes and one.record.stage is AttemptStage.LIVE
        ]

    def _uses(self, sharing: Sequence[TaskExecutor], look: GpuLook) -> dict[AttemptId, ShareUse]:
        found = ((one.record.attempt, use_of(one.launch, look)) for one in sharing)
        return {attempt: use for attempt, use in found if use is not None}

    def _note_neighbours(
        self, sharing: Sequence[TaskExecutor], over: Mapping[AttemptId, ShareUse], look: GpuLook
    ) -> None:
        for one in sharing:
            record = one.record
            breakers = [use for attempt, use in over.items() if attempt != record.attempt]
            if record.attempt in over or not any(use.uuid in one.launch.gpu_uuids for use in breakers):
                continue
            first = not record.gpus.hit
            record.gpus.hit = hit_sentence(self._name(look, one.launch.gpu_uuids[0]))
            record.gpus.hit_at = self._context.clock.now()
            self._context.store.put_later(record)
            if first:
                log.info("attempt.gpu_neighbour_takes_too_much", attempt=str(record.attempt))

    def _name(self, look: GpuLook, uuid: str) -> str:
        card = look.card(uuid)
        return f"GPU {card.index} of {self._context.node_id}" if card is not None else f"GPU {uuid}"
