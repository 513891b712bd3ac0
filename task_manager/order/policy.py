"""In which order waiting tasks are looked at.

A policy is one object with ``key(task, now, view)``, a number; the smallest goes first among tasks of equal priority.
The same object serves the live queue and simulations. This module has the frame and the rules whose order never
changes; `resorting` has those that change their minds, `policies` finds one by name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ..model import Task

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


class Policy(ABC):
    """A rule of order: only ``name`` and ``key`` have to be given, everything else may be.

    All methods are quick and touch nothing outside the object. One that raises, or a key that is no finite number,
    loses nothing: `aging_sjf` stands in for it, loudly, until it works again.
    """

    __slots__ = ()

    name: ClassVar[str] = ""
    # Whether ``key`` depends on the task alone. Then the order of two waiting tasks never changes, nothing is sorted
    # again, and starts can be promised.
    static: ClassVar[bool] = False

    @abstractmethod
    def key(self, task: Task, now: float, view: View | None) -> float:
        """Its number; the smallest goes first. Pure: it may be called at any time, in any order."""

    def terms(self, task: Task, now: float) -> dict[str, float]:
        """The parts of the priority, for people."""
        return common_terms(task, now)

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        """From when on no task of equal priority that is submitted then sorts ahead; None: there is no such time.

        For static rules only; ``min_timeout_s``: the shortest timeout that a task may have.
        """
        return None

    def arrived(self, task: Task, view: View) -> None:  # noqa: B027 - a hook that need not be given
        """A task came into the queue. Called before it is sorted, in the order of arrival, for one task perhaps more
        than once; only for rules that are not static."""

    def ended(self, task: Task, ran_s: float, view: View) -> None:  # noqa: B027 - a hook that need not be given
        """A task has ended after a run of ``ran_s`` (0: it never ran)."""

    def state(self) -> dict[str, Any]:
        """What it has learnt, as plain JSON, for ``restore`` after a restart."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - a hook that need not be given
        """Takes back what ``state`` said; without it, it learns anew."""


def sort_key(task: Task, number: float) -> Key:
    """The whole key of a task that a rule gives this number."""
    return (-task.priority, number, task.submitted_at, task.id.job_id, -task.tail_timeout_s, task.id.name)


def common_terms(task: Task, now: float) -> dict[str, float]:
    # A clock that was set back must not show a negative wait.
    return {"priority": float(task.priority), "waited_s": max(0.0, now - task.submitted_at)}


def policy_copy(policy: Policy) -> Policy:
    """For what-ifs: the rule itself where it learns nothing, else one of its own with what it has learnt so far.

    Raises:
        BaseException: whatever a third party's may raise at it; TypeError: its copy is something else.
    """
    if policy.static:
        return policy
    made = deepcopy(policy)
    if not isinstance(made, Policy):
        raise TypeError(f"its copy is a {type(made).__name__}")
    return made


def require(condition: bool, sentence: str) -> None:
    """Raises ValueError with the sentence: for parameters."""
    if not condition:
        raise ValueError(sentence)


@dataclass(frozen=True, slots=True)
class AgingSjf(Policy):
    """Highest P = alpha*p - beta*T - gamma*t first; priority classes never mix.

    ``beta`` and ``gamma`` are per second of timeout T and of submission t. Every task loses gamma*now alike, so the
    order never depends on now; clamping the age would break that.
    """

    name: ClassVar[str] = "aging_sjf"
    static: ClassVar[bool] = True
    beta: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        require(self.beta >= 0, "beta must be at least 0")
        require(self.gamma > 0, "gamma must be above 0: with 0 nothing ages, which is `sjf`")

    def key(self, task: Task, now: float, view: View | None) -> float:
        return self.beta * task.timeout_s + self.gamma * task.submitted_at

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {
            **common_terms(task, now),
            "alpha_p": float(task.priority),
            "beta_t": -self.beta * task.timeout_s,
            "gamma_t": -self.gamma * task.submitted_at,
        }

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        return task.submitted_at + self.beta * max(0.0, task.timeout_s - min_timeout_s) / self.gamma


@dataclass(frozen=True, slots=True)
class Fifo(Policy):
    """First come, first served."""

    name: ClassVar[str] = "fifo"
    static: ClassVar[bool] = True

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.submitted_at

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        return task.submitted_at


@dataclass(frozen=True, slots=True)
class Sjf(Policy):
    """Shortest timeout first; nothing ages."""

    name: ClassVar[str] = "sjf"
    static: ClassVar[bool] = True

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.timeout_s

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {**common_terms(task, now), "timeout_s": -task.timeout_s}

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        return task.submitted_at if task.timeout_s <= min_timeout_s else None


@dataclass(frozen=True, slots=True)
class Ljf(Policy):
    """Longest timeout first; nothing ages."""

    name: ClassVar[str] = "ljf"
    static: ClassVar[bool] = True

    def key(self, task: Task, now: float, view: View | None) -> float:
        return -task.timeout_s

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {**common_terms(task, now), "timeout_s": task.timeout_s}


@dataclass(frozen=True, slots=True)
class LogAging(Policy):
    """Smallest t + c*log10(T) first: ten times the timeout costs ``c`` seconds of seniority."""

    name: ClassVar[str] = "log_aging"
    static: ClassVar[bool] = True
    c: float = 800.0

    def __post_init__(self) -> None:
        require(self.c >= 0, "c must be at least 0")

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.submitted_at + self.c * log_timeout(task.timeout_s)

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {**common_terms(task, now), "log_timeout_s": -self.c * log_timeout(task.timeout_s)}

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        longer = log_timeout(task.timeout_s) - log_timeout(min_timeout_s)
        return task.submitted_at + self.c * max(0.0, longer)


def log_timeout(timeout_s: float) -> float:
    """log10 of a timeout of at least a second."""
    return math.log10(max(timeout_s, 1.0))
