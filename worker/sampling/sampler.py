"""Looks at all live attempts in rounds, one for all of them together, and keeps what it saw.

A round asks the driver once for all GPUs of all attempts, then reads a few files of the kernel for each container. The
samples go to the Worker's own disk in a thread. Nothing here waits for the shared mount, for the container engine, or
for long for a driver. What can't be read is a gap, never a made-up value.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from headway.clock import Clock
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.samples.model import FILE, MINUTES_FILE, Header, Sample

from ..logs.copier import LogCopier
from ..ports import GpuReading, Gpus, Runtime
from .idle_rule import IdleMode, IdleRule, IdleSpan, IdleStep
from .recording import Recording, header_of

log = get_logger(__name__)
T = TypeVar("T")

_WRITE_S = 2.0  # for the end of a recording: a local disk that hangs longer delays no report
_RESUME_S = 10.0  # the same after a restart, when all samples are read once more


@dataclass(frozen=True, slots=True)
class Watched:
    """A live attempt whose process runs. ``began_at``: since when, in epoch seconds."""

    attempt: AttemptId
    began_at: float
    gpu_uuids: tuple[str, ...] = ()
    share: bool = False  # it shares its GPU, whose other readings are of all tasks on it


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of an attempt that has ended."""

    use: tm.AttemptUse | None = None
    peak_memory_bytes: int | None = None  # by the kernel's counter


@dataclass(frozen=True, slots=True)
class IdleNews:
    """An attempt's GPUs have been idle for long."""

    attempt: AttemptId
    step: IdleStep
    gpus: int
    idle_s: float


