"""Cards that are as the test says, and an executor's context that watches them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headway.ids import AttemptId
from tests.unit.worker.attempt.executor_rig import One
from worker.attempt.gpu_watch import GpuWatch
from worker.attempt.hand_back import HandBack
from worker.attempt.share_watch import ShareWatch
from worker.attempt.task_executor import TaskExecutor
from worker.box import StopWord
from worker.machine.conditions import Conditions
from worker.machine.offered_gpus import OfferedGpus
from worker.ports import GpuInventory, GpuProcess, GpuReading

MIB = 1 << 20
CARD = GpuReading("GPU-1", "A100", 40 << 30, 2, memory_used_bytes=4 * MIB)


class Cards:
    """``ports.Gpus``, and whose processes are on them."""

    def __init__(self, *cards: GpuReading) -> None:
        self.cards = list(cards)
        self.problem = ""
        self.of_attempts: dict[int, str] = {}  # by pid: the attempt's folder

    def change(self, uuid: str, **fields: object) -> None:
        self.cards = [replace(gpu, **fields) if gpu.uuid == uuid else gpu for gpu in self.cards]  # type: ignore[arg-type]

    async def read(self, ours: Collection[str]) -> GpuInventory:
        return GpuInventory(tuple(self.cards), problem=self.problem)

    async def close(self) -> None: ...

    def split(self, found: Sequence[GpuProcess]) -> tuple[dict[str, list[GpuProcess]], list[GpuProcess]]:
        ours: Mapping[str, list[GpuProcess]] = {folder: [] for folder in self.of_attempts.values()}
        for one in found:
            if one.pid in self.of_attempts:
                ours[self.of_attempts[one.pid]].append(one)
        return {k: v for k, v in ours.items() if v}, [one for one in found if one.pid not in self.of_attempts]

    def forget(self, alive: Sequence[int]) -> None: ...


class GpuOne:
    """One executor with cards."""

    def __init__(self, one: One, *cards: GpuReading, fault_ends_task: bool = False) -> None:
        self.one = one
        self.cards = Cards(*(cards or (CARD,)))
        self.conditions = Conditions(one.rig.clock)
        self.lost: list[str] = []
        context = one.rig.context
        self.watched = OfferedGpus(
            self.cards,
            self.cards,  # type: ignore[arg-type]
            one.rig.clock,
            outside_memory_bytes=512 * MIB,
            free_for_s=10,
        )
        self.hand_back = HandBack(
            self.watched,
            context.store,
            self.conditions,
            one.rig.clock,
            node_id=context.node_id,
            in_use=lambda: self.watch.in_use(),
            is_shared=lambda uuid, without: self.shares.is_shared(uuid, without),
            tolerance_bytes=64 * MIB,
        )
        self.holder_told: list[tuple[AttemptId, str]] = []
        self.over: list[tuple[AttemptId, str]] = []  # who was ended for taking more than a share
        self.shares = ShareWatch(
            self.watched,
            context,
            using_resources=self._using,
            in_use=lambda: self.watch.in_use(),
            end=self._end_for_share,
        )
        self.watch = GpuWatch(
            self.watched,
            self.hand_back,
            context,
            using_resources=self._using,
            lost_devices=self._lost,
            end=self._end,
            shares=self.shares,
            fault_ends_task=fault_ends_task,
            tell_holder=lambda attempt, sentence: self.holder_told.append((attempt, sentence)),
        )
        context.gpus = self.watch

    def begin(self, **launch: object) -> One:
        return self.one.begin(gpu_uuids=tuple(gpu.uuid for gpu in self.cards.cards), **launch)

    def _using(self) -> list[TaskExecutor]:
        executor = getattr(self.one, "executor", None)
        return [executor] if executor is not None and executor.record.stage.value == "live" else []

    async def _lost(self, attempt: AttemptId) -> Sequence[str]:
        return self.lost

    async def _end_for_share(self, attempt: AttemptId, sentence: str) -> None:
        self.over.append((attempt, sentence))
        self.one.record.stop_detail = sentence
        self.one.executor.stop(StopWord.GPU_MEMORY)

    async def _end(self, attempt: AttemptId) -> None:
        self.one.executor.stop(StopWord.PLATFORM)
