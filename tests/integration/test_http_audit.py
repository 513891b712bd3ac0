"""The audit log over HTTP: who changed what, who was refused, what a crash leaves, and what a removed row shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import delete, func, select, update

from headway.errors import StoreFull
from httpserver.audit.tables import audit_rows
from tests.integration.http_rig import PASSWORD, Rig, a_job_file, a_rig, submit

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRETS = (PASSWORD, "a password in the wrong field", "value of an environment", "bytes of a file", "another good one")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("audit"), behind_proxy=["127.0.0.1/32"]) as rig:
        yield rig


async def lines(rig: Rig, **query: Any) -> list[dict[str, Any]]:
    """As an admin sees them, the newest first."""
    await rig.parts.audit._db.write(lambda conn: None)  # what was deferred is on disk
    admin = await rig.client("boss", admin=True)
    answer = await admin.get("/audit", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


async def last(rig: Rig, what: str, **query: Any) -> dict[str, Any]:
    return (await lines(rig, what=what, **query))[0]


async def test_a_submit_and_what_follows_say_who_what_on_what_and_how_it_ended(rig: Rig):
    ann = await rig.client("ann")
    job = await submit(ann, "a")
    made = await last(rig, "job.submit")
    (session,) = (await ann.get("/sessions")).json()["sessions"]
    assert made["who"] == "ann"
    assert made["way"] == f"session {session['id']}"
    assert made["address"] == "127.0.0.1"
    assert made["subject"] == f"job {job}"
    assert made["outcome"] == "done"
    answer = await ann.post(f"/jobs/{job}/cancel")
    cancelled = await last(rig, "job.cancel")
    assert cancelled["subject"] == f"job {job}"
    assert cancelled["outcome"] == "done"
    assert cancelled["request_id"] == answer.headers["x-request-id"]
    bob = await rig.client("bob")
    assert (await bob.delete(f"/jobs/{job}")).status_code in (403, 404)
    refused = await last(rig, "job.delete")
    assert refused["who"] == "bob"
    assert refused["outcome"] == "refused"
    assert refused["problem"] in ("not-found", "not-allowed")


async def test_a_job_file_that_is_refused_leaves_one_line_that_says_so(rig: Rig):
    """Its line goes to the disk while the file is looked at."""
    ann = await rig.client("ann")
    before = {one["number"] for one in await lines(rig, what="job.submit")}
    answers = await asyncio.gather(*(ann.post("/jobs", json={"version": 1}) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {422}
    while True:  # an outcome follows its line, which may still be on its way
        found = [one for one in await lines(rig, what="job.submit") if one["number"] not in before]
        if [one["outcome"] for one in found] == ["refused"] * 5:
            break
        await asyncio.sleep(0.05)


async def test_what_only_asks_leaves_no_line(rig: Rig):
    ann = await rig.client("ann")
    before = len(await lines(rig, limit=1_000))
    assert (await ann.post("/jobs", json=a_job_file(), params={"dry_run": True})).status_code == 200
    assert (await ann.post("/jobs/prune", json={"older": "90d", "dry_run": True})).status_code == 200
    assert (await ann.get("/jobs")).status_code == 200
    assert len(await lines(rig, limit=1_000)) == before


async def test_a_token_is_told_by_its_id_and_never_by_its_value(rig: Rig):
    ann = await rig.client("ann")
    made = (await ann.post("/tokens", json={"name": "ci"})).json()
    assert (await last(rig, "token.make"))["subject"] == f"token {made['id']}"
    program = await rig._client({"Authorization": f"Bearer {made['token']}"})
    job = await submit(program, "a")
    by = await last(rig, "job.submit")
    assert (by["way"], by["subject"]) == (f"token {made['id']}", f"job {job}")


async def test_refused_sign_ins_are_there_without_what_was_typed(rig: Rig):
    anyone = await rig.client()
    headers = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    for name in ("ann", "a password in the wrong field"):
        wrong = await anyone.post("/session", json={"username": name, "password": "no such thing"}, headers=headers)
        assert wrong.status_code == 401
    unknown, known = (await lines(rig, what="session.sign_in", outcome="refused"))[:2]
    assert (known["who"], known["address"], known["problem"]) == ("ann", "203.0.113.7", "not-signed-in")
    assert unknown["who"] == ""
    good = await anyone.post("/session", json={"username": "ann", "password": PASSWORD}, headers=headers)
    signed = await last(rig, "session.sign_in")
    own = await rig._client({"Authorization": f"Bearer {good.json()['token']}"})
    (here,) = [one for one in (await own.get("/sessions")).json()["sessions"] if one["current"]]
    assert (signed["who"], signed["subject"], signed["outcome"]) == ("ann", f"session {here['id']}", "done")
    # And their owner sees from where it was.
    assert (here["address"], here["way"]) == ("203.0.113.7", "password")
    assert here["agent"].startswith("python-httpx")


async def test_accounts_groups_and_machines(rig: Rig):
    boss = await rig.client("boss", admin=True)
    assert (await boss.post("/users", json={"name": "carl", "password": "another good one"})).status_code == 201
    made = await last(rig, "account.make")
    assert (made["subject"], made["outcome"], made["ended_at"]) == ("account carl", "done", None)
    changes = {"admin": True, "password": "another good one, longer"}
    assert (await boss.patch("/users/carl", json=changes)).status_code == 200
    changed = await last(rig, "account.change")
    assert '"admin": true' in changed["detail"]
    assert '"changed": ["admin", "password"]' in changed["detail"]
    assert (await boss.post("/users", json={"name": "carl"})).status_code == 409
    assert (await last(rig, "account.make"))["outcome"] == "refused"
    assert (await boss.post("/groups", json={"name": "lab", "members": ["carl"]})).status_code == 201
    assert (await last(rig, "group"))["subject"] == "group lab"
    rig.nodes.put("node-9")
    assert (await boss.post("/nodes/node-9/cordon")).status_code == 200
    assert (await last(rig, "node.cordon"))["subject"] == "node node-9"
    rig.tasks.away = True
    try:
        assert (await boss.patch("/queue", json={"policy": "fifo"})).status_code == 503
    finally:
        rig.tasks.away = False
    # Who owns that change did not answer: nobody can say here that it did not happen.
    assert (await last(rig, "queue.scheduling"))["outcome"] == "unknown"


async def test_no_secret_and_no_content_is_ever_in_it(rig: Rig):
    ann = await rig.client("ann")
    task = {"name": "a", "env": {"KEY": "value of an environment"}}
    answer = await ann.post("/jobs", json={**a_job_file(), "tasks": [task]})
    assert answer.status_code == 201, answer.text
    assert (await ann.put("/files/notes.txt", content=b"bytes of a file")).status_code in (201, 503)
    wish = {"current": PASSWORD, "new": "another good one"}
    assert (await ann.post("/me/password", json=wish)).status_code == 204
    login = {"username": "u", "password": "another good one"}
    await ann.put("/registries/registry.example", json=login)
    await lines(rig)
    rows = await rig.parts.audit._db.read(lambda conn: conn.execute(select(audit_rows)).all())
    text = repr([tuple(row) for row in rows])
    assert "notes.txt" in text
    assert [secret for secret in SECRETS if secret in text] == []
    assert not any(value in text for value in rig.secrets.values())
    rig.secrets.clear()


async def test_only_admins_read_it_in_pages_and_by_filters(rig: Rig):
    ann = await rig.client("mia")
    assert (await ann.get("/audit")).status_code == 403
    assert (await ann.get("/audit/verify")).status_code == 403
    boss = await rig.client("boss", admin=True)
    whole = await lines(rig, limit=1_000)
    paged: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = (await boss.get("/audit", params={"limit": 3, "before": cursor})).json()
        paged += answer["entries"]
        cursor = answer["cursor"]
        if not cursor:
            break
    assert [one["number"] for one in paged] == [one["number"] for one in whole]
    assert {one["who"] for one in await lines(rig, who="ann")} == {"ann"}
    assert await lines(rig, what="jo") == []  # a family, no beginning of a word
    assert {one["subject"] for one in await lines(rig, subject="node-9")} == {"node node-9"}
    assert await lines(rig, subject="%") == []
    middle = whole[len(whole) // 2]["at"]
    instant = datetime.fromtimestamp(middle, UTC).isoformat()
    middle = datetime.fromisoformat(instant).timestamp()
    assert all(one["at"] >= middle for one in await lines(rig, since=instant))
    assert all(one["at"] < middle for one in await lines(rig, until=instant))
    for bad in ({"outcome": "fine"}, {"since": "yesterday"}, {"until": "-1"}, {"before": "x"}):
        assert (await boss.get("/audit", params=bad)).status_code in (400, 422)


async def test_a_crash_between_leaves_a_line_whose_outcome_is_not_known(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """The outcome waits in memory for the next write, and goes with the process."""
    boss = await rig.client("boss", admin=True)
    rig.nodes.put("node-8")
    db = rig.parts.audit._db
    monkeypatch.setattr(db, "defer", lambda work: None)
    assert (await boss.post("/nodes/node-8/drain")).status_code == 200
    monkeypatch.undo()
    # While this process lives, the outcome may still come.
    under_way = (await boss.get("/audit", params={"what": "node.drain"})).json()["entries"][0]
    assert under_way["outcome"] == "under_way"
    rig.parts.audit._pending.clear()
    rig.parts.audit._live.clear()
    drained = await last(rig, "node.drain")
    assert (drained["who"], drained["subject"], drained["outcome"]) == ("boss", "node node-8", "unknown")


async def test_the_line_is_on_disk_before_others_are_asked(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    boss = await rig.client("boss", admin=True)
    rig.nodes.put("node-7")
    then: list[int] = []

    class Asked(list[Any]):
        def append(self, request: Any) -> None:
            then.extend(rig.parts.audit._live)

    monkeypatch.setattr(rig.nodes, "asked", Asked())
    assert (await boss.post("/nodes/node-7/uncordon")).status_code == 200
    (uncordoned,) = await lines(rig, what="node.uncordon")
    assert then == [uncordoned["number"]]
    assert uncordoned["ended_at"] >= uncordoned["at"]
    assert not rig.parts.audit._live


async def test_a_full_disk_keeps_nobody_from_acting_and_the_line_comes_later(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Else nobody could delete what fills it."""
    boss = await rig.client("boss", admin=True)
    rig.nodes.put("node-6")
    db = rig.parts.audit._db

    async def full(work: Any) -> Any:
        raise StoreFull("no space")

    monkeypatch.setattr(db, "write", full)
    assert (await boss.post("/nodes/node-6/cordon")).status_code == 200
    monkeypatch.undo()
    assert (await last(rig, "node.cordon", subject="node-6"))["outcome"] == "done"


