"""Wires what watches the machine's GPUs, and those of attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.clock import Clock

from .attempt.context import ExecutorContext
from .attempt.gpu_watch import GpuWatch
from .attempt.hand_back import HandBack
from .attempt.task_controller import TaskController
from .machine.conditions import Conditions
from .machine.device_access import lost_devices_of
from .machine.gpu_processes import GpuProcesses
from .machine.offered_gpus import OfferedGpus
from .ports import Gpus

if TYPE_CHECKING:
    from headway.config.sections import WorkerSection


def offered_gpus(gpus: Gpus, settings: WorkerSection, attempts_dir: Path, clock: Clock) -> OfferedGpus:
    """The GPUs as they are offered."""
    return OfferedGpus(
        gpus,
        GpuProcesses(attempts_dir),
        clock,
        outside_memory_bytes=settings.gpu_outside_memory_bytes,
        free_for_s=settings.gpu_free_for_s,
    )


def watch_attempts_gpus(
    gpus: OfferedGpus,
    settings: WorkerSection,
    attempts_dir: Path,
    context: ExecutorContext,
    controller: TaskController,
    conditions: Conditions,
) -> Mapping[str, Callable[[], Coroutine[Any, Any, None]]]:
    """Have the executors' ends look at their cards. Returns the loops that this needs, by name."""
    hand_back = HandBack(
        gpus,
        context.store,
        conditions,
        context.clock,
        node_id=context.node_id,
        in_use=lambda: watch.in_use(),
        tolerance_bytes=settings.gpu_leftover_bytes,
    )
    watch = GpuWatch(
        gpus,
        hand_back,
        context,
        using_resources=controller.using_resources,
        lost_devices=lambda attempt: asyncio.to_thread(lost_devices_of, attempts_dir / attempt.folder),
        end=controller.end_for_gpus,
        fault_ends_task=settings.gpu_fault_ends_task,
    )
    context.gpus = watch
    return {"GPU hand-back": hand_back.run, "GPU watch": watch.run}
