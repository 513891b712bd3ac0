"""A submit fixes what its names mean, refuses what is nowhere, and holds what it found; credentials of registries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from headway.rpc.channel import Peer
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from httpserver.uses.service import Ref
from tests.integration.http_rig import TOKEN, Rig, a_job_file, a_machine, a_rig, submit
from tests.integration.test_market import an_image, push
from tests.integration.test_registries import DIGEST, basic, good
from tests.support.ports import free_port
from tests.support.waiting import eventually
from tests.support.web_servers import Asked, a_web_server, answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOCAL = "sha256:" + "1" * 64


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("pinning")) as rig:
        await a_machine(rig, rm.EngineImage(id=LOCAL, names=["base:latest"], bytes=7))
        yield rig


async def task_of(client: httpx.AsyncClient, job_id: str, name: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/jobs/{job_id}/tasks/{name}")).json()["task"]
    return found


async def jobs_of(client: httpx.AsyncClient) -> int:
    return len((await client.get("/jobs", params={"owner": "me"})).json()["jobs"])


async def test_an_image_of_an_engine_is_pinned_and_the_spec_stays_as_written(rig: Rig):
    ann = await rig.client("ann")
    job_id = await submit(ann)
    task = await task_of(ann, job_id)
    assert (task["image"], task["image_digest"], task["image_source"]) == ("base", LOCAL, "engine")
    spec = (await ann.get(f"/jobs/{job_id}/spec")).json()
    assert spec["tasks"][0]["image"] == "base"
    assert LOCAL not in json.dumps(spec)


async def test_an_image_of_the_market_is_pinned_and_held_and_a_retry_keeps_it(rig: Rig):
    ann = await rig.client("ann")
    old = await push(ann, an_image("old", env={"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}), "tool:1")
    job_id = await submit(ann, defaults={"image": "ann/tool:1", "command": "true", "timeout": "1m"})
    new = await push(ann, an_image("new"), "tool:1")
    assert await rig.parts.uses.live(Ref("image", old)) == [job_id]
    task = await task_of(ann, job_id)
    assert (task["image"], task["image_digest"], task["image_source"]) == ("ann/tool:1", old, "market")
    (shape,) = rig.tasks.shapes
    assert (shape.image_architecture, shape.image_require_cuda) == ("amd64", "cuda>=12.4")

    def enqueued() -> list[common.TaskSpec]:
        return [order.spec for order in rig.tasks.of("enqueue") if order.task.job_id == job_id]

    await eventually(enqueued)
    events = [
        rig.tasks.event(job_id, "a", "ATTEMPT_STARTED"),
        rig.tasks.event(job_id, "a", "FAILED", reason=common.EndReason(word="exited", exit_code=1)),
    ]
    await rig.parts.jobs._services.jobs.call("ReportTaskEvents", jm.ReportTaskEventsRequest(events=events))
    assert (await ann.post(f"/jobs/{job_id}/retry")).status_code == 200
    await eventually(lambda: len(enqueued()) == 2)
    assert {spec.image_digest for spec in enqueued()} == {old}
    # A clone is a new job: it gets what the name means now.
    spec = (await ann.get(f"/jobs/{job_id}/spec")).json()
    clone = (await ann.post("/jobs", json=spec)).json()["id"]
    assert (await task_of(ann, clone))["image_digest"] == new


async def test_what_a_job_was_pinned_to_is_shown_to_its_owner_and_admins(rig: Rig):
    """The digest of somebody's private image used to be told to all."""
    ann, eve, boss = await rig.client("ann"), await rig.client("eve"), await rig.client("boss", admin=True)
    digest = await push(ann, an_image("pinned"), "pinned:1")
    job_id = await submit(ann, defaults={"image": "ann/pinned:1", "command": "true", "timeout": "1m"})
    for client, want in ((ann, digest), (boss, digest), (eve, None)):
        whole = (await client.get(f"/jobs/{job_id}")).json()["tasks"][0]
        for task in (whole, await task_of(client, job_id)):
            assert (task["image"], task["image_digest"], task["image_source"]) == ("ann/pinned:1", want, "market")


