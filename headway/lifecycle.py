"""Runs one service: start, side tasks, readiness, and a stop that loses nothing.

    async def serve(config: HeadwayConfig) -> None:           # <room>/app.py
        service = Service("job-manager")
        db = await Database.open(config.job_manager.database, room="job_manager")
        service.on_stop(db.close)
        server = RpcServer(service, bind=config.job_manager.bind, token=config.cluster.token)
        add_JobManagerServicer_to_server(Servicer(...), server)
        service.side_task("outbox", pump.run)
        await service.run()

A stop has four steps. The service **refuses** new work, and **drains** what is in hand for at most `drain_s` seconds.
Then it cancels the side tasks, and releases everything in the reverse order of its registration. A side task that ends
by itself, with or without an error, stops the service with `ServiceFailed`. So a supervisor sees it and starts it
anew. A second SIGINT or SIGTERM ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from .errors import ConfigInvalid, HeadwayError, PortTaken
from .logs import get_logger
from .notify import inherited_supervisor, notify, notify_failure
from .responsive import give_memory_back

log = get_logger(__name__)
T = TypeVar("T")

Hook = Callable[[], Awaitable[None] | None]

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_PORT_TAKEN = 3

_CANCEL_AGAIN_S = 0.25


class ServiceFailed(HeadwayError):
    """A part that the service can't live without has ended."""

    slug = "service-failed"
    title = "A part of the service has ended unexpectedly"


class Health:
    """Named conditions of a service; it is ready when it serves and all of them hold.

    health.set("database", False, "the disk is full")
    health.ready, health.reasons          # False, {"database": "the disk is full"}
    """

    def __init__(self) -> None:
        self._serving = False
        self._reasons: dict[str, str] = {}
        self._listeners: list[Callable[[bool], None]] = []

    @property
    def ready(self) -> bool:
        """True while the service takes work and no condition fails."""
        return self._serving and not self._reasons

    @property
    def reasons(self) -> dict[str, str]:
        """Why it is not ready: condition to sentence."""
        return dict(self._reasons)

    def set(self, condition: str, ok: bool, reason: str = "") -> None:
        """Records one condition; logs and tells listeners only on a change."""
        before = self.ready
        known = self._reasons.get(condition)
        if ok and known is not None:
            del self._reasons[condition]
            log.info("health.recovered", condition=condition)
        elif not ok:
            self._reasons[condition] = reason or condition
            if known is None:
                log.warning("health.impaired", condition=condition, reason=reason)
        self._tell(before)

    def serve(self, serving: bool) -> None:
        """Set by the service itself: takes work, or does not any more."""
        before = self.ready
        self._serving = serving
        self._tell(before)

    def listen(self, listener: Callable[[bool], None]) -> None:
        """Calls `listener(ready)` now and on every change."""
        self._listeners.append(listener)
        listener(self.ready)

    def _tell(self, before: bool) -> None:
        if self.ready != before:
            for listener in self._listeners:
                listener(self.ready)


