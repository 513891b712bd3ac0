"""The data market over HTTP: what is published stays as it was, whatever its publisher does."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headway.rpc.v1 import job_manager_pb2 as jm
from httpserver.datasets import publisher, staging
from httpserver.datasets.publication import Publication
from httpserver.uses.service import Ref
from tests.integration.http_rig import Rig, a_job_file, a_rig, submit
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root takes files over")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory, both_databases: None) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("datasets")
    folder.chmod(0o700)  # as `headway up` makes it: no account passes the state folder
    async with a_rig(folder) as rig:
        yield rig


@pytest.fixture
async def ann(rig: Rig) -> httpx.AsyncClient:
    return await rig.client("ann")


@pytest.fixture
async def bob(rig: Rig) -> httpx.AsyncClient:
    return await rig.client("bob")


async def a_folder(rig: Rig, client: httpx.AsyncClient, name: str, files: dict[str, bytes], who: str = "ann") -> Path:
    """A folder in the account's space, its own as a task would have made it."""
    await client.get("/files/")
    account = rig.parts.accounts.get(who)
    assert account is not None
    home = rig.layout.home(who)
    folder = home / name
    folder.mkdir(exist_ok=True)
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    own(folder, account.uid, account.gid)
    return folder


def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A short program."""
    return subprocess.run(words, **{"check": False, **options})


def own(folder: Path, uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        for each in (folder, *folder.rglob("*")):
            os.chown(each, uid, gid, follow_symlinks=False)


async def publish(client: httpx.AsyncClient, name: str, path: str, **fields: Any) -> dict[str, Any]:
    """Publishes and waits for the end; answers the newest version."""
    answer = await client.post("/datasets", json={"name": name, "path": path, **fields})
    assert answer.status_code == 202, answer.text
    return await settled(client, name)


async def settled(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        versions = (await client.get(f"/datasets/{name}")).json()["versions"]
        return versions[-1] if versions[-1]["state"] != "publishing" else None

    return await eventually(look, within_s=20)


def nothing_on_the_way(rig: Rig) -> bool:
    return not [p for p in (rig.layout.root / "datasets").iterdir() if p.name.startswith((".staging-", ".gone-"))]


def who(rig: Rig, name: str) -> tuple[int, int]:
    account = rig.parts.accounts.get(name)
    assert account is not None
    return account.uid, account.gid


FILES = {"train/a.bin": b"a" * 1000, "train/b.bin": b"b" * 2000, "README": b"hello\n", "sub/deep/er/x": b""}


@needs_root
async def test_a_published_folder_is_the_same_bytes_read_only_and_checked(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "mnist", FILES)
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("train/b.bin")
    (folder / "sub" / "up").symlink_to("../README")
    (folder / "line\nbreak \\ ü").write_bytes(b"odd")
    own(folder, *who(rig, "ann"))
    version = await publish(ann, "mnist", "mnist", description="# digits")
    assert (version["version"], version["state"], version["problem"]) == ("1", "ready", None)
    assert (version["files"], version["size_bytes"], version["method"]) == (6, 3019, "hardlink")
    placed = rig.layout.dataset("mnist", "1")
    assert (placed / "train/a.bin").stat().st_ino == (folder / "train/a.bin").stat().st_ino, "it was copied"
    for path in placed.rglob("*"):
        info = path.lstat()
        if path.is_symlink():
            continue
        want = 0o755 if path.is_dir() else 0o555 if path.name == "run.sh" else 0o444
        assert (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid) == (want, 0, 0), path
    assert os.readlink(placed / "sub/up") == "../README"
    assert stat.S_IMODE((rig.layout.root / "datasets").stat().st_mode) == 0o711
    sums = (await ann.get("/datasets/mnist/1/checksums")).content
    assert hashlib.sha256(sums).hexdigest() == version["checksum"]
    checked = run(["sha256sum", "-c", "--strict"], cwd=placed, input=sums, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    # Not even its publisher changes a byte of it, as a task of his would try.
    uid, gid = who(rig, "ann")
    attack = "echo evil > train/a.bin; chmod u+w train/a.bin; chown $(id -u) README; echo x >> README; rm README; ls"
    words = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "sh", "-c", attack]
    run(words, cwd=folder, capture_output=True, check=False)
    assert not (folder / "README").exists(), "he may still delete his own name of it"
    assert (placed / "train/a.bin").read_bytes() == b"a" * 1000
    assert (placed / "README").read_bytes() == b"hello\n"
    assert nothing_on_the_way(rig)


@needs_root
async def test_versions_count_up_and_pins_stay(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "counted", {"a": b"1"})
    account = rig.parts.accounts.get("ann")
    assert account is not None
    find = rig.parts.datasets.find
    assert await find(account, "counted") is None
    assert (await publish(ann, "counted", "counted"))["version"] == "1"
    (folder / "b").write_bytes(b"2")
    own(folder / "b", *who(rig, "ann"))
    second = await publish(ann, "counted", "counted")
    assert (second["version"], second["files"], second["state"]) == ("2", 2, "ready"), "what is published may be again"
    named = await publish(ann, "counted", "counted", version="2024-01")
    assert named["version"] == "2024-01"
    assert await find(account, "counted") == ("counted", "2024-01")
    assert await find(account, "counted@1") == ("counted", "1")
    assert await find(account, "counted@7") is None
    for version, slug in (("1", "conflict"), ("../x", "invalid-input"), (".x", "invalid-input")):
        body = {"name": "counted", "path": "counted", "version": version}
        answer = await ann.post("/datasets", json=body)
        assert answer.json()["slug"] == slug
    assert (await ann.delete("/datasets/counted", params={"version": "2"})).status_code == 204
    assert (await publish(ann, "counted", "counted"))["version"] == "3", "a number never comes back"


@needs_root
async def test_deleting_gives_the_files_back_when_no_other_version_has_them(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "back", {"shared": b"1", "only": b"2"})
    (folder / "only").chmod(0o640)
    await publish(ann, "back", "back")
    (folder / "only").rename(folder.parent / "moved")
    await publish(ann, "back2", "back")
    uid = who(rig, "ann")[0]
    assert (await ann.delete("/datasets/back")).status_code == 204
    assert (await ann.get("/datasets/back")).status_code == 404
    await eventually(lambda: nothing_on_the_way(rig))
    moved = (folder.parent / "moved").stat()
    assert (moved.st_uid, stat.S_IMODE(moved.st_mode), moved.st_nlink) == (uid, 0o640, 1)
    assert (folder / "shared").stat().st_uid == 0, "the other dataset still has it"
    assert (await ann.delete("/datasets/back2")).status_code == 204
    await eventually(lambda: nothing_on_the_way(rig))
    shared = (folder / "shared").stat()
    assert (shared.st_uid, stat.S_IMODE(shared.st_mode)) == (uid, 0o644)
    assert not (rig.layout.root / "datasets" / "back").exists()


async def test_what_a_dataset_cant_hold_is_listed_and_nothing_of_it_is_published(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "bad", {"fine": b"x"})
    outside = rig.folder / "secret"
    outside.write_text("not ann's")
    for name, target in {
        "abs": "/etc/passwd",
        "up": "../other",
        "sly": "fine/../../x",
        "other-home": "../../bob/x",
        "out": str(outside),
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "sock"))
    listener.close()
    own(folder, *who(rig, "ann"))
    answer = await ann.post("/datasets", json={"name": "bad", "path": "bad", "copy": True})
    assert (answer.status_code, answer.json()["slug"]) == (422, "not-publishable")
    for name in ("abs", "up", "sly", "other-home", "out", "pipe", "sock"):
        assert f"`{name}`" in answer.json()["detail"]
    assert "`abs` is a link with an absolute target, `/etc/passwd`; " in answer.json()["detail"]
    assert "`up` is a link out of the folder, to `../other`" in answer.json()["detail"]
    assert "`fine`" not in answer.json()["detail"]
    assert (await ann.get("/datasets/bad")).status_code == 404, "the name is free"
    many = await a_folder(rig, ann, "many", {"x": b""})
    for i in range(30):
        (many / f"l{i:02}").symlink_to("/")
    detail = (await ann.post("/datasets", json={"name": "bad", "path": "many"})).json()["detail"]
    assert detail.count("`l") == 20
    assert "10 more" in detail
    for path, status in {"missing": 404, "fine-file": 404, "..": 400, "": 400, "empty": 422}.items():
        await ann.post("/files/empty?op=mkdir")
        await ann.put("/files/fine-file", content=b"x")
        assert (await ann.post("/datasets", json={"name": "bad", "path": path})).status_code == status, path
    for name in ("Bad", "../bad", "", ".x", "x" * 64, "a/b"):
        assert (await ann.post("/datasets", json={"name": name, "path": "bad"})).status_code == 400, name


@needs_root
async def test_a_folder_that_is_a_link_out_or_somebody_elses_is_not_published(
    rig: Rig, ann: httpx.AsyncClient, bob: Any
):
    await a_folder(rig, bob, "private", {"x": b"bob's"}, who="bob")
    folder = await a_folder(rig, ann, "mixed", {"mine": b"1", "roots": b"2"})
    (folder.parent / "link").symlink_to("../bob/private")
    assert (await ann.post("/datasets", json={"name": "stolen", "path": "link", "copy": True})).status_code == 404
    os.chown(folder / "roots", 0, 0)
    answer = await ann.post("/datasets", json={"name": "stolen", "path": "mixed", "copy": True})
    assert answer.status_code == 422
    assert "another user" in answer.json()["detail"]
    # A file of root's that looks like one that was published: giving it to ann one day would be a gift.
    os.chmod(folder / "roots", 0o444)
    os.link(folder / "roots", folder / "roots2")
    assert (await ann.post("/datasets", json={"name": "stolen", "path": "mixed"})).status_code == 422
    (folder / "roots").unlink()
    (folder / "roots2").unlink()
    (folder / "closed").mkdir(0o700)
    (folder / "closed" / "x").write_text("root's")
    answer = await ann.post("/datasets", json={"name": "stolen", "path": "mixed"})
    assert answer.status_code == 403, answer.text
    assert (await ann.get("/datasets/stolen")).status_code == 404


@needs_root
async def test_a_swap_while_it_is_published_publishes_nothing_from_elsewhere(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """Between the look at a name and its link the name becomes a link, and a folder becomes one."""
    folder = await a_folder(rig, ann, "swapped", {"a": b"1", "d/x": b"2"})
    secret = rig.folder / "swap-secret"
    secret.mkdir()
    (secret / "x").write_text("host's")
    take = Publication._take

    def swapping(self: Any, entry: Any, here: int, journal: Any) -> None:
        if entry.path == "a":
            (folder / "a").unlink()
            (folder / "a").symlink_to(secret / "x")
            shutil.rmtree(folder / "d")
            (folder / "d").symlink_to(secret)
        take(self, entry, here, journal)

    monkeypatch.setattr(Publication, "_take", swapping)
    version = await publish(ann, "swapped", "swapped")
    assert version["state"] == "failed"
    assert "published" in version["problem"]
    assert (secret / "x").stat().st_uid == 0
    assert (secret / "x").stat().st_nlink == 1
    assert not rig.layout.dataset("swapped", "1").exists()
    assert nothing_on_the_way(rig)


@needs_root
async def test_a_file_that_is_open_for_writing_is_not_frozen(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "open", {"a": b"1", "log": b"2"})
    uid, gid = who(rig, "ann")
    with (folder / "log").open("ab") as file:
        version = await publish(ann, "open", "open")
        assert version["state"] == "failed"
        assert "`log` is open for writing" in version["problem"]
        assert "--copy (in the API: copy: true)" in version["problem"]
        file.write(b"still works")
    for name in ("a", "log"):
        info = (folder / name).stat()
        assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode), info.st_nlink) == (uid, gid, 0o644, 1)
    assert nothing_on_the_way(rig)
    again = await publish(ann, "open", "open")
    assert (again["version"], again["state"]) == ("1", "ready"), "a number that failed is free"


async def test_copies_are_asked_for_and_leave_the_space_alone(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "copied", {"a": b"1" * 5000, "b/c": b"2"})
    version = await publish(ann, "copied", "copied", copy=True)
    assert (version["state"], version["method"]) in (("ready", "copy"), ("ready", "reflink")), version
    placed = rig.layout.dataset("copied", "1") / "a"
    assert placed.stat().st_ino != (folder / "a").stat().st_ino
    assert stat.S_IMODE(placed.stat().st_mode) == 0o444
    assert int(placed.stat().st_mtime) == int((folder / "a").stat().st_mtime)
    (folder / "a").write_bytes(b"changed")
    assert placed.read_bytes() == b"1" * 5000


@needs_root
async def test_across_file_systems_only_a_copy_that_was_asked_for(rig: Rig, ann: httpx.AsyncClient):
    folder = await a_folder(rig, ann, "elsewhere", {})
    run(["mount", "-t", "tmpfs", "-o", "size=20m", "headway-test", str(folder)], check=True)
    try:
        for i in range(4):
            (folder / f"f{i}").write_bytes(b"x" * (1 << 20))
        own(folder, *who(rig, "ann"))
        answer = await ann.post("/datasets", json={"name": "elsewhere", "path": "elsewhere"})
        assert (answer.status_code, answer.json()["slug"]) == (409, "copy-needed")
        assert "4.0 MiB in 4 files" in answer.json()["detail"]
        assert "--copy (in the API: copy: true)" in answer.json()["detail"]
        assert (await ann.get("/datasets/elsewhere")).status_code == 404
        version = await publish(ann, "elsewhere", "elsewhere", copy=True)
        assert (version["state"], version["method"]) == ("ready", "copy")
    finally:
        run(["umount", "-l", str(folder)], check=True)


@needs_root
async def test_running_tasks_hold_hard_links_back_and_not_copies(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await a_folder(rig, ann, "busy", {"a": b"1"})
    jobs: list[str] = ["j0000000000000001"]

    async def running(account: str) -> list[str]:
        return jobs if account == "ann" else []

    monkeypatch.setattr(rig.parts.datasets._publisher._tasks, "running", running)
    answer = await ann.post("/datasets", json={"name": "busy", "path": "busy"})
    assert answer.status_code == 409
    assert "j0000000000000001" in answer.json()["detail"]
    assert (await publish(ann, "busy", "busy", copy=True))["state"] == "ready"
    # One that starts while the files are taken over may have opened one before.
    jobs.clear()
    take_over = Publication.take_over

    def starting(self: Any) -> None:
        jobs.append("j0000000000000002")
        take_over(self)

    monkeypatch.setattr(Publication, "take_over", starting)
    version = await publish(ann, "busy", "busy")
    assert version["state"] == "failed"
    assert "j0000000000000002" in version["problem"]
    assert (rig.layout.home("ann") / "busy" / "a").stat().st_uid == who(rig, "ann")[0]


@needs_root
async def test_two_who_publish_one_name_at_once(rig: Rig, ann: httpx.AsyncClient, bob: httpx.AsyncClient):
    await a_folder(rig, ann, "race", {"a": b"ann"})
    await a_folder(rig, bob, "race", {"a": b"bob"}, who="bob")
    body = {"name": "race", "path": "race"}
    answers = await asyncio.gather(ann.post("/datasets", json=body), bob.post("/datasets", json=body))
    assert sorted(a.status_code for a in answers) == [202, 409]
    winner, name = (ann, b"ann") if answers[0].status_code == 202 else (bob, b"bob")
    assert (await settled(winner, "race"))["state"] == "ready"
    assert (rig.layout.dataset("race", "1") / "a").read_bytes() == name
    refused = next(a for a in answers if a.status_code == 409)
    assert "taken" in refused.json()["detail"]
    assert "ann" not in refused.json()["detail"]


@needs_root
async def test_who_may_see_and_change_it(rig: Rig, ann: httpx.AsyncClient, bob: httpx.AsyncClient):
    await a_folder(rig, ann, "shared", {"a": b"1"})
    await publish(ann, "shared", "shared", description="<script>alert(1)</script> secret words")
    carl = await rig.client("carl")
    account = rig.parts.accounts.get("bob")
    assert account is not None

    async def sees(client: httpx.AsyncClient) -> bool:
        one = (await client.get("/datasets/shared")).status_code == 200
        checksums = (await client.get("/datasets/shared/1/checksums")).status_code == 200
        listed = "shared" in [d["name"] for d in (await client.get("/datasets")).json()["datasets"]]
        assert one == checksums == listed
        return one

    assert not await sees(bob)
    assert await rig.parts.datasets.find(account, "shared") is None
    assert (await bob.patch("/datasets/shared", json={"public": True})).status_code == 404
    assert (await bob.delete("/datasets/shared")).status_code == 404
    share = {"shared_with": {"users": ["bob"], "groups": []}}
    assert (await ann.patch("/datasets/shared", json=share)).json()["shared_with"]["users"] == ["bob"]
    assert await sees(bob)
    assert not await sees(carl)
    assert await rig.parts.datasets.find(account, "shared") == ("shared", "1")
    assert (await bob.patch("/datasets/shared", json={"public": True})).status_code == 403
    assert (await bob.delete("/datasets/shared")).status_code == 403
    assert (await bob.post("/datasets", json={"name": "shared", "path": "shared"})).status_code == 409
    assert (await ann.patch("/datasets/shared", json={"shared_with": {"users": ["nobody-here"]}})).status_code == 400
    carls = rig.parts.accounts.get("carl")
    assert carls is not None
    groups = rig.parts.datasets._groups
    await groups.create(carls, "lab", ["carl"])  # type: ignore[attr-defined]
    await ann.patch("/datasets/shared", json={"shared_with": {"groups": ["lab"]}})
    assert not await sees(bob)
    assert await sees(carl)
    await ann.patch("/datasets/shared", json={"public": True})
    assert await sees(bob)
    found = (await bob.get("/datasets", params={"q": "SECRET w"})).json()["datasets"]
    assert [d["name"] for d in found] == ["shared"]
    assert (await bob.get("/datasets/shared")).json()["shared_with"] == {"users": [], "groups": []}


async def test_a_later_group_of_a_name_does_not_inherit_what_an_earlier_one_saw(
    rig: Rig, ann: httpx.AsyncClient, bob: httpx.AsyncClient
):
    await a_folder(rig, ann, "of-lab", {"a": b"1"})
    await publish(ann, "of-lab", "of-lab")
    admin = await rig.client("boss", admin=True)
    group = {"name": "short-lived", "members": ["bob"]}
    assert (await admin.post("/groups", json=group)).status_code == 201
    share = {"shared_with": {"groups": ["short-lived"]}}
    assert (await ann.patch("/datasets/of-lab", json=share)).status_code == 200
    assert (await bob.get("/datasets/of-lab")).status_code == 200
    assert (await admin.delete("/groups/short-lived")).status_code == 204
    assert (await ann.get("/datasets/of-lab")).json()["shared_with"]["groups"] == []
    assert (await admin.post("/groups", json=group)).status_code == 201
    assert (await bob.get("/datasets/of-lab")).status_code == 404
    refused = await ann.patch("/datasets/of-lab", json={"shared_with": {"groups": ["gone"]}, "public": True})
    assert refused.status_code == 400
    assert (await ann.get("/datasets/of-lab")).json()["public"] is False


async def test_an_unknown_dataset_is_answered_with_what_the_account_may_use(
    rig: Rig, ann: httpx.AsyncClient, bob: httpx.AsyncClient
):
    await a_folder(rig, ann, "faces", {"a": b"1"})
    for _ in range(2):
        await publish(ann, "celebrity-faces", "faces")
    by_hand = rig.layout.root / "datasets" / "street-signs" / "v1"
    by_hand.mkdir(parents=True)

    async def told(client: httpx.AsyncClient, name: str) -> tuple[str, str]:
        document = a_job_file("t")
        document["tasks"][0]["datasets"] = [name]
        (problem,) = (await client.post("/jobs?dry_run=true", json=document)).json()["errors"]
        return problem["message"], problem["suggestion"]

    message, suggestion = await told(ann, "celebrity-face")
    assert message.endswith("Did you mean `celebrity-faces`?")
    assert suggestion == "celebrity-faces"
    message, suggestion = await told(ann, "celebrity-faces@7")
    assert message.endswith("`celebrity-faces` has the versions `2` and `1`.")
    assert suggestion == "celebrity-faces@2"
    assert (await told(bob, "street-sings"))[1] == "street-signs"
    for name in ("celebrity-face", "celebrity-faces@7"):
        assert await told(bob, name) == (f"There is no dataset `{name}` that you may use.", "")


@needs_root
async def test_what_jobs_need_is_not_deleted_under_them(rig: Rig):
    dora = await rig.client("dora")
    await a_folder(rig, dora, "needed", {"a": b"1"}, who="dora")
    await publish(dora, "needed", "needed")
    uses = rig.parts.datasets._uses
    job = await submit(dora, "t")
    await uses.hold("key-1", "dora", [Ref("dataset", "needed@1")])
    await uses.confirm("key-1", job)
    answer = await dora.delete("/datasets/needed")
    assert (answer.status_code, answer.json()["slug"]) == (409, "dataset-in-use")
    assert job in answer.json()["detail"]
    detail = (await dora.get("/datasets/needed")).json()
    assert detail["versions"][0]["live_jobs"] == [job]
    assert [(use["account"], use["jobs"]) for use in detail["used_by"]] == [("dora", 1)]
    answer = await dora.delete("/datasets/needed", params={"wait": "true"})
    assert (answer.status_code, answer.json()) == (202, {"live_jobs": [job]})
    assert (await dora.get("/datasets/needed")).status_code == 404
    account = rig.parts.accounts.get("dora")
    assert account is not None
    assert await rig.parts.datasets.find(account, "needed") is None
    assert (rig.layout.dataset("needed", "1") / "a").read_bytes() == b"1", "the job still has it"
    ended = jm.Job(id=job, owner="dora", state="CANCELLED", ended_at=1_800_000_000.0)
    uses.on_jobs(jm.JobChanges(changes=[jm.JobChange(job=ended)]))
    await eventually(lambda: not rig.layout.dataset("needed", "1").exists() and nothing_on_the_way(rig))


@needs_root
async def test_folders_that_an_admin_put_there_go_on_working(rig: Rig, ann: httpx.AsyncClient):
    for version, at in (("2020", 1000), ("2021", 2000)):
        folder = rig.layout.dataset("By-Hand", version)
        folder.mkdir(parents=True)
        os.utime(folder, (at, at))
    account = rig.parts.accounts.get("ann")
    assert account is not None
    assert await rig.parts.datasets.find(account, "By-Hand") == ("By-Hand", "2021")
    assert await rig.parts.datasets.find(account, "By-Hand@2020") == ("By-Hand", "2020")
    assert await rig.parts.datasets.find(account, "../homes") is None
    detail = (await ann.get("/datasets/By-Hand")).json()
    assert (detail["owner"], detail["public"], detail["may_change"]) == ("", True, False)
    assert [v["version"] for v in detail["versions"]] == ["2020", "2021"]
    assert "By-Hand" in [d["name"] for d in (await ann.get("/datasets")).json()["datasets"]]
    assert (await ann.delete("/datasets/By-Hand")).status_code == 403
    rig.layout.dataset("lower", "1").mkdir(parents=True)
    await a_folder(rig, ann, "x1", {"a": b""})
    assert (await ann.post("/datasets", json={"name": "lower", "path": "x1"})).status_code == 409
    assert rig.layout.dataset("lower", "1").exists()


@needs_root
@pytest.mark.parametrize("step", ["collect", "take_over", "check", "placed"])
async def test_a_kill_at_any_step_is_finished_after_the_next_start(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, step: str
):
    name = f"killed-{step.replace('_', '-')}"
    folder = await a_folder(rig, ann, name, {"a": b"1", "b/c": b"2"})
    (folder / "a").chmod(0o600)
    reached, killed = asyncio.Event(), rig.parts.datasets._publisher
    loop = asyncio.get_running_loop()

    def dies(original: Callable[..., Any]) -> Callable[..., Any]:
        def dying(self: Any, *args: Any) -> Any:
            original(self, *args)
            loop.call_soon_threadsafe(reached.set)
            raise publisher._Ended  # nothing more of this process happens

        return dying

    with monkeypatch.context() as patch:
        if step == "placed":
            patch.setattr(staging.VersionFolders, "publish", dies(staging.VersionFolders.publish))
        else:
            patch.setattr(Publication, step, dies(getattr(Publication, step)))
        assert (await ann.post("/datasets", json={"name": name, "path": name})).status_code == 202
        await reached.wait()
        await eventually(lambda: not killed._work)
    state = (await ann.get(f"/datasets/{name}")).json()["versions"][0]
    assert state["state"] == "publishing"
    assert rig.layout.dataset(name, "1").exists() == (step == "placed")
    await killed._recover()
    version = await settled(ann, name)
    assert (version["state"], version["files"], version["problem"]) == ("ready", 2, None)
    assert nothing_on_the_way(rig)
    assert (await ann.delete(f"/datasets/{name}")).status_code == 204
    await eventually(lambda: nothing_on_the_way(rig))
    info = (folder / "a").stat()
    assert (info.st_uid, stat.S_IMODE(info.st_mode)) == (who(rig, "ann")[0], 0o600)


@needs_root
async def test_a_server_that_stops_in_the_middle_goes_on_after_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reached = threading.Event()

    def never(self: Any) -> None:
        reached.set()
        while True:
            self._stop()
            time.sleep(0.01)

    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        folder = await a_folder(rig, ann, "data", {"a": b"1"})
        with monkeypatch.context() as patch:
            patch.setattr(Publication, "check", never)
            assert (await ann.post("/datasets", json={"name": "data", "path": "data"})).status_code == 202
            await eventually(reached.is_set)
            assert (folder / "a").stat().st_uid == 0
            await rig.parts.datasets._publisher.close()
        assert not nothing_on_the_way(rig)
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        assert (await settled(ann, "data"))["state"] == "ready"
        assert nothing_on_the_way(rig)
        assert (await ann.delete("/datasets/data")).status_code == 204
        await eventually(lambda: (folder / "a").stat().st_uid == who(rig, "ann")[0])


@needs_root
async def test_deleting_what_is_being_published_stops_it(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    folder = await a_folder(rig, ann, "stopped", {"a": b"1", "b": b"2"})
    reached, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    take_over = Publication.take_over

    def waiting(self: Any) -> None:
        take_over(self)
        loop.call_soon_threadsafe(reached.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()

    monkeypatch.setattr(Publication, "take_over", waiting)
    assert (await ann.post("/datasets", json={"name": "stopped", "path": "stopped"})).status_code == 202
    await reached.wait()
    deleting = asyncio.ensure_future(ann.delete("/datasets/stopped"))
    await eventually(lambda: rig.parts.datasets._publisher._work["stopped@1"].cancelled)
    go.set()
    assert (await deleting).status_code == 204
    await eventually(lambda: nothing_on_the_way(rig))
    assert (await ann.get("/datasets/stopped")).status_code == 404
    assert (folder / "a").stat().st_uid == who(rig, "ann")[0]
