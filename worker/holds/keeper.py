"""Keeps the GPUs of people's own processes on this machine, as a launcher keeps those of a container.

A hold is offered when TaskManager has placed it, and taken by the process that shows its key. It ends when that process
ends or gives it back, at its timeout, when it is stopped, or when nothing is heard of the process. Then the process is
told. Past its grace it is killed, with all that it started. The end is written down only when nothing of it lives, so
its GPUs are never given out too early. One event loop owns it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headway.clock import Clock
from headway.ids import AttemptId
from headway.logs import get_logger

from ..alarms import Alarm, Alarms
from ..box import BoxEnd, BoxStanding, StartedRecord, StopWord
from ..ports import AttemptProgress, ContainerFacts, ContainerState, EngineUnavailable, StartOrder
from . import processes
from .record import Ending, Holder, HoldFiles, HoldRecord
from .time_is_over import MS, NS, HoldLimits, end_of, ending_due, next_due_ns
from .waiting import Waiters, WaitingJobs

log = get_logger(__name__)

_AGAIN_S = 0.25  # between two looks at processes that must end
_KILL_AFTER_S = 2.0  # past its grace: its own client ends it more gently
_LAST_CHANCE_S = 10.0


class Line(Protocol):
    """The connection of a client. ``peer`` is its process."""

    peer: Holder

    def send(self, message: Mapping[str, Any]) -> None:
        """Never blocks and never raises."""
        ...


@dataclass(slots=True)
class _Hold:
    record: HoldRecord
    line: Line | None = None
    heard_ns: int = 0
    watched: int | None = None  # a descriptor
    alarm: Alarm | None = None
    busy: bool = False  # its processes are being looked at
    told: Ending | None = None
    done: bool = False  # its client has given it back
    silent: bool = False  # nothing was heard of it for too long
    warnings: list[str] = field(default_factory=list)  # said to its client, and again when it comes back


@dataclass(slots=True)
class Holds:
    """See the module."""

    folder: Path
    clock: Clock
    limits: HoldLimits = field(default_factory=HoldLimits)
    describe: Callable[[str], Mapping[str, Any]] = lambda uuid: {}
    on_change: Callable[[AttemptId], None] = lambda attempt: None
    _live: dict[AttemptId, _Hold] = field(default_factory=dict)
    _waiting: Waiters[Line] = field(default_factory=Waiters)
    _alarms: Alarms = field(init=False)
    _files: HoldFiles = field(init=False)
    _loops: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._alarms, self._files = Alarms(self.clock), HoldFiles(self.folder)

    # -- opening and closing ----------------------------------------------------------------------

    def open(self) -> None:
        """Go on with what an earlier life kept. Raises OSError."""
        self._files.open()
        for record in self._files.load():
            hold = self._live[record.attempt] = _Hold(record, heard_ns=self._now_ns())
            if record.end is None and not self._is_of_other_boot(record):
                self._follow(hold)
                self._look(hold)
        self._spawn(self._alarms.run())

    async def close(self) -> None:
        """Holds stay. Safe twice."""
        for task in list(self._loops):
            task.cancel()
        for hold in self._live.values():
            self._unfollow(hold)

    # -- of the Worker ----------------------------------------------------------------------------

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._live

    def attempts(self) -> list[AttemptId]:
        return list(self._live)

    def launch_of(self, attempt: AttemptId) -> bytes | None:
        return self._live[attempt].record.launch or None

    def check_free(self, attempt: AttemptId, gpu_uuids: Collection[str]) -> None:
        """The fence: whoever comes, a GPU is never given beside a hold that has not ended.

        Raises:
            EngineUnavailable: one has not; ask again.
        """
        for other, hold in self._live.items():
            shared = set(gpu_uuids).intersection(hold.record.gpu_uuids)
            if other != attempt and hold.record.end is None and shared:
                raise EngineUnavailable(f"GPU {min(shared)} is still held by {other}")

    def offer(self, order: StartOrder, key_hash: str, facts: Mapping[str, str]) -> None:
        """Offer its GPUs to the process that has the key. Safe twice.

        Raises:
            EngineUnavailable: not now.
        """
        if order.attempt in self._live:
            return
        record = HoldRecord(
            attempt=order.attempt,
            key_hash=key_hash,
            gpu_uuids=order.gpu_uuids,
            timeout_ms=order.spec.timeout_ms,
            grace_ms=order.spec.grace_ms,
            lease_grace_ms=order.spec.lease_grace_ms,
            boot_id=self.clock.boot_id(),
            offered_ns=self._now_ns(),
            lease_until_ns=order.lease_until_boot_ns,
            facts=dict(facts),
            launch=order.launch,
        )
        hold = _Hold(record)
        self._put(record)
        self._live[order.attempt] = hold
        self._look(hold)

    def progress(self, attempt: AttemptId) -> AttemptProgress:
        record = self._live[attempt].record
        started = None
        if record.holder is not None:
            started = StartedRecord(record.wall_ns, record.taken_ns, record.holder.pid)
        end = None if self._is_of_other_boot(record) else record.end
        return AttemptProgress(started, end, record.timeout_ms if record.extended else None)

    def standing(self, attempt: AttemptId) -> BoxStanding:
        record = self._live[attempt].record
        if record.withdrawn:
            return BoxStanding.NEVER_STARTED
        if record.end is not None:
            return BoxStanding.ENDED
        if self._is_of_other_boot(record):
            return BoxStanding.OTHER_BOOT
        return BoxStanding.MAY_START if record.holder is None else BoxStanding.RUNS

    def inspect(self, attempt: AttemptId) -> ContainerFacts:
        over = self.standing(attempt) in (BoxStanding.ENDED, BoxStanding.NEVER_STARTED, BoxStanding.OTHER_BOOT)
        return ContainerFacts(ContainerState.EXITED if over else ContainerState.RUNNING)

    def withdraw(self, attempt: AttemptId) -> bool:
        hold = self._live[attempt]
        record = hold.record
        if record.holder is not None:
            return False
        if not record.withdrawn:
            record.withdrawn = True
            self._put(record)
            self._alarms.cancel(hold.alarm)
        return True

    def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None) -> None:
        """Raises OSError."""
        hold = self._live[attempt]
        record = hold.record
        grace = record.grace_ms if grace_ms is None else grace_ms
        if record.ending is None:
            record.ending = Ending(BoxEnd.STOPPED, self._now_ns(), grace, word)
        elif grace < record.ending.grace_ms:
            record.ending = Ending(record.ending.reason, record.ending.at_ns, grace, record.ending.word)
        else:
            return
        self._files.put(record)
        self._look(hold)

    def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        """Raises OSError."""
        hold = self._live[attempt]
        record = hold.record
        if record.end is not None or record.ending is not None or timeout_ms <= record.timeout_ms:
            return
        record.timeout_ms, record.extended = timeout_ms, True
        self._files.put(record)
        self._tell_times(hold)
        self._look(hold)
        self.on_change(attempt)

    def renew(self, attempt: AttemptId, until_ns: int | None) -> None:
        """Raises OSError."""
        hold = self._live[attempt]
        record = hold.record
        self._look(hold)  # one whose lease is over ends, although nobody has looked since
        if record.end is None and record.ending is None and record.lease_until_ns != until_ns:
            record.lease_until_ns = until_ns
            self._files.put(record)
            self._tell_times(hold)
            self._look(hold)

    def kill(self, attempt: AttemptId) -> None:
        self.stop(attempt, StopWord.PLATFORM, 0)
        holder = self._live[attempt].record.holder
        if holder is not None:
            processes.kill(holder)

    def warn(self, attempt: AttemptId, sentence: str) -> None:
        """Tell the client, if the attempt is a hold. It goes on."""
        hold = self._live.get(attempt)
        if hold is None or hold.record.end is not None or sentence in hold.warnings:
            return
        hold.warnings.append(sentence)
        if hold.line is not None:
            hold.line.send({"warning": sentence})

    def remove(self, attempt: AttemptId) -> None:
        hold = self._live.pop(attempt)
        self._alarms.cancel(hold.alarm)
        self._unfollow(hold)
        with contextlib.suppress(OSError):
            self._files.remove(attempt)

    # -- of clients -------------------------------------------------------------------------------

    def hear_all(self) -> None:
        """All clients of this machine can come. Said again: one could not until now."""
        self._waiting.hear_all(self._now_ns())

    def hear_nobody(self) -> None:
        """No client can come any more."""
        self._waiting.hear_nobody()

    def waiting_jobs(self) -> WaitingJobs:
        """For TaskManager: whose clients wait here, and live."""
        return self._waiting.jobs(self._now_ns(), self.limits.silence_s)

    def wait_for(self, line: Line, key: str, job: str = "") -> None:
        """The client waits for what this key opens, or comes back to what it has. ``job`` empty: it will know it."""
        key_hash = hashlib.sha256(key.encode()).hexdigest()
        for hold in self._live.values():
            if hold.record.key_hash == key_hash and hold.record.end is None and not hold.record.withdrawn:
                self._come(hold, line)
                return
        self._waiting.put(key_hash, line, job, self._now_ns())

    def name(self, line: Line, job: str) -> None:
        """The client waits for this job."""
        self._waiting.name(line, job)

    def beat(self, line: Line) -> None:
        """The client is alive."""
        self._waiting.beat(line, self._now_ns())
        for hold in self._of(line):
            hold.heard_ns, hold.silent = self._now_ns(), False

    def give_back(self, line: Line, exit_code: int | None, signal_number: int | None) -> None:
        """The client has ended its program, or needs the GPUs no more."""
        for hold in self._of(line):
            if not hold.done:
                hold.done = True
                hold.record.exit_code, hold.record.signal = exit_code, signal_number
                self._look(hold)

    def gone(self, line: Line) -> None:
        """The connection is closed. The process may come back with another one."""
        self._waiting.gone(line, self._now_ns())
        for hold in self._of(line):
            hold.line = None
            self._look(hold)

    # -- inside -----------------------------------------------------------------------------------

    def _of(self, line: Line) -> list[_Hold]:
        return [hold for hold in self._live.values() if hold.line is line]

    def _come(self, hold: _Hold, line: Line) -> None:
        record = hold.record
        if record.holder is None:
            self._grant(hold, line)
            return
        if line.peer != record.holder:
            line.send({"refused": f"{record.attempt} is held by another process."})
            return
        hold.line, hold.heard_ns, hold.told = line, self._now_ns(), None
        self._send_grant(hold)
        for sentence in hold.warnings:  # it may not have heard them
            line.send({"warning": sentence})
        self._look(hold)

    def _grant(self, hold: _Hold, line: Line) -> None:
        record = hold.record
        if record.ending is not None or not processes.lives(line.peer):
            return
        record.holder, record.taken_ns = line.peer, self._now_ns()
        record.wall_ns = round(self.clock.now() * NS)
        try:
            self._files.put(record)  # before anybody is told: a Worker that is killed now knows whose it is
        except OSError as error:
            record.holder = None
            log.warning("hold.not_stored", attempt=str(record.attempt), reason=str(error))
            return
        hold.line, hold.heard_ns = line, self._now_ns()
        self._follow(hold)
        self._send_grant(hold)
        log.info("hold.taken", attempt=str(record.attempt), pid=line.peer.pid, uid=line.peer.uid)
        self._look(hold)
        self.on_change(record.attempt)

    def _send_grant(self, hold: _Hold) -> None:
        record = hold.record
        assert hold.line is not None
        devices = [{"uuid": uuid, **self.describe(uuid)} for uuid in record.gpu_uuids]
        devices.sort(key=lambda one: (one.get("index", -1), one["uuid"]))
        hold.line.send({"granted": str(record.attempt), "devices": devices, "facts": record.facts})
        self._tell_times(hold)

    def _tell_times(self, hold: _Hold) -> None:
        record = hold.record
        if hold.line is None or record.holder is None:
            return
        hold.line.send(
            {
                "until": (record.taken_ns + record.timeout_ms * MS) / NS,
                "alone_until": None if record.lease_until_ns is None else record.lease_until_ns / NS,
                "grace": record.grace_ms / 1000,
            }
        )

    def _follow(self, hold: _Hold) -> None:
        if hold.record.holder is None or hold.watched is not None:
            return
        hold.watched = processes.watch(hold.record.holder)
        if hold.watched is not None:
            asyncio.get_running_loop().add_reader(hold.watched, self._ended, hold)

    def _unfollow(self, hold: _Hold) -> None:
        if hold.watched is not None:
            asyncio.get_running_loop().remove_reader(hold.watched)
            os.close(hold.watched)
            hold.watched = None

    def _ended(self, hold: _Hold) -> None:
        self._unfollow(hold)
        self._look(hold)

    def _look(self, hold: _Hold) -> None:
        """Decide what is due of one hold now, and when to look again."""
        record, now_ns = hold.record, self._now_ns()
        self._alarms.cancel(hold.alarm)
        if record.end is not None or record.withdrawn:
            return
        self._note_ending(hold, now_ns)
        if record.holder is None:
            if record.ending is not None:
                self._finish(hold)
                return
            line = self._waiting.take(record.key_hash)
            if line is not None:
                self._grant(hold, line)
                return
            self._look_at(hold, next_due_ns(record, hold.heard_ns, self.limits))
            return
        if hold.done or record.ending is not None or not processes.lives(record.holder):
            self._bring_to_end(hold, now_ns)
            return
        self._look_at(hold, next_due_ns(record, hold.heard_ns, self.limits))

    def _note_ending(self, hold: _Hold, now_ns: int) -> None:
        """Write down why it ends, if it has to."""
        record = hold.record
        if record.ending is not None or hold.done:
            return
        silence_ns = round(self.limits.silence_s * NS)
        if record.holder is not None and not hold.silent and hold.heard_ns + silence_ns <= now_ns:
            # The whole machine may have slept: its client can speak once more.
            hold.silent = True
            hold.heard_ns = now_ns - silence_ns + min(silence_ns, round(_LAST_CHANCE_S * NS))
        record.ending = ending_due(record, hold.heard_ns, now_ns, self.limits)
        if record.ending is not None:
            with contextlib.suppress(OSError):  # then the next life decides the same
                self._files.put(record)

    def _bring_to_end(self, hold: _Hold, now_ns: int) -> None:
        """Tell the client, and kill what is left past the grace. The end comes once nothing lives."""
        record = hold.record
        assert record.holder is not None
        ending, gone = record.ending, hold.done or not processes.lives(record.holder)
        if not gone and ending is not None:
            if hold.line is not None and hold.told != ending:
                hold.told = ending
                hold.line.send({"stop": ending.word or ending.reason, "grace": ending.grace_ms / 1000})
            kill_ns = ending.at_ns + ending.grace_ms * MS + round(_KILL_AFTER_S * NS)
            if ending.grace_ms and now_ns < kill_ns:
                self._look_at(hold, kill_ns)
                return
            processes.kill(record.holder, signal.SIGKILL)
        if not hold.busy:
            hold.busy = True
            self._spawn(self._clear(hold))

    async def _clear(self, hold: _Hold) -> None:
        """Kill all that was started from the holder until nothing lives, then write down the end."""
        record = hold.record
        assert record.holder is not None
        try:
            while self._live.get(record.attempt) is hold and record.end is None:
                own = record.holder
                left = await asyncio.to_thread(processes.started_from, str(record.attempt), besides=own.pid)
                for one in left:
                    processes.kill(one)
                alive = processes.lives(own) and not hold.done
                if not left and not alive:
                    self._finish(hold)
                    return
                if alive:
                    processes.kill(own)
                await self.clock.sleep(_AGAIN_S if alive else 0.02)
        finally:
            hold.busy = False

    def _finish(self, hold: _Hold) -> None:
        record = hold.record
        record.end = end_of(record, done=hold.done, now_ns=self._now_ns(), wall_ns=round(self.clock.now() * NS))
        with contextlib.suppress(OSError):  # a restarted Worker finds the same once more
            self._files.put(record)
        if hold.line is not None:
            hold.line.send({"ended": record.end.reason})
        self._unfollow(hold)
        log.info("hold.ended", attempt=str(record.attempt), reason=record.end.reason.value)
        self.on_change(record.attempt)

    def _look_at(self, hold: _Hold, at_ns: int) -> None:
        hold.alarm = self._alarms.set(at_ns / NS + 0.001, lambda: self._look(hold))

    def _put(self, record: HoldRecord) -> None:
        try:
            self._files.put(record)
        except OSError as error:
            raise EngineUnavailable(f"The Worker can't write down who holds the GPUs: {error.strerror}") from error

    def _is_of_other_boot(self, record: HoldRecord) -> bool:
        return record.boot_id != self.clock.boot_id()

    def _now_ns(self) -> int:
        return round(self.clock.monotonic() * NS)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._loops.add(task)
        task.add_done_callback(self._loops.discard)
