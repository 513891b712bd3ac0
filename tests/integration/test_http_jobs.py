"""Jobs over HTTP: submit, look, act; and what is refused."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway import fingerprint
from headway.errors import PromisesMove
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import task_manager_pb2 as tm
from httpserver.jobs import detail
from job_manager.comparing.comparison import Comparison
from tests.integration.http_rig import Rig, a_job_file, a_rig, submit
from tests.support.waiting import eventually


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as rig:
        yield rig


async def test_a_job_goes_in_as_json_or_yaml_and_comes_back_the_same(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a", "b", name="größe ✓ <svg onload=x>")
    document["tasks"][1] |= {"needs": ["a"], "env": {"LR": "0.01"}}
    first = await ann.post("/jobs", json=document)
    second = await ann.post(
        "/jobs",
        content=yaml.safe_dump(document, allow_unicode=True).encode(),
        headers={"Content-Type": "application/yaml"},
    )
    assert (first.status_code, second.status_code) == (201, 201)
    specs = [(await ann.get(f"/jobs/{answer.json()['id']}/spec")).json() for answer in (first, second)]
    assert specs[0] == specs[1]
    assert specs[0]["name"] == document["name"]
    again = await ann.post("/jobs", json=specs[0])
    assert again.status_code == 201
    text = await ann.get(f"/jobs/{first.json()['id']}/spec", params={"format": "yaml"})
    assert text.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(text.text)["tasks"][1]["env"] == {"LR": "0.01"}


async def test_detail_shows_tasks_edges_attempts_phases_and_why_they_wait(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a", "b", "c")
    document["tasks"][1]["needs"] = {"a": "any"}
    job_id = (await ann.post("/jobs", json=document)).json()["id"]
    rig.tasks.put(job_id, "a", phases=common.Phases(scheduling_s=0.5), started_at=5.0)
    rig.tasks.entries.append(
        tm.QueueEntry(
            task=common.Task(job_id=job_id, name="c"),
            position=7,
            terms={"waited_s": 3.0},
            estimated_start=99.0,
            reasons=[common.WaitReason(word="waiting_for_gpu", sentence="All 2 GPUs are in use.")],
        )
    )
    detail = (await ann.get(f"/jobs/{job_id}")).json()
    assert detail["edges"] == [{"source": "a", "target": "b", "on": "any"}]
    a, b, c = detail["tasks"]
    assert a["attempts"][0]["phases"]["scheduling_s"] == 0.5
    assert b["waits"] == [{"word": "dependency", "sentence": "It waits for `a`."}]
    assert b["waits_for"] == ["a"]
    assert c["waits"] == [{"word": "waiting_for_gpu", "sentence": "All 2 GPUs are in use."}]
    assert c["place"] == {
        "position": 7,
        "terms": {"waited_s": 3.0},
        "estimated_start_at": 99.0,
        "promised_start_at": None,
        "first_promised_start_at": None,
        "estimate_rough": False,
    }
    assert detail["missing"] == []
    one = (await ann.get(f"/jobs/{job_id}/tasks/c")).json()
    assert one["task"] == c
    paged = (await ann.get(f"/jobs/{job_id}", params={"tasks_limit": 1, "tasks_offset": 1})).json()
    assert [task["name"] for task in paged["tasks"]] == ["b"]
    assert paged["task_count"] == 3
    bare = (await ann.get(f"/jobs/{job_id}", params={"tasks_limit": 0})).json()
    assert (bare["tasks"], bare["edges"]) == ([], [])


async def test_of_a_long_job_only_what_is_shown_is_asked_for(rig: Rig):
    ann = await rig.client("ann")
    names = [f"t{number:04}" for number in range(1_234)]
    document = a_job_file(*names)
    document["tasks"][700]["needs"] = ["t0699"]
    job_id = (await ann.post("/jobs", json=document)).json()["id"]
    for number in (0, 10, 699, 1_233):
        rig.tasks.put(job_id, names[number])
    page = (await ann.get(f"/jobs/{job_id}", params={"tasks_limit": 3, "tasks_offset": 699})).json()
    assert [(task["name"], len(task["attempts"])) for task in page["tasks"]] == [
        ("t0699", 1),
        ("t0700", 0),
        ("t0701", 0),
    ]
    assert page["edges"] == [{"source": "t0699", "target": "t0700", "on": "success"}]
    assert page["tasks"][1]["waits_for"] == ["t0699"]
    assert (page["task_count"], page["tasks_offset"]) == (1_234, 699)
    assert sorted(rig.tasks.named, key=len) == [{"t0699", "t0701"}, {"t0699", "t0700", "t0701"}]
    rig.tasks.named.clear()
    whole = (await ann.get(f"/jobs/{job_id}")).json()
    assert [task["name"] for task in whole["tasks"]] == names
    assert [task["name"] for task in whole["tasks"] if task["attempts"]] == ["t0000", "t0010", "t0699", "t1233"]
    assert max(map(len, rig.tasks.named)) <= 1_000
    assert (await ann.get(f"/jobs/{job_id}", params={"tasks_offset": 1_234})).json()["tasks"] == []
    rig.tasks.named.clear()
    bare = (await ann.get(f"/jobs/{job_id}", params={"attempts": "false"})).json()
    assert len(bare["tasks"]) == 1_234
    assert rig.tasks.named == []


@pytest.mark.parametrize("number", [2**31, 2**32, 2**63, 2**64, 10**23])
async def test_numbers_beyond_all_pages_are_refused_or_find_nothing(rig: Rig, number: int):
    ann = await rig.client("ann")
    job_id = await submit(ann)
    rig.tasks.put(job_id, "a")
    for path in (
        f"/queue?offset={number}",
        f"/jobs/{job_id}?tasks_offset={number}",
        f"/jobs/{job_id}?tasks_limit=1&tasks_offset={number}",
        f"/jobs/{job_id}/tasks/a/decisions?before={number}",
        f"/nodes/node-1/usage?since={number}&until={number}",
        f"/usage?offset={number}",
    ):
        answer = await ann.get(path)
        assert answer.status_code in (200, 400, 404), (path, answer.text)
        if answer.status_code == 400:
            assert "at most" in answer.json()["errors"][0]["message"], answer.text


async def test_without_task_manager_a_job_is_shown_and_what_is_missing_is_told(rig: Rig):
    ann = await rig.client("ann")
    job_id = await submit(ann)
    rig.tasks.away = True
    detail = (await ann.get(f"/jobs/{job_id}")).json()
    assert detail["tasks"][0]["name"] == "a"
    assert {item["service"] for item in detail["missing"]} == {"TaskManager"}


async def test_what_could_not_be_mended_is_told_on_the_job(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    ann = await rig.client("ann")
    job_id = await submit(ann)
    assert (await ann.get(f"/jobs/{job_id}")).json()["notices"] == []
    monkeypatch.setattr(Comparison, "notices", lambda self, named: [f'"b" of {named} differs.'])
    assert (await ann.get(f"/jobs/{job_id}")).json()["notices"] == [f'"b" of {job_id} differs.']


async def test_a_hung_task_manager_is_asked_once_and_not_waited_for_long(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(detail, "_DETAILS_S", 1.0)
    monkeypatch.setattr(detail, "_NAMED", 2)
    ann = await rig.client("ann")
    names = ["a", "b", "c", "d", "e"]
    job_id = (await ann.post("/jobs", json=a_job_file(*names))).json()["id"]
    rig.tasks.hangs = True
    shown = (await ann.get(f"/jobs/{job_id}")).json()
    assert [task["name"] for task in shown["tasks"]] == names
    assert [item["service"] for item in shown["missing"]] == ["TaskManager"] * 2
    one = (await ann.get(f"/jobs/{job_id}/tasks/e")).json()
    assert (one["task"]["name"], len(one["missing"])) == ("e", 2)
    # What hung was of the first two tasks, and of the one; nobody asked on, nor would have waited for longer.
    assert rig.tasks.patience_s
    assert max(rig.tasks.patience_s) < 2
    assert all(named in ({"a", "b"}, {"e"}) for named in rig.tasks.named), rig.tasks.named
    monkeypatch.undo()
    rig.tasks.hangs = False
    assert (await ann.get(f"/jobs/{job_id}")).json()["missing"] == []


async def test_without_job_manager_the_answer_is_503_and_says_so_quickly(rig: Rig):
    ann = await rig.client("ann")
    rig.job_manager.request_stop("test")
    await eventually(lambda: not rig.job_manager.health.ready)
    await ann.get("/jobs")  # may have tried for a while
    took_s: list[float] = []
    while not took_s or (took_s[-1] >= 1 and len(took_s) < 5):
        began = time.monotonic()
        answer = await ann.get("/jobs")
        took_s.append(time.monotonic() - began)
        assert answer.status_code == 503
    assert min(took_s) < 1, "the machine may be busy, but not each time"
    problem = answer.json()
    assert problem["service"] == "JobManager"
    assert problem["detail"] == "JobManager does not answer now; try again soon."
    assert answer.headers["retry-after"] == "2"
    assert (await ann.get("/me")).status_code == 200


async def test_all_problems_come_at_once_with_line_and_column_also_those_of_the_graph(rig: Rig):
    ann = await rig.client("ann")
    text = """version: 1
