"""In which order waiting tasks are looked at.

A policy is one object with ``key(task, now, view)``; the smallest key goes first. The same object serves the live
queue and simulations. ``static`` policies give a key that depends on neither ``now`` nor ``view``, so that the order
of two waiting tasks never changes and a sorted container built once stays right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .model import Task

# (minus priority, the rule's number, submitted_at, job, minus tail, name): compared left to right. Ties of the rule go
# to the earlier submission, inside one job to the longer path below, then to the task id.
Key = tuple[int, float, float, str, float, str]


class View(Protocol):
    """What a policy may look at besides the task; static policies look at nothing."""

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        ...

    @property
    def waiting_gpu_s(self) -> float:
        """GPUs times timeout of all waiting tasks together, in seconds (`TaskQueue.waiting_gpu_s`)."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A View in numbers."""

    gpus: int
    waiting_gpu_s: float = 0.0


class Policy(Protocol):
    """An order of tasks.

    ``key`` is pure: the same arguments give the same key, and it may be called at any time in any order.
    """

    @property
    def name(self) -> str: ...

    @property
    def static(self) -> bool: ...

    def key(self, task: Task, now: float, view: View | None) -> Key: ...

    def terms(self, task: Task, now: float) -> dict[str, float]:
        """The parts of the priority, for people."""
        ...


def _key(task: Task, number: float) -> Key:
    return (-task.priority, number, task.submitted_at, task.id.job_id, -task.tail_timeout_s, task.id.name)


def _common_terms(task: Task, now: float) -> dict[str, float]:
    # A clock that was set back must not show a negative wait.
    return {"priority": float(task.priority), "waited_s": max(0.0, now - task.submitted_at)}


@dataclass(frozen=True, slots=True)
class AgingSjf:
    """Highest P = alpha*p - beta*T - gamma*t first; priority classes never mix.

    ``beta`` and ``gamma`` are per second of timeout T and of submission t. Every task loses gamma*now alike, so the
    order never depends on now; clamping the age would break that.
    """

    beta: float = 1.0
    gamma: float = 1.0
    name: str = "aging_sjf"
    static: bool = True

    def key(self, task: Task, now: float, view: View | None) -> Key:
        return _key(task, self.beta * task.timeout_s + self.gamma * task.submitted_at)

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {
            **_common_terms(task, now),
            "alpha_p": float(task.priority),
            "beta_t": -self.beta * task.timeout_s,
            "gamma_t": -self.gamma * task.submitted_at,
        }


@dataclass(frozen=True, slots=True)
class Fifo:
    """First come, first served."""

    name: str = "fifo"
    static: bool = True

    def key(self, task: Task, now: float, view: View | None) -> Key:
        return _key(task, task.submitted_at)

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return _common_terms(task, now)


@dataclass(frozen=True, slots=True)
class Sjf:
    """Shortest timeout first; nothing ages."""

    name: str = "sjf"
    static: bool = True

    def key(self, task: Task, now: float, view: View | None) -> Key:
        return _key(task, task.timeout_s)

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {**_common_terms(task, now), "timeout_s": -task.timeout_s}


def by_name(name: str, *, beta: float = 1.0, gamma: float = 1.0) -> Policy:
    """The policy of a name.

    Raises:
        ValueError: there is none of that name.
    """
    policies: dict[str, Policy] = {"aging_sjf": AgingSjf(beta, gamma), "fifo": Fifo(), "sjf": Sjf()}
    if name not in policies:
        raise ValueError(f"There is no scheduling policy {name!r}; there are {', '.join(sorted(policies))}.")
    return policies[name]
