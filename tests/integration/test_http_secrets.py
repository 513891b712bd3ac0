"""Secrets in HttpServer: stored, listed without values, refused, checked at submit, given to the node that starts."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.fernet import Fernet

from headway.errors import Fenced, HeadwayError, InvalidInput, NotFound, Unavailable
from headway.rpc.channel import Peer
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from headway.states import AttemptState
from httpserver.auth.vault import SecretsUnusable
from httpserver.secrets import store
from tests.integration.http_rig import TOKEN, Rig, a_job_file, a_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

VALUE = "geheim-" + "q7Zr" * 6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("secrets")) as rig:
        yield rig


def text(value: str) -> dict[str, str]:
    return {"value": value}


def raw(value: bytes) -> dict[str, str]:
    return {"value": base64.b64encode(value).decode(), "encoding": "base64"}


async def ask(rig: Rig, *names: str, node: str = "n1", number: int = 1, task: str = "t") -> hs.GetTaskSecretsReply:
    peer = Peer("HttpServer", rig.config.httpserver.grpc_bind, token=TOKEN)
    stub = HttpServerStub(peer.channel)  # type: ignore[no-untyped-call]
    attempt = common.Attempt(task=common.Task(job_id="j1", name=task), number=number)
    try:
        reply: hs.GetTaskSecretsReply = await peer.call(
            stub.GetTaskSecrets, hs.GetTaskSecretsRequest(attempt=attempt, node_id=node, names=names), deadline_s=5
        )
        return reply
    finally:
        await peer.close()


def starts(rig: Rig, *names: str, owner: str, state: str = AttemptState.STARTING, **view: Any) -> None:
    """TaskManager has this attempt on the node n1."""
    attempt = common.Attempt(task=common.Task(job_id="j1", name="t"), number=1)
    view = {"attempt": attempt, "state": state, "node_id": "n1", "owner": owner} | view
    rig.tasks.attempts["j1", "t", 1] = tm.AttemptView(**view)
    rig.tasks.secrets = names


async def test_a_value_is_stored_and_never_shown(rig: Rig, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    ann, bob = await rig.client("ann"), await rig.client("bob")
    stored = await ann.put("/secrets/HF_TOKEN", json=text(VALUE))
    assert stored.status_code == 200, stored.text
    assert stored.json() | {"changed_at": 0} == {
        "name": "HF_TOKEN", "size_bytes": len(VALUE), "file_only": False, "changed_at": 0,
    }  # fmt: skip
    listed = await ann.get("/secrets")
    assert [one["name"] for one in listed.json()["secrets"]] == ["HF_TOKEN"]
    assert (await bob.get("/secrets")).json()["secrets"] == []
    assert (await bob.delete("/secrets/HF_TOKEN")).status_code == 404
    admin = await rig.client("chief", admin=True)
    assert (await admin.get("/secrets")).json()["secrets"] == []
    for answer in (stored, listed):
        assert VALUE not in answer.text
    assert VALUE not in "".join(str(record.__dict__) for record in caplog.records)
    files = b"".join(file.read_bytes() for file in rig.folder.rglob("*") if file.is_file())
    for form in (VALUE.encode(), base64.b64encode(VALUE.encode()), VALUE.encode().hex().encode()):
        assert form not in files
    assert (await ann.get("/secrets/HF_TOKEN")).status_code in (404, 405)
    assert (await ann.delete("/secrets/HF_TOKEN")).status_code == 204
    assert (await ann.delete("/secrets/HF_TOKEN")).status_code == 404


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("1A", text("x"), "not a secret's name"),
        ("A%00B", text("x"), "The name has the character U+0000"),
        ("A-B", text("x"), "for instance A_B"),
        ("HEADWAY_TOKEN", text("x"), "set by Headway"),
        ("A", text(""), "is empty"),
        ("A", text("x" * 65_537), "65537 bytes"),
        ("A", text("ä" * 40_000), "80000 bytes"),
        ("A", raw(b"x" * 65_537), "65537 bytes"),
        ("A", {"value": "kein base64 geheim", "encoding": "base64"}, "is not base64"),
        ("A", {"value": "geheim", "encoding": "hex"}, "must be"),
        ("A", {"value": "geheim", "more": "geheim"}, "not known"),
        ("A", {"value": ["geheim"]}, "must be a text"),
    ],
)
async def test_what_is_no_secret_is_refused_without_its_value(rig: Rig, name: str, body: Any, says: str):
    cid = await rig.client("cid")
    refused = await cid.put(f"/secrets/{name}", json=body)
    assert 400 <= refused.status_code < 500, refused.text
    assert says in refused.text
    assert "geheim" not in refused.text
    assert (await cid.get("/secrets")).json()["secrets"] == []


async def test_a_broken_body_is_not_quoted(rig: Rig, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    cid = await rig.client("cid")
    refused = await cid.put("/secrets/A", content=b'{"value": "geheim', headers={"content-type": "application/json"})
    assert 400 <= refused.status_code < 500
    assert "geheim" not in refused.text + "".join(str(record.__dict__) for record in caplog.records)


async def test_an_account_has_a_hundred_and_may_replace_them(rig: Rig):
    dan = await rig.client("dan")
    for number in range(100):
        assert (await dan.put(f"/secrets/S{number}", json=text("x"))).status_code == 200
    refused = await dan.put("/secrets/ONE_MORE", json=text("x"))
    assert refused.status_code == 429 or refused.status_code == 409, refused.text
    assert "100 secrets already" in refused.text
    replaced = await dan.put("/secrets/S7", json=raw(bytes(range(256)) * 256))
    assert (replaced.status_code, replaced.json()["size_bytes"], replaced.json()["file_only"]) == (200, 65_536, True)
    assert len((await dan.get("/secrets")).json()["secrets"]) == 100


async def test_a_submit_with_a_secret_that_is_not_there_names_the_nearest(rig: Rig):
    eve, ann = await rig.client("eve"), await rig.client("ann")
    for name, body in (("WANDB_KEY", text("x")), ("BINARY", raw(b"a\0b"))):
        await eve.put(f"/secrets/{name}", json=body)
    document = a_job_file("a")

    async def submitted(*secrets: Any, by: Any = eve) -> Any:
        document["tasks"][0]["secrets"] = list(secrets)
        return await by.post("/jobs", json=document)

    assert (await submitted("WANDB_KEY", {"name": "BINARY", "file": "key.bin"})).status_code == 201
    wrong = await submitted("WANDB_KEY", "WANDBKEY", "BINARY", "OTHER")
    assert wrong.status_code == 422
    told = {problem["pointer"]: problem for problem in wrong.json()["errors"]}
    assert told["/tasks/0/secrets/1"]["suggestion"] == "WANDB_KEY"
    assert "NUL byte" in told["/tasks/0/secrets/2"]["message"]
    assert "headway secrets set OTHER" in told["/tasks/0/secrets/3"]["message"]
    # The same file of somebody else means that one's own, and there is none.
    assert (await submitted("WANDB_KEY", by=ann)).status_code == 422


async def test_only_the_node_that_starts_an_attempt_gets_its_secrets(rig: Rig):
    fay, gus = await rig.client("fay"), await rig.client("gus")
    value = bytes(range(256))
    await fay.put("/secrets/A", json=raw(value))
    await fay.put("/secrets/UNUSED", json=text("x"))
    await gus.put("/secrets/A", json=text("of gus"))
    starts(rig, "A", "GONE", owner="fay")
    reply = await ask(rig, "A", "GONE")
    assert ({one.name: one.value for one in reply.secrets}, list(reply.missing)) == ({"A": value}, ["GONE"])
    await fay.put("/secrets/A", json=text("newer"))
    assert [one.value for one in (await ask(rig, "A")).secrets] == [b"newer"], "the value at the start counts"
    for names in (["UNUSED"], ["A", "UNUSED"], ["A"] * 21):
        with pytest.raises(InvalidInput):
            await ask(rig, *names)
    for node in ("n2", ""):
        with pytest.raises(Fenced):
            await ask(rig, "A", node=node)
    with pytest.raises(NotFound):
        await ask(rig, "A", number=2)
    with pytest.raises(HeadwayError):
        await ask(rig, "A", number=0)


@pytest.mark.parametrize(
    "state", sorted(set(AttemptState) - {AttemptState.PLACED, AttemptState.PULLING, AttemptState.STARTING})
)
async def test_an_attempt_that_has_begun_or_ended_gets_none(rig: Rig, state: str):
    await (await rig.client("fay")).put("/secrets/A", json=text("x"))
    starts(rig, "A", owner="fay", state=state)
    with pytest.raises(Fenced):
        await ask(rig, "A")


async def test_without_taskmanager_nobody_gets_any(rig: Rig):
    await (await rig.client("fay")).put("/secrets/A", json=text("x"))
    starts(rig, "A", owner="fay")
    rig.tasks.away = True
    try:
        with pytest.raises(Unavailable):
            await ask(rig, "A")
    finally:
        rig.tasks.away = False


async def test_a_row_that_was_copied_to_another_account_is_not_opened(rig: Rig):
    hal, ida = await rig.client("hal"), await rig.client("ida")
    await hal.put("/secrets/A", json=text("of hal"))
    await ida.put("/secrets/A", json=text("of ida"))
    await ida.put("/secrets/B", json=text("of ida"))
    db = rig.parts.secrets._db
    for account, name in (("ida", "A"), ("hal", "B")):
        sealed = (await db.read(lambda conn: store.sealed(conn, "hal", ["A"])))["A"]
        facts = store.SecretFacts(name, 1, False, 0.0)
        await db.write(lambda conn, a=account, f=facts, s=sealed: store.put(conn, a, f, s, 100))
        starts(rig, name, owner=account)
        with pytest.raises(HeadwayError, match="belongs elsewhere"):
            await ask(rig, name)


async def test_the_secrets_of_an_account_go_with_it(rig: Rig):
    jan = await rig.client("jan")
    await jan.put("/secrets/A", json=text("x"))
    db = rig.parts.secrets._db
    await db.write(lambda conn: rig.parts.secrets.drop_account(conn, "jan"))
    assert (await jan.get("/secrets")).json()["secrets"] == []


async def test_a_new_key_on_top_encrypts_all_anew_and_a_lost_one_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        await ann.put("/secrets/A", json=text("value"))
    key = tmp_path / "registry-key"
    old = key.read_bytes()
    key.write_bytes(Fernet.generate_key() + b"\n" + old)
    async with a_rig(tmp_path) as rig:
        await rig.parts.secrets.rewrite()
    key.write_bytes(key.read_bytes().splitlines()[0] + b"\n")
    async with a_rig(tmp_path) as rig:
        starts(rig, "A", owner="ann")
        assert [one.value for one in (await ask(rig, "A")).secrets] == [b"value"]
    newer = key.read_bytes()
    key.write_bytes(old)
    async with a_rig(tmp_path) as rig:
        await rig.parts.secrets.rewrite()
        assert [record for record in caplog.records if record.getMessage() == "secrets.unreadable"]
        starts(rig, "A", owner="ann")
        with pytest.raises(HeadwayError, match="put that key back"):
            await ask(rig, "A")
    key.unlink()
    async with a_rig(tmp_path) as rig:
        assert not key.exists(), "a missing key must not be made anew while something is stored"
        starts(rig, "A", owner="ann")
        with pytest.raises(HeadwayError, match="is gone"):
            await ask(rig, "A")
        with pytest.raises(SecretsUnusable):
            await rig.parts.secrets.put("ann", "B", b"x")
    key.write_bytes(newer)
    key.chmod(0o600)
    async with a_rig(tmp_path) as rig:
        starts(rig, "A", owner="ann")
        assert [one.value for one in (await ask(rig, "A")).secrets] == [b"value"]


async def test_secrets_stand_in_what_a_job_says_by_their_names_alone(rig: Rig):
    kim = await rig.client("kim")
    await kim.put("/secrets/A", json=text(VALUE))
    document = a_job_file("a")
    document["tasks"][0]["secrets"] = ["A", {"name": "A", "file": "a.txt"}]
    answer = await kim.post("/jobs", json=document)
    assert answer.status_code == 201, answer.text
    shown = await kim.get(f"/jobs/{answer.json()['id']}/spec")
    assert shown.status_code == 200, shown.text
    assert VALUE not in shown.text
    assert "a.txt" in shown.text
    stored = b"".join(file.read_bytes() for file in rig.folder.glob("jobs.db*"))
    assert b"a.txt" in stored
    assert VALUE.encode() not in stored