async def test_a_retry_and_a_deletion_exclude_each_other(rig: Rig):
    ann = await rig.client("ann")
    digest = await push(ann, an_image("again"), "again:1")
    ref = Ref("image", digest)
    job_id = await submit(ann, defaults={"image": "ann/again:1", "command": "true", "timeout": "1m"})
    await eventually(lambda: [o for o in rig.tasks.of("enqueue") if o.task.job_id == job_id])
    jobs = rig.parts.jobs._services.jobs
    call, seen = jobs.call, []

    async def report(*events: jm.TaskEvent) -> None:
        await call("ReportTaskEvents", jm.ReportTaskEventsRequest(events=events))
        await eventually(lambda: not rig.parts.uses.live_in_memory(ref), what="nobody needs the image any more")

    exited = common.EndReason(word="exited", exit_code=1)
    await report(rig.tasks.event(job_id, "a", "ATTEMPT_STARTED"), rig.tasks.event(job_id, "a", "FAILED", reason=exited))

    async def act(method: str, *args: Any, **options: Any) -> Any:
        if method == "ActOnJob":
            # The moment before JobManager knows.
            seen.append((await ann.delete("/images/ann/again:1")).status_code)
        return await call(method, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "call", act)
        assert (await ann.post(f"/jobs/{job_id}/retry")).status_code == 200
    assert seen == [409]
    assert (await ann.delete("/images/ann/again:1")).status_code == 409
    await ann.post(f"/jobs/{job_id}/cancel")
    await eventually(lambda: [o for o in rig.tasks.of("cancel") if o.task.job_id == job_id])
    cancelled = common.EndReason(word="cancelled")
    await report(rig.tasks.event(job_id, "a", "CANCELLED", generation=2, reason=cancelled))
    assert (await ann.delete("/images/ann/again:1")).status_code == 204
    refused = await ann.post(f"/jobs/{job_id}/retry")
    assert (refused.status_code, refused.json()["slug"]) == (409, "needed-gone"), refused.text
    assert f"the image {digest} that it was submitted with has been deleted" in refused.json()["detail"]
    assert (await ann.get(f"/jobs/{job_id}")).json()["state"] == "CANCELLED"
    assert rig.parts.uses.live_in_memory(ref) == []


async def test_all_that_is_nowhere_is_told_at_once_and_nothing_is_stored(rig: Rig):
    cat = await rig.client("cat")

    def nothing(asked: Asked) -> bytes:
        return answer(404, {})

    async with a_web_server(nothing) as registry:
        document = a_job_file("a", "b", "c", "d")
        document["tasks"][1]["image"] = f"{registry.host}/team/gone:1"
        document["tasks"][2] |= {"datasets": ["nowhere"], "code": "sha256:" + "7" * 64}
        document["tasks"][3] |= {"image": f"{registry.host}/team/gone:1", "needs": ["a", "lost"]}
        refused = await cat.post("/jobs", json=document, headers={"Idempotency-Key": "gone"})
        assert refused.status_code == 422, refused.text
        document["tasks"][3]["needs"] = ["a"]
        document["tasks"][0]["resources"] = {"cpus": 64}
        refused = await cat.post("/jobs", json=document, headers={"Idempotency-Key": "gone"})
        asked = [request for request in registry.asked if request.method == "HEAD"]
    assert refused.status_code == 422, refused.text
    problems = {problem["pointer"]: problem for problem in refused.json()["errors"]}
    assert set(problems) == {
        "/tasks/0/resources",
        "/tasks/1/image",
        "/tasks/2/datasets/0",
        "/tasks/2/code",
        "/tasks/3/image",
    }
    assert "no such image" in problems["/tasks/1/image"]["message"]
    assert len(asked) == 1, "each name once; a file with other problems asks nobody"
    assert await jobs_of(cat) == 0
    assert await rig.parts.uses.live(Ref("image", LOCAL)) == []


async def test_a_slip_is_told_among_what_the_account_sees_and_nothing_else(rig: Rig):
    ann, bob = await rig.client("ann"), await rig.client("bob")
    for tag in ("1", "2"):
        await push(ann, an_image(f"slip-{tag}"), f"segmenter:{tag}")
    await push(bob, an_image("secret"), "segmentor:9")

    async def told(client: httpx.AsyncClient, image: str) -> str:
        document = a_job_file("a", defaults={"image": image, "command": "true", "timeout": "1m"})
        (warning,) = (await client.post("/jobs?dry_run=true", json=document)).json()["warnings"]
        return warning.partition("fetched from its registry when the task starts, which takes time and can fail.")[2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.parts.registries._hosts, "_asks", False)
        for name in ("segmentr", "ann/segmentr", "segmentor:9", "segmenter:2x"):
            assert "`ann/segmenter" in (sentence := await told(ann, name))
            assert "segmentor" not in sentence
        assert await told(ann, "segmenter:3") == " `ann/segmenter` has the tags `2` and `1` in the image market."
        assert await told(ann, "ann/segmentr") == " Did you mean `ann/segmenter:2`?"
        assert await told(bob, "segmentr") == " Did you mean `bob/segmentor:9`?"
        assert await told(bob, "ann/segmenter:3") == ""
    shown = await ann.get("/images/ann/segmenter:3")
    assert shown.status_code == 404
    assert shown.json()["detail"].endswith("`ann/segmenter` has the tags `2` and `1` in the image market.")
    assert "has" not in (await bob.get("/images/ann/segmenter:3")).json()["detail"]


