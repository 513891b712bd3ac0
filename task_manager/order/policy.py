"""The interface of scheduling policies, and the policies whose order never changes.

A policy gives each task a number by ``key(task, now, view)``. Among tasks of equal priority the smallest number goes
first. The same object serves the live queue and simulations. `dynamic_policies` has the policies that sort again,
`policy_registry` finds a policy by name. docs/scheduling.md explains the formulas.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ..model import Task

# (minus priority, the policy's number, submitted_at, job, minus tail, name), compared from left to right. Equal numbers
# go by the earlier submission, inside one job by the longer path of tasks below, then by the task id.
Key = tuple[int, float, float, str, float, str]


class View(Protocol):
    """What a policy may look at besides the task. Static policies look at nothing else."""

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        ...

    @property
    def waiting_gpu_s(self) -> float:
        """The sum of GPUs times timeout over all waiting tasks, in GPU-seconds (`TaskQueue.waiting_gpu_s`)."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A View of fixed numbers."""

    gpus: int
    waiting_gpu_s: float = 0.0


class Policy(ABC):
    """Base of all policies. A subclass must define ``name`` and ``key`` and may define the rest.

    All methods must be quick and change nothing outside the object. If one raises, or a key is not a finite number,
    no task is lost. `aging_sjf` then orders the queue until the policy works again, and the log says so.
    """

    __slots__ = ()

    name: ClassVar[str] = ""
    # Whether ``key`` depends on the task alone. Then two waiting tasks never change their order, the queue is never
    # sorted again, and `settled` can promise starts.
    static: ClassVar[bool] = False

    @abstractmethod
    def key(self, task: Task, now: float, view: View | None) -> float:
        """The task's number; the smallest goes first.

        ``now`` is in seconds by the steady clock, as is ``task.submitted_at``. ``view`` is None for static policies.
        The method must be pure: it may be called at any time and in any order.
        """

    def terms(self, task: Task, now: float) -> dict[str, float]:
        """The parts of the task's priority by name, to show to people."""
        return common_terms(task, now)

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        """The moment from which no newly submitted task of equal priority sorts ahead; None: there is no such moment.

        It is in seconds by the steady clock. Only static policies are asked. ``min_timeout_s`` is the shortest timeout
        that a task may have.
        """
        return None

    def arrived(self, task: Task, view: View) -> None:  # noqa: B027 - a hook that need not be given
        """A task came into the queue; only called for policies that are not static.

        The calls come before the sort, in the order of arrival, and may come more than once for one task.
        """

    def ended(self, task: Task, ran_s: float, view: View) -> None:  # noqa: B027 - a hook that need not be given
        """A task has ended after a run of ``ran_s`` seconds (0: it never ran)."""

    def state(self) -> dict[str, Any]:
        """What the policy has learnt, as plain JSON, for ``restore`` after a restart."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - a hook that need not be given
        """Continues from what ``state`` returned; without this call the policy learns from the beginning."""


def sort_key(task: Task, number: float) -> Key:
    """The whole key of a task to which a policy gives this number."""
    return (-task.priority, number, task.submitted_at, task.id.job_id, -task.tail_timeout_s, task.id.name)


def common_terms(task: Task, now: float) -> dict[str, float]:
    """The terms that all policies show: the priority, and the wait in seconds."""
    # A clock that was set back must not show a negative wait.
    return {"priority": float(task.priority), "waited_s": max(0.0, now - task.submitted_at)}


def policy_copy(policy: Policy) -> Policy:
    """A policy for what-if questions: the policy itself if it is static, else a copy with all that it has learnt.

    Raises:
        TypeError: the copy of a third party's policy is no policy.
        BaseException: whatever a third party's policy raises when it is copied.
    """
    if policy.static:
        return policy
    made = deepcopy(policy)
    if not isinstance(made, Policy):
        raise TypeError(f"its copy is a {type(made).__name__}")
    return made


def require(condition: bool, sentence: str) -> None:
    """Checks a parameter.

    Raises:
        ValueError: with the sentence, if the condition does not hold.
    """
    if not condition:
        raise ValueError(sentence)


@dataclass(frozen=True, slots=True)
class AgingSjf(Policy):
    """Shortest job first with ageing: the highest P = alpha*p - beta*T - gamma*t goes first.

    T is the timeout and t the submission, in seconds; ``beta`` and ``gamma`` are per second. Every task gains
    gamma*now alike, so the order never depends on now; clamping the age would break that. A higher priority p always
    goes first.
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
    """First in, first out: the earliest submission goes first."""

    name: ClassVar[str] = "fifo"
    static: ClassVar[bool] = True

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.submitted_at

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        return task.submitted_at


@dataclass(frozen=True, slots=True)
class Sjf(Policy):
    """Shortest job first: the shortest timeout goes first, and waiting does not help."""

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
    """Longest job first: the longest timeout goes first, and waiting does not help."""

    name: ClassVar[str] = "ljf"
    static: ClassVar[bool] = True

    def key(self, task: Task, now: float, view: View | None) -> float:
        return -task.timeout_s

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {**common_terms(task, now), "timeout_s": task.timeout_s}


_C_UNTIL_KNOWN_S = 800.0  # while too few tasks have come to know their mean timeout


@dataclass(frozen=True, slots=True)
class LogAging(Policy):
    """The smallest t + c*log10(T) goes first: ten times the timeout costs c seconds of waiting.

    t is the submission and T the timeout, both in seconds. Unless ``c`` is given, it is ``means`` times the mean
    timeout of the last tasks that came (`recent_timeouts`). It is fixed at a task's arrival, so keys never change.
    Of the first tasks, whose mean says nothing, it is 800 s.
    """

    name: ClassVar[str] = "log_aging"
    static: ClassVar[bool] = True
    c: float | None = None
    means: float = 12.0

    def __post_init__(self) -> None:
        require(self.c is None or self.c >= 0, "c must be at least 0")
        require(self.means >= 0, "means must be at least 0")

    def constant_s(self, task: Task) -> float:
        """c for this task, in seconds."""
        if self.c is not None:
            return self.c
        return self.means * task.mean_timeout_s if task.mean_timeout_s else _C_UNTIL_KNOWN_S

    def key(self, task: Task, now: float, view: View | None) -> float:
        return task.submitted_at + self.constant_s(task) * log_timeout(task.timeout_s)

    def terms(self, task: Task, now: float) -> dict[str, float]:
        c = self.constant_s(task)
        return {**common_terms(task, now), "c": c, "log_timeout_s": -c * log_timeout(task.timeout_s)}

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        longer = log_timeout(task.timeout_s)
        if self.c is not None:
            longer = max(0.0, longer - log_timeout(min_timeout_s))
        # Else nobody knows what the constant of those will be that come later, only that it is not below 0.
        return task.submitted_at + self.constant_s(task) * longer


def log_timeout(timeout_s: float) -> float:
    """log10 of a timeout in seconds; shorter ones count as one second."""
    return math.log10(max(timeout_s, 1.0))
