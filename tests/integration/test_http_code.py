"""Snapshots of code over HTTP: frozen, sent once, seen by their own account, gone when nobody needs them."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import stat
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headway.client import Client, NoService, Profile
from headway.client import code as client_code
from headway.client.code_cache import HashCache
from headway.errors import TooLarge
from headway.snapshot import SnapFile
from httpserver.code import store as code_store
from httpserver.uses.service import Ref
from tests.integration.http_rig import Rig, a_job_file, a_rig, submit

pytestmark = pytest.mark.asyncio(loop_scope="module")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory, both_databases: None) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("code")
    for each in (folder, *folder.parents):
        if str(each).startswith("/tmp/") and os.geteuid() == 0:
            each.chmod(0o755)
    async with a_rig(folder, code_max_files=50, code_max_bytes=100_000) as rig:
        yield rig


@pytest.fixture
async def ann(rig: Rig) -> httpx.AsyncClient:
    return await rig.client("ann")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def a_file(path: str, content: bytes, *, executable: bool = False, **other: Any) -> dict[str, Any]:
    return {"path": path, "sha256": sha(content), "size_bytes": len(content), "executable": executable, **other}


def a_tar(members: Iterable[tuple[str, bytes]]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


async def send(client: httpx.AsyncClient, *contents: bytes) -> httpx.Response:
    archive = a_tar((sha(content), content) for content in contents)
    return await client.put("/code/blobs", content=archive, headers={"Content-Type": "application/x-tar"})


async def offer(client: httpx.AsyncClient, *files: dict[str, Any], links: Iterable[Any] = ()) -> dict[str, Any]:
    answer = await client.post("/code", json={"files": list(files), "links": list(links)})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_what_is_missing_is_asked_for_and_then_the_snapshot_is_there(rig: Rig, ann: httpx.AsyncClient):
    files = [
        a_file("main.py", b"print(1)\n"),
        a_file("bin/run", b"#!", executable=True),
        a_file("copy.py", b"print(1)\n"),
    ]
    links = [{"path": "bin/main", "target": "../main.py"}]
    first = await offer(ann, *files, links=links)
    assert (first["ready"], first["missing"]) == (False, [sha(b"print(1)\n"), sha(b"#!")])
    assert (first["files"], first["size_bytes"]) == (3, 20)
    account = rig.parts.accounts.get("ann")
    assert account is not None
    assert not await rig.parts.code.find(account, first["digest"])
    assert (await send(ann, b"print(1)\n")).json() == {"stored": 1}
    assert (await offer(ann, *files, links=links))["missing"] == [sha(b"#!")]
    await send(ann, b"#!")
    ready = await offer(ann, *files, links=links)
    assert (ready["ready"], ready["missing"], ready["digest"]) == (True, [], first["digest"])
    tree = rig.layout.code("ann", ready["digest"])
    assert (tree / "main.py").stat().st_ino == (tree / "copy.py").stat().st_ino, "one content is stored once"
    assert os.readlink(tree / "bin" / "main") == "../main.py"
    modes = {
        p.relative_to(tree).as_posix(): stat.S_IMODE(p.lstat().st_mode) for p in tree.rglob("*") if not p.is_symlink()
    }
    assert modes == {"main.py": 0o444, "copy.py": 0o444, "bin": 0o555, "bin/run": 0o555}
    assert stat.S_IMODE(tree.stat().st_mode) == 0o555
    assert await rig.parts.code.find(account, ready["digest"])
    # The same again costs nothing, and another one shares what is the same.
    assert (await offer(ann, *files, links=links))["ready"]
    assert (await offer(ann, *files[:2], a_file("new.py", b"#!")))["ready"], (
        "an executable content also serves a plain file"
    )
    listed = (await ann.get("/code")).json()
    assert ready["digest"] in [s["digest"] for s in listed["snapshots"]]
    assert (listed["max_files"], listed["max_bytes"]) == (50, 100_000)


@needs_root
async def test_its_account_reads_it_and_nobody_else_and_nobody_changes_it(rig: Rig, ann: httpx.AsyncClient):
    await send(ann, b"secret algorithm")
    answer = await offer(ann, a_file("d/a.py", b"secret algorithm"))
    tree = rig.layout.code("ann", answer["digest"])
    bob = await rig.client("bob")
    accounts = {name: rig.parts.accounts.get(name) for name in ("ann", "bob")}

    def as_(name: str, script: str) -> subprocess.CompletedProcess[bytes]:
        account = accounts[name]
        assert account is not None
        words = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", "sh", "-c", script]
        return subprocess.run(words, capture_output=True, check=False)

    assert as_("ann", f"cat {tree}/d/a.py").stdout == b"secret algorithm"
    assert as_("bob", f"cat {tree}/d/a.py").returncode != 0
    for script in ("echo x > {}/d/a.py", "rm -f {}/d/a.py", "touch {}/d/new", "chmod u+w {}/d", "mv {}/d {}/e"):
        assert as_("ann", script.format(tree, tree)).returncode != 0, script
    found = rig.parts.accounts.get("bob")
    assert found is not None
    assert not await rig.parts.code.find(found, answer["digest"])
    # What one account has sent tells no other that it exists.
    assert (await offer(bob, a_file("d/a.py", b"secret algorithm")))["missing"] == [sha(b"secret algorithm")]


async def test_bad_contents_are_refused_and_what_was_good_before_stays(rig: Rig, ann: httpx.AsyncClient):
    good, wrong = b"good content", b"other"
    headers = {"Content-Type": "application/x-tar"}
    answer = await ann.put("/code/blobs", content=a_tar([(sha(good), good), (sha(b"x"), wrong)]), headers=headers)
    assert (answer.status_code, answer.json()["slug"]) == (422, "blob-refused")
    assert sha(b"x") in answer.json()["detail"]
    assert (await offer(ann, a_file("a", good), a_file("b", b"x")))["missing"] == [sha(b"x")]
    whole = a_tar([(sha(b"y" * 2000), b"y" * 2000)])
    link = tarfile.TarInfo(sha(b"l"))
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(link)
    bad = {
        "cut": whole[:1024],
        "zip": b"PK\3\4" + bytes(600),
        "empty": b"",
        "path": a_tar([("../../x", b"x")]),
        "name": a_tar([("x" * 64, b"x")]),
        "link": file.getvalue(),
    }
    for name, content in bad.items():
        answer = await ann.put("/code/blobs", content=content, headers=headers)
        assert (answer.status_code, answer.json()["slug"]) == (422, "blob-refused"), name
    left = [p.name for p in rig.layout.code_of("ann").rglob(".*")]
    assert left == [], "nothing half is left"


async def test_manifests_that_lead_out_are_refused_with_all_that_is_wrong(ann: httpx.AsyncClient):
    for files, links, word in (
        ([a_file("../x", b"")], [], "../x"),
        ([a_file("/etc/x", b"")], [], "/etc/x"),
        ([a_file("a", b""), a_file("a/b", b"")], [], "no folder"),
        ([a_file("a", b""), a_file("a", b"1")], [], "twice"),
        ([], [{"path": "l", "target": "/etc"}], "link out"),
        ([], [{"path": "l", "target": "a/../../b"}], "link out"),
        ([], [{"path": "d", "target": "."}, {"path": "d/x", "target": "y"}], "no folder"),
        ([], [], "nothing"),
        ([a_file("a", b"", sha256="A" * 64)], [], ""),
        ([a_file("a", b"", nonsense=1)], [], ""),
    ):
        answer = await ann.post("/code", json={"files": files, "links": links})
        assert answer.status_code in (400, 422), (files, links)
        assert word in answer.text
    many = [a_file(f"lib/f{i}", b"") for i in range(60)]
    answer = await ann.post("/code", json={"files": many})
    assert answer.status_code == 413
    assert "lib (60 files)" in answer.json()["detail"]
    answer = await ann.post("/code", json={"files": [a_file("w/model", b"", size_bytes=200_000)]})
    assert answer.status_code == 413
    assert "w (195.3 KiB)" in answer.json()["detail"]


async def test_a_size_that_is_not_its_contents_is_refused(rig: Rig, ann: httpx.AsyncClient):
    await send(ann, b"12345")
    answer = await ann.post("/code", json={"files": [a_file("a", b"12345", size_bytes=4)]})
    assert (answer.status_code, answer.json()["slug"]) == (422, "blob-refused")
    assert [p.name for p in rig.layout.code_of("ann").iterdir() if p.name.startswith(".")] == []


async def test_unused_snapshots_go_and_needed_ones_stay(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await send(ann, b"old", b"both", b"live", b"never used")
    old = await offer(ann, a_file("a", b"old"), a_file("b", b"both"))
    live = await offer(ann, a_file("a", b"live"), a_file("b", b"both"))
    code, uses = rig.parts.code, rig.parts.code._uses
    job = await submit(ann, "t")
    ref = Ref("code", f"ann/{live['digest']}")
    await uses.hold("key-c", "ann", [ref])
    await uses.confirm("key-c", job)
    blobs = rig.layout.code_of("ann") / "blobs"
    (rig.layout.code_of("ann") / ".tree-0123").mkdir()  # as a kill left it
    (blobs / ".incoming-0123").write_bytes(b"half")
    code._swept = False
    monkeypatch.setattr(code_store, "_UNUSED_BLOB_S", -1.0)
    later = rig.parts.clock.now() + 31 * 86400
    monkeypatch.setattr(code, "_clock", type("Later", (), {"now": lambda self: later})())
    await code.collect()
    assert not rig.layout.code("ann", old["digest"]).exists()
    assert (rig.layout.code("ann", live["digest"]) / "a").read_bytes() == b"live"
    there = {p.name.removesuffix("-x") for p in blobs.iterdir()}
    assert {sha(b"live"), sha(b"both")} <= there
    assert not {sha(b"old"), sha(b"never used")} & there
    assert list(rig.layout.code_of("ann").rglob(".*")) == []
    assert [s["digest"] for s in (await ann.get("/code")).json()["snapshots"]] == [live["digest"]]


async def test_a_snapshot_whose_row_a_kill_took_is_found_again(rig: Rig, ann: httpx.AsyncClient):
    await send(ann, b"adopted")
    answer = await offer(ann, a_file("a", b"adopted"))
    from httpserver.code.service import _drop

    await rig.parts.code._db.write(lambda conn: _drop(conn, "ann", answer["digest"]))
    await rig.parts.code.collect()
    assert answer["digest"] in [s["digest"] for s in (await ann.get("/code")).json()["snapshots"]]


async def test_a_content_with_all_the_names_it_can_have_goes_on_working(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """ext4 has 65,000 names for a file, and every package has an empty __init__.py."""
    await send(ann, b"popular")
    link = os.link

    def full(source: Any, target: Any, **kwargs: Any) -> None:
        if str(source).endswith(sha(b"popular")) and os.stat(source).st_nlink >= 3:
            raise OSError(31, "Too many links", str(source))
        link(source, target, **kwargs)

    monkeypatch.setattr(os, "link", full)
    answer = await offer(ann, *(a_file(f"f{i}", b"popular") for i in range(7)))
    tree = rig.layout.code("ann", answer["digest"])
    assert {p.read_bytes() for p in tree.iterdir()} == {b"popular"}


async def test_a_submit_may_name_the_code_of_all_tasks_that_name_none(rig: Rig, ann: httpx.AsyncClient):
    await send(ann, b"one", b"two")
    one, two = [(await offer(ann, a_file("a", content)))["digest"] for content in (b"one", b"two")]
    job = a_job_file("plain", "own")
    job["tasks"][1]["code"] = two
    answer = await ann.post("/jobs", json=job, params={"code": one})
    assert answer.status_code == 201, answer.text
    tasks = (await ann.get(f"/jobs/{answer.json()['id']}/spec")).json()["tasks"]
    assert {task["name"]: task["code"] for task in tasks} == {"plain": one, "own": two}
    assert (await ann.post("/jobs", json=job, params={"code": "latest"})).status_code == 400


# -- the client ---------------------------------------------------------------------------------


@pytest.fixture
async def http(rig: Rig) -> AsyncIterator[Client]:
    with Client(Profile(url=rig.url, token=await rig.account("ann"))) as client:
        yield client


def a_folder(root: Path, **files: bytes) -> Path:
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        (root / name).write_bytes(content)
    return root


async def test_the_client_sends_each_content_once_whatever_breaks(
    rig: Rig, http: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = a_folder(tmp_path / "code", a=b"client a" * 99, b=b"client b" * 99, c=b"client c" * 99, d=b"client a" * 99)
    monkeypatch.setattr(client_code, "_BATCH_BYTES", 1000)
    monkeypatch.setattr(client_code.time, "sleep", lambda seconds: None)
    put, sent = client_code._put, []

    def cut(client: Client, archive: Any, size: int) -> None:
        with tarfile.open(fileobj=archive) as tar:
            sent.append(tar.getnames())
        archive.seek(0)
        if len(sent) == 2:
            raise NoService("the line is cut")
        put(client, archive, size)
        if len(sent) == 3:
            raise NoService("it was stored, and the answer is lost")

    monkeypatch.setattr(client_code, "_put", cut)
    seen: list[tuple[int, int]] = []
    cache = HashCache(tmp_path / "cache.json")
    packed = await asyncio.to_thread(
        client_code.upload_code, http, folder, on_progress=lambda done, total: seen.append((done, total)), cache=cache
    )
    a, b, c = (sha(f"client {x}".encode() * 99) for x in "abc")
    assert sent == [[a], [b], [b], [c]], "only what is missing"
    assert seen[-1][0] == seen[-1][1]
    assert (rig.layout.code("ann", packed.digest) / "d").read_bytes() == b"client a" * 99
    sent.clear()
    (folder / "c").write_bytes(b"new c")
    await asyncio.to_thread(client_code.upload_code, http, folder, cache=cache)
    assert sent == [[sha(b"new c")]]


async def test_a_file_that_changes_while_it_is_sent_is_read_again(
    rig: Rig, http: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = a_folder(tmp_path / "code", a=b"before")
    pack = client_code.pack
    times: list[int] = []

    def packing(*args: Any, **kwargs: Any) -> client_code.PackedCode:
        found = pack(*args, **kwargs)
        if not times:
            (folder / "a").write_bytes(b"after!")
        times.append(1)
        return found

    monkeypatch.setattr(client_code, "pack", packing)
    packed = await asyncio.to_thread(client_code.upload_code, http, folder, cache=HashCache(None))
    assert len(times) == 2
    assert packed.files == (SnapFile("a", sha(b"after!"), 6, False),)
    assert (rig.layout.code("ann", packed.digest) / "a").read_bytes() == b"after!"


async def test_the_servers_limits_are_told_before_anything_is_sent(http: Client, tmp_path: Path):
    folder = a_folder(tmp_path / "code", big=b"x" * 100_001)
    with pytest.raises(TooLarge, match=r"97.7 KiB of files and 97.7 KiB are allowed"):
        await asyncio.to_thread(client_code.upload_code, http, folder, cache=HashCache(None))
