"""What watchers see."""

from __future__ import annotations

import pytest

from headway.errors import TooMany
from headway.rpc.v1 import job_manager_pb2
from job_manager.hub import JobChange, JobSubscription


def a_change(job_id: str, version: int, *tasks: str) -> JobChange:
    views = {name: job_manager_pb2.TaskView(name=name, generation=version) for name in tasks}
    return JobChange(job_manager_pb2.Job(id=job_id, version=version), views)


async def test_unread_changes_are_merged_the_latest_winning() -> None:
    watch = JobSubscription()
    watch.put([a_change("a", 1, "x", "y"), a_change("b", 1)])
    watch.put([a_change("a", 2, "y", "z")])
    message = await watch.next()
    assert [(c.job.id, c.job.version) for c in message.changes] == [("a", 2), ("b", 1)]
    assert [(t.name, t.generation) for t in message.changes[0].tasks] == [("x", 1), ("y", 2), ("z", 2)]
    assert watch._behind == 0


async def test_a_message_has_at_most_200_tasks() -> None:
    watch = JobSubscription()
    watch.put([a_change("a", 1, *(f"t{n}" for n in range(450))), a_change("b", 1, "x")])
    sizes = [[len(c.tasks) for c in (await watch.next()).changes] for _ in range(3)]
    assert sizes == [[200], [200], [50, 1]]


async def test_a_watcher_that_falls_behind_is_cut_off() -> None:
    watch = JobSubscription()
    for n in range(300):
        watch.put([a_change(f"j{n}", 1, *(f"t{m}" for m in range(200)))])
    with pytest.raises(TooMany):
        await watch.next()
    assert not watch._unread
