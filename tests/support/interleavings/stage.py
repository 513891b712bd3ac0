"""Time, processes and an event loop without threads, so that a seed fixes the order of all steps."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from greenlet import greenlet

from headway.waiting import wait
from tests.support.clock import FakeClock

T = TypeVar("T")
_LIVELOCK = 20_000
_TICK_S = 1e-6
_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class OneThreadLoop(asyncio.SelectorEventLoop):
    """Work that the product gives to threads is done at once."""

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except BaseException as error:
            done.set_exception(error)
        return done

    @property
    def is_idle(self) -> bool:
        """Whether nothing can go on before time passes."""
        return not self._ready  # type: ignore[attr-defined]


class TrueTime(FakeClock):
    """The time by which the world goes. Machines have clocks of their own, see ``MachineClock``."""

    _wakes = 0

    async def advance(self, seconds: float) -> None:
        self._wakes = 0
        await super().advance(seconds)

    async def settle(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, OneThreadLoop)
        quiet = turns = 0
        while quiet < 2:
            await asyncio.sleep(0)
            quiet = quiet + 1 if loop.is_idle else 0
            turns += 1
            if turns > _LIVELOCK:
                raise AssertionError("something turns round and round without waiting")
        self._wakes += 1
        if self._wakes > _LIVELOCK:
            raise AssertionError("something sleeps again and again for next to no time")


class MachineClock:
    """The clocks of one machine. They run a little fast or slow, the wall clock jumps, a boot begins the boot clock."""

    def __init__(self, time: TrueTime, name: str, *, speed: float, wall_s: float) -> None:
        self._time = time
        self._name = name
        self._speed = speed
        self._wall_s = wall_s
        self._booted_at = time.monotonic() - 100.0
        self._boots = 1

    def now(self) -> float:
        return self._time.now() + self._wall_s

    def monotonic(self) -> float:
        return (self._time.monotonic() - self._booted_at) * self._speed

    def boot_id(self) -> str:
        return f"{self._name}-boot-{self._boots}"

    async def sleep(self, seconds: float) -> None:
        # A true sleep is never too short. Rounding would make it so, and a loop that waits for an instant would turn
        # round for ever without time passing.
        await self._time.sleep(seconds / self._speed + _TICK_S if seconds > 0 else 0.0)

    def step_wall(self, seconds: float) -> None:
        self._wall_s += seconds

    def reboot(self) -> None:
        self._boots += 1
        self._booted_at = self._time.monotonic() - 5.0


class Process:
    """The tasks of one process. After ``kill`` they go on nowhere, and ``check`` stops what they try in their last
    moments: a cancelled task runs its ``finally``, a killed process does not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs ``work`` as a part of this process."""
        context = contextvars.copy_context()
        context.run(_process.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def check(self) -> None:
        """Raises CancelledError in a process that is dead."""
        if not self.alive:
            raise asyncio.CancelledError

    def kill(self) -> None:
        self.alive = False
        for task in list(self._tasks):
            task.cancel()

    def add(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self.alive:
            task.cancel()


def make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """The loop's task factory: a task belongs to the process that made it."""
    context = options.get("context")
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    process = context.get(_process) if context is not None else _process.get()
    if process is not None:
        process.add(task)
    return task


async def event_within(event: asyncio.Event, seconds: float, clock: Any) -> bool:
    """As ``headway.waiting.wait``."""
    return await wait(event, seconds, clock)


class StepExecutor(Executor):
    """Runs blocking work as a coroutine: wherever it calls ``pause_for``, the rest of the world goes on."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()
        self._process.check()

        def run() -> None:
            try:
                result = fn(*args, **kwargs)
            except asyncio.CancelledError:
                return  # the process died: nobody waits
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        async def drive() -> None:
            work = greenlet(run)
            waits_for = work.switch()
            while not work.dead:
                try:
                    value = await waits_for
                except BaseException as error:
                    waits_for = work.throw(error)
                else:
                    waits_for = work.switch(value)

        self._process.spawn(drive())
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass


def pause_for(waiting: Coroutine[Any, Any, T]) -> T:
    """From blocking work in a ``StepExecutor``: waits for a coroutine."""
    parent = greenlet.getcurrent().parent
    assert parent is not None
    result: T = parent.switch(waiting)
    return result
