"""How much of a disk each live attempt holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from headway.errors import HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger

from ..machine import file_usage
from ..machine.mount import SharedMount
from ..ports import EngineUnavailable, Runtime
from .task_executor import TaskExecutor

log = get_logger(__name__)
T = TypeVar("T")


class AttemptDiskUsage:
    """``DiskUsageReader`` of real attempts.

    It counts the container's own file system, its ``/root`` and volumes, its box with the spools, and files that it
    holds open without a name. It also counts what the task has written into its owner's home, if that is on the same
    disk.
    """

    def __init__(
        self,
        attempts_dir: Path,
        runtime: Runtime,
        mounted: SharedMount,
        using_resources: Callable[[], Sequence[TaskExecutor]],
    ) -> None:
        self._attempts_dir = attempts_dir
        self._runtime = runtime
        self._mounted = mounted
        self._using_resources = using_resources
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="disk-use")

    def close(self) -> None:
        """Release the threads. Safe twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def uses(self, device: int) -> Mapping[AttemptId, int]:
        executors = [one for one in self._using_resources() if one.record.stop is None]
        sizes = await asyncio.gather(*(self._use(one, device) for one in executors))
        return {one.record.attempt: size for one, size in zip(executors, sizes, strict=True)}

    async def _use(self, executor: TaskExecutor, device: int) -> int:
        attempt = executor.record.attempt
        box = self._attempts_dir / attempt.folder
        total = await self._in_thread(lambda: file_usage.tree_bytes(box, device))
        try:
            files = await self._runtime.files(attempt)
        except EngineUnavailable as error:
            log.warning("attempt.not_measured", attempt=str(attempt), reason=str(error))
            return total
        pid = files.pid
        pids = await self._in_thread(lambda: file_usage.processes_with(pid)) if pid is not None else []

        def container() -> int:
            size = sum(file_usage.tree_bytes(folder, device) for folder in files.folders)
            # Its volumes lie on the disk itself. What is stacked has a device of its own.
            devices: set[int | None] = {device}
            if pid is not None and file_usage.device_of(files.root) == device:
                devices.add(file_usage.device_of(Path(f"/proc/{pid}/root")))
            if files.home is not None:
                size += file_usage.tree_bytes(files.home, device)
                if pid is not None and file_usage.device_of(files.home) == device:
                    devices |= file_usage.home_devices(pid)
            size += file_usage.unlinked_bytes(pids, devices)
            return size + (files.more_bytes if file_usage.device_of(files.root) == device else 0)

        own = await self._in_thread(container)
        return total + own + await self._written_into_home(executor, device, pids, own)

    async def _written_into_home(self, executor: TaskExecutor, device: int, pids: Sequence[int], own: int) -> int:
        """What is new in the home since the task began.

        It is no more than the task has written besides its ``own`` files: the owner's other tasks may write there too.
        """
        began_at = executor.record.times.process_started_at
        if began_at is None or not pids:
            return 0
        try:
            home = await self._mounted.home(executor.launch.owner)
            if await self._mounted.call(lambda: file_usage.device_of(home)) != device:
                return 0
        except (HeadwayError, OSError):
            return 0  # a mount that does not answer is no disk of this machine
        written = await self._in_thread(lambda: file_usage.written_bytes(pids)) - own
        if written <= 0:
            return 0
        new = await self._in_thread(lambda: file_usage.tree_bytes(home, device, changed_since=began_at - 1.0))
        return min(written, new)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
