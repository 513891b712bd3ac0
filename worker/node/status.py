"""The node's status: what it offers, what is in use, and what keeps it from accepting work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from headway.clock import Clock
from headway.ids import AttemptId
from headway.model.gpu_faults import fault_of
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.safe_text import valid_text
from headway.units import counted

from .. import wire
from ..attempt.task_executor import TaskExecutor
from ..images import ImageManager
from ..machine.conditions import Conditions
from ..machine.disk_watch import DiskWatch
from ..machine.engine_watch import EngineWatch
from ..ports import GpuInventory, GpuReading, Gpus, Runtime

_RESERVED_MEMORY = 512 << 20  # for the system and Headway itself, if the settings name no limit
_MAX_IMAGES = 500
_FAULTY_SHOWN = 3


@dataclass(frozen=True, slots=True)
class OfferedResources:
    """What Headway may use of the machine. 0: all of it."""

    cpus: float = 0.0
    memory_bytes: int = 0

    def cpu_centi(self) -> int:
        return round((self.cpus or os.cpu_count() or 1) * 100)

    def memory(self) -> int:
        if self.memory_bytes:
            return self.memory_bytes
        total = psutil.virtual_memory().total
        return max(total // 2, total - max(_RESERVED_MEMORY, total // 20))


class StatusReader:
    """Builds NodeStatus messages. It also sets the conditions of disks, GPUs and stuck containers."""

    def __init__(
        self,
        *,
        node_id: str,
        incarnation: int,
        runtime: Runtime,
        gpus: Gpus,
        offer: OfferedResources,
        conditions: Conditions,
        engine: EngineWatch,
        clock: Clock,
        disks: DiskWatch,
        live: Callable[[], Sequence[AttemptId]],
        using_resources: Callable[[], Sequence[TaskExecutor]],
        images: ImageManager,
        show_names: bool,
        gpu_passing: Callable[[], str] | None = None,
        worker_uuid: str = "",
    ) -> None:
        """``show_names``: whether the status names images that Headway did not fetch, since jobs may use those."""
        self._node_id = node_id
        self._incarnation = incarnation
        self._runtime = runtime
        self._gpus = gpus
        self._offer = offer
        self._conditions = conditions
        self._engine = engine
        self._clock = clock
        self._disks = disks
        self._live = live
        self._using_resources = using_resources
        self._images = images
        self._show_names = show_names
        self._gpu_passing = gpu_passing
        self._worker_uuid = worker_uuid
        self._cpu_before: tuple[float, float] | None = None  # (at, busy CPU seconds)
        self._gpus_seen: dict[str, GpuReading] = {}

    async def read(self) -> pb.NodeStatus:
        """The status now. Never raises and never waits long."""
        using_resources = self._using_resources()
        ours = {uuid for executor in using_resources for uuid in executor.launch.gpu_uuids}
        gpus = await self._gpus.read(ours)
        self._gpus_seen |= {gpu.uuid: gpu for gpu in gpus.gpus}
        self._conditions.set("gpu_unavailable", gpus.problem, blocks_work=False)
        self._conditions.set("gpu_faulty", faulty_sentence(self._node_id, gpus.gpus), blocks_work=False)
        self._conditions.set("gpus_simulated", self._simulated(gpus), blocks_work=False)
        disk = await self._disks.look()
        memory = psutil.virtual_memory()
        status = pb.NodeStatus(
            node_id=self._node_id,
            incarnation=self._incarnation,
            at=self._clock.now(),
            capacity=self._capacity(gpus, using_resources),
            cpu_used=self._cpu_used(),
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            load1=os.getloadavg()[0],
            live_attempts=len(self._live()),
            engine_images=await self._engine_images(),
            worker_uuid=self._worker_uuid,
            boot_id=self._clock.boot_id(),
        )
        status.images.extend(sorted({name for image in status.engine_images for name in image.names})[:_MAX_IMAGES])
        if disk is not None:
            # The fullest disk decides what the machine can still accept.
            status.disk_free_bytes, status.disk_total_bytes = disk.free_bytes, disk.total_bytes
        status.conditions.extend(self.conditions())
        return status

    def gpu(self, uuid: str) -> dict[str, object]:
        """How people know this card, as it was read last."""
        seen = self._gpus_seen.get(uuid)
        return {} if seen is None else {"index": seen.index, "model": seen.model, "memory_bytes": seen.memory_bytes}

    def conditions(self) -> list[pb.Condition]:
        """As messages."""
        return [
            pb.Condition(word=c.word, sentence=valid_text(c.sentence), since=c.since, blocks_work=c.blocks_work)
            for c in self._conditions.now
        ]

    def _capacity(self, gpus: GpuInventory, using_resources: Sequence[TaskExecutor]) -> pb.Capacity:
        cpu_centi, memory = self._offer.cpu_centi(), self._offer.memory()
        stuck = [executor for executor in using_resources if executor.record.unsafe]
        stuck_gpus: set[str] = set()
        for executor in stuck:
            # A container that can't be killed may still use its resources, so they are not offered.
            resources = executor.launch.spec.resources
            cpu_centi = max(0, cpu_centi - resources.cpus_centi)
            memory = max(0, memory - resources.memory_bytes)
            stuck_gpus.update(executor.launch.gpu_uuids)
        names = ", ".join(str(executor.record.attempt) for executor in stuck[:3])
        sentence = f"{len(stuck)} containers can't be killed ({names}). Their resources stay reserved."
        self._conditions.set("container_stuck", sentence if stuck else "", blocks_work=False)
        capacity = pb.Capacity(
            cpu_centi=cpu_centi,
            memory_bytes=memory,
            architecture=self._engine.facts.architecture,
            engine_version=self._engine.facts.version,
            driver_version=gpus.driver_version,
            cuda_version=gpus.cuda_version,
            runtime=self._runtime.name,
            any_image=self._runtime.any_image,
            gpu_passing=self._gpu_passing() if self._gpu_passing is not None and gpus.gpus else "",
            most_ulimits=[pb.UlimitMost(name=name, hard=hard) for name, hard in self._engine.facts.most_ulimits],
        )
        for reading in gpus.gpus:
            message = wire.gpu(reading)
            if reading.uuid in stuck_gpus:
                message.sick, message.note = True, "held by a container that can't be killed"
            capacity.gpus.append(message)
        return capacity

    def _simulated(self, gpus: GpuInventory) -> str:
        """What to say of GPUs that are only simulated, where programs really run."""
        count = sum(gpu.simulated for gpu in gpus.gpus)
        if not count or self._runtime.simulates:
            return ""
        return f"GPUs of {self._node_id} are only simulated ({count}): its tasks get no device."

    def _cpu_used(self) -> float | None:
        """CPUs in use since the last reading."""
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
        at = time.monotonic()
        before, self._cpu_before = self._cpu_before, (at, busy)
        if before is None or at - before[0] < 0.2:
            return None
        return max(0.0, (busy - before[1]) / (at - before[0]))

    async def _engine_images(self) -> list[pb.EngineImage]:
        """Headway's own images first. If there are too many, others are left out."""
        found = sorted(await self._images.listing(), key=lambda entry: (not entry[1], entry[0].names, entry[0].id))
        return [wire.engine_image(image, ours=ours, show_names=self._show_names) for image, ours in found[:_MAX_IMAGES]]


def faulty_sentence(node_id: str, gpus: Sequence[GpuReading]) -> str:
    """Which cards are taken out for faults of their own, why, and what to do. Empty: none is."""
    faulty = [gpu for gpu in gpus if gpu.fault]
    if not faulty:
        return ""
    told = "; ".join(f"GPU {gpu.index} ({gpu.uuid}): {gpu.note}" for gpu in faulty[:_FAULTY_SHOWN])
    more = f"; and {len(faulty) - _FAULTY_SHOWN} more" if len(faulty) > _FAULTY_SHOWN else ""
    # Nobody shall restart a machine for a card that comes back without it.
    left = [gpu for gpu in faulty if not gpu.comes_back]
    word = fault_of(left[0].fault) if left else None
    advice = f" {word.facts.advice}" if word is not None and len({gpu.fault for gpu in left}) == 1 else ""
    return f"{node_id} does not give out {counted(len(faulty), 'GPU')}. {told}{more}.{advice}"
