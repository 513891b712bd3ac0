"""What becomes of attempts whose cards fail, or are taken away, while they run.

A card that falls off the bus is no fault of the task on it. So each end looks at what the attempt's cards did
meanwhile, and a failed card is told as ``gpu_failed`` and repeated at the platform's cost. A task that goes on is left
alone, unless a setting says else, but its owner is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from headway.errors import HeadwayError
from headway.frozen import replace
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.gpu_faults import GpuFaultWord
from headway.model.reasons import EndReason, EndWord

from ..machine.offered_gpus import GpuLook, OfferedGpus
from ..model import AttemptGpus, AttemptRecord, AttemptStage, EndDecision, LaunchAttempt
from ..ports import GpuInventory
from .context import ExecutorContext
from .hand_back import HandBack
from .late_work import LateWork
from .platform_log import platform_log_line
from .share_watch import ShareWatch, with_hit
from .task_executor import TaskExecutor

log = get_logger(__name__)

LATE_GPU = "gpu"
_LOOK_S, _DEVICES_S = 5.0, 30.0
_WRITES_RULES_S = 2.0
_GOES_ON = "The task goes on as long as it can."
# A hot card only gets slower, and what another task left behind is no fault of the card.
_HARMLESS = frozenset({GpuFaultWord.TOO_HOT, GpuFaultWord.NOT_CLEAN})
# Ends that a lost card may be the cause of. A stop by people, a full disk or a good end has a cause of its own.
_OVERRULED = frozenset({EndWord.EXITED, EndWord.KILLED_OUTSIDE, EndWord.TIMED_OUT, EndWord.PLATFORM_ERROR})


def card_faults(uuids: Sequence[str], inventory: GpuInventory, node: str) -> dict[str, str]:
    """What is wrong with these cards now, in sentences. Cards that are well are left out. Pure.

    What makes all cards of a machine unfit for new tasks, such as a missing toolkit, is no fault of a card.
    """
    there = {gpu.uuid: gpu for gpu in inventory.gpus}
    found = {}
    for uuid in uuids:
        gpu = there.get(uuid)
        if gpu is not None and gpu.fault and gpu.fault not in _HARMLESS:
            name = f"GPU {gpu.index} ({gpu.model})" if gpu.model else f"GPU {gpu.index}"
            found[uuid] = f"{name} of {node} failed while it ran: {gpu.note or gpu.fault}."
        elif gpu is None and not inventory.problem and there:
            found[uuid] = f"GPU {uuid} of {node} vanished while it ran."
    return found


def with_faults(decision: EndDecision, gpus: AttemptGpus) -> EndDecision:
    """The end of an attempt after what its cards did meanwhile. Pure."""
    seen = gpus.taken or " ".join(gpus.faults.values())
    if not seen:
        return decision
    reason = decision.reason
    if reason.succeeded or reason.word not in _OVERRULED:
        return replace(decision, warnings=(*decision.warnings, seen))
    failed = EndReason(EndWord.GPU_FAILED, reason.exit_code, reason.signal, seen)
    return replace(decision, reason=failed, elsewhere=True, engine_away=False)


class GpuWatch:
    """Looks at the cards of live attempts while they run and at their ends. See ``context.AttemptGpusWatch``.

    ``tell_holder`` tells the process that has an attempt's cards, if it is a person's own. ``lost_devices`` asks
    whether a live container can still open its devices, and answers which it can't. ``end`` ends an attempt whose cards
    are gone.
    """

    def __init__(
        self,
        gpus: OfferedGpus,
        hand_back: HandBack,
        context: ExecutorContext,
        *,
        using_resources: Callable[[], Sequence[TaskExecutor]],
        lost_devices: Callable[[AttemptId], Awaitable[Sequence[str]]],
        end: Callable[[AttemptId], Awaitable[None]],
        shares: ShareWatch,
        fault_ends_task: bool = False,
        tell_holder: Callable[[AttemptId, str], None] = lambda attempt, sentence: None,
    ) -> None:
        self._tell_holder = tell_holder
        self._gpus = gpus
        self._hand_back = hand_back
        self._context = context
        self._using_resources = using_resources
        self._lost_devices = lost_devices
        self._end = end
        self._shares = shares
        self._fault_ends_task = fault_ends_task
        self._devices_at = 0.0

    def refusal(self, uuids: Collection[str]) -> str:
        """Why a launch with these cards is refused, in one sentence. Empty: they are clean."""
        return self._hand_back.refusal(uuids)

    def adopt(self, record: AttemptRecord) -> None:
        """After a restart of the Worker, of every attempt that it remembers."""
        if record.gpus.left:
            self._hand_back.adopt(record)

    async def begins(self, record: AttemptRecord, launch: LaunchAttempt) -> None:
        """Before its container is made."""
        if launch.gpu_uuids:
            await self._hand_back.remember(record, launch.gpu_uuids)

    async def ended(self, record: AttemptRecord, launch: LaunchAttempt, decision: EndDecision) -> EndDecision:
        """Before its end is reported: what its cards did meanwhile counts, and what is not clean is held back."""
        if not launch.gpu_uuids or not record.boot_id:
            return decision  # it never began
        try:
            if record.times.container_started_at is not None:
                look = await self._gpus.look(self.in_use())
                await self._note(record, launch, look, at_end=True)
                self._shares.ended(record.attempt, launch, record.gpus, look)
            decision = with_hit(with_faults(decision, record.gpus), record.gpus, self._context.clock.now())
            self._late(record, launch).done(LATE_GPU)  # the end itself says it
            await self._hand_back.check(record, launch.gpu_uuids, stuck=record.unsafe)
        except Exception as error:  # the end has to be told in any case
            log.error("gpu.not_checked", attempt=str(record.attempt), exc=error)
        return decision

    def in_use(self) -> set[str]:
        """The UUIDs of all live attempts."""
        return {uuid for executor in self._using_resources() for uuid in executor.launch.gpu_uuids}

    async def run(self) -> None:
        while True:
            await self._context.clock.sleep(_LOOK_S)
            try:
                await self.look()
            except HeadwayError as error:
                log.warning("gpu.not_watched", reason=str(error))

    async def look(self) -> None:
        """Look at the cards of all that runs now."""
        running = [
            one
            for one in self._using_resources()
            if one.launch.gpu_uuids
            and one.record.stage is AttemptStage.LIVE
            and one.record.stop is None
            and one.record.times.process_started_at is not None
        ]
        if not running:
            return
        look = await self._gpus.look(self.in_use())
        for one in running:
            if await self._note(one.record, one.launch, look) and self._fault_ends_task:
                await self._end(one.record.attempt)
        now = self._context.clock.monotonic()
        if now >= self._devices_at:
            self._devices_at = now + _DEVICES_S
            for one in running:
                await self._look_at_devices(one.record)

    # -- inside -----------------------------------------------------------------------------------

    async def _note(self, record: AttemptRecord, launch: LaunchAttempt, look: GpuLook, *, at_end: bool = False) -> bool:
        """Keep what is wrong with its cards now, and tell it. False: nothing new."""
        found = card_faults(launch.gpu_uuids, look.inventory, self._context.node_id)
        new = {uuid: sentence for uuid, sentence in found.items() if uuid not in record.gpus.faults}
        if not new:
            return False
        record.gpus.faults |= new
        for uuid, sentence in new.items():
            log.warning("attempt.gpu_failed", attempt=str(record.attempt), uuid=uuid, reason=sentence)
            self._log_line(record, sentence)
            if not at_end:
                self._tell_holder(record.attempt, sentence)
        if not at_end:
            # Stored before it is told: a restarted Worker must know it at the end.
            told = " ".join(record.gpus.faults.values())
            await self._late(record, launch).warn(LATE_GPU, f"{told} {_GOES_ON}")
        return True

    async def _look_at_devices(self, record: AttemptRecord) -> None:
        lost = await self._lost_devices(record.attempt)
        if not lost:
            return
        # The machine may be just writing its rules anew, one by one.
        await self._context.clock.sleep(_WRITES_RULES_S)
        lost = await self._lost_devices(record.attempt)
        if not lost or record.stage is not AttemptStage.LIVE or record.stop is not None:
            return
        record.gpus.taken = (
            f"Its container on {self._context.node_id} can't open {', '.join(lost)} any more: something on the "
            'machine, such as `systemctl daemon-reload`, took its GPUs away. See "A container that loses its GPUs" '
            "in docs/gpus.md."
        )
        log.warning("attempt.gpus_taken", attempt=str(record.attempt), devices=list(lost))
        self._log_line(record, record.gpus.taken)
        await self._end(record.attempt)

    def _late(self, record: AttemptRecord, launch: LaunchAttempt) -> LateWork:
        return LateWork(self._context, record, launch.generation)

    def _log_line(self, record: AttemptRecord, text: str) -> None:
        record.platform_log += platform_log_line(self._context.clock.now(), text)
        self._context.copier.set_platform_log(record.attempt, record.platform_log)
