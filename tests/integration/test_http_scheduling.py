"""What orders the queue, over HTTP and the command line: shown to all, set by admins; and its decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from task_manager.planning.pass_model import Discipline
from tests.integration.http_rig import Rig, a_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as made:
        yield made


async def test_admins_set_what_orders_the_queue_and_all_see_who_did(rig: Rig) -> None:
    ann, root = await rig.client("ann"), await rig.client("boss", admin=True)
    shown = (await ann.get("/queue")).json()["scheduling"]
    assert (shown["policy"], shown["policy_set_by"], shown["policy_set_at"]) == ("aging_sjf", None, None)
    refused = await ann.patch("/queue", json={"policy": "fifo"})
    assert refused.status_code == 403
    answer = await root.patch("/queue", json={"policy": "log_aging:c=600"})
    assert answer.status_code == 200
    assert answer.json()["policy_set_by"] == "boss"
    shown = (await ann.get("/queue")).json()["scheduling"]
    assert (shown["policy"], shown["discipline"], shown["discipline_set_by"]) == (
        "log_aging:c=600", "conservative", None,
    )  # fmt: skip
    assert (await root.patch("/queue", json={"discipline": "easy"})).json()["discipline"] == "easy"
    nothing = await root.patch("/queue", json={})
    assert (nothing.status_code, nothing.json()["detail"]) == (400, "Say what to set: `policy`, `discipline`, or both.")
    unknown = await root.patch("/queue", json={"policy": "lottery"})
    assert (unknown.status_code, unknown.json()["detail"]) == (
        400, "There is no scheduling policy 'lottery'; there are fifo.",
    )  # fmt: skip
    (error,) = unknown.json()["errors"]
    assert (error["pointer"], error["word"], error["message"]) == ("/policy", "lottery", unknown.json()["detail"])
    both = await root.patch("/queue", json={"policy": "lottery", "discipline": "easy"})
    assert [error["pointer"] for error in both.json()["errors"]] == ["/policy"]
    unknown = await root.patch("/queue", json={"policy": "fifo", "discipline": "conservativ"})
    assert unknown.status_code == 400
    assert unknown.json()["detail"].startswith(
        "There is no overtaking rule 'conservativ'; there are conservative, easy,"
    )
    (error,) = unknown.json()["errors"]
    assert (error["pointer"], error["suggestion"]) == ("/discipline", "conservative")
    assert set(error["allowed"]) == {*Discipline, "default"}
    assert rig.tasks.scheduling.policy == "log_aging:c=600", "nothing of it was set"
    assert (await root.patch("/queue", json={"polcy": "fifo"})).status_code in (400, 422)


async def test_decisions_of_a_task(rig: Rig) -> None:
    ann = await rig.client("ann")
    job_id = "j0000000000000001"
    answer = (await ann.get(f"/jobs/{job_id}/tasks/a/decisions", params={"limit": 3, "before": 9})).json()
    asked = rig.tasks.asked_decisions[-1]
    assert (asked.task.job_id, asked.task.name, asked.limit, asked.before) == (job_id, "a", 3, 9)
    assert (answer["kept_days"], answer["next_before"]) == (7, 4)
    (one,) = answer["decisions"]
    assert (one["id"], one["place"], one["key"], one["reserved_start_at"]) == (5, 2, 9.5, None)
    assert one["started"][0]["sentence"] == "b was ahead."
    assert one["waits"][0]["word"] == "waiting_for_gpu"
    assert (await ann.get(f"/jobs/{job_id}/tasks/-/decisions")).status_code == 404
    assert (await ann.get(f"/jobs/{job_id}/tasks/a/decisions", params={"limit": 0})).status_code in (400, 422)