name: t
defaults: {image: base, command: "true", timeout: 1m}
tasks:
  - name: a
    needs: [b]
  - name: b
    needs: [a]
  - name: c
    timeout: 5
    imagine: x
"""
    answer = await ann.post("/jobs", content=text.encode(), headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["slug"] == "job-file-invalid"
    at = {(item["line"], item["pointer"]) for item in problem["errors"]}
    assert (10, "/tasks/2/timeout") in at
    assert (11, "/tasks/2/imagine") in at
    cycle = [item for item in problem["errors"] if "a" in item["message"] and item["pointer"].startswith("/tasks/")]
    assert any(item["line"] in (6, 8) and item["column"] for item in cycle), problem["errors"]
    assert (await ann.get("/jobs")).json()["jobs"] == []


@pytest.mark.parametrize(
    ("fields", "task", "want_pointer"),
    [
        ({"priority": "high"}, {}, "/priority"),
        ({}, {"user": "image"}, "/tasks/0/user"),
    ],
)
async def test_what_needs_a_grant_is_refused_without_one(rig: Rig, fields: dict, task: dict, want_pointer: str):
    document = a_job_file("a", **fields)
    document["tasks"][0] |= task
    plain = await rig.client("plain")
    answer = await plain.post("/jobs", json=document)
    assert answer.status_code == 422
    assert [item["pointer"] for item in answer.json()["errors"]] == [want_pointer]
    granted = await rig.client("granted", may_use_high_priority=True, may_use_image_user=True)
    assert (await granted.post("/jobs", json=document)).status_code == 201


async def test_a_repeated_request_is_one_job_and_another_job_under_its_key_is_refused(rig: Rig):
    """WEB-04, WEB-05."""
    ann, bob = await rig.client("ann"), await rig.client("bob")
    key = {"Idempotency-Key": "clicked twice"}
    first, second = await asyncio.gather(
        ann.post("/jobs", json=a_job_file("a"), headers=key), ann.post("/jobs", json=a_job_file("a"), headers=key)
    )
    assert sorted([first.status_code, second.status_code]) == [200, 201]
    assert first.json()["id"] == second.json()["id"]
    assert sorted([first.json()["already_known"], second.json()["already_known"]]) == [False, True]
    other = await ann.post("/jobs", json=a_job_file("b"), headers=key)
    assert (other.status_code, other.json()["slug"]) == (409, "idempotency-mismatch")
    # Somebody else's key of the same name is another key.
    assert (await bob.post("/jobs", json=a_job_file("b"), headers=key)).status_code == 201
    assert len((await ann.get("/jobs", params={"owner": "me"})).json()["jobs"]) == 1


async def test_job_manager_is_asked_once_whether_it_knows_a_key(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """It looks for the key itself: to ask it beforehand doubled the calls of each submission."""
    ann, calls = await rig.client("ann"), []
    jobs = rig.parts.submit._services.jobs
    upload = jobs.upload

    async def counted(*args: Any, **how: Any) -> Any:
        calls.append(args[0])
        return await upload(*args, **how)

    monkeypatch.setattr(jobs, "upload", counted)
    for status in (201, 200):
        answer = await ann.post("/jobs", json=a_job_file("a"), headers={"Idempotency-Key": "once"})
        assert (answer.status_code, answer.json()["already_known"]) == (status, status == 200)
        assert calls == ["SubmitJob"]
        calls.clear()


async def test_a_dry_run_tells_the_order_and_stores_nothing(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("b", "a")
    document["tasks"][0]["needs"] = ["a"]
    answer = await ann.post("/jobs", json=document, params={"dry_run": "true"})
    assert answer.status_code == 200
    assert answer.json()["order"] == ["a", "b"]
    assert answer.json()["id"] is None
    assert (await ann.get("/jobs")).json()["jobs"] == []


async def test_fields_are_set_in_place_of_what_the_file_says(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("b", "a")
    answer = await ann.post("/jobs", json=document, params={"set": ["timeout=1h", "b.retries=2", "name=other"]})
    assert answer.status_code == 201, answer.text
    job = answer.json()["id"]
    spec = (await ann.get(f"/jobs/{job}/spec")).json()
    assert spec["name"] == "other"
    assert [(task["timeout"], task.get("retries", 0)) for task in spec["tasks"]] == [("1h", 2), ("1h", 0)]
    answer = await ann.post("/jobs", json=document, params={"set": ["timeout=soon", "b.retries=-1"]})
    assert answer.status_code == 422
    told = [error["message"] for error in answer.json()["errors"]]
    assert told[0].startswith("--set 'timeout=soon': timeout 'soon'")
    assert told[1].startswith("--set 'b.retries=-1': task 'b': retries")
    key = {"Idempotency-Key": "one"}
    assert (await ann.post("/jobs", json=document, params={"set": "timeout=1h"}, headers=key)).status_code == 201
    assert (await ann.post("/jobs", json=document, params={"set": "timeout=2h"}, headers=key)).status_code == 409
    assert (await ann.post("/jobs", json=document, params={"set": ["a=b"] * 101})).status_code == 400


async def test_a_dry_run_tells_what_past_runs_say_of_timeouts_in_groups(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file(*(f"t{i:03d}" for i in range(50)), "other")
    for task in document["tasks"]:
        task["command"] = ["python3", "train.py"]
    document["tasks"][-1]["command"] = "echo new"
    kind = fingerprint.kind_of(document["defaults"]["image"], ["python3", "train.py"], entrypoint="0")
    rig.tasks.known.add(fingerprint.command_print("ann", kind))
    answer = (await ann.post("/jobs", json=document, params={"dry_run": "true"})).json()
    assert [(one["task_count"], len(one["tasks"]), one["tasks"][0]) for one in answer["timeouts"]] == [(50, 20, "t000")]
    advice = answer["timeouts"][0]
    assert (advice["suggested_timeout"], advice["basis"], advice["succeeded"]) == ("12m", "command", 12)
    assert len(rig.tasks.advised.asked) == 51
    # Nobody learns from another's runs.
    bob = await rig.client("bob")
    assert (await bob.post("/jobs", json=document, params={"dry_run": "true"})).json()["timeouts"] == []
    # A job that is stored is not advised, and a check does without advice while TaskManager is away.
    assert (await ann.post("/jobs", json=document)).json()["timeouts"] == []
    rig.tasks.away = True
    alone = await ann.post("/jobs", json=document, params={"dry_run": "true", "allow_unsatisfiable": "true"})
    assert (alone.status_code, alone.json()["timeouts"]) == (200, [])


async def test_what_no_machine_could_run_is_refused_unless_wanted(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a")
    document["tasks"][0]["resources"] = {"cpus": 99}
    refused = await ann.post("/jobs", json=document)
    assert (refused.status_code, refused.json()["slug"]) == (422, "unsatisfiable")
    assert "99 CPUs" in refused.json()["detail"]
    wanted = await ann.post("/jobs", json=document, params={"allow_unsatisfiable": "true"})
    assert wanted.status_code == 201


async def test_the_list_has_filters_and_pages_that_new_jobs_do_not_shift(rig: Rig):
    ann, bob = await rig.client("ann"), await rig.client("bob")
    own = [await submit(ann, name=f"job {i}") for i in range(5)]
    await submit(bob, name="another")
    first = (await ann.get("/jobs", params={"limit": 4})).json()
    await submit(bob, name="late")
    second = (await ann.get("/jobs", params={"limit": 4, "cursor": first["next_cursor"]})).json()
    listed = [job["id"] for job in first["jobs"] + second["jobs"]]
    assert len(listed) == len(set(listed)) == 6
    assert second["next_cursor"] is None
    mine = (await ann.get("/jobs", params={"owner": "me"})).json()["jobs"]
    assert [job["id"] for job in mine] == own[::-1]
    found = (await ann.get("/jobs", params={"q": "another", "state": ["PENDING", "RUNNING"]})).json()["jobs"]
    assert [job["owner"] for job in found] == ["bob"]
    assert (await ann.get("/jobs", params={"state": "SUCCEEDED"})).json()["jobs"] == []
    wrong = await ann.get("/jobs", params={"state": "DONE"})
    assert wrong.status_code == 400
    assert "PENDING" in wrong.json()["errors"][0]["message"]


async def test_ids_may_be_shortened_while_unique(rig: Rig):
    ann, bob = await rig.client("ann"), await rig.client("bob")
    mine, _ = await submit(ann), await submit(bob)
    # Both were made in the same minute, so they start alike; one's own job wins.
    assert (await ann.get(f"/jobs/{mine[:5]}")).json()["id"] == mine
    second = await submit(ann)
    assert (await ann.get(f"/jobs/{mine[:5]}")).status_code == 409
    assert (await ann.get(f"/jobs/{second[:-1]}")).json()["id"] == second
    for nonsense in ("zzz", "..", "%00", "j" + "0" * 16, "a/b", "J%27--", "é"):
        answer = await ann.get(f"/jobs/{nonsense}")
        assert answer.status_code == 404, nonsense
        assert answer.headers["content-type"] == "application/problem+json"


async def test_others_see_states_but_not_spec_logs_or_buttons(rig: Rig):
    """SEC-04: what a job is told in its environment is between it and its owner."""
    ann, bob = await rig.client("ann"), await rig.client("bob")
    root = await rig.client("boss", admin=True)
    secret = "s3cret-value"
    document = a_job_file("a")
    document["tasks"][0]["env"] = {"API_TOKEN": secret}
    job_id = (await ann.post("/jobs", json=document)).json()["id"]
    rig.tasks.put(job_id, "a", state="SUCCEEDED")
    rig.store_log(job_id, "a", secret.encode())
    for view in ("/jobs", f"/jobs/{job_id}", f"/jobs/{job_id}/tasks/a", "/queue", "/nodes"):
        answer = await bob.get(view)
        assert answer.status_code == 200
        assert secret not in answer.text
    assert secret not in (await ann.get(f"/jobs/{job_id}")).text
    assert (await bob.get(f"/jobs/{job_id}/tasks/a")).json()["spec"] is None
    assert (await root.get(f"/jobs/{job_id}/tasks/a")).json()["spec"]["env"] == {"API_TOKEN": secret}
    for closed in (
        "spec",
        "logs.zip",
        "tasks/a/attempts/1/logs/stdout",
        "tasks/a/attempts/latest/logs/stderr?follow=true",
    ):
        answer = await bob.get(f"/jobs/{job_id}/{closed}")
        assert (answer.status_code, answer.json()["slug"]) == (403, "not-allowed"), closed
    for action in ("cancel", "retry", "hold", "release", "tasks/a/cancel", "tasks/a/retry"):
        assert (await bob.post(f"/jobs/{job_id}/{action}")).status_code == 403
        assert (await root.post(f"/jobs/{job_id}/{action}")).status_code != 403
    assert (await ann.get(f"/jobs/{job_id}/spec")).json()["tasks"][0]["env"] == {"API_TOKEN": secret}


async def test_a_task_tells_its_owner_all_that_was_submitted_of_it(rig: Rig):
    """Used to: command, environment, needs, retries and folders were shown nowhere."""
    ann = await rig.client("ann")
    document = a_job_file("a", "b")
    document["tasks"][1] |= {
        "needs": {"a": "any"}, "command": ["echo", "a b"], "env": {"A": "1"}, "retries": 2, "output_path": "out",
        "working_dir": "/w", "ulimits": {"nofile": 4096}, "timeout": "90m",
        "resources": {"cpus": 0.5, "memory": "4GiB"},
    }  # fmt: skip
    job_id = (await ann.post("/jobs", json=document)).json()["id"]
    spec = (await ann.get(f"/jobs/{job_id}/tasks/b")).json()["spec"]
    assert spec == {
        "name": "b", "needs": {"a": "any"}, "image": "base", "command": ["echo", "a b"],
        "shell": None, "entrypoint": "replace", "env": {"A": "1"}, "working_dir": "/w", "code": None, "datasets": [],
        "resources": {
            "cpus": 0.5, "memory": "4GiB", "shm": "2GiB", "gpus": 0, "gpu_model": [], "gpu_memory": None,
            "gpu_share": None,
        },
        "ulimits": {"nofile": 4096}, "timeout": "1h30m", "grace": "10s", "retries": 2, "user": "account",
        "network": "outgoing", "output_path": "out", "secrets": [], "log_limit": "1GiB", "log_limit_action": "drop",
    }  # fmt: skip
    assert (await ann.get(f"/jobs/{job_id}/tasks/a")).json()["spec"]["shell"] == "sh"


async def test_actions_are_idempotent_and_take_single_tasks(rig: Rig):
    ann = await rig.client("ann")
    job_id = await submit(ann, "a", "b")
    held = (await ann.post(f"/jobs/{job_id}/hold")).json()
    assert held["job"]["held"] is True
    detail = (await ann.get(f"/jobs/{job_id}")).json()
    assert detail["tasks"][0]["waits"][0]["word"] == "held"
    assert (await ann.post(f"/jobs/{job_id}/hold")).json()["tasks_changed"] == 0
    assert (await ann.post(f"/jobs/{job_id}/release")).json()["job"]["held"] is False
    await ann.post(f"/jobs/{job_id}/tasks/a/cancel")
    assert (await ann.post(f"/jobs/{job_id}/cancel")).status_code == 200
    assert (await ann.post(f"/jobs/{job_id}/cancel")).json()["job"]["state"] in ("STOPPING", "CANCELLED")
    missing = await ann.post(f"/jobs/{job_id}/tasks/zzz/cancel")
    assert missing.status_code == 404


async def test_more_time_is_the_owners_to_ask_and_an_admins_to_force(rig: Rig):
    ann, bob = await rig.client("ann"), await rig.client("bob")
    root = await rig.client("boss", admin=True)
    job_id = await submit(ann, "a", "blocked")
    path = f"/jobs/{job_id}/tasks/a/extend"
    given = await ann.post(path, json={"by": "1h30m"}, headers={"Idempotency-Key": "k"})
    assert given.status_code == 200
    answer = given.json()
    assert (answer["delivered"], answer["sentence"]) == (True, "It has more.")
    assert (answer["attempt"]["timeout_s"], answer["attempt"]["deadline_at"]) == (5_460.0, 2e9)
    assert answer["attempt"]["extensions"] == [{"at": 1.8e9, "by": "ann", "seconds": 5_400.0, "forced": False}]
    await ann.post(path, json={"by": "1h30m"}, headers={"Idempotency-Key": "k"})
    await ann.post(path, json={"by": "1h30m"})
    ids = [asked.request_id for asked in rig.tasks.extended]
    assert (ids[0] == ids[1], len(set(ids))) == (True, 2), "a key stands for one request, none for one each"
    assert (await bob.post(path, json={"by": "1h"})).status_code == 403
    forced = await ann.post(path, json={"by": "1h", "force": True})
    assert (forced.status_code, forced.json()["detail"]) == (
        403,
        "Only an admin may give time that is promised to others or kept for short tasks; leave out `force`.",
    )
    assert (await root.post(path, json={"by": "1h", "force": True})).status_code == 200
    assert (rig.tasks.extended[-1].by, rig.tasks.extended[-1].force) == ("boss", True)
    bad = await ann.post(path, json={"by": "30"})
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (400, "/by")
    assert (await ann.post(f"/jobs/{job_id}/tasks/-/extend", json={"by": "1h"})).status_code == 404
    blocked = await ann.post(f"/jobs/{job_id}/tasks/blocked/extend", json={"by": "1h"})
    assert blocked.status_code == 409
    assert "does not run; its timeout counts from its start" in blocked.json()["detail"]
    rig.tasks.refusal = PromisesMove("With 1h more, 2 tasks would start later than promised.")
    moved = await ann.post(path, json={"by": "1h"})
    assert (moved.status_code, moved.json()["slug"]) == (409, "promises-move")
    assert moved.json()["detail"] == "With 1h more, 2 tasks would start later than promised."


async def test_queue_and_nodes_are_for_all_and_levers_for_admins(rig: Rig):
    rig.nodes.put()
    ann, root = await rig.client("ann"), await rig.client("boss", admin=True)
    assert [node["id"] for node in (await ann.get("/nodes")).json()["nodes"]] == ["node-1"]
    assert (await ann.get("/nodes/node-1")).json()["gpus"][1]["model"] == "A100"
    assert (await ann.get("/nodes/node-2")).status_code == 404
    points = (await ann.get("/nodes/node-1/usage", params={"until": 10_000.0})).json()["points"]
    assert points[0]["at"] == 6_400.0
    assert (await ann.get("/queue")).json()["policy"] == "aging_sjf"
    for action in ("cordon", "uncordon", "drain", "lost"):
        assert (await ann.post(f"/nodes/node-1/{action}", json={"note": "x"})).status_code == 403
    assert (await root.post("/nodes/node-1/drain", json={"note": "new card"})).json()["admission"] == "DRAINING"
    assert (rig.nodes.asked[-1].note, rig.nodes.asked[-1].by) == ("new card", "boss")
    assert (await root.post("/nodes/node-1/uncordon")).json()["admission"] == "OPEN"
    path = "/nodes/node-1/gpus/GPU-node-1-{}/return"
    assert (await ann.post(path.format(0))).status_code == 403
    assert (await root.post(path.format(0))).json() == {"sentence": "GPU-node-1-0 is back."}
    refused = await root.post(path.format(1))
    assert (refused.status_code, refused.json()["detail"]) == (409, "GPU-node-1-1 stays out.")
    assert (await root.post(path.format(1), json={"gone": True})).status_code == 200
    assert [(one.node_id, one.by, one.gone) for one in rig.nodes.returned] == [
        ("node-1", "boss", False), ("node-1", "boss", False), ("node-1", "boss", True),
    ]  # fmt: skip
    assert (await root.post("/nodes/node-1/lost")).json() == {"attempts_lost": 3}
    assert rig.tasks.lost == ["node-1"]
    assert (await root.delete("/nodes/node-1")).status_code == 204


def a_large_job(tasks: int) -> dict:
    document = a_job_file()
    document["tasks"] = [
        {"name": f"task-{i:05d}", "needs": [f"task-{i - 1:05d}"] if i % 10 else [], "env": {"I": str(i), "X": "y" * 40}}
        for i in range(tasks)
    ]
    return document


@pytest.mark.slow
@pytest.mark.parametrize("media", ["json", "yaml"])
async def test_ten_thousand_tasks_go_in_while_others_are_served(rig: Rig, media: str):
    document = a_large_job(10_000)
    body = json.dumps(document) if media == "json" else yaml.dump(document, Dumper=yaml.CSafeDumper)
    ann, bob = await rig.client("ann"), await rig.client("bob")
    slowest = 0.0
    done = False

    async def others() -> None:
        nonlocal slowest
        while not done:
            began = time.monotonic()
            assert (await bob.get("/me")).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(others())
    began = time.monotonic()
    answer = await ann.post(
        "/jobs", content=body.encode(), headers={"Content-Type": f"application/{media}"}, timeout=60
    )
    took = time.monotonic() - began
    done = True
    await watching
    print(f"{media}: {len(body):,} bytes in {took:.2f} s, slowest other call {slowest * 1000:.0f} ms")
    assert answer.status_code == 201, answer.text[:500]
    detail = (await ann.get(f"/jobs/{answer.json()['id']}", timeout=60)).json()
    assert len(detail["tasks"]) == 10_000
    assert len(detail["edges"]) == 9_000
    paged = (await ann.get(f"/jobs/{answer.json()['id']}", params={"tasks_limit": 7, "tasks_offset": 9_990})).json()
    assert [task["name"] for task in paged["tasks"]] == [f"task-{i:05d}" for i in range(9_990, 9_997)]


async def test_a_large_file_with_problems_is_read_elsewhere_and_told_in_full(rig: Rig):
    document = a_large_job(800)
    document["tasks"][3]["needs"] = ["task-00005"]
    document["tasks"][700]["timeout"] = "never"
    ann = await rig.client("ann")
    answer = await ann.post(
        "/jobs", content=yaml.dump(document, Dumper=yaml.CSafeDumper).encode(), headers={"Content-Type": "text/yaml"}
    )
    assert answer.status_code == 422
    pointers = [item["pointer"] for item in answer.json()["errors"]]
    assert "/tasks/700/timeout" in pointers
    assert any(pointer.startswith(("/tasks/3/needs", "/tasks/4/needs", "/tasks/5/needs")) for pointer in pointers)
    assert all(item["line"] for item in answer.json()["errors"])


async def test_yaml_bombs_and_broken_documents_are_refused_quickly(rig: Rig):
    ann = await rig.client("ann")
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    for body in (
        bomb,
        "{" * 5000,
        "[" * 100_000,
        "- &a\n  - *a\n",
        "\x00",
        "%YAML 9.9\n---\n",
        "!!python/object:os.system {}",
    ):
        answer = await ann.post("/jobs", content=body.encode(), headers={"Content-Type": "application/yaml"})
        assert answer.status_code == 422, (body[:40], answer.text[:200])
        assert answer.json()["errors"]
    answer = await ann.post("/jobs", content=b"\xff\xfe{}", headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
