"""Personal spaces over HTTP: every name, no way out, nothing half done."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import httpx
import pytest
import pytest_asyncio

from headway.mount import MountKind, MountState
from tests.integration.http_rig import Rig, a_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = [
    'a "quoted" name.txt',
    "semi;colon,comma",
    "line\nbreak\r\nX-Evil: 1",
    "back\\slash",
    "größe ü 日本 🎉.bin",
    "-rf",
    ".hidden",
    "percent %2e%2e %00",
    "x" * 255,
    "<svg onload=alert(1)>.html",
    b"\xff\xfe not utf-8".decode("utf-8", "surrogateescape"),
    "a?b#c&d=e",
    " ",
    "...",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("files")
    folder.chmod(0o700)  # as `headway up` makes it: no account passes the state folder
    async with a_rig(folder) as rig:
        yield rig


@pytest.fixture
async def ann(rig: Rig) -> httpx.AsyncClient:
    return await rig.client("ann")


def address(name: str) -> str:
    return "/files/" + quote(os.fsencode(name), safe="")


def home(rig: Rig, name: str = "ann") -> Path:
    return rig.layout.home(name)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_any_legal_name_comes_back_as_it_went_in(rig: Rig, ann: httpx.AsyncClient, name: str):
    """STO-05."""
    content = os.urandom(1000)
    assert (await ann.put(address(name), content=content)).status_code == 201
    listed = (await ann.get("/files/")).json()["entries"]
    entry = next(e for e in listed if unquote_to_bytes(e["encoded"]) == os.fsencode(name))
    assert (entry["kind"], entry["size_bytes"]) == ("file", 1000)
    answer = await ann.get("/files/" + entry["encoded"])
    assert answer.content == content
    assert answer.headers.get_list("content-disposition", split_commas=False) == [answer.headers["content-disposition"]]
    assert "x-evil" not in answer.headers
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers["content-type"] == "application/octet-stream"
    saved = re.search(r"filename\*=UTF-8''(\S+)$", answer.headers["content-disposition"])
    plain = re.search(r'filename="([^"]*)"', answer.headers["content-disposition"])
    assert unquote_to_bytes(saved[1]) == os.fsencode(name) if saved else plain and plain[1] == name
    assert (await ann.delete(address(name))).status_code == 204
    assert (await ann.get(address(name))).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "a/..%2f../x",
        "..",
        "a%00b",
        "y" * 256,
        "/".join(["z" * 200] * 30),
    ],
)
async def test_paths_that_go_up_or_are_none_are_refused(rig: Rig, path: str):
    token = await rig.account("ann")
    # By hand, since clients tidy such paths up before they send them.
    reader, writer = await asyncio.open_connection("127.0.0.1", int(rig.url.rsplit(":", 1)[1]))
    writer.write(
        f"GET /api/v1/files/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        "Connection: close\r\n\r\n".encode()
    )
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400"), answer[:300]
    assert b"root:" not in answer


async def test_links_are_shown_and_never_followed_out(rig: Rig, ann: httpx.AsyncClient):
    """STO-03."""
    bob = await rig.client("bob")
    await bob.put("/files/secret", content=b"bob's")
    await ann.put("/files/real/inside.txt", content=b"mine", params={"parents": "true"})
    folder = home(rig)
    outside = rig.folder / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    links = {
        "passwd": "/etc/passwd",
        "bobs": "../bob/secret",
        "up": "../..",
        "loop": "loop",
        "outside": str(outside),
        "proc": "/proc/self/root/etc/passwd",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    (folder / "good").symlink_to("real/inside.txt")
    entries = {e["name"]: e for e in (await ann.get("/files/")).json()["entries"]}
    assert {name: entries[name]["link_target"] for name in links} == links
    for name in (*links, "up/etc/passwd", "up/homes/bob/secret", "outside/kept"):
        answer = await ann.get(f"/files/{name}")
        assert answer.status_code == 403, name
        assert b"root:" not in answer.content
        assert ("in a circle" if name == "loop" else "make it relative (`ln -sr`)") in answer.json()["detail"]
    assert (await ann.get("/files/good")).content == b"mine"
    # Writing replaces the link, deleting takes the link, moving moves it: what it points at stays.
    assert (await ann.put("/files/passwd", content=b"x")).status_code == 200
    assert not (folder / "passwd").is_symlink()
    assert (await ann.put("/files/outside/new", content=b"x")).status_code == 403
    assert (await ann.post("/files/outside/new?op=mkdir")).status_code == 403
    assert (await ann.post("/files/real?op=move", json={"to": "outside/real"})).status_code == 403
    assert (await ann.delete("/files/outside/kept")).status_code == 403
    assert (await ann.delete("/files/outside", params={"recursive": "true"})).status_code == 204
    assert (outside / "kept").read_text() == "kept"
    (folder / "real" / "deep").symlink_to(outside)
    assert (await ann.delete("/files/real", params={"recursive": "true"})).status_code == 204
    assert (outside / "kept").read_text() == "kept"
    for name in ("bobs", "up", "loop", "proc", "good"):
        assert (await ann.delete(f"/files/{name}")).status_code == 204
    assert (await bob.get("/files/secret")).content == b"bob's"


async def test_pipes_sockets_and_devices_neither_hang_nor_open(rig: Rig, ann: httpx.AsyncClient):
    await ann.get("/files/")
    os.mkfifo(home(rig) / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home(rig) / "s"))
    for name in ("pipe", "s"):
        answer = await asyncio.wait_for(ann.get(f"/files/{name}"), 5)
        assert (answer.status_code, answer.json()["slug"]) == (409, "conflict"), name
    kinds = {e["name"]: e["kind"] for e in (await ann.get("/files/")).json()["entries"]}
    assert (kinds["pipe"], kinds["s"]) == ("other", "other")
    for name in ("pipe", "s"):
        assert (await ann.delete(f"/files/{name}")).status_code == 204
    listener.close()


async def test_files_belong_to_the_account_and_its_rights_hold(rig: Rig, ann: httpx.AsyncClient):
    """STO-01."""
    await ann.put("/files/mine", content=b"1")
    await ann.post("/files/folder/deep?op=mkdir")
    account = rig.parts.accounts.get("ann")
    assert account is not None
    # Without root there is no acting as somebody else: everything is the process's own.
    root = os.geteuid() == 0
    want = (account.uid, account.gid) if root else (os.geteuid(), os.getegid())
    for path in (home(rig), home(rig) / "mine", home(rig) / "folder" / "deep"):
        assert (path.stat().st_uid, path.stat().st_gid) == want
    assert stat.S_IMODE(home(rig).stat().st_mode) == 0o700
    if not root:
        return
    foreign = home(rig) / "roots"
    foreign.mkdir(mode=0o700)
    (foreign / "x").write_text("not ann's")
    assert (await ann.get("/files/roots")).status_code == 403
    assert (await ann.get("/files/roots/x")).status_code == 403
    assert (await ann.put("/files/roots/y", content=b"")).status_code == 403
    os.chown(foreign, account.uid, account.gid)
    assert (await ann.delete("/files/roots", params={"recursive": "true"})).status_code == 204
    # Threads that acted for ann are themselves again.
    await (await rig.client("bob")).put("/files/b", content=b"")
    assert (home(rig, "bob") / "b").stat().st_uid == rig.parts.accounts.get("bob").uid  # type: ignore[union-attr]


async def test_one_reaches_ones_own_space_only_and_admins_any(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/diary", content=b"dear")
    bob = await rig.client("bob")
    root = await rig.client("boss", admin=True)
    for method, path in (("GET", ""), ("GET", "diary"), ("PUT", "diary"), ("DELETE", "diary"), ("POST", "d")):
        params = {"account": "ann", **({"op": "mkdir"} if method == "POST" else {})}
        answer = await bob.request(method, f"/files/{path}", params=params)
        assert answer.status_code == 403, (method, path)
    assert (await bob.get("/files/diary")).status_code == 404
    assert (await root.get("/files/diary", params={"account": "ann"})).content == b"dear"
    assert (await root.get("/files/", params={"account": "nobody"})).status_code == 404
    assert (await root.get("/files/", params={"account": "../etc"})).status_code == 404


async def test_ranges_of_files(rig: Rig, ann: httpx.AsyncClient):
    content = bytes(range(256)) * 5000
    await ann.put("/files/large", content=content)
    for header, want in (("5-9", content[5:10]), ("-3", content[-3:]), ("1279990-", content[1279990:])):
        answer = await ann.get("/files/large", headers={"Range": f"bytes={header}"})
        assert (answer.status_code, answer.content) == (206, want)
    beyond = await ann.get("/files/large", headers={"Range": "bytes=1280000-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */1280000")
    await ann.put("/files/empty", content=b"")
    assert (await ann.get("/files/empty")).content == b""
    assert (await ann.get("/files/empty", headers={"Range": "bytes=0-"})).status_code == 416


async def test_an_upload_that_breaks_off_changes_nothing(rig: Rig, ann: httpx.AsyncClient):
    await ann.put("/files/kept", content=b"old")
    _, writer = await asyncio.open_connection("127.0.0.1", int(rig.url.rsplit(":", 1)[1]))
    token = await rig.account("ann")
    writer.write(
        f"PUT /api/v1/files/kept HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: 5000000\r\n\r\n".encode()
        + b"n" * 2_000_000
    )
    await writer.drain()

    def partial() -> list[Path]:
        return list(home(rig).glob(".headway-upload-*"))

    for _ in range(500):
        if partial():
            break
        await asyncio.sleep(0.01)
    assert (await ann.get("/files/kept")).content == b"old"
    writer.close()
    for _ in range(500):
        if not partial():
            break
        await asyncio.sleep(0.01)
    assert partial() == []
    assert (await ann.get("/files/kept")).content == b"old"


async def test_overwrite_mkdir_move_and_delete(rig: Rig, ann: httpx.AsyncClient):
    first = await ann.put("/files/w/a", content=b"1", params={"parents": "true"})
    assert (first.status_code, first.json()) == (201, {"path": "w/a", "size_bytes": 1})
    (home(rig) / "w" / "a").chmod(0o755)
    assert (await ann.put("/files/w/a", content=b"22")).status_code == 200
    assert stat.S_IMODE((home(rig) / "w" / "a").stat().st_mode) == 0o755
    assert (await ann.put("/files/w/a", content=b"3", params={"overwrite": "false"})).status_code == 409
    assert (await ann.put("/files/w", content=b"3")).status_code == 409
    assert (await ann.put("/files/w/a/b", content=b"3")).status_code == 409
    assert (await ann.put("/files/none/b", content=b"3")).status_code == 404
    assert (await ann.put("/files/", content=b"3")).status_code == 400
    assert (await ann.post("/files/w/deep/er?op=mkdir")).status_code == 200
    assert (await ann.post("/files/w/deep/er?op=mkdir")).status_code == 200
    assert (await ann.post("/files/w/a?op=mkdir")).status_code == 409
    moved = await ann.post("/files/w/a?op=move", json={"to": "/w/deep/b"})
    assert (moved.status_code, moved.json()["path"]) == (200, "w/deep/b")
    await ann.put("/files/w/a", content=b"new")
    assert (await ann.post("/files/w/a?op=move", json={"to": "w/deep/b"})).status_code == 409
    over = await ann.post("/files/w/a?op=move", json={"to": "w/deep/b", "overwrite": True})
    assert over.status_code == 200
    assert (await ann.get("/files/w/deep/b")).content == b"new"
    for bad in ("../x", "w/\0", ""):
        assert (await ann.post("/files/w?op=move", json={"to": bad})).status_code == 400
    assert (await ann.post("/files/w?op=move", json={"to": "w/deep/w"})).status_code == 400
    assert (await ann.post("/files/w?op=move")).status_code == 400
    assert (await ann.post("/files/w?op=copy")).status_code == 400
    assert (await ann.delete("/files/w")).status_code == 409
    assert (await ann.delete("/files/w", params={"recursive": "true"})).status_code == 204
    assert (await ann.delete("/files/w")).status_code == 404
    assert (await ann.delete("/files/", params={"recursive": "true"})).status_code == 400


async def test_long_folders_come_in_pages_and_deep_ones_can_be_deleted(rig: Rig, ann: httpx.AsyncClient):
    await ann.post("/files/long?op=mkdir")
    for i in range(25):
        (home(rig) / "long" / f"f{i:03d}").touch()
    names, cursor = [], ""
    for _ in range(3):
        page = (await ann.get("/files/long", params={"limit": 10, "cursor": cursor})).json()
        names += [entry["name"] for entry in page["entries"]]
        cursor = page["next_cursor"] or ""
    assert names == [f"f{i:03d}" for i in range(25)]
    assert cursor == ""
    account = rig.parts.accounts.get("ann")
    here = os.open(home(rig) / "long", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        if os.geteuid() == 0 and account is not None:
            os.chown("d", account.uid, account.gid, dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    answer = await ann.delete("/files/long", params={"recursive": "true"}, timeout=60)
    assert answer.status_code == 204, answer.text
    assert not (home(rig) / "long").exists()
    assert (await ann.delete("/trash", timeout=60)).status_code == 204
    assert list((home(rig) / ".headway-trash").iterdir()) == []


async def test_without_the_mount_it_is_503_and_nothing_is_written_to_the_bare_folder(tmp_path: Path):
    """STO-07."""
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        (rig.layout.root / ".headway-mount").rename(tmp_path / "marker")
        answer = await ann.put("/files/x", content=b"x")
        assert (answer.status_code, answer.json()["slug"]) == (503, "mount-unavailable")
        assert "shared mount" in answer.json()["detail"]
        assert list((rig.layout.root / "homes").iterdir()) == []
        (tmp_path / "marker").rename(rig.layout.root / ".headway-mount")
        assert (await ann.put("/files/x", content=b"x")).status_code == 201


async def test_a_full_disk_is_told_and_leaves_nothing(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    await ann.put("/files/kept2", content=b"old")

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("httpserver.files.space.os.write", full)
    answer = await ann.put("/files/kept2", content=b"new")
    assert (answer.status_code, answer.json()["slug"]) == (507, "disk-full")
    monkeypatch.undo()
    assert (await ann.get("/files/kept2")).content == b"old"
    assert list(home(rig).glob(".headway-upload-*")) == []


async def test_on_a_full_mount_people_can_look_and_make_room(
    rig: Rig, ann: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """All calls used to be refused, also the one that would have helped."""
    for name in ("big", "kept"):
        assert (await ann.put(f"/files/{name}", content=b"x")).status_code in (200, 201)
    rig.parts.homes._mount_good_until = -1e9
    monkeypatch.setattr("headway.mount.mount_state", lambda *_, **__: MountState(MountKind.FULL, "It is full."))
    for refused in (await ann.put("/files/more", content=b"x"), await ann.post("/files/f", params={"op": "mkdir"})):
        assert (refused.status_code, refused.json()["slug"]) == (507, "disk-full")
    assert (await ann.get("/files/kept")).content == b"x"
    assert {"big", "kept"} <= {entry["name"] for entry in (await ann.get("/files/")).json()["entries"]}
    assert (await ann.delete("/files/big")).status_code == 204
