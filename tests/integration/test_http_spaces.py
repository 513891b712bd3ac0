"""Personal spaces over HTTP: folders as archives, the trash, quotas."""

from __future__ import annotations

import asyncio
import errno
import io
import math
import os
import stat
import threading
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from headway.errors import StoreFull
from headway.mount import MountKind, MountState
from headway.rpc.v1 import job_manager_pb2 as jm
from httpserver.auth.model import Account
from httpserver.files import space
from httpserver.files.measure import HomeSize, measure
from tests.integration.http_rig import Rig, a_job_file, a_rig
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20
DAY = 86_400.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory, both_databases: None) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("spaces")
    folder.chmod(0o700)  # as `headway up` makes it: no account passes the state folder
    async with a_rig(folder) as rig:
        yield rig


@pytest.fixture
async def ann(rig: Rig) -> httpx.AsyncClient:
    return await rig.client("ann")


def home(rig: Rig, name: str = "ann") -> Path:
    return rig.layout.home(name)


def account(rig: Rig, name: str = "ann") -> Account:
    found = rig.parts.accounts.get(name)
    assert found is not None
    return found


def anns(rig: Rig, path: Path) -> Path:
    """As a task of hers would have made it."""
    if os.geteuid() == 0:
        os.chown(path, account(rig).uid, account(rig).gid, follow_symlinks=False)
    return path


