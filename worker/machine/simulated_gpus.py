"""GPUs that are only simulated, for rehearsals."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headway.model.simulated_gpus import simulated_uuid

from ..ports import GpuInventory, GpuReading


class SimulatedGpus:
    """Simulated GPUs for rehearsals. See ``ports.Gpus``."""

    def __init__(self, node_id: str, count: int, *, model: str = "Simulated", memory_bytes: int = 24 << 30) -> None:
        self._gpus = tuple(
            GpuReading(
                uuid=simulated_uuid(node_id, index),
                model=model,
                memory_bytes=memory_bytes,
                index=index,
                simulated=True,
            )
            for index in range(count)
        )

    async def read(self, ours: object) -> GpuInventory:
        return GpuInventory(self._gpus)

    async def sample(self, uuids: Collection[str]) -> Mapping[str, GpuReading]:
        inventory = await self.read(uuids)
        return {gpu.uuid: gpu for gpu in inventory.gpus if gpu.uuid in uuids}

    async def close(self) -> None:
        pass