class Sampler:
    """See the module. ``folder`` holds a folder for each attempt. ``every_s`` 0: nothing is sampled.

    ``live`` names the attempts to look at. ``on_idle`` is told what the rule against idle GPUs finds.
    """

    def __init__(
        self,
        folder: Path,
        runtime: Runtime,
        gpus: Gpus,
        clock: Clock,
        *,
        every_s: float,
        live: Callable[[], Sequence[Watched]],
        copier: LogCopier,
        target: Callable[[AttemptId], Path],
        idle_rule: IdleRule | None = None,
        on_idle: Callable[[IdleNews], Awaitable[None]] | None = None,
        held_bytes: Callable[[AttemptId], int | None] = lambda attempt: None,
    ) -> None:
        self._folder = folder
        self._runtime = runtime
        self._gpus = gpus
        self._clock = clock
        self.every_s = every_s
        self._live = live
        self._copier = copier
        self._target = target
        self._idle_rule = idle_rule if idle_rule is not None and idle_rule.mode is not IdleMode.OFF else None
        self._on_idle = on_idle
        self._held_bytes = held_bytes  # what an attempt with a share holds of its GPU; None: not known
        self._recordings: dict[AttemptId, Recording] = {}
        self._resuming: dict[AttemptId, asyncio.Task[Recording | None]] = {}
        self._spans: dict[AttemptId, IdleSpan] = {}
        self._looked_for: set[AttemptId] = set()  # whether a file of theirs is there
        self._over: set[AttemptId] = set()  # ended, or their files can't be written
        # The first writes samples. The second reads whole files after a restart, which may take a while.
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="samples")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="samples-read")
        self._failed = False

    # -- rounds ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sample for as long as the service runs. A round that fails is a gap."""
        next_at = self._clock.monotonic()
        while True:
            if self.every_s > 0:
                await self._safe_round()
            # On a grid, so that what a round takes makes the next one no later.
            now = self._clock.monotonic()
            step = self.every_s or 60.0
            next_at = next_at + step if next_at + step > now else now + step
            await self._clock.sleep(next_at - now)

    async def _safe_round(self) -> None:
        try:
            await self.round()
        except Exception as error:
            # It must never cost a task, or the Worker.
            if not self._failed:
                log.error("sampling.failed", exc=error)
            self._failed = True
        else:
            self._failed = False

    async def round(self) -> None:
        """Look once at all live attempts."""
        watched = [one for one in self._live() if one.attempt not in self._over]
        self._forget_gone({one.attempt for one in watched})
        ready = [one for one in watched if self._is_ready(one)]
        if not ready:
            return
        uuids = {uuid for one in ready for uuid in one.gpu_uuids}
        readings = await self._gpus.sample(uuids) if uuids else {}
        at = self._clock.now()
        seen = await self._in_thread(self._writing, lambda: self._write(ready, readings, at))
        for one, sample in seen:
            self._begin_copy(one.attempt)
            await self._look_for_idle(one, sample)

    def _is_ready(self, one: Watched) -> bool:
        """Whether it may be sampled now. What an earlier life of this Worker wrote has to be read before."""
        if one.attempt in self._recordings or one.attempt in self._looked_for:
            return True
        task = self._resuming.get(one.attempt)
        if task is None:
            if not (self._folder / one.attempt.folder / FILE).exists():
                self._looked_for.add(one.attempt)
                return True
            task = self._resuming[one.attempt] = asyncio.get_running_loop().create_task(self._resume(one))
        if not task.done():
            return False
        del self._resuming[one.attempt]
        found = None if task.cancelled() or task.exception() else task.result()
        if found is None:
            self._over.add(one.attempt)  # of another version, or damaged: it stays as it is
            return False
        self._recordings[one.attempt] = found
        return True

    def _write(
        self, watched: Sequence[Watched], readings: Mapping[str, GpuReading], at: float
    ) -> list[tuple[Watched, Sample]]:
        """In a thread."""
        seen = []
        for one in watched:
            if one.attempt in self._over:
                continue
            counters = self._runtime.counters(one.attempt)
            recording = self._recordings.get(one.attempt)
            if recording is None:
                header = header_of(one.gpu_uuids, readings, every_s=self.every_s, began_at=one.began_at)
                try:
                    recording = Recording.begin(self._folder / one.attempt.folder, header)
                except OSError as error:
                    log.warning("samples.not_begun", attempt=str(one.attempt), reason=error.strerror or str(error))
                    continue
                self._recordings[one.attempt] = recording
            sample = recording.add(at, counters, self._own(one, readings))
            if sample is not None:
                seen.append((one, sample))
        return seen

    def _own(self, one: Watched, readings: Mapping[str, GpuReading]) -> Mapping[str, GpuReading]:
        """Of a GPU that is shared, the memory that this attempt holds. The driver tells all else of the card alone."""
        if not one.share:
            return readings
        held = self._held_bytes(one.attempt)
        found = {uuid: readings[uuid] for uuid in one.gpu_uuids if uuid in readings}
        return {uuid: replace(gpu, memory_used_bytes=held) for uuid, gpu in found.items()}

    def _forget_gone(self, live: set[AttemptId]) -> None:
        for attempt in self._looked_for - live:
            self._looked_for.discard(attempt)
            self._spans.pop(attempt, None)

    # -- the rule against idle GPUs -----------------------------------------------------------------------

    async def _look_for_idle(self, one: Watched, sample: Sample) -> None:
        span = self._span(one)
        if span is None or self._on_idle is None:
            return
        step = span.add(sample.at, sample.gpus)
        if step is not IdleStep.NONE:
            await self._on_idle(IdleNews(one.attempt, step, len(one.gpu_uuids), span.idle_s))

    def _span(self, one: Watched) -> IdleSpan | None:
        if self._idle_rule is None or not one.gpu_uuids:
            return None
        if one.attempt not in self._spans:
            gap_s = Header((), self.every_s or 1.0, 0.0).longest_gap_s
            self._spans[one.attempt] = IdleSpan(self._idle_rule, gap_s)
        return self._spans[one.attempt]

    # -- the end of an attempt ------------------------------------------------------------------------------

    async def finish(self, attempt: AttemptId, gpu_uuids: tuple[str, ...] = ()) -> Measured:
        """Its container has ended: write what is left, and copy it. The sums of all samples. Safe twice.

        It takes some seconds at most, whatever disk, driver and mount do. Then the sums are missing.
        """
        self._over.add(attempt)
        try:
            recording = None
            if attempt in self._recordings:
                # In the thread that writes: it may be about to write a sample of this attempt.
                taking = self._in_thread(self._writing, lambda: self._recordings.pop(attempt, None))
                recording = await asyncio.wait_for(taking, _WRITE_S)
            elif self._has_file(attempt):
                # This Worker was restarted, and it ended meanwhile.
                task = self._resuming.pop(attempt, None)
                resumed = task or asyncio.get_running_loop().create_task(self._resume(Watched(attempt, 0.0, gpu_uuids)))
                recording = await asyncio.wait_for(resumed, _RESUME_S)
            if recording is None:
                return Measured()
            use = await asyncio.wait_for(self._in_thread(self._writing, recording.end), _WRITE_S)
            return Measured(use, recording.peak_memory_bytes)
        except Exception as error:  # a bug here must not cost an attempt its end
            log.warning("samples.no_sums", attempt=str(attempt), reason=str(error) or type(error).__name__)
            return Measured()
        finally:
            if self._has_file(attempt):
                self._begin_copy(attempt)
                self._copier.finish(attempt, platform_log=b"")

    async def copied(self, attempt: AttemptId) -> None:
        """Wait until all samples of an ended attempt are on the mount, however long that takes."""
        if self._has_file(attempt):
            self._begin_copy(attempt)
            job = self._copier.finish(attempt, platform_log=b"")
            if job is not None:
                await job.finished.wait()
        self._copier.forget(attempt)
        self._recordings.pop(attempt, None)
        self._over.discard(attempt)

    def file_of(self, attempt: AttemptId) -> Path:
        """The samples on this machine's disk. There may be none."""
        return self._folder / attempt.folder / FILE

    async def close(self) -> None:
        """Release the threads. A restarted Worker goes on. Safe twice."""
        for task in self._resuming.values():
            task.cancel()
        for threads in (self._writing, self._reading):
            threads.shutdown(wait=False, cancel_futures=True)

    # -- inside -----------------------------------------------------------------------------------------

    async def _resume(self, one: Watched) -> Recording | None:
        span = self._span(one)

        def on_sample(sample: Sample) -> None:
            if span is not None:
                span.add(sample.at, sample.gpus)

        folder = self._folder / one.attempt.folder
        try:
            found = await self._in_thread(self._reading, lambda: Recording.resume(folder, one.gpu_uuids, on_sample))
        except (OSError, ValueError) as error:
            log.warning("samples.not_resumed", attempt=str(one.attempt), reason=str(error))
            return None
        if span is not None:
            span.go_on()
        return found

    def _has_file(self, attempt: AttemptId) -> bool:
        with contextlib.suppress(OSError):
            return self.file_of(attempt).exists()
        return False

    def _begin_copy(self, attempt: AttemptId) -> None:
        if self._copier.get(attempt) is None:
            folder = self._folder / attempt.folder
            names = (FILE, MINUTES_FILE)
            self._copier.begin_files(attempt, self._target(attempt), {name: folder / name for name in names})

    async def _in_thread(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work)
