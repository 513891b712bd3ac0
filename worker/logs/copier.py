"""Copies the attempts' logs to the shared mount, whatever state that mount is in.

Each attempt has up to three streams. A few threads of their own copy them, so a mount that hangs stops only the copies.
A mount that is full, stale or gone is tried again without end, with growing pauses. Meanwhile the spool stays on the
local disk, where the task's log limit bounds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.backoff import Backoff
from headway.clock import Clock
from headway.ids import AttemptId
from headway.logs import get_logger

from ..box import open_regular
from .spool_copy import TRANSIENT_ERRORS, SpoolCopy

log = get_logger(__name__)

STREAMS = ("stdout", "stderr", "platform")
_THREADS = 3
_SHORT_AT_ONCE = 64
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class CopyJob:
    """The copy of one attempt's logs."""

    attempt: AttemptId
    target: Path  # folder on the mount
    spools: dict[str, SpoolCopy]
    platform_log: bytes = b""
    platform_log_copied: int = -1  # length that was written last; -1: none yet
    index: Path | None = None  # when which bytes came
    index_copied: bool = False
    final: bool = False
    trailer: bytes = b""  # after the last byte of stdout
    busy: bool = False
    pauses: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S))
    not_before: float = 0.0  # monotonic seconds
    problem: str = ""  # why the last try failed
    problem_errno: int | None = None
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def done(self) -> bool:
        return self.finished.is_set()


class LogCopier:
    """See the module. Call all methods on the event loop. Only ``wait`` waits for the mount.

    ``mount_problem`` is the problem that the last look at the mount found. ``reach`` gives a path to a folder that
    leads to the real mount only. It raises OSError when the mount isn't there.
    """

    def __init__(
        self,
        clock: Clock,
        mount_problem: Callable[[], str],
        *,
        reach: Callable[[Path], contextlib.AbstractContextManager[Path]] = contextlib.nullcontext,
        every_s: float = 2.0,
    ) -> None:
        self._clock = clock
        self._mount_problem = mount_problem
        self._reach = reach
        self._every_s = every_s
        self._jobs: dict[AttemptId, CopyJob] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="log-copy")
        self._wake = asyncio.Event()
        self._steps: set[asyncio.Task[None]] = set()
        self._short: list[CopyJob] = []  # without spools: they wait for their turn
        self._copies_short = False
        self._closed = False

    # -- calls of the executor -----------------------------------------------------------------------

    def begin(
        self, attempt: AttemptId, target: Path, stdout: Path | None, stderr: Path | None, index: Path | None = None
    ) -> CopyJob:
        """Copy from now on. Safe twice, and for an attempt from before this Worker's restart. ``index`` follows at the
        end, if there is output."""
        job = self._jobs.get(attempt)
        if job is None:
            spools = {
                name: SpoolCopy(source, target / f"{name}.log")
                for name, source in (("stdout", stdout), ("stderr", stderr))
                if source is not None
            }
            job = self._jobs[attempt] = CopyJob(attempt, target, spools, index=index)
            if spools:
                self._wake.set()
        return job

    def begin_files(self, attempt: AttemptId, target: Path, files: Mapping[str, Path]) -> CopyJob:
        """Copy these growing files from now on, under their names. They stay whole on the local disk. Safe twice."""
        job = self._jobs.get(attempt)
        if job is None:
            spools = {name: SpoolCopy(source, target / name, punch=False) for name, source in files.items()}
            job = self._jobs[attempt] = CopyJob(attempt, target, spools, platform_log_copied=0)
            self._wake.set()
        return job

    def get(self, attempt: AttemptId) -> CopyJob | None:
        """The attempt's copy job, until it is forgotten."""
        return self._jobs.get(attempt)

    def set_platform_log(self, attempt: AttemptId, platform_log: bytes) -> None:
        """Set the platform log as it is now. It only grows, and is written in the next round."""
        job = self._jobs.get(attempt)
        if job is not None:
            job.platform_log = platform_log

    def finish(self, attempt: AttemptId, *, platform_log: bytes, trailer: bytes = b"") -> CopyJob | None:
        """The spools don't grow any more: copy what is left at once. Safe twice."""
        job = self._jobs.get(attempt)
        if job is not None and not job.final:
            job.platform_log, job.trailer, job.final = platform_log, trailer, True
            self._try(job)
        return job

    async def wait(self, attempt: AttemptId, within_s: float) -> bool:
        """Wait ``within_s`` seconds at most. Returns whether all logs of a finished attempt are on the mount."""
        job = self._jobs.get(attempt)
        if job is None or job.done:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job.finished.wait(), within_s)
        return job.done

    def forget(self, attempt: AttemptId) -> None:
        """Nothing more is to be copied. Safe twice."""
        self._jobs.pop(attempt, None)

    def try_again(self) -> None:
        """The mount is back: end the pauses of the copies."""
        for job in self._jobs.values():
            job.pauses.reset()
            job.not_before = 0.0

    @property
    def jobs(self) -> list[CopyJob]:
        """All that are not forgotten."""
        return list(self._jobs.values())

    @property
    def held(self) -> list[CopyJob]:
        """Copies that wait for the mount."""
        return [job for job in self._jobs.values() if job.problem]

    # -- life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy in rounds what has grown. It sleeps without end while there is nothing to copy."""
        while True:
            waiting = [job for job in self._jobs.values() if not job.done]
            if not any(job.spools or job.final for job in waiting):
                self._wake.clear()
                await self._wake.wait()
                continue
            now = self._clock.monotonic()
            for job in waiting:
                if not job.busy and now >= job.not_before and self._has_news(job):
                    self._try(job)
            await self._clock.sleep(self._every_s)

    async def close(self) -> None:
        """Stop. A thread that hangs in the mount is left alone. Copies go on after the next start. Safe twice."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for step in list(self._steps):
            step.cancel()

    # -- inside ---------------------------------------------------------------------------------------

    def _has_news(self, job: CopyJob) -> bool:
        if job.final or job.platform_log_copied < len(job.platform_log):
            return True
        for spool in job.spools.values():
            # Local disk, in the inode cache: a thread would cost more than the call.
            with contextlib.suppress(OSError):
                if spool.source.stat().st_size > spool.copied:
                    return True
        return False

    def _try(self, job: CopyJob) -> None:
        if job.busy or self._closed:
            return
        job.busy = True
        if job.spools:
            self._start(self._step([job]))
            return
        self._short.append(job)
        if not self._copies_short:
            self._copies_short = True
            self._start(self._copy_short())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        step = asyncio.get_running_loop().create_task(work)
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)

    async def _copy_short(self) -> None:
        """Platform logs alone are short, and a thread's turn costs more than the copy. So many of them share one."""
        try:
            while self._short:
                jobs = self._short[:_SHORT_AT_ONCE]
                del self._short[:_SHORT_AT_ONCE]
                await self._step(jobs)
        finally:
            self._copies_short = False

    async def _step(self, jobs: Sequence[CopyJob]) -> None:
        finals = [job.final for job in jobs]
        try:
            outcomes = await asyncio.get_running_loop().run_in_executor(self._threads, self._copy, jobs, finals)
        except RuntimeError:
            return  # closed meanwhile
        finally:
            for job in jobs:
                job.busy = False
        for job, final, outcome in zip(jobs, finals, outcomes, strict=True):
            self._after_step(job, final, outcome)

    def _after_step(self, job: CopyJob, final: bool, outcome: bool | OSError) -> None:
        if isinstance(outcome, OSError):
            self._hold(job, outcome)
        else:
            if job.problem:
                log.info("copy.goes_on", attempt=str(job.attempt))
            job.pauses.reset()
            job.problem, job.not_before = "", 0.0
            if outcome and final:
                job.finished.set()
        if not job.done and job.final and not job.problem:
            # The end came during an ordinary round, or more is left than one step copies.
            self._try(job)
        elif job.problem:
            self._wake.set()

    def _hold(self, job: CopyJob, error: OSError) -> None:
        if error.errno not in TRANSIENT_ERRORS or not job.problem:
            log.warning("copy.held", attempt=str(job.attempt), reason=error.strerror or str(error), errno=error.errno)
        job.problem, job.problem_errno = error.strerror or str(error), error.errno
        job.not_before = self._clock.monotonic() + job.pauses.next_s()

    def _copy(self, jobs: Sequence[CopyJob], finals: Sequence[bool]) -> list[bool | OSError]:
        """In a thread. Of each: whether nothing is left to do now, or why it failed."""
        common = os.path.commonpath([job.target for job in jobs])
        with contextlib.ExitStack() as held:
            reached = ""

            def folder(job: CopyJob) -> Path:
                nonlocal reached
                if not reached:
                    problem = self._mount_problem()
                    if problem:
                        raise FileNotFoundError(errno.ENOENT, problem)
                    # That was seconds ago. If the mount is gone, bytes would go to the bare folder and be lost.
                    reached = str(held.enter_context(self._reach(Path(common))))
                return Path(reached + str(job.target)[len(common) :])

            outcomes: list[bool | OSError] = []
            for job, final in zip(jobs, finals, strict=True):
                try:
                    outcomes.append(_copy_one(job, final, lambda job=job: folder(job)))  # type: ignore[misc]
                except OSError as error:
                    outcomes.append(error)
            return outcomes


