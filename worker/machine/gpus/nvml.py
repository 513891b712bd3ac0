"""The machine's GPUs, as NVIDIA's management library (NVML) reports them.

A GPU is known by its UUID. Its index and PCI id are only shown. A machine without driver or library has no GPUs, which
is no problem.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from headway.clock import Clock, SystemClock
from headway.logs import get_logger
from headway.units import format_size

from ...ports import GpuInventory, GpuJournal, GpuReading, GpuReturnAnswer
from .health import HealthRules
from .library import Look, NvmlLibrary
from .quarantine import Quarantine, one_use

log = get_logger(__name__)

_LIMIT_S = 5.0
_SAMPLE_S = 1.0
SILENT = "NVIDIA's driver does not answer, so no GPU is offered."
_ROUGHLY = 1 << 20


_NOT_GIVEN = "its machine can't give GPUs to containers"


async def _always() -> str:
    return ""


def _none(uuids: Sequence[str]) -> Mapping[str, str]:
    return {}


class NvmlGpus:
    """``ports.Gpus`` and ``ports.WatchedGpus`` by NVML.

    ``cannot_pass`` says why the container engine can't give GPUs to containers. Empty: it can. It is asked only on a
    machine with GPUs. ``unfit`` says the same of single cards, by their UUIDs. What can't be given is sick: tasks that
    ask for it wait, and are told why. ``clean_s``: after so long without a fault a card comes back by itself.
    """

    def __init__(
        self,
        *,
        outside_memory_bytes: int,
        cannot_pass: Callable[[], Awaitable[str]] = _always,
        unfit: Callable[[Sequence[str]], Mapping[str, str]] = _none,
        clean_s: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self._outside_memory_bytes = outside_memory_bytes
        self._cannot_pass = cannot_pass
        self._unfit = unfit
        # The library has state of its own, so one thread makes all calls. A call that hangs blocks no other thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpu")
        self._library = NvmlLibrary()
        self._quarantine = Quarantine(clock or SystemClock(), HealthRules(clean_s=clean_s))
        self._call: Future[Look] | None = None
        self._judged: WeakSet[Future[Look]] = WeakSet()  # events come once, so each answer is judged once
        self._sampling: Future[dict[str, GpuReading]] | None = None
        self._last = GpuInventory()
        self._ours: Collection[str] = ()
        self._parents: dict[str, str] = {}  # the cards of slices

    async def open(self, journal: GpuJournal) -> None:
        await self._quarantine.open(journal)
        self._parents |= {gpu.uuid: gpu.parent_uuid for gpu in self._quarantine.known if gpu.parent_uuid}

    async def read(self, ours: Collection[str]) -> GpuInventory:
        self._ours = ours
        if self._call is None or self._call.done():
            self._judge_late()
            try:
                self._call = self._thread.submit(self._library.read, self._quarantine.known)
            except RuntimeError:  # closed
                return self._last
        call = self._call
        waiting = asyncio.wrap_future(call)
        waiting.add_done_callback(_ignore_error)
        done, _ = await asyncio.wait({waiting}, timeout=_LIMIT_S)
        if not done:
            # What was read before proves nothing now: after a task nobody could say that a card is clean.
            last = [replace(gpu, memory_used_bytes=None) for gpu in self._last.gpus]
            gpus = sick(last or self._quarantine.all(), "its driver does not answer")
            return replace(self._last, gpus=gpus, problem=SILENT)
        look = waiting.result()
        if look.inventory.problem:
            self._quarantine.driver_fails()
            return replace(look.inventory, gpus=sick(self._quarantine.all(), "its driver can't be read"))
        self._judge(call)
        await self._quarantine.store()
        return await self._offered(self._last, ours)

    def _judge_late(self) -> None:
        """An answer that came after its limit may tell of a fault that no later one tells."""
        call = self._call
        if call is None or call.cancelled() or call.exception() is not None:
            return
        if not call.result().inventory.problem:
            self._judge(call)

    def _judge(self, call: Future[Look]) -> None:
        if call in self._judged:
            return
        self._judged.add(call)
        look = call.result()
        self._parents |= {gpu.uuid: gpu.parent_uuid for gpu in look.inventory.gpus if gpu.parent_uuid}
        self._last = replace(look.inventory, gpus=self._quarantine.look(look))

    async def _offered(self, found: GpuInventory, ours: Collection[str]) -> GpuInventory:
        """What of it can be given out, and why not the rest."""
        if found.gpus:
            unfit = self._unfit([gpu.uuid for gpu in found.gpus])
            problem = await self._cannot_pass()
            if problem:
                return replace(found, gpus=sick(found.gpus, _NOT_GIVEN), problem=problem)
            found = replace(found, gpus=tuple(_with_note(gpu, unfit.get(gpu.uuid, "")) for gpu in found.gpus))
        held = frozenset(ours)
        gpus = tuple(with_outside_use(gpu, gpu.uuid in held, self._outside_memory_bytes) for gpu in found.gpus)
        return replace(found, gpus=one_use(gpus, held, self._parents))

    async def sample(self, uuids: Collection[str]) -> Mapping[str, GpuReading]:
        if self._sampling is not None and not self._sampling.done():
            return {}  # the driver is slow, or hangs in another call
        try:
            self._sampling = self._thread.submit(self._library.sample, tuple(uuids))
        except RuntimeError:  # closed
            return {}
        waiting = asyncio.wrap_future(self._sampling)
        waiting.add_done_callback(_ignore_error)
        done, _ = await asyncio.wait({waiting}, timeout=_SAMPLE_S)
        return waiting.result() if done else {}

    async def return_gpu(self, uuid: str, *, gone: bool = False) -> GpuReturnAnswer:
        found = await self.read(self._ours)
        if found.problem and not gone:
            return GpuReturnAnswer(False, f"{uuid} stays out. {found.problem}")
        answer = self._quarantine.give_back(uuid, gone=gone)
        if answer.returned:
            log.info("gpu.returned", gpu=uuid, by="an admin", gone=gone)
            await self._quarantine.store()
        return answer

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def with_outside_use(gpu: GpuReading, ours: bool, threshold_bytes: int) -> GpuReading:
    """Mark a GPU on which processes outside Headway hold more memory than is allowed. Pure."""
    used = gpu.memory_used_bytes
    if ours or gpu.sick or used is None or used <= threshold_bytes:
        return gpu
    size = format_size(used // _ROUGHLY * _ROUGHLY)
    return replace(gpu, busy_outside=True, note=f"in use by a process outside Headway, {size}")


def sick(gpus: Sequence[GpuReading], note: str) -> tuple[GpuReading, ...]:
    """All of them, for this reason."""
    return tuple(_with_note(gpu, note) for gpu in gpus)


def _with_note(gpu: GpuReading, note: str) -> GpuReading:
    """Sick for this reason, if there is one. What the driver itself says of it counts more."""
    return gpu if gpu.sick or not note else replace(gpu, sick=True, note=note)


def _ignore_error(call: asyncio.Future[Any]) -> None:
    if not call.cancelled():
        call.exception()
