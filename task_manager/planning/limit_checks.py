"""Admission: how long a task may ask to run, what one account may hold, and what is kept for short tasks.

JobManager decides how many tasks of an account may wait (`job_manager/waiting_limit.py`), since it knows all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headway.model.limits import reserve_leaves_none
from headway.units import counted, format_duration

from ..limits import AdmissionLimits, ShortTaskReserve
from ..model import Shape, Task


@dataclass(frozen=True, slots=True)
class GpuHoldings:
    """How many GPUs live attempts hold, as limits count them: a share is one GPU of its account.

    The reserve for short tasks is of whole GPUs, so shares don't count there.
    """

    by_owner: Mapping[str, int] = field(default_factory=dict)
    of_long: int = 0  # of all long tasks together, which may not use the reserve for short tasks

    @classmethod
    def of(cls, limits: AdmissionLimits, held: Iterable[tuple[str, Shape, float]]) -> GpuHoldings:
        """From the account, the shape and the timeout in seconds of each live attempt."""
        by_owner: Counter[str] = Counter()
        of_long = 0
        for owner, shape, timeout_s in held:
            by_owner[owner] += shape.held_gpus
            of_long += shape.gpus if limits.is_long(timeout_s) else 0
        return cls(by_owner, of_long)


class RefusalGround(StrEnum):
    """Which limit, or which lack, is the reason of a refusal."""

    MAX_TIMEOUT = "max_timeout"
    MIN_TIMEOUT = "min_timeout"
    USER_GPUS = "user_gpus"
    SHORT_RESERVE = "short_reserve"
    NO_NODE = "no_node"
    ULIMITS = "ulimits"  # no node gives such


# The field of a task that a user could change, as a JSON pointer.
_FIELDS = {
    RefusalGround.MAX_TIMEOUT: "/timeout",
    RefusalGround.MIN_TIMEOUT: "/timeout",
    RefusalGround.USER_GPUS: "/resources/gpus",
    RefusalGround.SHORT_RESERVE: "/resources/gpus",
    RefusalGround.NO_NODE: "/resources",
    RefusalGround.ULIMITS: "/ulimits",
}


_HOLD = frozenset({RefusalGround.MAX_TIMEOUT, RefusalGround.USER_GPUS, RefusalGround.SHORT_RESERVE})


@dataclass(frozen=True, slots=True)
class AdmissionRefusal:
    """Why a task is not taken into the queue. ``for_ever``: new machines would not change it."""

    ground: RefusalGround
    sentence: str
    for_ever: bool = False

    @property
    def field(self) -> str:
        """The field of the task that could be changed, as a JSON pointer."""
        return _FIELDS[self.ground]


def contradictions(limits: AdmissionLimits, gpus: int) -> list[str]:
    """What these limits make impossible in a cluster of so many GPUs, as sentences.

    Contradictions that don't depend on the GPUs are found when the configuration is read (`headway/config/checks.py`).
    """
    reserve = limits.short_reserve
    sentence = reserve_leaves_none(reserve.gpus, reserve.above_s, gpus) if reserve is not None else ""
    return [sentence] if sentence else []


def refusals(limits: AdmissionLimits, shape: Shape, timeout_s: float, *, gpus: int | None) -> list[AdmissionRefusal]:
    """All reasons why limits keep a task out of the queue; empty: it is admitted.

    ``timeout_s`` is in seconds. ``gpus`` is the number in the cluster; None: not known, so no task is too large.
    """
    found = [*_by_timeout(limits, timeout_s, gpus)]
    cap, reserve = limits.running_gpus_per_user, limits.short_reserve
    if cap is not None and shape.held_gpus > cap:
        asked = f"{shape.gpus} GPUs" if shape.gpus else "a share of a GPU, which counts as one GPU"
        sentence = f"It asks for {asked}; one account may hold {cap} at a time."
        found.append(AdmissionRefusal(RefusalGround.USER_GPUS, sentence, for_ever=True))
    if reserve is not None and gpus is not None and limits.is_long(timeout_s):
        left = max(0, gpus - reserve.gpus)
        if shape.gpus > left:
            sentence = (
                f"It asks for {counted(shape.gpus, 'GPU')} for {format_duration(timeout_s)}; "
                f"tasks longer than {format_duration(reserve.above_s)} may together hold {left} of {gpus} GPUs."
            )
            found.append(AdmissionRefusal(RefusalGround.SHORT_RESERVE, sentence))
    return found


def ruled_out(limits: AdmissionLimits, shape: Shape, timeout_s: float, *, gpus: int) -> list[AdmissionRefusal]:
    """Why a waiting task can't start with so many GPUs in the cluster, by the limits that a pass applies.

    A task is not held for a timeout above the longest one: it was allowed when the task was submitted.
    """
    found = refusals(limits, shape, timeout_s, gpus=gpus)
    return [
        one for one in found if one.ground in _HOLD and not (one.ground is RefusalGround.MAX_TIMEOUT and one.for_ever)
    ]


def limits_reached(limits: AdmissionLimits, task: Task, holdings: GpuHoldings, *, gpus: int) -> list[AdmissionRefusal]:
    """Which limits keep a waiting task from a start now because running tasks hold too much.

    Limits that rule the task out whatever is held (`ruled_out`) are left out. ``gpus`` is the number in the cluster.
    """
    asked = task.shape.held_gpus
    if not asked:
        return []
    found = []
    cap, reserve = limits.running_gpus_per_user, limits.short_reserve
    held = holdings.by_owner.get(task.owner, 0)
    if cap is not None and asked <= cap < held + asked:
        sentence = (
            f"{task.owner} holds {held} of the {cap} GPUs that one account may hold at a time; it asks for {asked}."
        )
        found.append(AdmissionRefusal(RefusalGround.USER_GPUS, sentence))
    if reserve is not None and task.shape.gpus and limits.is_long(task.timeout_s):
        left = max(0, gpus - reserve.gpus)
        if asked <= left < holdings.of_long + asked:
            found.append(
                AdmissionRefusal(
                    RefusalGround.SHORT_RESERVE,
                    f"{long_tasks_hold(reserve, holdings.of_long, gpus)}; it asks for {asked}.",
                )
            )
    return found


def long_tasks_hold(reserve: ShortTaskReserve, held: int, gpus: int) -> str:
    """How many GPUs long tasks hold, and may hold together in a cluster of so many GPUs, as a clause for people."""
    left = max(0, gpus - reserve.gpus)
    return (
        f"Tasks longer than {format_duration(reserve.above_s)} may together hold {left} of the cluster's {gpus} GPUs, "
        f"and they hold {held}"
    )


def _by_timeout(limits: AdmissionLimits, timeout_s: float, gpus: int | None) -> list[AdmissionRefusal]:
    if timeout_s < limits.min_timeout_s:
        sentence = f"{_its(timeout_s)}; the shortest is {format_duration(limits.min_timeout_s)}."
        return [AdmissionRefusal(RefusalGround.MIN_TIMEOUT, sentence, for_ever=True)]
    longest_s = max((limit_s for _, limit_s in limits.max_timeouts), default=None)
    if longest_s is None:
        return []
    if timeout_s > longest_s:
        sentence = f"{_its(timeout_s)}; the longest is {format_duration(longest_s)}."
        return [AdmissionRefusal(RefusalGround.MAX_TIMEOUT, sentence, for_ever=True)]
    if gpus is None or not limits.waits_for_gpus(timeout_s, gpus):
        return []
    limit_s = limits.max_timeout_s(gpus) or longest_s
    enough = min(least for least, limit_s in limits.max_timeouts if limit_s >= timeout_s and least > gpus)
    sentence = (
        f"{_its(timeout_s)}; this cluster of {counted(gpus, 'GPU')} allows at most {format_duration(limit_s)}. "
        f"Such a timeout needs at least {enough} GPUs."
    )
    return [AdmissionRefusal(RefusalGround.MAX_TIMEOUT, sentence)]


def _its(timeout_s: float) -> str:
    return f"Its timeout is {format_duration(timeout_s)}"
