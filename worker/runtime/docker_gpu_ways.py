"""Which way of giving GPUs this engine and this machine have, and what containers get by the one that was chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headway.logs import get_logger

from .gpu_cdi import cdi_devices
from .gpu_faults import GpuFault, cdi_list_missing, cdi_off, driver_silent, not_in_cdi_list
from .gpu_ways import EngineTraits, GivenGpus, GpuWay, by_cdi, by_request, cdi_name, traits_of, without

if TYPE_CHECKING:
    from .gpu_nodes import DeviceNodes

log = get_logger(__name__)

AUTO = "auto"
_LOOK_S = 5.0


class GpuWays:
    """What is known of each way since the last ``look``. Any thread may ask ``given``.

    ``setting`` is ``worker.gpu_passing``. ``nodes`` None: device files are never given.
    """

    def __init__(self, node: str, *, setting: str = AUTO, nodes: DeviceNodes | None = None) -> None:
        self._node = node
        self._nodes = nodes
        self.candidates = tuple(GpuWay) if setting == AUTO else (GpuWay(setting),)
        self.chosen = self.candidates[0]
        self.traits = EngineTraits()
        self._cdi: frozenset[str] = frozenset()
        # A driver that hangs keeps no other thread waiting.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpu-nodes")
        self._looking: Future[None] | None = None
        self._silent = False

    def learn(self, info: Mapping[str, Any]) -> None:
        """From the engine's answer to `info`."""
        self.traits = traits_of(info)

    async def look(self) -> None:
        """Look at the machine again. Never raises, and never takes long."""
        if GpuWay.CDI in self.candidates:
            known = self.traits.cdi_devices
            folders = self.traits.cdi_folders
            # An engine that tells what it has found has read the same files.
            self._cdi = known if known is not None else await asyncio.to_thread(cdi_devices, folders)
        if self._nodes is None or GpuWay.DEVICE_NODES not in self.candidates:
            return
        if self._looking is None or self._looking.done():
            try:
                self._looking = self._thread.submit(self._nodes.look)
            except RuntimeError:
                return  # closed
        done, _ = await asyncio.wait({asyncio.wrap_future(self._looking)}, timeout=_LOOK_S)
        self._silent = not done

    def fault(self, way: GpuWay, uuids: Sequence[str]) -> GpuFault | None:
        """Why these can't be given so, as far as is known without asking the engine."""
        if way is GpuWay.CDI:
            return self._fault_of_cdi(uuids)
        if way is GpuWay.DEVICE_NODES:
            if self._silent:
                return driver_silent(self._node)
            if self._nodes is not None:
                return self._nodes.fault(uuids)
        return None

    def given(self, uuids: Sequence[str], way: GpuWay | None = None) -> GivenGpus:
        """What a container gets that has exactly these GPUs. Without ``uuids`` it must see none."""
        return self.of_all(way or self.chosen, uuids) if uuids else without(self.traits.plain_runtime)

    def of_all(self, way: GpuWay, uuids: Sequence[str]) -> GivenGpus:
        """The same, but without ``uuids`` all that the machine has."""
        if way is GpuWay.CDI:
            return by_cdi(uuids, self.traits.plain_runtime)
        if way is GpuWay.DEVICE_NODES and self._nodes is not None:
            return self._nodes.given(uuids, self.traits.plain_runtime)
        return by_request(uuids)

    def close(self) -> None:
        """Safe twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _fault_of_cdi(self, uuids: Sequence[str]) -> GpuFault | None:
        if not self.traits.cdi_folders:
            return cdi_off(self._node)
        missing = [uuid for uuid in uuids if cdi_name(uuid) not in self._cdi]
        if missing and (len(missing) == len(uuids) > 1 or not self._names_any()):
            return cdi_list_missing(self._node, ", ".join(self.traits.cdi_folders))
        return not_in_cdi_list(self._node, missing[0]) if missing else None

    def _names_any(self) -> bool:
        return any(name.startswith((cdi_name("GPU-"), cdi_name("MIG-"))) for name in self._cdi)
