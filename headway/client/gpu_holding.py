"""Holds GPUs of this machine for this process: queues for them, takes them, keeps them by heartbeat, gives them back.

A killed Worker or scheduler changes nothing: the process goes on, and comes back to the next Worker with its key. The
time limit and the end of the lease are kept here too, for the time in which no Worker answers.
"""

from __future__ import annotations

import hashlib
import os
import signal as signals
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import HeadwayError, InvalidInput
from ..units import BadValue, format_duration, parse_duration
from .gpu_api import GpuApi, Refusal
from .gpu_door import Door, find_door, open_door
from .profile import Profile

HOLD_VARIABLE = "HEADWAY_HOLD"
_BEAT_S = 5.0
_LOOK_S = 2.0  # between two questions why it waits
_FIRST_LOOK_S = 0.5
_GIVE_BACK_S = 10.0
_AWAY = frozenset({502, 503, 504})
_AWAY_S, _PAUSE_S = 30.0, 0.5
_OF_CARDS = frozenset({"gpu_busy_outside", "gpu_unavailable"})
_ENDED = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED"})


class NotGranted(HeadwayError):
    """The request ended before it was granted."""

    code: ClassVar[str] = "FAILED_PRECONDITION"
    http_status: ClassVar[int] = 409
    slug: ClassVar[str] = "not-granted"