def _copy_one(job: CopyJob, final: bool, folder: Callable[[], Path]) -> bool:
    done = True
    for name, spool in job.spools.items():
        trailer = job.trailer if final and name == "stdout" else b""
        done = spool.step(final=final, trailer=trailer, reach=folder) and done
    if final and not job.index_copied:
        _copy_index(job, folder)
        job.index_copied = True
    platform_log = job.platform_log
    if job.platform_log_copied < len(platform_log):
        _write_platform_log(folder(), platform_log)
        job.platform_log_copied = len(platform_log)
    return done


def _copy_index(job: CopyJob, folder: Callable[[], Path]) -> None:
    # Without an fsync, as the platform log: without it lines have no times, and one stream is shown after the other.
    if job.index is None or not any(_has_bytes(spool.source) for spool in job.spools.values()):
        return
    try:
        descriptor = open_regular(job.index)
    except OSError:
        return  # none, or no longer a plain file
    with os.fdopen(descriptor, "rb") as source:
        target = folder() / "index.log"
        part = target.with_name("index.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o640), "wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        os.replace(part, target)


def _has_bytes(path: Path) -> bool:
    try:
        return path.lstat().st_size > 0
    except FileNotFoundError:
        return False


def _write_platform_log(folder: Path, platform_log: bytes) -> None:
    # Without an fsync: no result depends on it, and on a network mount it would cost each task a round trip.
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    path = folder / "platform.log"
    try:
        descriptor = os.open(path, flags, 0o640)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o750, exist_ok=True)
        descriptor = os.open(path, flags, 0o640)
    try:
        os.pwrite(descriptor, platform_log, 0)
    finally:
        os.close(descriptor)
