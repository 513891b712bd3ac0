"""Usage and past runs over HTTP and the command line, from the real sums of a database."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway.cli.main import cli
from headway.clock import SystemClock
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import AttemptState
from headway.store import Database
from task_manager.answers.usage_queries import UsageQueries
from task_manager.simulate.trace import KNOWN, parse_trace
from task_manager.store import tables
from tests.integration.http_rig import Rig, a_rig
from tests.support.attempts import an_attempt, keep
from tests.unit.task_manager.rig import GiB, a_task

DAY = 86_400.0
H = 3_600.0
# Noon of 2026-03-10, in UTC.
NOON = 1_773_144_000.0
SPAN = {"from": "2026-03-10", "to": "2026-03-12"}


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    made = await Database.open(str(tmp_path / "tm.db"), room="task_manager", metadata=tables.metadata)
    yield made
    await made.close()


@pytest.fixture
async def rig(tmp_path: Path, db: Database) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as made:
        made.tasks.ledger = UsageQueries(db, SystemClock())
        for name in ("ann", "bo", "cy"):
            await made.account(name)
        yield made


async def some_past(db: Database) -> None:
    """ann: 2 GPUs for 3 h over midnight, killed at its timeout; 1 CPU for an hour. bo: 4 GPUs for 2 h."""
    big = a_task("big", gpus=2, job="j0000000000000001", job_name='=night, "run"', timeout=3 * H, priority=1)
    small = a_task("small", job="j0000000000000002", cpu=150, memory=3 * GiB // 2)
    other = a_task("other", gpus=4, job="j0000000000000003", owner="bo", models=("H100", "A|100"), timeout=4 * H)
    await keep(
        db,
        [big, small, other],
        [
            an_attempt(big, at=NOON + 11 * H, to=NOON + 14 * H, state=AttemptState.TIMED_OUT),
            an_attempt(small, at=NOON + H, to=NOON + 2 * H, queued_at=NOON + H - 0.123456),
            an_attempt(other, at=NOON + 30, to=NOON + 30 + 2 * H, node="n2"),
            an_attempt(other, 2, at=NOON + 3 * H, to=NOON + 3.5 * H, state=AttemptState.LOST, run_s=None),
        ],
    )


async def test_sums_of_all_for_all(rig: Rig, db: Database) -> None:
    await some_past(db)
    cy = await rig.client("cy")
    found = (await cy.get("/usage", params=SPAN)).json()
    assert (found["by"], found["user"], found["from_at"], found["to_at"]) == (
        "user",
        None,
        NOON - 12 * H,
        NOON + 36 * H,
    )
    rows = {row["key"]: row for row in found["rows"]}
    assert list(rows) == ["bo", "ann"]
    assert rows["bo"]["gpu_hours"] == pytest.approx(10)
    ann = rows["ann"]
    assert ann == {
        "key": "ann", "job_name": None, "owner": None, "gpu_hours": 6.0, "cpu_hours": 4.5,
        "memory_gib_hours": 4.5, "attempts": 2, "tasks": 2, "started": 2,
        "mean_wait_s": pytest.approx(30.06, abs=0.01), "ended": 2, "timed_out": 1, "booked_gpu_hours": 6.0,
        "used_gpu_hours": 6.0, "booked_used": 1.0, "measured_gpu_hours": 0.0, "mean_gpu_utilisation": None,
        "idle_gpu_hours": 0.0, "failed_gpu_hours": 6.0, "wasted_gpu_hours": 6.0,
    }  # fmt: skip
    assert (found["total"]["attempts"], found["total"]["tasks"], found["rows_in_all"]) == (4, 3, 2)
    # What was lost is no measure of timeouts.
    assert rows["bo"]["booked_used"] == pytest.approx(0.5)


async def test_days_jobs_nodes_and_pages(rig: Rig, db: Database) -> None:
    await some_past(db)
    ann = await rig.client("ann")

    async def ask(**params: Any) -> dict[str, Any]:
        answer = await ann.get("/usage", params=SPAN | params)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    days = await ask(by="day", user="me")
    assert [(row["key"], row["gpu_hours"], row["timed_out"]) for row in days["rows"]] == [
        ("2026-03-10", 2.0, 0), ("2026-03-11", 4.0, 1),
    ]  # fmt: skip
    assert days["user"] == "ann"
    jobs = await ask(by="job")
    assert [(row["key"][-1], row["job_name"], row["owner"]) for row in jobs["rows"]] == [
        ("3", "digits", "bo"), ("1", '=night, "run"', "ann"), ("2", "digits", "ann"),
    ]  # fmt: skip
    second = await ask(by="job", limit=1, offset=1)
    assert ([row["key"][-1] for row in second["rows"]], second["rows_in_all"]) == (["1"], 3)
    assert second["total"] == jobs["total"]
    nodes = await ask(by="node", user="bo")
    assert {row["key"]: row["gpu_hours"] for row in nodes["rows"]} == pytest.approx({"n1": 2.0, "n2": 8.0})
    far = await ask(**{"from": "2026-04-01", "to": "2026-04-02"})
    assert (far["rows"], far["total"]["gpu_hours"], far["total"]["mean_wait_s"]) == ([], 0.0, None)


async def test_groups_are_sums_of_their_members(rig: Rig, db: Database) -> None:
    await some_past(db)
    boss = await rig.client("boss", admin=True)
    for name, members in (("lab", ["ann", "bo"]), ("class", ["bo"]), ("nobody", ["cy"])):
        assert (await boss.post("/groups", json={"name": name, "members": members})).status_code == 201
    found = (await boss.get("/usage", params=SPAN | {"by": "group"})).json()
    assert [(row["key"], row["attempts"]) for row in found["rows"]] == [("lab", 4), ("class", 2)]
    assert found["rows"][0]["gpu_hours"] == pytest.approx(16)
    assert found["rows"][0]["mean_wait_s"] == pytest.approx((60 + 0.123456 + 60 + 60) / 4)
    assert found["total"]["gpu_hours"] == pytest.approx(16), "who is in two groups counts once in the total"
    only = (await boss.get("/usage", params=SPAN | {"by": "group", "limit": 1, "offset": 1})).json()
    assert ([row["key"] for row in only["rows"]], only["rows_in_all"]) == (["class"], 2)
    await boss.patch("/groups/lab", json={"add": [], "remove": ["ann"]})
    found = (await boss.get("/usage", params=SPAN | {"by": "group", "user": "ann"})).json()
    assert [row["key"] for row in found["rows"]] == [""]


@pytest.mark.parametrize(
    ("params", "pointer", "want"),
    [
        ({"from": "yesterday"}, "/from", "The parameter `from`: 'yesterday' is no date"),
        ({"to": "2026-02-30"}, "/to", "The parameter `to`: '2026-02-30' is no day"),
        ({"from": "2026-03-10T12:00"}, "/from", "names no zone"),
        ({"from": "2026-03-10", "to": "2026-03-10"}, "/from", "is not before"),
        ({"from": "2126-03-10"}, "/from", "has not come yet"),
        ({"from": "1969-03-10"}, "/from", "before 1970"),
        ({"from": "1970-01-01", "by": "day"}, None, "for 400 of them at most"),
        ({"by": "week"}, "", "`by`"),
        ({"limit": "0"}, "", "`limit`"),
        ({"offset": str(2**40)}, "", "`offset`"),
        ({"from": "x" * 65}, "", "64 characters"),
        ({"from": "\x00"}, "/from", "'\\u0000' is no date"),
    ],
)
async def test_what_is_no_question(rig: Rig, params: dict[str, str], pointer: str | None, want: str) -> None:
    ann = await rig.client("ann")
    for path in ("/usage",) if pointer != "/from" else ("/usage", "/usage/trace"):
        answer = await ann.get(path, params=params)
        assert answer.status_code == 400, answer.text
        problem = answer.json()
        assert want in problem["detail"]
        if pointer is not None:
            assert [one["pointer"] for one in problem["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({"daily": "true"}, "`daily` goes with `format=csv`"),
        ({"daily": "true", "format": "csv", "by": "day"}, "a row for each day already"),
        ({"daily": "true", "format": "csv", "from": "1990-01-01"}, "for 400 of them at most"),
        ({"format": "xlsx"}, "`format`"),
        ({"format": "csv", "from": "yesterday"}, "is no date"),
    ],
)
async def test_what_no_csv_can_tell(rig: Rig, params: dict[str, str], want: str) -> None:
    ann = await rig.client("ann")
    answer = await ann.get("/usage", params=params)
    assert answer.status_code == 400
    assert want in answer.json()["detail"]


async def test_sums_as_csv_and_of_each_day(rig: Rig, db: Database) -> None:
    await some_past(db)
    idle = a_task("idle", gpus=2, job="j0000000000000004", owner="cy")
    use = tm.AttemptUse(
        gpus=[tm.GpuUse(uuid=f"GPU-{i}", measured_s=H, mean_utilisation=0.25, idle_s=H / 2) for i in range(2)]
    )
    await keep(db, [idle], [an_attempt(idle, at=NOON, to=NOON + 2 * H, use=use.SerializeToString())])
    ann = await rig.client("ann")

    async def rows(**params: str) -> list[dict[str, str]]:
        return _rows(await ann.get("/usage", params=SPAN | {"format": "csv"} | params))

    by_user = {row["user"]: row for row in await rows()}
    assert list(by_user) == ["bo", "ann", "cy"]
    cy = by_user["cy"]
    assert [cy[f"{name}_gpu_hours"] for name in ("wasted", "failed", "idle", "measured")] == ["1", "0", "1", "2"]
    assert (cy["gpu_hours"], cy["mean_gpu_utilisation"], cy["attempts"]) == ("4", "0.25", "1")
    assert (by_user["bo"]["failed_gpu_hours"], by_user["bo"]["mean_gpu_utilisation"]) == ("2", "")
    daily = await rows(daily="true")
    assert [(row["day"], row["user"], row["gpu_hours"]) for row in daily] == [
        ("2026-03-10", "bo", "10"), ("2026-03-10", "cy", "4"), ("2026-03-10", "ann", "2"), ("2026-03-11", "ann", "4"),
    ]  # fmt: skip
    jobs = await rows(by="job", user="me")
    assert [(row["job"], row["job_name"], row["owner"]) for row in jobs] == [
        ("j0000000000000001", "'=night, \"run\"", "ann"), ("j0000000000000002", "digits", "ann"),
    ]  # fmt: skip
    groups = await rows(by="group", daily="true")
    assert [(row["day"], row["group"], row["gpu_hours"]) for row in groups] == [
        ("2026-03-10", "", "16"), ("2026-03-11", "", "4"),
    ]  # fmt: skip


async def test_a_bare_number_is_one_of_days(rig: Rig) -> None:
    ann = await rig.client("ann")
    (error,) = (await ann.get("/usage", params={"from": "7"})).json()["errors"]
    assert (error["word"], error["suggestion"]) == ("7", "7d")


async def test_who_may_see_what(rig: Rig, db: Database) -> None:
    await some_past(db)
    stranger, ann, boss = await rig.client(), await rig.client("ann"), await rig.client("boss", admin=True)
    for path in ("/usage", "/usage/trace"):
        assert (await stranger.get(path, params=SPAN)).status_code == 401
    assert (await ann.get("/usage", params=SPAN | {"user": "nobody-here"})).status_code == 404
    for params in ({"user": "bo"}, {"all": "true"}):
        refused = await ann.get("/usage/trace", params=SPAN | params)
        assert (refused.status_code, refused.json()["slug"]) == (403, "not-allowed")
    assert (await boss.get("/usage/trace", params={"user": "nobody-here"})).status_code == 404
    assert (await boss.get("/usage/trace", params={"user": "bo", "all": "true"})).status_code == 400
    assert [row["user"] for row in _rows(await boss.get("/usage/trace", params=SPAN | {"user": "bo"}))] == ["bo"]
    everybody = _rows(await boss.get("/usage/trace", params=SPAN | {"all": "true"}))
    assert [row["user"] for row in everybody] == ["bo", "ann", "ann"]
    assert _rows(await boss.get("/usage/trace", params=SPAN)) == []


def _rows(answer: Any) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


async def test_a_trace_has_what_simulate_reads(rig: Rig, db: Database) -> None:
    await some_past(db)
    boss = await rig.client("boss", admin=True)
    answer = await boss.get("/usage/trace", params=SPAN | {"all": "true"})
    assert answer.text.splitlines()[0].split(",") == [
        "id", "submit_s", "runtime_s", "gpus", "timeout_s", "gpu_type", "cpus", "mem_mib", "user", "priority",
    ]  # fmt: skip
    assert set(answer.text.splitlines()[0].split(",")) == set(KNOWN)
    other, small, big = _rows(answer)
    assert small == {
        "id": "j0000000000000002/small/1", "submit_s": "3629.876544", "runtime_s": "3600", "gpus": "0",
        "timeout_s": "60", "gpu_type": "", "cpus": "1.5", "mem_mib": "1536", "user": "ann", "priority": "0",
    }  # fmt: skip
    assert (other["submit_s"], other["gpu_type"], other["runtime_s"]) == ("0", "H100|A/100", "7200")
    assert (big["priority"], big["gpus"], big["timeout_s"]) == ("1", "2", "10800")
    # It would have gone on.
    assert big["runtime_s"] == "10800.001"
    read = parse_trace(answer.content, "trace.csv")
    assert read.notes == ()
    assert [(r.label, r.submit_s, r.user, r.cpu_centi, r.memory_bytes) for r in read.records] == [
        ("j0000000000000003/other/1", 0.0, "bo", 100, GiB),
        ("j0000000000000002/small/1", 3629.876544, "ann", 150, 3 * GiB // 2),
        ("j0000000000000001/big/1", 39570.0, "ann", 100, GiB),
    ]


async def test_names_of_any_kind_come_back_as_they_were(rig: Rig, db: Database) -> None:
    names = ['=cmd|"/c"', "a,b", 'say "no"', "+1", "@x", "ünï", "two\nlines"]
    tasks = [a_task(f"t{i}", owner=name) for i, name in enumerate(names)]
    await keep(db, tasks, [an_attempt(task, at=NOON + i, to=NOON + i + 9) for i, task in enumerate(tasks)])
    boss = await rig.client("boss", admin=True)
    answer = await boss.get("/usage/trace", params=SPAN | {"all": "true"})
    assert [row["user"] for row in _rows(answer)] == names
    assert [record.user for record in parse_trace(answer.content, "t.csv").records] == names


async def test_a_long_history_streams_in_its_order(rig: Rig, db: Database) -> None:
    tasks = [a_task(f"t{i:04d}") for i in range(1_500)]
    # As the tasks of a few jobs: hundreds are queued at one instant.
    past = [an_attempt(t, at=NOON + 100, to=NOON + 160, queued_at=NOON + i // 300) for i, t in enumerate(tasks)]
    await keep(db, tasks, past)
    ann = await rig.client("ann")
    rows = _rows(await ann.get("/usage/trace", params=SPAN))
    assert len({row["id"] for row in rows}) == len(rows) == 1_500
    assert [float(row["submit_s"]) for row in rows] == sorted(float(i // 300) for i in range(1_500))


# -- the command line --------------------------------------------------------------------------------


async def run(rig: Rig, name: str, *words: str) -> Result:
    environment = {"HEADWAY_URL": rig.url, "HEADWAY_TOKEN": await rig.account(name)}
    result = await asyncio.to_thread(CliRunner().invoke, cli, list(words), env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


async def test_usage_as_people_read_it(rig: Rig, db: Database) -> None:
    await some_past(db)
    span = ("--from", "2026-03-10", "--to", "2026-03-12")
    said = (await run(rig, "ann", "usage", *span)).stdout
    assert said.splitlines()[0] == "ann, 2026-03-10 00:00 to 2026-03-12 00:00 (UTC)"
    assert "tasks                  2, in 2 attempts" in said
    assert "killed at the timeout  1 of 2 that ended" in said
    assert "booked time used       100 % of 6.000 GPU hours" in said
    assert "GPU hours wasted       6.000 (failed 6.000)" in said
    assert "mean GPU utilisation   -" in said
    said = (await run(rig, "cy", "usage", *span, "--by", "user")).stdout
    assert said.splitlines()[0].startswith("everybody, ")
    assert [line.split()[0] for line in said.splitlines()[2:]] == ["bo", "ann", "total"]
    said = (await run(rig, "ann", "usage", *span, "--by", "job", "--all", "-n", "1")).stdout
    assert said.splitlines()[-1] == "… and 2 jobs more (-n 3)"
    assert "nothing ran" in (await run(rig, "cy", "usage", *span)).stdout
    for words in (
        ("--from", "7"), ("--from", "1d", "--to", "2d"), ("--all", "--user", "bo"), ("--by", "week"),
        ("--csv", "-", "-n", "5"), ("--csv", "-", "-o", "json"), ("--csv", "-", "--trace", "-"), ("--daily",),
        ("--csv", "-", "--daily", "--by", "day"), ("--trace", "-", "--by", "day"), ("--trace", "-", "-o", "json"),
        ("--trace", "-", "-n", "5"),
    ):  # fmt: skip
        assert (await run(rig, "ann", "usage", *words)).exit_code == 2, words


async def test_usage_as_a_file_for_spreadsheets(rig: Rig, db: Database, tmp_path: Path) -> None:
    await some_past(db)
    target, span = tmp_path / "usage.csv", ("--from", "2026-03-10", "--to", "2026-03-12")
    done = await run(rig, "ann", "usage", *span, "--by", "user", "--daily", "--csv", str(target))
    assert done.stderr == f"{target}: 3 rows\n"
    found = [(row["day"], row["user"]) for row in csv.DictReader(target.open(newline=""))]
    assert found == [("2026-03-10", "bo"), ("2026-03-10", "ann"), ("2026-03-11", "ann")]
    own = (await run(rig, "ann", "usage", *span, "--csv", "-")).stdout
    assert [row["user"] for row in csv.DictReader(io.StringIO(own))] == ["ann"]


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(".*.part")]


async def test_a_trace_is_there_whole_or_not_at_all(rig: Rig, db: Database, tmp_path: Path) -> None:
    from headway.client import NoService

    await some_past(db)
    tasks = [a_task(f"t{i:04d}") for i in range(800)]
    await keep(db, tasks, [an_attempt(task, at=NOON + i, to=NOON + i + 9) for i, task in enumerate(tasks)])
    span = ("--from", "2026-03-10", "--to", "2026-03-12")
    target = tmp_path / "t.csv"
    target.write_text("of before")
    rig.tasks.breaks_off = True
    with pytest.raises(NoService, match="broke off"):
        await run(rig, "ann", "usage", *span, "--trace", str(target))
    assert target.read_text() == "of before"
    assert left_over(tmp_path) == []
    rig.tasks.breaks_off = False
    done = await run(rig, "ann", "usage", *span, "--trace", str(target))
    assert done.stderr == f"{target}: 802 runs\n"
    assert len(parse_trace(target.read_bytes(), "t.csv").records) == 802
    # What is a link stays one, and what it leads to is replaced.
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    await run(rig, "ann", "usage", *span, "--trace", str(link))
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_bytes() == target.read_bytes()
    empty = await run(rig, "cy", "usage", *span, "--trace", "-")
    assert empty.stdout.count("\n") == 1
    assert "a header and no rows" in empty.stderr
    assert (await run(rig, "cy", "usage", "--trace", str(tmp_path))).exit_code == 2, "a folder"
    rig.tasks.away = True
    with pytest.raises(Exception, match="TaskManager does not answer"):
        await run(rig, "ann", "usage", *span, "--trace", str(tmp_path / "new.csv"))
    assert not (tmp_path / "new.csv").exists()


async def test_what_lives_counts_until_now(rig: Rig, db: Database) -> None:
    now = SystemClock().now()
    task = a_task("live", gpus=1)
    await keep(db, [task], [an_attempt(task, at=now - 2 * H)])
    ann = await rig.client("ann")
    found = (await ann.get("/usage", params={"user": "me"})).json()
    assert found["total"]["gpu_hours"] == pytest.approx(2.0, abs=0.1)
    assert found["to_at"] - found["from_at"] == 30 * DAY
    found = (await ann.get("/usage", params={"user": "me", "from": "1h"})).json()
    assert found["total"]["gpu_hours"] == pytest.approx(1.0, abs=0.1)
    assert (await ann.get("/usage/trace")).text.count("\n") == 1, "what has not ended is no run"