class Device(str):
    """A GPU: its UUID, with ``index`` and ``model`` as this machine shows them."""

    index: int  # type: ignore[assignment]  # -1: not known
    model: str

    def __new__(cls, uuid: str, index: int = -1, model: str = "") -> Device:
        made = super().__new__(cls, uuid)
        made.index, made.model = index, model
        return made


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asks for."""

    gpus: int | None  # None: as many as ``ids``, else one
    timeout: str
    models: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    grace: str = "10s"
    name: str = ""
    node: str = ""
    command: tuple[str, ...] = ()

    def checked(self) -> dict[str, Any]:
        """For the server.

        Raises:
            InvalidInput: in one sentence.
        """
        if not self.timeout:
            raise InvalidInput(
                "Say for how long, such as --timeout 2h: the shorter, the sooner you get the GPUs. Waiting is free."
            )
        for what, text in (("timeout", self.timeout), ("grace", self.grace)):
            if not isinstance(text, str):
                raise InvalidInput(f"The {what} {text!r} is no text; write for instance '2h'.")
            try:
                seconds = parse_duration(text)
            except BadValue as error:
                raise InvalidInput(f"The {what} {error}.") from error
            if seconds <= 0 and what == "timeout":
                raise InvalidInput("The timeout must be more than 0, such as 2h.")
        count = self.gpus if self.gpus is not None else len(self.ids) or 1
        if not isinstance(count, int) or isinstance(count, bool):
            raise InvalidInput(f"{count!r} is no number of GPUs; write for instance 2.")
        if count < 1:
            raise InvalidInput("Ask for one GPU at least.")
        if self.ids and count != len(self.ids):
            raise InvalidInput(f"{count} GPUs asked for, and {len(self.ids)} named: leave out the number.")
        return {
            "gpus": count,
            "timeout": self.timeout,
            "models": list(self.models),
            "ids": list(self.ids),
            "grace": self.grace,
            "name": self.name,
            "command": [word[:1000] for word in self.command[:100]],
        }


def now_s() -> float:
    """Seconds since boot, as the Worker counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Holding:
    """See the module. ``tell`` shows one line to the person; ``on_stop`` is called once, with why and the grace.

    ``warn`` shows what happens to the GPUs meanwhile, from another thread. Nothing ends by it.
    """

    def __init__(
        self,
        wanted: Wanted,
        *,
        tell: Callable[[str], None],
        on_stop: Callable[[str, float], None],
        warn: Callable[[str], None] | None = None,
        profile: Profile | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._asked = wanted.checked()
        self._environ = dict(os.environ if environ is None else environ)
        self._api = GpuApi(profile or Profile.load(self._environ), self._environ)
        self._tell, self._on_stop, self._warn = tell, on_stop, warn or tell
        self._warned: set[str] = set()
        self._door: Door | None = find_door(wanted.node, self._environ)
        self._path, self.node = self._door.path, self._door.node
        self._key = os.urandom(16).hex()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._given_back: dict[str, Any] | None = None
        self._over = threading.Event()
        self._stopped = False
        self._until_s: float | None = None
        self._alone_until_s: float | None = None
        self._grace_s = 10.0
        self._next_try_s = 0.0
        self.job = ""
        self.hold = ""
        self.devices: list[Device] = []
        self.facts: dict[str, str] = {}

    # -- getting them -------------------------------------------------------------------------------

    def acquire(self) -> list[Device]:
        """Wait until the GPUs are granted. An exception withdraws the request.

        Raises:
            HeadwayError: they can't be had; one sentence says why.
        """
        try:
            self._knock()
            key_hash = hashlib.sha256(self._key.encode()).hexdigest()
            cluster = self._door.cluster if self._door is not None else ""
            answer = self._ask({**self._asked, "node": self.node, "cluster": cluster, "key_hash": key_hash})
            self.job = str(answer.get("job_id", ""))
            self._send({"job": self.job})
            self._wait(str(answer.get("task", "")))
        except BaseException:
            self._withdraw()
            raise
        self._api.close()
        self._thread = threading.Thread(target=self._keep, name="headway-gpus", daemon=True)
        self._thread.start()
        return self.devices

    def _ask(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Again while a part of Headway is away: the same key never makes a second request."""
        give_up_s = now_s() + _AWAY_S
        while True:
            try:
                return self._api.ask(wanted)
            except Refusal as error:
                if error.status not in _AWAY or now_s() >= give_up_s:
                    raise
            self._step(_PAUSE_S)

    def _wait(self, task: str) -> None:
        look_s, beat_s, shown = now_s() + _FIRST_LOOK_S, now_s() + _BEAT_S, ""
        while not self.hold:
            self._step(min(look_s, beat_s) - now_s())
            if now_s() >= beat_s:
                beat_s = now_s() + _BEAT_S
                self._send({"beat": 1})
            if not self.hold and now_s() >= look_s:
                look_s = now_s() + _LOOK_S
                shown = self._look(task, shown)

    def _look(self, task: str, shown: str) -> str:
        try:
            found = self._api.task(self.job, task)
        except HeadwayError as error:
            status = error.status if isinstance(error, Refusal) else 503
            if status < 500:
                raise
            return shown  # a part of Headway is away for a moment: the request stands
        view = found.get("task") or {}
        if view.get("state") in _ENDED:
            why = view.get("sentence") or (view.get("reason") or {}).get("sentence") or str(view.get("state")).lower()
            raise NotGranted(f"The request {self.job} has ended: {why}")
        why, line = _line(view, self.job)
        if why and why != shown:  # the estimate alone moves with each look
            self._tell(line)
        return why or shown

    def _withdraw(self) -> None:
        self._close()
        if self.job:
            try:
                self._api.withdraw(self.job)
            except HeadwayError as error:
                self._tell(f"{self.job} could not be withdrawn; nobody takes it, so it ends by itself. {error}")
        self._api.close()

    # -- keeping them -------------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """What a program learns of its GPUs."""
        uuids = ",".join(self.devices)
        return {
            **self.facts,
            HOLD_VARIABLE: self.hold,
            "CUDA_VISIBLE_DEVICES": uuids,
            "NVIDIA_VISIBLE_DEVICES": uuids,
        }

    def give_back(self, exit_code: int | None = 0, signal: int | None = None) -> None:
        """Give them back. Safe twice, and in a forked child, where it does nothing."""
        if os.getpid() != self._pid or self._given_back is not None:
            return
        self._given_back = {"done": exit_code, "signal": signal}
        os.write(self._wake[1], b"x")
        if self._thread is not None and self._thread is not threading.current_thread():
            self._over.wait(_GIVE_BACK_S)
        self._close()

    def _keep(self) -> None:
        # Signals are the main thread's.
        signals.pthread_sigmask(signals.SIG_BLOCK, signals.valid_signals())
        beat_s, sent = 0.0, False
        while not self._over.is_set():
            if now_s() >= beat_s:
                beat_s = now_s() + _BEAT_S
                self._send({"beat": 1})
            if self._given_back is not None and not sent:
                sent = self._send(self._given_back)
            due = [beat_s, *(s for s in (self._until_s, self._alone_until_s) if s is not None and not self._stopped)]
            before = self._door
            self._step(min(due) - now_s())
            sent = sent and self._door is before  # a new Worker has not heard it
            self._mind_the_time()

    def _mind_the_time(self) -> None:
        """The Worker does this. Where it is dead, nobody else does."""
        now = now_s()
        if self._stopped or self._given_back is not None:
            return
        slack_s = 0.0 if self._door is None else 2.0
        if self._until_s is not None and now >= self._until_s + slack_s:
            self._stop("timed_out", self._grace_s)
        elif self._door is None and self._alone_until_s is not None and now >= self._alone_until_s:
            self._stop("lease_expired", self._grace_s)

    def _stop(self, why: str, grace_s: float) -> None:
        if not self._stopped and self._given_back is None:
            self._stopped = True
            self._on_stop(why, grace_s)

    # -- the line -----------------------------------------------------------------------------------

    def _knock(self) -> None:
        self._send({"key": self._key, "job": self.job})

    def _send(self, message: Mapping[str, Any]) -> bool:
        return self._door is not None and self._door.send(message)

    def _step(self, within_s: float) -> None:
        """Hear the Worker for so long at most, or look for the next one."""
        within_s = min(max(0.0, within_s), _BEAT_S)
        if self._door is None:
            import select

            if now_s() < self._next_try_s:
                select.select([self._wake[0]], [], [], min(within_s, self._next_try_s - now_s()) + 0.01)
                self._drain()
            self._next_try_s = now_s() + 0.3
            self._door = open_door(self._path)
            if self._door is not None:
                self._knock()
            return
        found = self._door.receive(within_s, self._wake[0])
        self._drain()
        if found is None:
            self._door.close()
            self._door = None
            self._next_try_s = now_s() + 0.1
            return
        for message in found:
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        if "granted" in message:
            self.hold = str(message["granted"])
            self.facts = {str(name): str(value) for name, value in dict(message.get("facts") or {}).items()}
            self.devices = [
                Device(str(one["uuid"]), int(one.get("index", -1)), str(one.get("model", "")))
                for one in message.get("devices", ())
            ]
        elif "until" in message:
            self._until_s, self._alone_until_s = message["until"], message.get("alone_until")
            self._grace_s = float(message.get("grace", self._grace_s))
        elif "stop" in message:
            self._stop(str(message["stop"]), float(message.get("grace", 0.0)))
        elif "ended" in message:
            self._over.set()
        elif "warning" in message:
            sentence = str(message["warning"])
            if sentence not in self._warned:  # a Worker says it again to who comes back
                self._warned.add(sentence)
                self._warn(sentence)
        elif "refused" in message:
            self._tell(str(message["refused"]))

    def _drain(self) -> None:
        try:
            os.read(self._wake[0], 64)
        except OSError:
            pass

    def _close(self) -> None:
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            os.write(self._wake[1], b"x")
            self._thread.join(2.0)
        if self._door is not None:
            self._door.close()
            self._door = None


def _line(view: Mapping[str, Any], job: str) -> tuple[str, str]:
    """Why it waits, and the line that says it, with until when."""
    waits = [one for one in view.get("waits") or () if isinstance(one, dict) and one.get("sentence")]
    if not waits:
        return "", ""
    # The first, and what no other task's end will change.
    first = " ".join(str(one["sentence"]) for one in (waits[0], *(o for o in waits[1:] if o.get("word") in _OF_CARDS)))
    place = view.get("place") or {}
    start_at = place.get("promised_start_at") or place.get("estimated_start_at")
    when = ""
    if isinstance(start_at, int | float):
        word = "promised" if place.get("promised_start_at") else "probably"
        left_s = max(0.0, start_at - time.time())
        when = f" {word.capitalize()} in {format_duration(float(round(left_s)))}." if left_s >= 1 else ""
    return first, f"Waiting for GPUs ({job}): {first}{when} Ctrl-C withdraws it."


STOP_SENTENCES: Mapping[str, str] = {
    "timed_out": "Its time is over.",
    "lease_expired": "This machine had no answer from Headway for too long.",
    "cancelled": "It was cancelled.",
    "superseded": "It was given up.",
    "killed_outside": "Nothing was heard of it for too long.",
    "drained": "The machine is emptied.",
    "shutdown": "The machine is shut down.",
    "platform": "Headway ended it.",
}
