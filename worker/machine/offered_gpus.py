"""The machine's GPUs as they are offered: who uses them from outside, and which are held back after a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headway.clock import Clock
from headway.model.gpu_faults import GpuFaultWord

from ..ports import GpuInventory, GpuJournal, GpuProcess, GpuReading, GpuReturnAnswer, Gpus, WatchedGpus
from .gpu_processes import GpuProcesses
from .gpu_sharing import GpuSharing
from .outside_use import OutsideUse


@dataclass(frozen=True, slots=True)
class GpuLook:
    """One reading, with whose processes are on the cards. All by UUID."""

    inventory: GpuInventory
    ours: Mapping[str, Mapping[str, Sequence[GpuProcess]]] = field(default_factory=dict)  # by folder of the attempt
    others: Mapping[str, Sequence[GpuProcess]] = field(default_factory=dict)

    def card(self, uuid: str) -> GpuReading | None:
        return next((gpu for gpu in self.inventory.gpus if gpu.uuid == uuid), None)


async def _nothing() -> None:
    pass


class OfferedGpus:
    """``ports.Gpus`` around those that a driver or a rehearsal brings. ``held_back`` are not offered, and why not."""

    def __init__(
        self,
        inner: Gpus,
        processes: GpuProcesses,
        clock: Clock,
        *,
        outside_memory_bytes: int,
        free_for_s: float,
        sharing: GpuSharing | None = None,
    ) -> None:
        self._inner = inner
        self._processes = processes
        self._clock = clock
        self.sharing = sharing or GpuSharing((), "")
        self._outside = OutsideUse(outside_memory_bytes, free_for_s)
        self.held_back: dict[str, str] = {}
        self.on_return: Callable[[], Awaitable[None]] = _nothing  # look at them now

    async def read(self, ours: Collection[str]) -> GpuInventory:
        return (await self.look(ours)).inventory

    async def look(self, ours: Collection[str]) -> GpuLook:
        """As ``read``, with the processes. It asks the driver anew."""
        found = await self._inner.read(ours)
        if any(gpu.processes for gpu in found.gpus):
            # In a thread of asyncio's: it reads files of /proc.
            split = await asyncio.to_thread(self._split, found.gpus)
        else:
            split = {}
        # Memory that a task of ours left behind is nobody's outside.
        now, held = self._clock.monotonic(), {*ours, *self.held_back}
        gpus = tuple(
            self._offered(self._outside.judge(gpu, split.get(gpu.uuid, ({}, []))[1], ours=gpu.uuid in held, now=now))
            for gpu in self.sharing.mark(found.gpus)
        )
        if not found.problem:
            self._outside.keep({gpu.uuid for gpu in gpus})
        return GpuLook(
            replace(found, gpus=gpus),
            {uuid: mine for uuid, (mine, _) in split.items() if mine},
            {uuid: others for uuid, (_, others) in split.items() if others},
        )

    async def sample(self, uuids: Collection[str]) -> Mapping[str, GpuReading]:
        return await self._inner.sample(uuids)

    async def open(self, journal: GpuJournal) -> None:
        if isinstance(self._inner, WatchedGpus):
            await self._inner.open(journal)

    async def return_gpu(self, uuid: str, *, gone: bool = False) -> GpuReturnAnswer:
        """As ``ports.WatchedGpus``. A card that is held back after a task is looked at first."""
        if uuid in self.held_back and not gone:
            await self.on_return()
            why = self.held_back.get(uuid)
            if why is not None:
                return GpuReturnAnswer(False, f"{uuid} stays out: {why}. {GpuFaultWord.NOT_CLEAN.facts.advice}")
        if not isinstance(self._inner, WatchedGpus):
            return GpuReturnAnswer(False, "This worker watches no faults of GPUs, so none is taken out.")
        return await self._inner.return_gpu(uuid, gone=gone)

    async def close(self) -> None:
        await self._inner.close()

    def _split(self, gpus: Sequence[GpuReading]) -> dict[str, tuple[dict[str, list[GpuProcess]], list[GpuProcess]]]:
        self._processes.forget([process.pid for gpu in gpus for process in gpu.processes])
        return {gpu.uuid: self._processes.split(gpu.processes) for gpu in gpus if gpu.processes}

    def _offered(self, gpu: GpuReading) -> GpuReading:
        why = self.held_back.get(gpu.uuid)
        if why is None or gpu.sick:
            return gpu
        return replace(gpu, sick=True, busy_outside=False, fault=GpuFaultWord.NOT_CLEAN, note=why, comes_back=False)
