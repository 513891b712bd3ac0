"""The node's runtime, and beside it the holds of people's own processes, which need no container.

All that the Worker does with an attempt holds for both: stops, leases, more time, adoption after a restart, reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from headway.ids import AttemptId

from ..box import BoxStanding, StopWord, Stream
from ..ports import AttemptProgress, ContainerFacts, ContainerFiles, Runtime, StartOrder
from .keeper import Holds


class RuntimeWithHolds:
    """See the module. What is not written out here is the runtime's own."""

    def __init__(self, runtime: Runtime, holds: Holds) -> None:
        self._runtime = runtime
        self._holds = holds
        self.name, self.simulates, self.any_image = runtime.name, runtime.simulates, runtime.any_image

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        self._holds.on_change = on_change
        await self._runtime.open(on_change)
        self._holds.open()

    async def close(self) -> None:
        await self._holds.close()
        await self._runtime.close()

    async def start(self, order: StartOrder) -> ContainerFacts:
        self._holds.check_free(order.attempt, order.gpu_uuids)
        if order.key_hash is None:
            return await self._runtime.start(order)
        self._holds.offer(order, order.key_hash, order.spec.env)
        return self._holds.inspect(order.attempt)

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        if attempt in self._holds:
            return self._holds.progress(attempt)
        return await self._runtime.progress(attempt)

    async def inspect(self, attempt: AttemptId) -> ContainerFacts:
        return self._holds.inspect(attempt) if attempt in self._holds else await self._runtime.inspect(attempt)

    async def standing(self, attempt: AttemptId) -> BoxStanding:
        return self._holds.standing(attempt) if attempt in self._holds else await self._runtime.standing(attempt)

    async def withdraw(self, attempt: AttemptId) -> bool:
        return self._holds.withdraw(attempt) if attempt in self._holds else await self._runtime.withdraw(attempt)

    async def launcher_lives(self, attempt: AttemptId) -> bool:
        if attempt in self._holds:
            return self._holds.standing(attempt) is BoxStanding.RUNS
        return await self._runtime.launcher_lives(attempt)

    async def is_inhabited(self, attempt: AttemptId) -> bool:
        if attempt in self._holds:
            return self._holds.standing(attempt) is BoxStanding.RUNS
        return await self._runtime.is_inhabited(attempt)

    async def boxes(self) -> Collection[AttemptId]:
        return [*await self._runtime.boxes(), *self._holds.attempts()]

    async def stored_launch(self, attempt: AttemptId) -> bytes | None:
        if attempt in self._holds:
            return self._holds.launch_of(attempt)
        return await self._runtime.stored_launch(attempt)

    async def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None = None) -> None:
        if attempt in self._holds:
            self._holds.stop(attempt, word, grace_ms)
        else:
            await self._runtime.stop(attempt, word, grace_ms)

    async def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        if attempt in self._holds:
            self._holds.extend(attempt, timeout_ms)
        else:
            await self._runtime.extend(attempt, timeout_ms)

    async def renew(self, until_boot_ns: Mapping[AttemptId, int | None]) -> None:
        for attempt, until_ns in until_boot_ns.items():
            if attempt in self._holds:
                self._holds.renew(attempt, until_ns)
        await self._runtime.renew({a: until for a, until in until_boot_ns.items() if a not in self._holds})

    async def kill_launcher(self, attempt: AttemptId) -> bool:
        if attempt not in self._holds:
            return await self._runtime.kill_launcher(attempt)
        self._holds.kill(attempt)
        return self._holds.standing(attempt) is not BoxStanding.RUNS

    async def kill(self, attempt: AttemptId) -> None:
        if attempt in self._holds:
            self._holds.kill(attempt)
        else:
            await self._runtime.kill(attempt)

    async def remove(self, attempt: AttemptId) -> None:
        if attempt in self._holds:
            self._holds.remove(attempt)
        else:
            await self._runtime.remove(attempt)

    async def list(self) -> Mapping[AttemptId, ContainerFacts]:
        found = dict(await self._runtime.list())
        return found | {attempt: self._holds.inspect(attempt) for attempt in self._holds.attempts()}

    async def files(self, attempt: AttemptId) -> ContainerFiles:
        return ContainerFiles() if attempt in self._holds else await self._runtime.files(attempt)

    def spool(self, attempt: AttemptId, stream: Stream) -> Path | None:
        return None if attempt in self._holds else self._runtime.spool(attempt, stream)

    def index(self, attempt: AttemptId) -> Path | None:
        return None if attempt in self._holds else self._runtime.index(attempt)