async def test_a_change_that_is_not_stored_leaves_no_line_that_says_it_was(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    boss = await rig.client("boss", admin=True)
    db = rig.parts.audit._db
    real = db.write

    async def broken(work: Any) -> Any:
        def fails(conn: Any) -> Any:
            work(conn)
            raise StoreFull("no space")

        return await real(fails)

    monkeypatch.setattr(db, "write", broken)
    assert (await boss.post("/groups", json={"name": "never", "members": []})).status_code == 507
    monkeypatch.undo()
    found = await lines(rig, subject="group never")
    assert [(one["outcome"], one["problem"]) for one in found] == [("failed", "disk-full")]


async def verify(rig: Rig) -> dict[str, Any]:
    boss = await rig.client("boss", admin=True)
    answer: httpx.Response = await boss.get("/audit/verify")
    found: dict[str, Any] = answer.json()
    return found


async def test_rows_that_were_changed_or_removed_show(rig: Rig):
    await lines(rig)
    db = rig.parts.audit._db
    whole = await verify(rig)
    assert (whole["whole"], whole["first"], whole["rows_held"]) == (True, 1, whole["last"])
    kept = await db.read(lambda conn: [dict(row._mapping) for row in conn.execute(select(audit_rows))])

    async def restore() -> None:
        def work(conn: Any) -> None:
            conn.execute(delete(audit_rows))
            conn.execute(audit_rows.insert(), kept)

        await db.write(work)

    number = audit_rows.c.number
    for change, broken_at in (
        (update(audit_rows).where(number == 5).values(who="eve"), 5),
        (delete(audit_rows).where(number == 4), 4),
        (delete(audit_rows).where(number == 1), 1),
        (delete(audit_rows).where(number > whole["last"] - 2), whole["last"] - 1),
        (delete(audit_rows), 1),
    ):
        await db.write(lambda conn, change=change: conn.execute(change) and None)
        found = await verify(rig)
        assert (found["whole"], found["broken_row"]) == (False, broken_at)
        assert str(broken_at) in found["sentence"]
        await restore()
    assert (await verify(rig))["whole"]


async def test_old_lines_go_and_the_rest_still_holds(rig: Rig):
    audit = rig.parts.audit
    db = audit._db
    now = audit._timers.now()
    count = select(func.count()).select_from(audit_rows)
    before = await db.read(lambda conn: conn.execute(count).scalar_one())
    half = await db.read(
        lambda conn: conn.execute(select(audit_rows.c.stored_at).where(audit_rows.c.number == 10)).scalar_one()
    )
    audit._keep_s = now - half
    await db.write(lambda conn: audit._remove_by_age(conn, None))  # type: ignore[arg-type]
    left = await db.read(lambda conn: conn.execute(count).scalar_one())
    assert 0 < left < before
    found = await verify(rig)
    assert found["whole"]
    assert (found["first"], found["rows_held"]) == (before - left + 1, left)
