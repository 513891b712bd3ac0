"""How many tasks of an account wait, and whether more may: those that were accepted and neither run nor have ended.

That are BLOCKED and QUEUED ones, on hold or not. Children count from the start, since all of them are in the queue
as soon as their needs end, and nobody is asked then. What is tried again by itself counts and is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.errors import TooManyWaiting
from headway.states import TaskState
from headway.units import counted

WAITING = frozenset({TaskState.BLOCKED, TaskState.QUEUED})

_LOOK_AGAIN_S = 60.0


def of_counts(counts: Mapping[TaskState, int]) -> int:
    """How many tasks of a job wait."""
    return sum(counts.get(state, 0) for state in WAITING)


def refusal(owner: str, *, waiting: int, more: int, most: int) -> TooManyWaiting | None:
    """Why an account may not have ``more`` beside those that wait; None: it may. ``most`` 0: no limit."""
    if not most or not more or waiting + more <= most:
        return None
    these = counted(more, "task")
    facts = {"waiting": waiting, "asked": more, "limit": most}
    if more > most:
        return TooManyWaiting(
            f"{these} at once are more than the {most} of one account that may wait at a time: split them into several "
            "jobs and submit each when enough of those before it have started, or ask an admin "
            "(`task_manager.limits.queued_tasks_per_user`).",
            extra=facts,
        )
    return TooManyWaiting(
        f"{counted(waiting, 'task')} of {owner} {'waits' if waiting == 1 else 'wait'} already, and at most {most} may: "
        f"there is no room for {these} more. Try again when enough of them have started, cancel some, or ask an admin "
        "(`task_manager.limits.queued_tasks_per_user`).",
        extra={**facts, "retry_after_s": _LOOK_AGAIN_S},
    )
