"""Wires what watches the machine's GPUs, and those of attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.clock import Clock
from headway.ids import AttemptId

from .attempt.context import ExecutorContext
from .attempt.gpu_watch import GpuWatch
from .attempt.hand_back import HandBack
from .attempt.share_watch import ShareWatch
from .attempt.task_controller import TaskController
from .attempt.task_executor import TaskExecutor
from .machine.conditions import Conditions
from .machine.device_access import lost_devices_of
from .machine.gpu_processes import GpuProcesses
from .machine.gpu_sharing import GpuSharing
from .machine.offered_gpus import OfferedGpus
from .machine.simulated_gpus import SimulatedShare
from .model import AttemptStage
from .ports import Gpus

if TYPE_CHECKING:
    from headway.config.sections import WorkerSection


@dataclass(frozen=True, slots=True)
class GpuParts:
    """What watches the GPUs of attempts. ``loops``: what has to run for it, by name."""

    shares: ShareWatch
    loops: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]


def offered_gpus(
    gpus: Gpus, settings: WorkerSection, attempts_dir: Path, clock: Clock, conditions: Conditions
) -> OfferedGpus:
    """The GPUs as they are offered."""
    sharing = GpuSharing(
        settings.gpu_shared,
        settings.node_id,
        lambda word, sentence: conditions.set(word, sentence, blocks_work=False),
        mps_pipe=Path(settings.gpu_mps_pipe) if settings.gpu_mps_pipe else None,
    )
    return OfferedGpus(
        gpus,
        GpuProcesses(attempts_dir),
        clock,
        outside_memory_bytes=settings.gpu_outside_memory_bytes,
        free_for_s=settings.gpu_free_for_s,
        sharing=sharing,
    )


def watch_attempts_gpus(
    gpus: OfferedGpus,
    settings: WorkerSection,
    attempts_dir: Path,
    context: ExecutorContext,
    controller: TaskController,
    conditions: Conditions,
    tell_holder: Callable[[AttemptId, str], None],
) -> GpuParts:
    """Have the executors' ends look at their cards. ``tell_holder``: see ``GpuWatch``."""
    shares = ShareWatch(
        gpus,
        context,
        using_resources=controller.using_resources,
        in_use=lambda: watch.in_use(),
        end=controller.end_for_share,
    )
    hand_back = HandBack(
        gpus,
        context.store,
        conditions,
        context.clock,
        node_id=context.node_id,
        in_use=lambda: watch.in_use(),
        is_shared=shares.is_shared,
        tolerance_bytes=settings.gpu_leftover_bytes,
    )
    watch = GpuWatch(
        gpus,
        hand_back,
        context,
        using_resources=controller.using_resources,
        lost_devices=lambda attempt: asyncio.to_thread(lost_devices_of, attempts_dir / attempt.folder),
        end=controller.end_for_gpus,
        shares=shares,
        fault_ends_task=settings.gpu_fault_ends_task,
        tell_holder=tell_holder,
    )
    context.gpus, context.mps_pipe = watch, gpus.sharing.mps_pipe
    return GpuParts(shares, {"GPU hand-back": hand_back.run, "GPU watch": watch.run, "GPU shares": shares.run})


def simulated_shares(executors: Sequence[TaskExecutor]) -> list[SimulatedShare]:
    """The shares of live attempts, for GPUs that are only simulated. Their programs begin with their processes."""
    return [
        SimulatedShare(uuid, share, one.record.attempt.folder, one.record.attempt.task.name)
        for one in executors
        if (share := one.launch.spec.resources.gpu_share_bytes)
        and one.record.times.process_started_at is not None
        and one.record.stage is AttemptStage.LIVE
        for uuid in one.launch.gpu_uuids
    ]
