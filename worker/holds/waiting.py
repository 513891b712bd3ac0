"""The clients on this machine that wait for GPUs: TaskManager is told, so that dead ones leave the queue.

Whoever may live is never told as dead. So nothing is said of silence where not all clients could be heard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

NS = 1_000_000_000
_MOST_WAITING = 1_024
_BEATS_S = 10.0  # a client beats every 5 s
_COMES_BACK_S = 10.0  # one whose connection broke does that within a second

L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class WaitingJobs:
    """``known_s``: for so long all that wait here could be heard. 0: they can't."""

    jobs: tuple[str, ...] = ()
    known_s: float = 0.0


@dataclass(slots=True)
class _Waiter(Generic[L]):
    line: L
    job: str
    heard_ns: int


@dataclass(slots=True)
class Waiters(Generic[L]):
    """By the hash of their keys. Each line waits for one key, so that nobody takes up the room of others."""

    _waiters: dict[str, _Waiter[L]] = field(default_factory=dict)
    _left: dict[str, int] = field(default_factory=dict)  # jobs whose line is closed, with when
    _known_since_ns: int | None = None
    _asked_ns: int = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def hear_all(self, now_ns: int) -> None:
        """From now on everybody can come. Said again: somebody could not until now."""
        self._known_since_ns = now_ns

    def hear_nobody(self) -> None:
        """From now on nobody can come: this Worker stops."""
        self._known_since_ns = None

    def put(self, key_hash: str, line: L, job: str, now_ns: int) -> None:
        self.forget(line)  # each waits for one key, so that nobody takes up the room of others
        if len(self._waiters) >= _MOST_WAITING:
            self.hear_all(now_ns)
            return
        self._waiters[key_hash] = _Waiter(line, job, now_ns)

    def name(self, line: L, job: str) -> None:
        """The client has learned which job it waits for."""
        for waiter in self._waiters.values():
            if waiter.line is line:
                waiter.job = job

    def beat(self, line: L, now_ns: int) -> None:
        for waiter in self._waiters.values():
            if waiter.line is line:
                waiter.heard_ns = now_ns

    def take(self, key_hash: str) -> L | None:
        """The line that waits for this key; it waits no more."""
        waiter = self._waiters.pop(key_hash, None)
        return None if waiter is None else waiter.line

    def forget(self, line: L) -> None:
        self._waiters = {key: other for key, other in self._waiters.items() if other.line is not line}

    def gone(self, line: L, now_ns: int) -> None:
        """Its connection is closed. It may come back with another one."""
        for waiter in self._waiters.values():
            if waiter.line is line and waiter.job:
                self._left[waiter.job] = now_ns
            elif waiter.line is line and self._known_since_ns is not None:
                self._known_since_ns = now_ns  # nobody knows what it waits for
        self.forget(line)

    def jobs(self, now_ns: int, silence_s: float) -> WaitingJobs:
        """Whose clients wait and live. One that says nothing for ``silence_s`` does not."""
        asleep_ns = round(max(silence_s - _BEATS_S, silence_s / 2) * NS)
        if self._known_since_ns is not None and now_ns - self._asked_ns > asleep_ns:
            self._known_since_ns = now_ns  # the machine slept, or this Worker hung: clients must be heard anew
        self._asked_ns = now_ns
        alive = [w for w in self._waiters.values() if now_ns < w.heard_ns + round(silence_s * NS)]
        self._left = {job: at for job, at in self._left.items() if now_ns - at < round(_COMES_BACK_S * NS)}
        jobs = tuple(sorted({waiter.job for waiter in alive if waiter.job} | self._left.keys()))
        if self._known_since_ns is None or not all(waiter.job for waiter in alive):
            return WaitingJobs(jobs)
        return WaitingJobs(jobs, (now_ns - self._known_since_ns) / NS)
