"""The image market through its doors: what is pushed, who sees it, what may go, what a kill leaves."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headway.archive import ImageStore
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from httpserver.uses.service import Ref
from tests.integration.http_rig import Rig, a_rig, submit
from tests.support.archives import Entry, TinyImage, docker_save, oci_layout, packed, tar_of, tiny_image
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUOTA = 1 << 20


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory, both_databases: None) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("market"), image_quota_bytes=QUOTA) as rig:
        yield rig


def an_image(word: str, size: int = 10, **more: Any) -> TinyImage:
    """One that differs from those of other words."""
    return tiny_image([Entry("bin/sh", b"x"), Entry("word", word.encode() * size)], **more)


async def upload(client: httpx.AsyncClient, data: bytes, name: str, **metadata: str) -> dict[str, Any]:
    """Uploads in one request and waits until it is over; answers the upload."""
    pairs = {"name": name, **metadata}
    said = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())
    headers = {
        "Tus-Resumable": "1.0.0",
        "Upload-Length": str(len(data)),
        "Upload-Metadata": said,
        "Content-Type": "application/offset+octet-stream",
    }
    answer = await client.post("/uploads/images", content=data, headers=headers)
    if answer.status_code != 201:
        return {"state": "refused", "status": answer.status_code, "problem": answer.json()}
    path = answer.headers["location"].rpartition("/uploads/")[2]

    async def over() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/uploads/{path}")).json()
        return found if found["state"] not in ("receiving", "checking") else None

    return await eventually(over)


async def push(client: httpx.AsyncClient, image: TinyImage, name: str, **metadata: str) -> str:
    """Pushes and answers the digest."""
    done = await upload(client, docker_save(image), name, **metadata)
    assert done["state"] == "done", done
    assert done["result"]["digest"] == image.digest
    return image.digest


async def names(client: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await client.get("/images", params=query)
    assert answer.status_code == 200, answer.text
    return [image["full_name"] for image in answer.json()["images"]]


def on_the_mount(rig: Rig) -> list[str]:
    return ImageStore(rig.layout).list()


async def gone_from_the_mount(rig: Rig, digest: str) -> None:
    async def gone() -> bool:
        return digest not in on_the_mount(rig)

    await eventually(gone)


async def a_job_with(rig: Rig, account: str, digest: str) -> str:
    """A job that JobManager has and that needs the image."""
    job_id = await submit(await rig.client(account))
    await rig.parts.uses.hold(f"test-{job_id}", account, [Ref("image", digest)])
    await rig.parts.uses.confirm(f"test-{job_id}", job_id)
    return job_id


async def ended(rig: Rig, job_id: str) -> None:
    """Its task succeeded."""
    events = [
        rig.tasks.event(job_id, "a", "ATTEMPT_STARTED"),
        rig.tasks.event(job_id, "a", "SUCCEEDED", reason=common.EndReason(word="exited", exit_code=0)),
    ]
    request = jm.ReportTaskEventsRequest(events=events)
    await rig.parts.jobs._services.jobs.call("ReportTaskEvents", request)


async def test_a_pushed_image_is_private_and_says_what_is_inside(rig: Rig) -> None:
    ann, bob = await rig.client("ann"), await rig.client("bob")
    image = an_image("inside", env={"CUDA_VERSION": "12.4"}, settings={"Cmd": ["sh"], "User": "me"})
    digest = await push(ann, image, "tool:1", description="# A *tool*\n<b>html</b>")
    answer = await ann.get("/images/ann/tool:1")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["owner"], found["name"], found["public"], found["may_change"]) == ("ann", "tool", False, True)
    assert found["description"] == "# A *tool*\n<b>html</b>"
    (tag,) = found["tags"]
    assert (tag["tag"], tag["digest"], tag["pushed_by"]) == ("1", digest, "ann")
    assert (tag["command"], tag["user"], tag["has_shell"], tag["architecture"]) == (["sh"], "me", True, "amd64")
    assert [move["to_digest"] for move in found["history"]] == [digest]
    for ref in ("ann/tool", "ann/tool:1", f"ann/tool@{digest}", found["id"]):
        assert (await bob.get(f"/images/{ref}")).status_code == 404
        assert (await bob.get(f"/images/{ref}/archive")).status_code == 404
        assert (await bob.patch(f"/images/{ref}", json={"public": True})).status_code == 404
        assert (await bob.delete(f"/images/{ref}")).status_code == 404
        assert (await bob.post(f"/images/{ref}", params={"op": "tag"}, json={"tag": "x"})).status_code == 404
        assert (await ann.get(f"/images/{ref}")).status_code == 200
    nothing, hidden = await bob.get("/images/ann/none"), await bob.get("/images/ann/tool")
    assert nothing.json()["detail"].replace("none", "") == hidden.json()["detail"].replace("tool", "")
    assert "ann/tool" not in await names(bob)
    assert await rig.parts.market.find(account(rig, "bob"), "ann/tool:1") is None
    mine = await rig.parts.market.find(account(rig, "ann"), "tool:1")
    assert mine is not None
    assert (mine.digest, mine.full_name) == (digest, "ann/tool:1")
    assert mine.info.cmd == ("sh",)


def account(rig: Rig, name: str) -> Any:
    found = rig.parts.accounts.get(name)
    assert found is not None
    return found


async def test_shared_with_a_person_or_a_group_and_no_longer(rig: Rig) -> None:
    ann, bob, cyd = await rig.client("ann"), await rig.client("bob"), await rig.client("cyd")
    admin = await rig.client("admin")
    await push(ann, an_image("shared"), "shared")
    url = "/images/ann/shared"

    async def share(**to: Any) -> None:
        assert (await ann.patch(url, json={"shared_with": to})).status_code == 200

    assert (await ann.post("/groups", json={"name": "lab", "members": ["bob"]})).status_code == 403
    made = await admin.post("/groups", json={"name": "lab", "members": ["bob"]})
    assert made.json()["members"] == ["bob"]
    assert (await admin.post("/groups", json={"name": "lab"})).status_code == 409
    assert (await admin.post("/groups", json={"name": "other", "members": ["nobody"]})).status_code == 400
    await share(users=["cyd"])
    assert (await cyd.get(url)).json()["shared_with"] == {"users": ["cyd"], "groups": []}
    assert (await cyd.get(url)).json()["may_change"] is False
    assert (await cyd.patch(url, json={"public": True})).status_code == 403
    assert (await cyd.delete(url)).status_code == 403
    assert (await bob.get(url)).status_code == 404
    await share(groups=["lab"])
    assert "ann/shared" in await names(bob)
    assert "ann/shared" not in await names(cyd)
    changed = await admin.patch("/groups/lab", json={"remove": ["bob"], "add": ["cyd"]})
    assert changed.json()["members"] == ["cyd"]
    assert (await bob.get(url)).status_code == 404
    assert (await cyd.get(url)).status_code == 200
    assert (await admin.delete("/groups/lab")).status_code == 204
    await admin.post("/groups", json={"name": "lab", "members": ["bob", "cyd"]})
    assert (await cyd.get(url)).status_code == 404, "a later group of the same name is another one"
    assert (await bob.get("/groups")).json()["groups"][0]["members"] == ["bob", "cyd"]
    assert (await ann.patch(url, json={"shared_with": {"groups": ["none"]}})).status_code == 400
    assert (await ann.patch(url, json={"shared_with": {"users": ["none"]}})).status_code == 400
    for body, sentence in (
        ({"public": "yes"}, "`public` must be true or false."),
        ({"description": 5}, "`description` must be a text."),
        ("public", "The body must be an object."),
    ):
        refused = await ann.patch(url, json=body)
        assert (refused.status_code, refused.json()["detail"]) == (400, sentence)
    assert (await ann.patch(url, json={"public": True})).json()["public"] is True
    assert "ann/shared" in await names(bob, owner="ann", q="SHARED")
    assert (await ann.patch(url, json={"description": "x" * 20_001})).status_code == 400


async def test_a_tag_moves_and_a_submitted_job_keeps_what_it_had(rig: Rig) -> None:
    ann = await rig.client("ann")
    first = await push(ann, an_image("moves-1"), "moves")
    second = await push(ann, an_image("moves-2"), "moves")
    found = (await ann.get("/images/ann/moves:latest")).json()
    assert [(m["from_digest"], m["to_digest"], m["by"]) for m in found["history"]] == [
        (first, second, "ann"),
        (None, first, "ann"),
    ]
    old = (await ann.get(f"/images/ann/moves@{first}")).json()
    assert [(tag["tag"], tag["digest"]) for tag in old["tags"]] == [("", first)]
    tagged = await ann.post(f"/images/ann/moves@{first}", params={"op": "tag"}, json={"tag": "old"})
    assert {tag["tag"]: tag["digest"] for tag in tagged.json()["tags"]} == {"latest": second, "old": first}
    assert (await ann.post("/images/ann/moves", params={"op": "tag"}, json={"tag": "a b"})).status_code == 400
    job_id = await a_job_with(rig, "ann", first)
    refused = await ann.delete("/images/ann/moves:old")
    assert refused.status_code == 409
    assert job_id in refused.json()["detail"]
    assert [item["word"] for item in refused.json()["errors"]] == [job_id]
    assert (await ann.get("/images/ann/moves:old")).json()["tags"][0]["live_jobs"] == [job_id]
    assert (await ann.delete("/images/ann/moves:latest")).status_code == 204
    await gone_from_the_mount(rig, second)
    waits = await ann.delete("/images/ann/moves", params={"wait": True})
    assert (waits.status_code, waits.json()) == (202, {"live_jobs": [job_id]})
    assert (await ann.get("/images/ann/moves")).status_code == 404
    assert first in on_the_mount(rig)
    await ended(rig, job_id)
    await gone_from_the_mount(rig, first)
    assert not await rig.parts.market.exists(first)


async def test_one_content_of_two_owners_is_stored_once_and_goes_with_the_last(rig: Rig) -> None:
    ann, bob = await rig.client("ann"), await rig.client("bob")
    image = an_image("twice")
    digest = await push(ann, image, "once")
    await push(bob, image, "mine:2")
    assert on_the_mount(rig).count(digest) == 1
    job_id = await a_job_with(rig, "bob", digest)
    assert (await ann.delete("/images/ann/once")).status_code == 204, "bob's tag keeps what his job needs"
    assert (await bob.get("/images/bob/mine:2/archive")).status_code == 200
    assert digest in on_the_mount(rig)
    assert (await bob.delete("/images/bob/mine:2")).status_code == 409
    await ended(rig, job_id)
    assert (await bob.delete("/images/bob/mine:2")).status_code == 204, "JobManager is asked to be sure"
    await gone_from_the_mount(rig, digest)


async def test_others_names_are_refused_at_once_and_base_is_for_admins(rig: Rig) -> None:
    ann, admin = await rig.client("ann"), await rig.client("admin")
    data = docker_save(an_image("names"))
    for name, status in (("bob/tool", 403), ("base/tool", 403), ("Tool", 400), ("a/b/c", 400)):
        refused = await upload(ann, data, name)
        assert (refused["state"], refused["status"]) == ("refused", status), name
    assert (await upload(ann, data, "x", public="perhaps"))["status"] == 400
    assert (await upload(ann, data, "x", description="y" * 20_001))["status"] == 400
    assert (await upload(ann, b"", "x"))["status"] == 400
    await push(admin, an_image("base"), "base/python:1")
    assert (await ann.get("/images/base/python:1")).json()["public"] is True
    assert "base/python" in await names(ann)


async def test_archives_of_every_kind_and_those_with_several_tags(rig: Rig) -> None:
    ann = await rig.client("ann")
    untagged = an_image("kinds", tags=())
    for kind, data in (
        ("plain", docker_save(untagged)),
        ("gzip", packed(docker_save(untagged), "gzip")),
        ("zstd", packed(docker_save(untagged), "zstd")),
        ("oci", oci_layout(untagged)),
    ):
        done = await upload(ann, data, f"kinds:{kind}")
        assert (done["state"], done["result"]) == (
            "done",
            {"image": f"ann/kinds:{kind}", "digest": untagged.digest},
        )
    one, two = an_image("several-1", tags=("x:1",)), an_image("several-2", tags=("x:2",))
    asks = await upload(ann, docker_save(one, two), "several")
    assert asks["state"] == "choose"
    assert len(asks["choices"]) == 2
    assert (await ann.get("/images/ann/several")).status_code == 404
    wanted = next(choice for choice in asks["choices"] if "x:2" in choice)
    answer = await ann.post(f"/uploads/images/{asks['id']}", params={"op": "choose"}, json={"choice": wanted})
    assert answer.status_code < 300, answer.text

    async def there() -> bool:
        return (await ann.get("/images/ann/several")).status_code == 200

    await eventually(there)
    assert (await ann.get("/images/ann/several")).json()["tags"][0]["digest"] == two.digest


async def test_an_inner_tag_moves_nobody_elses_image(rig: Rig) -> None:
    """What used to happen elsewhere: loading an archive moved an existing tag to the new content without asking."""
    ann, bob = await rig.client("ann"), await rig.client("bob")
    hers, his = an_image("hers", tags=("base:1",)), an_image("his", tags=("base:1",))
    await push(ann, hers, "inner:1")
    await push(bob, his, "inner:1")
    assert (await ann.get("/images/ann/inner:1")).json()["tags"][0]["digest"] == hers.digest
    assert (await bob.get("/images/bob/inner:1")).json()["tags"][0]["digest"] == his.digest


async def test_an_archive_with_a_part_missing_is_refused_by_the_parts_name(rig: Rig) -> None:
    ann = await rig.client("ann")
    image = an_image("missing")
    before = on_the_mount(rig)
    config = f"{image.digest.partition(':')[2]}.json"
    for missing in (config, None):
        with tarfile.open(fileobj=io.BytesIO(docker_save(image))) as archive:
            names = archive.getnames()
            gone = missing or next(name for name in names if name.endswith("layer.tar"))
            rest = {name: archive.extractfile(name).read() for name in names if name != gone}  # type: ignore[union-attr]
        refused = await upload(ann, tar_of(rest), "missing")
        assert refused["state"] == "failed"
        assert gone in refused["problem"]["detail"], refused
    assert (await ann.get("/images/ann/missing")).status_code == 404
    assert on_the_mount(rig) == before
    assert not list(rig.layout.image_uploads.iterdir())


async def test_a_download_is_a_docker_archive_of_the_promised_length(rig: Rig) -> None:
    ann = await rig.client("ann")
    image = an_image("download", size=20_000)
    await push(ann, image, "download:3")
    head = await ann.head("/images/ann/download:3/archive")
    answer = await ann.get("/images/ann/download:3/archive")
    assert head.headers["content-length"] == answer.headers["content-length"] == str(len(answer.content))
    assert not head.content
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert entry["RepoTags"] == ["ann/download:3"]
        config = archive.extractfile(entry["Config"]).read()  # type: ignore[union-attr]
        layers = [archive.extractfile(name).read() for name in entry["Layers"]]  # type: ignore[union-attr]
    assert (config, layers) == (image.config, list(image.layers))
    assert (await upload(ann, answer.content, "again"))["result"]["digest"] == image.digest
    assert (await ann.get("/images/ann/download/archive")).status_code == 404, "there is no `latest`"
    assert (await ann.get("/images/download:3/archive")).content == answer.content, "a lone name is one's own"
    assert "no image `nosuch` that" in (await ann.get("/images/nosuch/archive")).json()["detail"]


async def test_a_download_under_way_keeps_its_content(rig: Rig) -> None:
    ann = await rig.client("ann")
    digest = await push(ann, an_image("reading", size=20_000), "reading")
    content = b""
    async with ann.stream("GET", "/images/ann/reading/archive") as answer, aclosing(answer.aiter_bytes()) as pieces:
        content += await anext(pieces)
        assert (await ann.delete("/images/ann/reading")).status_code == 204
        async for piece in pieces:
            content += piece
    assert len(content) == int(answer.headers["content-length"])
    await gone_from_the_mount(rig, digest)


async def test_the_quota_counts_what_is_tagged_and_says_what_to_do(rig: Rig) -> None:
    dan = await rig.client("dan")
    first = an_image("quota-first!", size=60_000)
    await push(dan, first, "big")
    refused = await upload(dan, docker_save(an_image("quota-other!", size=60_000)), "more")
    assert refused["state"] == "refused"
    assert refused["status"] == 507
    assert "Delete what you don't need" in refused["problem"]["detail"]
    dense = packed(docker_save(an_image("quota-dense!", size=60_000)), "gzip")
    late = await upload(dan, dense, "dense")
    assert late["state"] == "failed"
    assert "Delete what you don't need" in late["problem"]["detail"]
    await gone_from_the_mount(rig, an_image("quota-dense!", size=60_000).digest)
    assert await names(dan, owner="dan") == ["dan/big"]
    await push(dan, an_image("quota-third!", size=60_000), "big")  # takes the place of the first
    await gone_from_the_mount(rig, first.digest)


async def test_deleted_and_pushed_again_twenty_times_the_last_one_is_whole(rig: Rig) -> None:
    ann = await rig.client("ann")
    images = [an_image("again-a", tags=()), an_image("again-b", tags=())]
    for number in range(20):
        image = images[number % 3 % 2]
        await push(ann, image, "again")
        if number < 19:
            assert (await ann.delete("/images/ann/again")).status_code == 204
    last = images[19 % 3 % 2]
    assert (await ann.get("/images/ann/again")).json()["tags"][0]["digest"] == last.digest
    await rig.parts.market._collector.collect_due()
    answer = await ann.get("/images/ann/again/archive")
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"])


async def test_two_pushes_to_one_name_at_once_leave_two_whole_contents(rig: Rig) -> None:
    ann = await rig.client("ann")
    images = [an_image(f"race-{number}") for number in range(4)]
    await asyncio.gather(*(push(ann, image, "race") for image in images))
    found = (await ann.get("/images/ann/race")).json()
    assert len(found["history"]) == 4
    assert found["tags"][0]["digest"] == found["history"][0]["to_digest"]
    for image in images:
        assert (await ann.get(f"/images/ann/race@{image.digest}/archive")).status_code == 200


async def test_what_a_kill_leaves_without_rows_goes_and_rows_stay(rig: Rig) -> None:
    from headway.archive import ingest

    collector = rig.parts.market._collector
    file = rig.folder / "killed.tar"
    file.write_bytes(docker_save(an_image("killed")))
    info = await asyncio.to_thread(ingest, file, ImageStore(rig.layout))
    await collector.look_around()
    await collector.collect_due()
    assert info.digest in on_the_mount(rig), "its upload may still be ending"
    os.utime(rig.layout.image(info.digest), (1, 1))
    await collector.look_around()
    await collector.collect_due()
    assert info.digest not in on_the_mount(rig)
    ann = await rig.client("ann")
    digest = await push(ann, an_image("row"), "row")
    folder = rig.layout.image(digest)
    aside = folder.rename(rig.folder / "aside")
    await collector.look_around()
    await collector.collect_due()
    assert (await ann.get("/images/ann/row")).status_code == 200, "files that are away are no reason to forget"
    aside.rename(folder)
    assert (await ann.get("/images/ann/row/archive")).status_code == 200


async def test_a_finish_repeated_after_a_kill_does_not_move_a_tag_back(rig: Rig) -> None:
    from httpserver.uploads.ports import FinishWatch, StoredUpload

    target, ann = rig.parts.image_target, await rig.client("ann")
    place = await target.begin(account(rig, "ann"), 1, {"name": "repeat"})
    first = an_image("repeat-1")
    path = rig.layout.root / place.path
    path.write_bytes(docker_save(first))
    stored = StoredUpload("an-upload", "ann", path.stat().st_size, {"name": "repeat"}, 1.0)
    outcome = await target.finish(stored, place, FinishWatch())
    assert outcome.result == {"image": "ann/repeat:latest", "digest": first.digest}
    second = await push(ann, an_image("repeat-2"), "repeat")
    assert (await target.finish(stored, place, FinishWatch())).result == outcome.result
    assert (await ann.get("/images/ann/repeat")).json()["tags"][0]["digest"] == second
    path.unlink()


async def test_an_untagged_content_goes_after_a_day(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await rig.client("ann")
    first = await push(ann, an_image("untagged-1"), "untagged")
    await push(ann, an_image("untagged-2"), "untagged")
    collector = rig.parts.market._collector
    await collector.look_around()
    await collector.collect_due()
    assert first in on_the_mount(rig)
    monkeypatch.setattr("httpserver.market.store.UNTAGGED_KEPT_S", -1.0)
    await collector.look_around()
    await collector.collect_due()
    assert first not in on_the_mount(rig)
    assert (await ann.get(f"/images/ann/untagged@{first}")).status_code == 404
    assert (await ann.get("/images/ann/untagged/archive")).status_code == 200


async def test_pages_are_stable_and_words_are_found_in_what_is_inside(rig: Rig) -> None:
    eve = await rig.client("eve")
    image = an_image("paged")
    await push(eve, image, "paged-000")
    db = rig.parts.market._db

    def many(conn: Any) -> None:
        from sqlalchemy import insert

        from httpserver.market.tables import images, tags

        rows = [
            {
                "id": f"2{number:019d}",
                "owner": "eve",
                "name": f"paged-{number:03d}",
                "public": False,
                "description": "",
                "search": f"eve/paged-{number:03d}" + (" needle%" if number == 7 else ""),
                "created_at": 1.0,
                "updated_at": 1.0,
            }
            for number in range(1, 1000)
        ]
        conn.execute(insert(images), rows)
        of = {"tag": "latest", "digest": image.digest, "pushed_at": 1.0, "pushed_by": "eve"}
        conn.execute(insert(tags), [{"image_id": row["id"], **of} for row in rows])

    await db.write(many)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await eve.get("/images", params={"owner": "eve", "limit": 300, "cursor": cursor})).json()
        seen += [one["name"] for one in page["images"]]
        cursor = page["next_cursor"]
    assert seen == [f"paged-{number:03d}" for number in range(1000)]
    assert await names(eve, q="needle%") == ["eve/paged-007"]
    assert await names(eve, q="%") == ["eve/paged-007"]
    assert await names(eve, q="paged eve 99", limit=500) == [
        f"eve/paged-{n:03d}" for n in range(1000) if "99" in f"{n:03d}"
    ]
    assert await names(await rig.client("bob"), q="paged") == []
