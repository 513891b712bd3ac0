"""The launcher as docs/box.md tells it: each numbered step is one step here, and may be the last."""

from __future__ import annotations

import asyncio
import fcntl
import os
from typing import TYPE_CHECKING

from headway.ids import AttemptId
from worker import box as boxes
from worker.box import Box, BoxEnd, EndRecord, StopWord

from .stage import Process, event_within

if TYPE_CHECKING:
    from .world import Machine, World

_NS = 1_000_000_000
_LOCK_PATIENCE_S = 10.0
_ORDERS_EVERY_S = 5.0
_START_S = 0.2  # from the ticket to the program: no order is looked at in between


class Launcher:
    """Process 1 of a container. It ends with ``kill`` at any moment, or by itself."""

    def __init__(self, world: World, machine: Machine, attempt: AttemptId, box: Box) -> None:
        self.world, self.machine, self.attempt, self.box = world, machine, attempt, box
        self.exit_code: int | None = None
        self.orders = asyncio.Event()
        self.gone = asyncio.Event()  # it and everybody in its container
        self.terminated = asyncio.Event()
        self.runs_program = False
        self._ended = asyncio.Event()  # the program
        self._lock, self._locked = -1, False
        self._process = Process(f"launcher of {attempt}")
        self._process.spawn(self._run())

    @property
    def lives(self) -> bool:
        return self.exit_code is None

    @property
    def holds_lock(self) -> bool:
        return self.lives and self._locked

    def kill(self, *, at_once: bool = False) -> None:
        """KILL. Its lock is free in this moment. The kernel ends the others of the container a moment later."""
        if self.exit_code is not None:
            if at_once and not self.gone.is_set():
                self._all_gone()  # the machine goes while the others of the container are still ending
            return
        self._process.kill()
        self._exit(137, at_once=at_once)

    # -- the steps ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            code = await self._steps()
        except OSError as error:
            self.world.tell(f"launcher of {self.attempt}: {error}")
            code = 125
        if self._process.alive:
            self._exit(code)

    async def _steps(self) -> int:
        world, box, clock = self.world, self.box, self.machine.clock
        broken = world.broken
        await self._step("begins")
        # 1. It locks.
        if "launcher: lock not taken" not in broken:
            self._lock = os.open(box.lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            until = clock.monotonic() + _LOCK_PATIENCE_S
            while not self._try_lock():
                if clock.monotonic() > until:
                    return 125
                await clock.sleep(1.0)
        await self._step("has the lock")
        # 2. An attempt runs once.
        if "launcher: runs again" not in broken and _was_used(box):
            return 125
        await self._step("is the first")
        # 3. A ticket of this boot.
        pairs = _pairs(box.ticket)
        if pairs.get("boot_id") != clock.boot_id() and "launcher: ticket of any boot" not in broken:
            return 125
        await self._step("has seen the ticket")
        # 4. Lease and stop order, before it prepares.
        if self._write_end_for_orders():
            return 0
        await self._step("prepares")
        # 5. The same once more, and the ticket.
        if self._write_end_for_orders():
            return 0
        try:
            os.rename(box.ticket, box.ticket_taken)
        except FileNotFoundError:
            if "launcher: ticket not needed" not in broken:
                return 125
        world.hit("launcher has taken the ticket", self.machine)
        self._process.check()
        await world.delay(clock, _START_S, usual=0.02)
        # 6. The program.
        self.runs_program = True
        world.program_starts(self)
        self._process.spawn(self._program())
        await self._step("has started the program")
        boxes.write_started(
            box, boxes.StartedRecord(round(clock.now() * _NS), round(clock.monotonic() * _NS), self.attempt.number)
        )
        world.nudge(self.machine, self.attempt)
        reason, word, code, signal = await self._until_program_ends()
        # 7. The end, and then its own.
        await self._step("is about to write the end")
        boxes.write_end(box, self._end(reason, word, code, signal))
        world.end_written(self, succeeded=reason is BoxEnd.EXITED and code == 0)
        world.nudge(self.machine, self.attempt)
        await self._step("has written the end")
        return code if code is not None else 137

    async def _until_program_ends(self) -> tuple[BoxEnd, StopWord | None, int | None, int | None]:
        world, clock = self.world, self.machine.clock
        while True:
            self.orders.clear()
            if self._ended.is_set():
                self.program_ends()
                return BoxEnd.EXITED, None, world.exit_code(self.attempt), None
            order = self._order()
            if order is None:
                until = _lease_s(self.box)
                pause_s = _ORDERS_EVERY_S if until is None else min(_ORDERS_EVERY_S, until - clock.monotonic())
                await event_within(self.orders, max(0.01, pause_s), clock)
                continue
            reason, word = order
            # The longest that the page allows: TERM, grace, KILL.
            most_s = world.stop_s if reason is BoxEnd.LEASE_EXPIRED else world.grace_s
            await clock.sleep(world.chance.choice([0.1, 0.5, 0.95]) * most_s)
            self.program_ends()
            return reason, word, None, 15

    def _order(self) -> tuple[BoxEnd, StopWord | None] | None:
        if self.terminated.is_set():
            return BoxEnd.STOPPED, StopWord.KILLED_OUTSIDE
        try:
            stop = boxes.read_stop(self.box)
        except boxes.BoxError:
            stop = None
        if stop is not None:
            return BoxEnd.STOPPED, stop.word
        until = _lease_s(self.box)
        if (
            until is not None
            and until <= self.machine.clock.monotonic()
            and "launcher: no lease" not in self.world.broken
        ):
            return BoxEnd.LEASE_EXPIRED, None
        return None

    def _write_end_for_orders(self) -> bool:
        order = self._order()
        if order is None:
            return False
        boxes.write_end(self.box, self._end(order[0], order[1], None, None))
        self.world.nudge(self.machine, self.attempt)
        return True

    async def _program(self) -> None:
        await self.machine.clock.sleep(self.world.run_s(self.attempt))
        self._ended.set()
        self.orders.set()

    def program_ends(self) -> None:
        if self.runs_program:
            self.runs_program = False
            self.world.program_ends(self)

    # -- helpers ------------------------------------------------------------------------------------

    async def _step(self, what: str) -> None:
        self.world.hit(f"launcher {what}", self.machine)
        self._process.check()
        await self.world.delay(self.machine.clock, 4.0, usual=0.05)
        self._process.check()

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._locked = True
        return True

    def _end(self, reason: BoxEnd, word: StopWord | None, code: int | None, signal: int | None) -> EndRecord:
        wall_ns = round(self.machine.clock.now() * _NS)
        started = wall_ns if os.path.lexists(self.box.started) else None
        return EndRecord(
            reason, exit_code=code, signal=signal, stop_word=word, started_wall_ns=started, ended_wall_ns=wall_ns
        )

    def _exit(self, code: int, *, at_once: bool = True) -> None:
        self.exit_code = code
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        if at_once or not self.runs_program:
            self._all_gone()
        else:
            self.machine.process.spawn(self._gone_soon())

    async def _gone_soon(self) -> None:
        await self.world.delay(self.machine.clock, 1.0, usual=0.01)
        self._all_gone()

    def _all_gone(self) -> None:
        self.program_ends()
        self.gone.set()
        self.world.launcher_gone(self)


def _was_used(box: Box) -> bool:
    return any(os.path.lexists(path) for path in (box.started, box.end, box.ticket_taken))


def _pairs(path: os.PathLike[str]) -> dict[str, str]:
    try:
        with open(path, encoding="ascii") as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except FileNotFoundError:
        return {}


def _lease_s(box: Box) -> float | None:
    try:
        until = boxes.read_lease(box)
    except boxes.BoxError:
        return None
    return None if until is None else until / _NS