class Service:
    """One service process from start to stop; see the module's text for the usage.

    All hooks may be plain or async functions. Stop hooks must be safe after a failed start.
    """

    def __init__(self, name: str, *, drain_s: float = 10.0, release_s: float = 10.0) -> None:
        self.name = name
        self.health = Health()
        self._drain_s = drain_s
        self._release_s = release_s
        self._start: list[Hook] = []
        self._open: list[Hook] = []
        self._refuse: list[Hook] = []
        self._drain: list[Hook] = []
        self._stop: list[Hook] = []
        self._side: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._stop_asked = asyncio.Event()
        self._stop_reason = ""
        self._failure: BaseException | None = None
        self._started = False

    # -- wiring ---------------------------------------------------------------------------------

    def on_start(self, hook: Hook) -> None:
        """Runs in order of registration, before side tasks and doors (recover state here)."""
        self._start.append(hook)

    def on_open(self, hook: Hook) -> None:
        """Opens a door (a listening port): after all start hooks and side tasks, just before the service is ready."""
        self._open.append(hook)

    def on_refuse(self, hook: Hook) -> None:
        """First at stop: from here new work is turned away."""
        self._refuse.append(hook)

    def on_drain(self, hook: Hook) -> None:
        """Finishes what was accepted; side tasks still run. All together get `drain_s` seconds."""
        self._drain.append(hook)

    def on_stop(self, hook: Hook) -> None:
        """Releases a resource; runs in reverse order of registration, also after a failed start."""
        self._stop.append(hook)

    def side_task(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A loop that the service can't live without; its end stops the service with `ServiceFailed`."""
        if self._started:
            self._spawn(name, loop)
        else:
            self._side.append((name, loop))

    # -- running --------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """True from the first wish to stop."""
        return self._stop_asked.is_set()

    def request_stop(self, reason: str = "asked") -> None:
        """Starts the stop; safe to call many times and from signal handlers."""
        if not self._stop_asked.is_set():
            self._stop_reason = reason
            self._stop_asked.set()

    async def wait_stopping(self) -> None:
        """Returns once a stop was asked for; for loops that want to end early."""
        await self._stop_asked.wait()

    async def run(self, *, signals: bool = True) -> None:
        """Runs until a stop is asked for or a part fails.

        Raises:
            ServiceFailed: a side task ended by itself.
            Exception: whatever a start hook raised; everything started before it has been released.
        """
        release_signals = self._take_signals() if signals else (lambda: None)
        supervisor = inherited_supervisor()
        unwatch = None if supervisor is None else supervisor.watch(lambda: self.request_stop("supervisor is gone"))
        try:
            await self._run_hooks()
        finally:
            release_signals()
            if unwatch is not None:
                unwatch()
        if self._failure is not None:
            raise self._failure

    async def _run_hooks(self) -> None:
        try:
            starting = asyncio.ensure_future(self._start_up())
            stop_asked = asyncio.ensure_future(self._stop_asked.wait())
            await asyncio.wait((starting, stop_asked), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                # A hook that hangs (a mount, a peer) must not make the service deaf to its stop.
                starting.cancel()
                await asyncio.wait((starting,))
            stop_asked.cancel()
            if starting.cancelled():
                return
            starting.result()
            if not self.stopping:
                self.health.serve(True)
                notify("READY=1")
                log.info("service.ready", service=self.name)
                give_memory_back()
            await self._stop_asked.wait()
        finally:
            await self._shut_down()

    async def _start_up(self) -> None:
        for hook in self._start:
            await _call(hook)
        self._started = True
        for name, loop in self._side:
            self._spawn(name, loop)
        for hook in self._open:
            await _call(hook)

    async def _shut_down(self) -> None:
        self.request_stop("start failed")
        log.info("service.stopping", service=self.name, reason=self._stop_reason)
        notify("STOPPING=1")
        self.health.serve(False)
        for hook in self._refuse:
            await self._quietly("refuse", hook)
        if self._drain and self._started:
            try:
                async with asyncio.timeout(self._drain_s):
                    await asyncio.gather(*(self._quietly("drain", hook) for hook in self._drain))
            except TimeoutError:
                log.warning("service.drain_cut_short", service=self.name, after_s=self._drain_s)
        await self._cancel_side_tasks()
        for hook in reversed(self._stop):
            try:
                async with asyncio.timeout(self._release_s):
                    await self._quietly("stop", hook)
            except TimeoutError:
                log.warning("service.stop_hook_hangs", service=self.name, hook=_name_of(hook))
        log.info("service.stopped", service=self.name)

    async def _cancel_side_tasks(self) -> None:
        left_s = self._release_s
        while self._tasks and left_s > 0:
            # More than once: asyncio.wait_for of Python 3.11 loses a cancellation that comes in the same turn as
            # its result. The loop around it would go on.
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(list(self._tasks), timeout=min(left_s, _CANCEL_AGAIN_S))
            left_s -= _CANCEL_AGAIN_S
        if self._tasks:
            log.error("service.side_tasks_hang", service=self.name, tasks=sorted(self._tasks.values()))

    async def _quietly(self, phase: str, hook: Hook) -> None:
        # One hook that fails must not keep the others from releasing what they hold.
        try:
            await _call(hook)
        except Exception as error:
            log.error("service.stop_hook_failed", service=self.name, phase=phase, hook=_name_of(hook), exc=error)

    def _spawn(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(loop(), name=name)
        self._tasks[task] = name
        task.add_done_callback(self._side_task_ended)

    def _side_task_ended(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled() and self.stopping:
            return
        error = None if task.cancelled() else task.exception()
        if self.stopping and error is None:
            return
        if isinstance(error, HeadwayError):
            log.error("service.side_task_ended", service=self.name, task=name, reason=error.message)
        else:
            log.error("service.side_task_ended", service=self.name, task=name, exc=error)
        if self._failure is None:
            why = f": {error}" if error is not None else ""
            self._failure = ServiceFailed(f"{self.name}: its side task {name!r} ended unexpectedly{why}")
            self._failure.__cause__ = error
        self.request_stop(f"side task {name!r} ended")

    def _take_signals(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            if self.stopping:
                log.warning("service.killed", service=self.name, signal=number.name)
                os._exit(128 + number)
            self.request_stop(number.name)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal, number)

        def release() -> None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

        return release


def run_service(main: Coroutine[Any, Any, None]) -> int:
    """Runs a service's coroutine to its end and returns the exit status of the process.

    0: stopped as asked. 1: failed. 2: the configuration is wrong. 3: another program has its port. What a person
    can act on is one line, not a traceback. The event loop is not closed: end the process with `exit_now`.
    """
    # Kept alive: closing it would wait for every thread of its pool, and one may hang on a dead mount for ever.
    global _runner
    _runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        _runner.run(main)
    except ConfigInvalid as error:
        notify_failure(error)
        print(f"headway: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_PORT_TAKEN if isinstance(error, PortTaken) else EXIT_CONFIG
    except HeadwayError as error:
        notify_failure(error)
        log.error("service.failed", reason=str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        notify_failure(error)
        log.error("service.crashed", exc=error)
        return EXIT_FAILED
    return 0


def exit_now(status: int) -> NoReturn:
    """Ends the process of a service that has stopped, without waiting for threads that hang in system calls."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on uvloop where it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


_runner: asyncio.Runner | None = None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


async def _call(hook: Hook) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result


def _name_of(hook: Hook) -> str:
    return getattr(hook, "__qualname__", repr(hook))
