"""What becomes of attempts whose cards fail, or are taken away, while they run.

A card that falls off the bus is no fault of the task on it. So each end looks at what the attempt's cards did
meanwhile, and a failed card is told as ``gpu_failed`` and repeated at the platform's cost. A task that goes on is left
alone, unless a setting says else, but its owner is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from headway.clock import Clock
from headway.frozen import replace
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord

from ..machine.watched_gpus import GpuLook, WatchedGpus
from ..model import AttemptGpus, AttemptRecord, AttemptStage, EndDecision
from ..ports import GpuInventory
from .context import ExecutorContext
from .hand_back import HandBack
from .late_work import LateWork
from .platform_log import platform_log_line
from .task_executor import TaskExecutor

log = get_logger(__name__)

LATE_GPU = "gpu"
_LOOK_S, _DEVICES_S = 5.0, 30.0
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
        if gpu is not None and gpu.fault:
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
    """Looks at the cards of live attempts while they run and at their ends. ``gpus`` of the executors' context.

    ``lost_devices`` asks whether a live container can still open its devices, and answers which it can't.
    """

    def __init__(
        self,
        gpus: WatchedGpus,
        hand_back: HandBack,
        clock: Clock,
        *,
        node_id: str,
        using_resources: Callable[[], Sequence[TaskExecutor]],
        lost_devices: Callable[[AttemptId], Awaitable[Sequence[str]]],
        end: Callable[[AttemptId], Awaitable[None]],
        fault_ends_task: bool = False,
    ) -> None:
        self._gpus = gpus
        self._hand_back = hand_back
        self._clock = clock
        self._node_id = node_id
        self._using_resources = using_resources
        self._lost_devices = lost_devices
        self._end = end
        self._fault_ends_task = fault_ends_task
        self._devices_at = 0.0
        self._context: ExecutorContext | None = None