async def test_a_registry_that_is_away_costs_a_warning(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a")
    document["defaults"]["image"] = name = f"127.0.0.1:{free_port()}/x:1"
    taken = await ann.post("/jobs", json=document)
    assert taken.status_code == 201, taken.text
    (warning,) = taken.json()["warnings"]
    assert f"`{name}`" in warning
    assert "nobody listens there" in warning
    task = await task_of(ann, taken.json()["id"])
    assert (task["image_digest"], task["image_source"]) == (None, None)


async def test_a_repeated_key_is_answered_as_the_first_time_whatever_has_gone_since(rig: Rig):
    ann = await rig.client("ann")
    digest = await push(ann, an_image("brief"), "brief:1")
    document = a_job_file("a")
    document["defaults"]["image"] = "ann/brief:1"
    headers = {"Idempotency-Key": "brief"}
    first = (await ann.post("/jobs", json=document, headers=headers)).json()["id"]
    assert (await ann.delete("/images/ann/brief")).status_code == 409
    await a_machine(rig, rm.EngineImage(id=LOCAL, names=["base:latest"]))
    again = await ann.post("/jobs", json=document, headers=headers)
    assert (again.status_code, again.json()["id"], again.json()["already_known"]) == (200, first, True)
    document["name"] = "another"
    other = await ann.post("/jobs", json=document, headers=headers)
    assert (other.status_code, other.json()["slug"]) == (409, "idempotency-mismatch")
    assert await rig.parts.uses.live(Ref("image", digest)) == [first], "the hold is the first job's"


async def test_a_dry_run_and_a_refusal_hold_nothing(rig: Rig):
    ann = await rig.client("ann")
    digest = await push(ann, an_image("dry"), "dry:1")
    document = a_job_file("a")
    document["defaults"]["image"] = "ann/dry:1"
    assert (await ann.post("/jobs", json=document, params={"dry_run": True})).status_code == 200
    document["tasks"][0]["resources"] = {"cpus": 64}
    assert (await ann.post("/jobs", json=document)).status_code == 422
    assert await rig.parts.uses.live(Ref("image", digest)) == []
    assert (await ann.delete("/images/ann/dry")).status_code == 204


async def test_who_has_filled_the_space_submits_nothing(tmp_path_factory: pytest.TempPathFactory):
    async with a_rig(tmp_path_factory.mktemp("full"), default_quota_bytes="1MiB") as rig:
        eve = await rig.client("eve")
        first = await eve.post("/jobs", json=a_job_file("a"), headers={"Idempotency-Key": "before"})
        await eve.put("/files/a", content=b"a" * (1 << 20))
        account = rig.parts.accounts.get("eve")
        assert account is not None
        await eventually(lambda: rig.parts.spaces.refuse_new_work(account))
        refused = await eve.post("/jobs", json=a_job_file("a"))
        assert (refused.status_code, refused.json()["slug"]) == (507, "disk-full")
        assert "then submit again" in refused.json()["detail"]
        again = await eve.post("/jobs", json=a_job_file("a"), headers={"Idempotency-Key": "before"})
        assert again.json()["id"] == first.json()["id"]


# -- credentials --------------------------------------------------------------------------------


def private(asked: Asked) -> bytes:
    """A registry that lets one user in."""
    if asked.headers.get("authorization") != basic_of("ann-there", "pa55word-one"):
        return answer(401, WWW_Authenticate='Basic realm="x"')
    return answer(200) if asked.path == "/v2/" else good(asked)


def basic_of(username: str, password: str) -> str:
    from httpserver.registries.client import Login

    return basic(Login(username, password))


async def test_credentials_are_checked_used_and_never_shown(rig: Rig, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG")
    ann, bob = await rig.client("ann"), await rig.client("bob")
    async with a_web_server(private) as registry:
        path = f"/registries/{registry.host}"
        wrong = await ann.put(path, json={"username": "ann-there", "password": "pa55word-two"})
        assert wrong.status_code == 400, wrong.text
        assert wrong.json()["errors"][0]["pointer"] == "/password"
        assert (await ann.get("/registries")).json() == {"registries": []}
        stored = await ann.put(path, json={"username": "ann-there", "password": "pa55word-one"})
        assert stored.status_code == 200, stored.text
        assert (stored.json()["registry"], stored.json()["checked"]) == (registry.host, True)
        listed = (await ann.get("/registries")).json()["registries"]
        assert [(entry["registry"], entry["username"]) for entry in listed] == [(registry.host, "ann-there")]
        assert (await bob.get("/registries")).json() == {"registries": []}

        document = a_job_file("a")
        document["defaults"]["image"] = f"{registry.host}/team/x:1"
        taken = await ann.post("/jobs", json=document)
        assert taken.status_code == 201, taken.text
        assert taken.json()["warnings"] == []
        task = await task_of(ann, taken.json()["id"])
        assert (task["image_digest"], task["image_source"]) == (DIGEST, "registry")
        refused = await bob.post("/jobs", json=document)
        assert refused.status_code == 422
        assert "stores your user name and password" in refused.json()["errors"][0]["message"]

        peer = Peer("HttpServer", rig.config.httpserver.grpc_bind, token=TOKEN)
        stub = HttpServerStub(peer.channel)  # type: ignore[no-untyped-call]
        for account, want in (("ann", ("ann-there", "pa55word-one")), ("bob", ("", ""))):
            request = hs.GetRegistryAuthRequest(account=account, registry=registry.host)
            reply = await peer.call(stub.GetRegistryAuth, request, deadline_s=5)
            assert (reply.username, reply.password) == want
        await peer.close()
        said = [str(record.__dict__) for record in caplog.records]
        # Answers and logs: nowhere in either, whatever was asked.
        for text in (stored.text, json.dumps(listed), taken.text, refused.text, *said):
            assert "pa55word" not in text
            assert basic_of("ann-there", "pa55word-one") not in text
        assert b"pa55word" not in b"".join(file.read_bytes() for file in rig.folder.glob("http.db*"))
        assert (await bob.delete(path)).status_code == 404
        assert (await ann.delete(path)).status_code == 204
        assert (await ann.delete(path)).status_code == 404
        assert (await ann.post("/jobs", json=document)).status_code == 422


@pytest.mark.parametrize(
    ("host", "body"),
    [
        ("a%20b", {"username": "a", "password": "b"}),
        ("..", {"username": "a", "password": "b"}),
        ("x.org%2Fteam", {"username": "a", "password": "b"}),
        ("x.org", {"username": "", "password": "b"}),
        ("x.org", {"username": "a:b", "password": "b"}),
        ("x.org", {"username": "a", "password": "b", "more": 1}),
        ("169.254.169.254", {"username": "a", "password": "b"}),
    ],
)
async def test_credentials_that_are_none_are_refused(rig: Rig, host: str, body: dict[str, str]):
    ann = await rig.client("ann")
    refused = await ann.put(f"/registries/{host}", json=body)
    assert 400 <= refused.status_code < 500, refused.text
    assert ("%2F" not in host) or "write its host" in refused.json()["detail"]
    assert (await ann.get("/registries")).json() == {"registries": []}


async def test_credentials_for_a_registry_that_is_away_are_stored_unchecked(rig: Rig):
    dan = await rig.client("dan")
    stored = await dan.put(f"/registries/127.0.0.1:{free_port()}", json={"username": "a", "password": "b"})
    assert (stored.status_code, stored.json()["checked"]) == (200, False)
    typed = quote(f"http://127.0.0.1:{free_port()}", safe="")
    assert (await dan.put(f"/registries/{typed}", json={"username": "a", "password": "b"})).status_code == 200
    here = dan.base_url.netloc.decode()
    refused = await dan.put(f"/registries/{here}", json={"username": "a", "password": "b"})
    assert (refused.status_code, f"`{here}` is Headway itself" in refused.json()["detail"]) == (400, True)


async def test_a_wrong_key_costs_the_credentials_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path_factory.mktemp("key")
    (folder / "registry-key").write_text("not a key\n")
    (folder / "registry-key").chmod(0o600)
    async with a_rig(folder) as rig:
        assert [record for record in caplog.records if record.getMessage() == "registries.key_unusable"]
        ann = await rig.client("ann")
        refused = await ann.put("/registries/docker.io", json={"username": "a", "password": "b"})
        assert (refused.status_code, refused.json()["slug"]) == (503, "secrets-unusable")
        assert "holds no usable key" in refused.json()["detail"]
        assert await submit(ann)
