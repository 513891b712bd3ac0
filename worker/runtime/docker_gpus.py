"""Finds out whether the engine can give GPUs to containers, by trying."""

from __future__ import annotations

import asyncio
import io
import tarfile
import time
from typing import Any

from docker import APIClient
from docker.errors import APIError

from headway.logs import get_logger

from ..ports import EngineUnavailable
from .docker_engine import DockerEngine
from .docker_errors import lacks_gpu_runtime, no_gpu_runtime, text_of

log = get_logger(__name__)

_AGAIN_S = 60.0
_IMAGE = "headway/gpu-probe"


class GpuProbe:
    """Asks once after each start of the engine whether it has NVIDIA's toolkit.

    No call of the engine tells that. So a container is made that asks for GPUs and has no program to run. The engine's
    complaint about one of the two is the answer.
    """

    def __init__(self, engine: DockerEngine, node: str) -> None:
        self._engine = engine
        self._node = node
        self._lock = asyncio.Lock()
        self._problem = "The container engine has not been asked yet whether it can give GPUs to containers."
        self._good_until = float("-inf")

    def forget(self) -> None:
        """The engine did not answer, and may have other settings now."""
        self._good_until = float("-inf")

    async def problem(self) -> str:
        """Why it can't, in one sentence. Empty: it can. The last answer counts while the engine does not answer."""
        async with self._lock:
            if time.monotonic() < self._good_until:
                return self._problem
            try:
                said = await self._engine.call(_try)
            except (EngineUnavailable, APIError) as error:
                log.warning("gpu.probe_failed", reason=str(error))
                return self._problem
            self._problem = f"{no_gpu_runtime(self._node)}, so no GPU is offered." if lacks_gpu_runtime(said) else ""
            self._good_until = time.monotonic() + _AGAIN_S if self._problem else float("inf")
            log.info("gpu.probed", problem=self._problem, said=said)
            return self._problem


def _try(api: APIClient) -> str:
    """What the engine says about a container that asks for GPUs. Leaves nothing behind."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("etc")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
    api.import_image_from_data(buffer.getvalue(), repository=_IMAGE, tag="1")
    config: dict[str, Any] = {
        "Image": f"{_IMAGE}:1",
        "Cmd": ["/no-program"],
        "HostConfig": {
            "NetworkMode": "none",
            "LogConfig": {"Type": "none"},
            "DeviceRequests": [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}],
        },
    }
    container = ""
    try:
        container = api.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]
        api.start(container)
    except APIError as error:
        return text_of(error)
    finally:
        if container:
            api.remove_container(container, v=True, force=True)
        api.remove_image(f"{_IMAGE}:1", force=True)
    return "started"
