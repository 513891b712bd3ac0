"""One scheduling pass: a snapshot and one ``now`` go in, a plan comes out. Nothing else happens here."""

from __future__ import annotations

from dataclasses import replace

from ..model import Task
from ..order.queue import TaskQueue
from . import delays
from .disciplines import PassRunner
from .late_places import LatePassRunner
from .pass_model import PassInput, Plan


def plan_pass(snapshot: PassInput) -> Plan:
    """What starts now, and what is reserved for later starts.

    Only the order of the snapshot's queue is touched: a policy that re-sorts is sorted to this moment.
    """
    snapshot.queue.sort(snapshot.steady_s, snapshot.view)
    runner = LatePassRunner if snapshot.settings.promises_all else PassRunner
    made = runner(snapshot)
    if not made.all_fit:
        places, lost = delays.mended(snapshot, lambda there, lost: runner(there, lost).run())
        made = runner(replace(snapshot, reservations=places, changes=()), lost)
        assert made.all_fit, "reservations were mended and don't fit"
    return made.run()


def would_change_nothing(last: Plan | None, queue: TaskQueue, task: Task) -> bool:
    """Whether a pass that sees this runnable task as well would decide the same as the last one.

    It would if nothing has come free since, the task is behind all reservations, and no node had room for its shape.
    """
    if last is None or last.looked_up_to is None or last.all_promised or not would_start_nothing(last, queue, task):
        return False
    key = queue.key_of(task.id)
    return key is not None and key > last.looked_up_to


def would_start_nothing(last: Plan | None, queue: TaskQueue, task: Task) -> bool:
    """Whether a pass that sees this runnable task as well would start nothing: no node has room for its shape.

    If that is all that has happened since the last pass, the next pass may wait for further tasks. A queue that is
    shorter than the number of reservations is quick to look at, so it is always looked at.
    """
    if last is None or last.looked_up_to is None or queue.failure or not queue.policy.static:
        return False
    return task.shape in last.no_room
