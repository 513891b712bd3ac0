"""Twenty kinds of links in one account's space, aimed at another's, and each call that takes a path of a space."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.integration.http_rig import Rig, a_rig
from tests.support.waiting import eventually

SECRET = "kept-by-ann"
JSON = {"Content-Type": "application/json"}


def point_at(target: str) -> Callable[[Path], None]:
    return lambda link: link.symlink_to(target)


def chain(length: int, target: str) -> Callable[[Path], None]:
    def make(link: Path) -> None:
        for number in range(length):
            step = link.with_name(f".{link.name}-{number}")
            step.unlink(missing_ok=True)
            step.symlink_to(target if number == 0 else f".{link.name}-{number - 1}")
        link.symlink_to(f".{link.name}-{length - 1}")

    return make


def kinds(homes: Path) -> dict[str, Callable[[Path], None]]:
    """How each kind of link is made; the name under which it lies in the space."""
    ann = homes / "ann"
    return {
        "file-relative": point_at("../ann/secret"),
        "file-absolute": point_at(f"{ann}/secret"),
        "folder-relative": point_at("../ann"),
        "folder-absolute": point_at(str(ann)),
        "folder-slash": point_at("../ann/"),
        "inner-folder": point_at("../ann/folder"),
        "parent": point_at(".."),
        "mount": point_at("../.."),
        "root": point_at("/"),
        "dots": point_at("./real/../.././ann/./folder"),
        "double-slash": point_at("..//ann//folder"),
        "through-own-folder": point_at("real/out"),
        "chain": chain(3, "../ann/folder"),
        "long-chain": chain(45, "../ann/folder"),
        "ring": point_at("ring"),
        "new-file": point_at("../ann/new"),
        "trash": point_at("../ann/.headway-trash"),
        "process-root": point_at(f"/proc/self/root{ann}"),
        "process-folder": point_at("/proc/self/cwd"),
        "name of bytes \udcff": point_at(f"{ann}/folder"),
        "inside-a-task": point_at("/root/nfs/../ann/secret"),
        "hidden-name": point_at("../ann/folder/.."),
    }


def calls(link: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Each call that takes a path of a space, with the link as the path's end, in it, and as a target."""
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "7"}
    named = [link, f"{link}/secret", f"{link}/ann/secret", f"{link}/folder/f"]
    found: list[tuple[str, str, dict[str, Any]]] = []
    for path in named:
        encoded = base64.b64encode(path.encode("utf-8", "surrogateescape")).decode()
        found += [
            ("GET", path, {}),
            ("PUT", f"{path}/stolen", {"content": b"stolen!", "params": {"parents": "true"}}),
            ("POST", path, {"params": {"op": "move"}, "content": json.dumps({"to": "taken"}), "headers": JSON}),
            ("POST", "own", {"params": {"op": "move"}, "content": json.dumps({"to": f"{path}/own"}), "headers": JSON}),
            ("POST", f"{path}/made", {"params": {"op": "mkdir"}}),
            ("UPLOAD", "", {"headers": {**tus, "Upload-Metadata": f"path {encoded}"}, "content": b""}),
        ]
        if path != link:
            found += [
                ("PUT", path, {"content": b"stolen!"}),
                ("DELETE", path, {"params": {"recursive": "true", "permanent": "true"}}),
            ]
    return found


def tree(folder: Path) -> list[tuple[str, int, bytes]]:
    """All that lies there, with owner and bytes."""
    return sorted(
        (str(path), path.lstat().st_uid, path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
        for path in folder.rglob("*")
    )


async def send(client: httpx.AsyncClient, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
    if method != "UPLOAD":
        # As percent-encoded bytes: names need not be UTF-8.
        url = "/files/" + "".join(f"%{byte:02x}" for byte in os.fsencode(path))
        return await client.request(method, url, timeout=10, **options)
    made = await client.post("/uploads/files", **options)
    if made.status_code == 201:
        headers = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
        return await client.patch(made.headers["location"].removeprefix("/api/v1"), headers=headers, content=b"stolen!")
    return made


async def test_no_link_leads_into_the_space_of_another(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        ann, bob = await rig.client("ann"), await rig.client("bob")
        await ann.put("/files/secret", content=SECRET.encode())
        await ann.put("/files/folder/f", content=SECRET.encode(), params={"parents": "true"})
        await bob.put("/files/own", content=b"own")
        hers, his = rig.layout.home("ann"), rig.layout.home("bob")
        made = kinds(hers.parent)
        assert len(made) >= 20
        before, tried, wrong = tree(hers), 0, []
        for name, make in made.items():
            for method, path, options in calls(name):
                await lay_out(his, name, make)
                answer = await send(bob, method, path, options)
                tried += 1
                if SECRET.encode() in answer.content or answer.status_code >= 500:
                    wrong.append(f"{method} {path!a} {options}: {answer.status_code} {answer.text[:200]}")
                if tree(hers) != before:
                    wrong.append(f"{method} {path!a} {options}: {answer.status_code}, her space has changed")
                    before = tree(hers)
        assert wrong == []
        assert tried >= 300
        assert await _published(rig, bob, his, made) == []


async def lay_out(home: Path, name: str, make: Callable[[Path], None]) -> None:
    """The link as it was, whatever the last call has made of it; an upload may still be at it."""
    (home / "real").mkdir(exist_ok=True)
    (home / "own").write_text("own")
    for path, again in ((home / "real" / "out", point_at("../../ann/folder")), (home / name, make)):

        def laid_out(path: Path = path, again: Callable[[Path], None] = again) -> bool:
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                path.unlink(missing_ok=True)
                again(path)
            except OSError:
                return False
            return True

        await eventually(laid_out)


async def _published(rig: Rig, bob: httpx.AsyncClient, his: Path, made: dict[str, Callable[[Path], None]]) -> list[str]:
    """Datasets of a folder with each link, and of each link itself; what was taken, and where her bytes lie then."""
    found = []
    for number, (name, make) in enumerate(made.items()):
        folder = his / f"folder-{number}"
        folder.mkdir()
        make(folder / "link")
        await lay_out(his, name, make)
        for path in (folder.name, os.fsencode(name).decode("utf-8", "replace")):
            answer = await bob.post("/datasets", json={"name": "stolen", "version": "1", "path": path})
            if answer.status_code not in (404, 422):
                found.append(f"{path!a}: {answer.status_code} {answer.text[:200]}")
    hers = rig.layout.home("ann")
    files = (path for path in rig.layout.root.rglob("*") if path.is_file() and not path.is_symlink())
    return found + [str(path) for path in files if hers not in path.parents and SECRET.encode() in path.read_bytes()]