async def zipped(client: httpx.AsyncClient, path: str) -> zipfile.ZipFile:
    answer = await client.get(f"/files/{path}", params={"format": "zip"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip"), answer.text
    whole = zipfile.ZipFile(io.BytesIO(answer.content))
    assert whole.testzip() is None
    return whole


async def test_a_folder_comes_as_an_archive_with_all_names_and_nothing_from_outside(rig: Rig, ann: httpx.AsyncClient):
    """STO-03, STO-05."""
    bob = await rig.client("bob")
    await bob.put("/files/secret", content=b"bob's")
    files = {"größe 日本 🎉": b"1", "-rf": b"2", 'a "q" \\ \n': b"3" * 100_000, "sub/deep/x": b"", "l" * 255: b"4"}
    for name, content in files.items():
        answer = await ann.put(f"/files/z/{quote(name)}", content=content, params={"parents": "true"})
        assert answer.status_code == 201, answer.text
    await ann.post("/files/z/empty?op=mkdir")
    folder = home(rig) / "z"
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "bobs").symlink_to("../../bob")
    (folder / "loop").symlink_to(".")
    os.mkfifo(folder / "pipe")
    (folder / "left-out.txt").write_text("mine")
    anns(rig, folder / "left-out.txt")
    (folder / os.fsdecode(b"\xff\xfe")).touch()
    if os.geteuid() == 0:
        (folder / "roots").write_text("not ann's to read")
        (folder / "roots").chmod(0o600)
    whole = await asyncio.wait_for(zipped(ann, "z"), 20)
    found = {info.filename: whole.read(info) for info in whole.infolist()}
    for name, content in files.items():
        assert found[f"z/{name}"] == content
    assert {"z/", "z/empty/", "z/sub/", "z/sub/deep/"} <= found.keys()
    assert b"\xff\xfe".decode("cp437") in {name.removeprefix("z/") for name in found}
    told = found["z/_left-out.txt"].decode()
    for name in ("passwd", "bobs", "loop", "pipe", *(["roots"] if os.geteuid() == 0 else [])):
        assert f"{name}: " in told
        assert f"z/{name}" not in found
    assert not any(b"root:" in data or b"bob's" in data for data in found.values())
    assert found["z/left-out.txt"] == b"mine"


async def test_the_whole_space_as_an_archive_leaves_out_what_is_headways(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/binned", content=b"x")
    await ann.delete("/files/binned")
    (home(rig) / ".headway-upload-1").write_bytes(b"half")
    whole = await zipped(ann, "")
    assert not [name for name in whole.namelist() if "headway" in name]
    (home(rig) / ".headway-upload-1").unlink()


async def test_what_is_no_folder_and_what_is_not_there_is_no_archive(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/plain", content=b"x")
    (home(rig) / "out").symlink_to("/etc")
    for path, status in (("plain", 409), ("none", 404), ("out", 403)):
        assert (await ann.get(f"/files/{path}", params={"format": "zip"})).status_code == status
    bob = await rig.client("bob")
    assert (await bob.get("/files/", params={"format": "zip", "account": "ann"})).status_code == 403


async def test_files_that_change_or_vanish_meanwhile_do_not_break_the_archive(rig: Rig, ann: httpx.AsyncClient):
    folder = home(rig) / "moving"
    await ann.post("/files/moving?op=mkdir")
    for number in range(40):
        (folder / f"f{number}").write_bytes(os.urandom(400_000))
        anns(rig, folder / f"f{number}")
    got = bytearray()
    async with ann.stream("GET", "/files/moving", params={"format": "zip"}) as answer:
        async for chunk in answer.aiter_raw():
            if not got:
                for number in range(40):
                    path = folder / f"f{number}"
                    if number % 3 == 0:
                        path.unlink()
                    elif number % 3 == 1:
                        os.truncate(path, 10)
                    else:
                        with path.open("ab") as file:
                            file.write(b"more" * 1000)
            got += chunk
    whole = zipfile.ZipFile(io.BytesIO(bytes(got)))
    assert whole.testzip() is None
    sizes = {info.filename: info.file_size for info in whole.infolist() if "/f" in info.filename}
    assert max(sizes.values()) <= 404_000
    assert len(sizes) >= 20


async def test_a_reader_that_goes_away_leaves_no_descriptor(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/large/x", content=os.urandom(30 * MIB), params={"parents": "true"})

    def held() -> list[str]:
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
        return [path for path in found if "/large" in path]

    async with ann.stream("GET", "/files/large", params={"format": "zip"}) as answer:
        async for _ in answer.aiter_raw():
            break
    await eventually(lambda: not held(), what="the folder is closed")
    await ann.delete("/files/large", params={"recursive": "true", "permanent": "true"})


async def test_a_deletion_can_be_undone(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/d/e/file", content=b"precious", params={"parents": "true"})
    assert (await ann.delete("/files/d")).status_code == 409
    gone = await ann.delete("/files/d", params={"recursive": "true"})
    id = gone.headers["headway-trash-id"]
    assert (await ann.get("/files/d/e/file")).status_code == 404
    assert ".headway-trash" not in {e["name"] for e in (await ann.get("/files/")).json()["entries"]}
    (item,) = [item for item in (await ann.get("/trash")).json()["items"] if item["id"] == id]
    assert (item["id"], item["path"], item["kind"], item["size_bytes"]) == (id, "d", "folder", 8)
    assert item["expires_at"] - item["deleted_at"] == 3 * 86_400
    assert (await ann.put("/files/d", content=b"in the way")).status_code == 201
    refused = await ann.post(f"/trash/{id}/restore")
    assert refused.status_code == 409
    assert "rename" in refused.json()["detail"]
    back = await ann.post(f"/trash/{id}/restore", json={"to": "again/d"})
    assert (back.status_code, back.json()["path"]) == (200, "again/d")
    assert (await ann.get("/files/again/d/e/file")).content == b"precious"
    if os.geteuid() == 0:
        for path in (home(rig) / "again", home(rig) / "again" / "d" / "e" / "file", home(rig) / ".headway-trash"):
            assert (path.stat().st_uid, path.stat().st_gid) == (account(rig).uid, account(rig).gid)
    assert stat.S_IMODE((home(rig) / ".headway-trash").stat().st_mode) == 0o700
    assert (await ann.post(f"/trash/{id}/restore")).status_code == 404
    assert (await ann.delete(f"/trash/{id}")).status_code == 204
    for bad in ("..", "%2e%2e", "x", id + ".json"):
        assert (await ann.post(f"/trash/{bad}/restore")).status_code in (404, 405)


async def test_for_good_means_for_good(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/p", content=b"x")
    answer = await ann.delete("/files/p", params={"permanent": "true"})
    assert answer.status_code == 204
    assert "headway-trash-id" not in answer.headers
    ids = []
    for name in ("one", "two"):
        await ann.put(f"/files/{name}", content=b"x")
        ids.append((await ann.delete(f"/files/{name}")).headers["headway-trash-id"])
    assert (await ann.delete(f"/trash/{ids[0]}")).status_code == 204
    assert ids[0] not in {item["id"] for item in (await ann.get("/trash")).json()["items"]}
    assert (await ann.delete(f"/files/.headway-trash/{ids[1]}")).status_code == 204
    assert (await ann.delete("/trash")).status_code == 204
    assert (await ann.get("/trash")).json() == {"items": []}
    bob = await rig.client("bob")
    assert (await bob.get("/trash", params={"account": "ann"})).status_code == 403


async def test_the_broom_keeps_what_is_fresh_and_does_not_touch_a_lost_mount(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await rig.client("never-there")
    await ann.put("/files/swept", content=b"x")
    await ann.delete("/files/swept")
    trash = rig.parts.trash
    await trash.sweep()
    assert len((await ann.get("/trash")).json()["items"]) == 1
    assert not home(rig, "never-there").exists(), "a broom makes no homes"
    monkeypatch.setattr(trash, "_keep_s", -10.0)
    with monkeypatch.context() as away:
        away.setattr("headway.mount.mount_state", lambda *_, **__: MountState(MountKind.MISSING, "It is away."))
        await trash.sweep()
    assert len((await ann.get("/trash")).json()["items"]) == 1
    await trash.sweep()
    assert (await ann.get("/trash")).json() == {"items": []}


async def test_the_trash_keeps_things_for_as_long_as_it_says_whichever_way_the_clock_is_set(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    now, trash = time.time, rig.parts.trash
    await ann.put("/files/kept", content=b"x")
    with monkeypatch.context() as back:
        back.setattr("headway.clock.time.time", lambda: now() - 100 * DAY)
        await ann.delete("/files/kept")
    await trash.sweep()
    with monkeypatch.context() as forward:
        forward.setattr("headway.clock.time.time", lambda: now() + 100 * DAY)
        await trash.sweep()
    (item,) = (await ann.get("/trash")).json()["items"]
    assert item["deleted_at"] == pytest.approx(now(), abs=30)
    assert (await ann.delete("/trash")).status_code == 204


async def test_quota_is_warned_of_refused_and_lifted(rig: Rig):
    """Quota reached half way through an upload: one sentence, and the space is given back."""
    boss = await rig.client("boss", admin=True)
    cat = await rig.client("cat")
    assert (await cat.get("/space")).json()["quota_bytes"] is None
    patched = await boss.patch("/users/cat", json={"quota_bytes": 10 * MIB})
    assert patched.json()["quota_bytes"] == 10 * MIB
    assert (await cat.put("/files/a", content=b"a" * (5 * MIB))).status_code == 201
    space = (await cat.get("/space")).json()
    assert (space["quota_bytes"], space["state"], space["sentence"]) == (10 * MIB, "ok", "")

    refused = await cat.put("/files/b", content=b"b" * (6 * MIB))
    assert (refused.status_code, refused.json()["slug"]) == (507, "disk-full")
    assert "of 10.0 MiB" in refused.json()["detail"]
    assert "empty the trash" in refused.json()["detail"]

    async def without_a_length() -> AsyncIterator[bytes]:
        for _ in range(12):
            yield b"c" * (MIB // 2)

    refused = await cat.put("/files/c", content=without_a_length())
    assert (refused.status_code, refused.json()["slug"]) == (507, "disk-full")
    assert sorted(path.name for path in home(rig, "cat").iterdir()) == ["a"]

    spaces, owner = rig.parts.spaces, account(rig, "cat")
    assert spaces.refuse_new_work(owner) == ""
    # As a task writes: nobody is asked.
    (home(rig, "cat") / "by-a-task").write_bytes(b"t" * (4 * MIB + MIB // 2))

    async def state() -> str:
        spaces.freed(owner)
        return str((await cat.get("/space")).json()["state"])

    async def warned() -> bool:
        return await state() == "warning"

    async def full() -> bool:
        # All that is written below: it may also be measured in the midst of it.
        return await state() == "full" and "10.5 MiB" in spaces.refuse_new_work(owner)

    await eventually(warned, what="it is warned of")
    assert "of 10.0 MiB" in (await cat.get("/space")).json()["sentence"]
    assert spaces.refuse_new_work(owner) == ""
    with (home(rig, "cat") / "by-a-task").open("ab") as file:
        file.write(b"t" * MIB)
    await eventually(full, what="it is full")
    sentence = spaces.refuse_new_work(owner)
    assert "cat" in sentence
    assert "delete files" in sentence
    assert (await cat.put("/files/d", content=b"d")).status_code == 507
    job = await cat.post("/jobs", json=a_job_file())
    assert (job.status_code, job.json()["slug"]) == (507, "disk-full")
    assert job.json()["detail"] == sentence
    assert (await cat.post("/files/folder", params={"op": "mkdir"})).status_code == 200, "folders cost nothing"

    # The trash counts, so only what is deleted for good lifts it; by itself.
    if os.geteuid() == 0:
        os.chown(home(rig, "cat") / "by-a-task", owner.uid, owner.gid)
    assert (await cat.delete("/files/by-a-task")).status_code == 204
    assert spaces.refuse_new_work(owner) != ""
    assert (await cat.delete("/trash")).status_code == 204
    await eventually(lambda: spaces.refuse_new_work(owner) == "", what="it is lifted")
    assert (await cat.put("/files/d", content=b"d")).status_code == 201
    assert (await boss.patch("/users/cat", json={"quota_bytes": -1})).json()["quota_bytes"] is None
    assert (await boss.patch("/users/cat", json={"quota_bytes": -2})).status_code == 400


async def test_uploads_in_flight_count(rig: Rig):
    await rig.client("dan")
    await rig.parts.accounts.update("dan", {"quota_bytes": 10 * MIB}, by="test")
    spaces, dan = rig.parts.spaces, account(rig, "dan")
    await spaces.require_quota(dan, 6 * MIB, hold="one")
    with pytest.raises(StoreFull, match="more are asked for"):
        await spaces.require_quota(dan, 6 * MIB, hold="two")
    await spaces.require_quota(dan, 9 * MIB, hold="one")
    spaces.let_go(dan, "one", stored=False)
    await spaces.require_quota(dan, 6 * MIB, hold="two")
    spaces.let_go(dan, "two", stored=True)
    spaces.let_go(dan, "two", stored=True)
    with pytest.raises(StoreFull):
        await spaces.require_quota(dan, 6 * MIB)
    await spaces.require_quota(dan, 3 * MIB)


async def test_what_was_measured_of_an_upload_counts_once(rig: Rig):
    """Used to: measured at 14 of 59 MiB, an upload counted as 73 MiB when it was done."""
    await rig.client("ida")
    spaces, ida = rig.parts.spaces, account(rig, "ida")
    usage = spaces._usage(ida)
    usage.due_at = math.inf
    for stored in (True, False):
        usage.used_bytes, usage.uploading_bytes, usage.added = 16 * MIB, 14 * MIB, 0
        spaces.hold(ida, "one", 59 * MIB)
        assert usage.estimate() == 61 * MIB
        spaces.let_go(ida, "one", stored=stored)
        assert usage.estimate() == (61 if stored else 2) * MIB


async def test_a_restart_remembers_who_is_full(tmp_path: Path):
    async with a_rig(tmp_path, default_quota_bytes="1MiB") as rig:
        eve = await rig.client("eve")
        await eve.put("/files/a", content=b"a" * MIB)
        await eventually(lambda: rig.parts.spaces.refuse_new_work(account(rig, "eve")) != "", what="eve is full")
        space = (await eve.get("/space")).json()
        assert (space["quota_bytes"], space["state"]) == (MIB, "full")

        async def measured() -> bool:
            rig.parts.spaces.freed(account(rig, "eve"))
            return (await eve.get("/space")).json()["measured_at"] is not None

        await eventually(measured, what="it was measured")
    async with a_rig(tmp_path, default_quota_bytes="1MiB", space_measure_s=1e6) as rig:
        assert rig.parts.spaces.view(account(rig, "eve")).measured_at is not None
        assert rig.parts.spaces.refuse_new_work(account(rig, "eve")) != ""


async def test_what_a_task_wrote_counts_when_it_has_ended(rig: Rig):
    """It used to be five minutes until somebody noticed, and jobs were taken till then."""
    assert (await (await rig.client("hal")).put("/files/big", content=b"")).status_code == 201
    await rig.parts.accounts.update("hal", {"quota_bytes": MIB}, by="test")
    spaces, hal = rig.parts.spaces, account(rig, "hal")
    usage = spaces._usage(hal)
    # What was written while it was measured makes it due once more; then there is time.
    await eventually(
        lambda: spaces.view(hal).measured_at is not None and usage.due_at > usage.ended_at + 1,
        what="it was measured, and is not due",
    )
    (home(rig, "hal") / "big").write_bytes(b"a" * MIB)
    change = jm.JobChange(job=jm.Job(id="j1", owner="hal"), tasks=[jm.TaskView(name="a", state="RUNNING", attempt=1)])
    due_at = usage.due_at
    spaces.on_jobs(jm.JobChanges(changes=[change]))
    assert usage.due_at == due_at, "it has not ended"
    usage.ended_at -= 100  # so long ago
    change.tasks[0].state = "SUCCEEDED"
    rig.parts.hub.on_jobs(jm.JobChanges(changes=[change]))
    assert usage.due_at < due_at
    await eventually(lambda: usage.estimate() >= MIB, what="it is measured anew")
    boss = await rig.client("boss", admin=True)
    listed = {user["name"]: user for user in (await boss.get("/users")).json()["users"]}
    assert listed["hal"]["space_used_bytes"] >= listed["hal"]["space_limit_bytes"] == MIB
    rig.parts.hub.on_jobs(jm.JobChanges(changes=[change]))
    assert usage.due_at > usage.ended_at + 9, "not after each of many"


async def test_so_many_files_and_no_more(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """A disk runs out of inodes by empty files, and no quota of bytes notices them."""
    fay = await rig.client("fay")
    assert (await fay.put("/files/a", content=b"")).status_code == 201
    spaces, owner = rig.parts.spaces, account(rig, "fay")
    monkeypatch.setattr(spaces, "_max_files", 12)
    # As a task makes them: nobody is asked.
    for number in range(9):
        (home(rig, "fay") / f"{number}").touch()

    async def state() -> str:
        spaces.freed(owner)
        return str((await fay.get("/space")).json()["state"])

    await eventually(lambda: _is(state, "ok"), what="not full yet")
    await eventually(lambda: spaces._usage(owner).files == 11, within_s=20, what="the files are counted")
    assert (await fay.put("/files/b", content=b"")).status_code == 201
    for refused in (await fay.put("/files/c", content=b""), await fay.post("/files/d?op=mkdir")):
        assert (refused.status_code, refused.json()["slug"]) == (507, "disk-full")
        assert "12 files and folders of 12" in refused.json()["detail"]
    assert "12 files" in spaces.refuse_new_work(owner)
    space = (await fay.get("/space")).json()
    assert space["state"] == "full"
    assert "12 files" in space["sentence"]
    for name in ("a", "0", "1"):
        await fay.delete(f"/files/{name}", params={"permanent": "true"})
    await eventually(lambda: _is(state, "ok"), within_s=20, what="there is room again")
    assert (await fay.put("/files/c", content=b"")).status_code == 201


async def _is(state: Callable[[], Awaitable[str]], want: str) -> bool:
    return await state() == want


async def test_large_removals_hold_nobody_up(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Folders of millions of files that went for good used to keep all threads from those who wanted a page."""
    guy = await rig.client("guy")
    for number in range(10):
        await guy.put(f"/files/big{number}/x", content=b"", params={"parents": "true"})
    gate = threading.Event()
    real = space.remove_account_tree

    def held(folder: int, name: str) -> None:
        assert gate.wait(60)
        real(folder, name)

    monkeypatch.setattr(space, "remove_account_tree", held)
    forever = {"recursive": "true", "permanent": "true"}
    removing = [asyncio.create_task(guy.delete(f"/files/big{number}", params=forever)) for number in range(10)]
    try:
        await eventually(lambda: rig.parts.files._homes.turns[True].waiting() >= 8, what="they wait in a row")
        assert len((await guy.get("/files/")).json()["entries"]) == 10
    finally:
        gate.set()
        answers = await asyncio.gather(*removing)
    assert [answer.status_code for answer in answers] == [204] * 10


async def test_a_space_that_cannot_be_measured_says_so_until_it_can(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Only a line in the service's log said it."""
    gil = await rig.client("gil")
    assert (await gil.put("/files/a", content=b"a")).status_code == 201
    refused = True

    def measured(*asked: Any) -> HomeSize:
        if refused:
            raise PermissionError(errno.EACCES, "Permission denied")
        return measure(*asked)

    monkeypatch.setattr("httpserver.files.quotas.measure", measured)

    async def sentence() -> str:
        rig.parts.spaces.freed(account(rig, "gil"))
        return str((await gil.get("/space")).json()["sentence"])

    async def told() -> bool:
        return "could not be measured" in await sentence()

    async def over() -> bool:
        return await sentence() == ""

    await eventually(told, what="it is told")
    assert f"An admin has to look at {home(rig, 'gil')}." in await sentence()
    refused = False
    await eventually(over, within_s=20, what="it is measured again")
