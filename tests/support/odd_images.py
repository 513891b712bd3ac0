"""Images as people bring them, each with something odd where a task has its home; for docs/what-a-task-may.md.

All of them have the same small programs. Most have the same home, which their builder left there.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.archives import TinyImage, tiny_image
from tests.support.images import Entry, busybox_entries, layer

Layer = Sequence[Entry] | bytes
THIRD = 4242
_TMP = Entry("tmp", mode=0o1777)


@dataclass(frozen=True, slots=True)
class OddImage:
    """``users``: how tasks run it. ``answers``: where they differ from what a task may do in every image.

    ``ids``: uid and gid of a task with ``user: image``.
    """

    name: str
    layers: tuple[Layer, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    users: tuple[str, ...] = ("account",)
    answers: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[int, int] = (0, 0)

    @property
    def tag(self) -> str:
        return f"headway-test/odd-{self.name}:1"

    def image(self) -> TinyImage:
        settings = {"Env": ["PATH=/bin:/usr/bin"], **self.settings}
        return tiny_image(*self.layers, tags=(self.tag,), settings=settings)


def home(owner: int = 0, mode: int = 0o700) -> list[Entry]:
    """What a build leaves in /root, all of it closed to others; and one folder of somebody else's."""
    return [
        Entry("root", mode=mode, uid=owner, gid=owner),
        Entry("root/.cache", mode=0o700, uid=owner, gid=owner),
        Entry("root/.cache/old", b"old\n", mode=0o600, uid=owner, gid=owner),
        Entry("root/bin", mode=0o700, uid=owner, gid=owner),
        Entry("root/bin/tool", b"#!/bin/sh\necho tool\n", mode=0o700, uid=owner, gid=owner),
        Entry("root/link", link_to=".cache/old", uid=owner, gid=owner),
        Entry("root/out", link_to="/etc/passwd", uid=owner, gid=owner),
        Entry("root/others", mode=0o700, uid=THIRD, gid=THIRD),
        Entry("root/others/secret", b"secret\n", mode=0o600, uid=THIRD, gid=THIRD),
    ]


# What a folder without the builder's home can't show.
EMPTY = dict.fromkeys(("reads what is old", "runs a tool", "follows a link", "out of the home"), "no")


def odd_images() -> Iterator[OddImage]:
    """All of them, with what differs."""
    system = layer([entry for entry in busybox_entries() if entry.path.split("/")[0] not in ("root", "tmp")])
    bare = layer(
        [
            entry
            for entry in busybox_entries()
            if entry.path.split("/")[0] not in ("root", "tmp", "home") and entry.path not in ("etc/passwd", "etc/group")
        ]
    )
    plain, both = (system, [_TMP, *home()]), ("account", "image")

    def one(name: str, *layers: Layer, **more: Any) -> OddImage:
        return OddImage(name, layers or plain, **more)

    def volume(name: str, *paths: str, **more: Any) -> OddImage:
        return one(name, settings=_volumes(*paths), **more)

    def user(name: str, said: str, uid: int, gid: int, *layers: Layer, **more: Any) -> OddImage:
        return one(name, *layers, settings={"User": said}, users=both, ids=(uid, gid), **more)

    root_sees = {"sees others'": "yes"}
    yield one("plain")
    yield one("root-itself", users=("image",), answers=root_sees)
    yield volume("volume-root", "/root")
    yield volume("volume-root-slash", "/root/")
    yield volume("volume-cache", "/root/.cache")
    yield volume("volume-nfs", "/root/nfs")
    yield volume("volume-new", "/root/a/b/c")
    yield volume("volume-data", "/root/datasets")
    cache = Entry("cache", link_to="/root/.cache")
    yield one("volume-by-link", system, [_TMP, *home(), cache], settings=_volumes("/cache"))
    yield one("volume-twice", system, [_TMP, *home(), cache], settings=_volumes("/cache", "/root/.cache"))
    yield one(
        "volume-through-link",
        system,
        [_TMP, *home(), Entry("root/way", link_to=".cache")],
        settings=_volumes("/root/way", "/root/way/deep/er"),
    )
    yield one("places-of-others", system, [_TMP, *home(), *_of_others("root/nfs", "root/code", "root/datasets")])
    yield volume("volume-tmp", "/tmp")
    yield volume("volume-tmp-below", "/tmp/work", "/root/.cache", "/root", "/data")
    yield one("tmp-missing", system, home())
    yield one("tmp-0755", system, [Entry("tmp", mode=0o755), *home()])
    yield one("tmp-0700-of-1000", system, [Entry("tmp", mode=0o700, uid=1000), *home()])
    yield one("tmp-link", system, [Entry("var/tmp", mode=0o755), Entry("tmp", link_to="/var/tmp"), *home()])
    inside = Entry("tmp", link_to="/root/tmp")
    yield one("tmp-link-home", system, [*home(), Entry("root/tmp", mode=0o700, uid=7), inside])
    yield one("tmp-link-nowhere", system, [*home(), inside])
    yield one("root-of-1000", system, [_TMP, *home(1000)])
    yield one("root-missing", system, [_TMP], answers=EMPTY)
    yield one("root-0500", system, [_TMP, *home(mode=0o500)])
    yield user("user-1000", "1000", 1000, 1000)
    yield user("user-app", "app", 1000, 1000)
    yield user("user-of-its-own-home", "app", 1000, 1000, system, [_TMP, *home(1000)])
    yield one(
        "user-with-files",
        system,
        [_TMP, *home(), Entry("root/app", mode=0o700, uid=1000), Entry("root/app/x", b"mine\n", mode=0o600, uid=1000)],
        settings={"User": "1000"},
        users=("image",),
        answers={"reads what is its user's": "yes"},
        ids=(1000, 1000),
    )
    yield user("user-unknown", "1234", 1234, 0)
    yield user("user-unknown-group", "1234:77", 1234, 77)
    yield one(
        "user-1000-volume",
        settings={"User": "1000", "Volumes": {"/root": {}, "/root/.cache": {}, "/tmp": {}}},
        users=("image",),
        ids=(1000, 1000),
    )
    yield one("whiteout", *plain, [Entry("root/.cache/.wh.old", b"")], answers=_without_old())
    yield one("whiteout-root", *plain, [Entry(".wh.root", b"")], answers=EMPTY)
    yield one("whiteout-and-back", *plain, [Entry(".wh.root", b"")], [Entry("root", mode=0o755)], answers=EMPTY)
    yield one("opaque", *plain, [Entry("root"), Entry("root/.wh..wh..opq", b"")], answers=EMPTY)
    yield one(
        "opaque-below", *plain, [Entry("root/.cache"), Entry("root/.cache/.wh..wh..opq", b"")], answers=_without_old()
    )
    yield one("hard-link", system, [_TMP], _with_hard_link())
    # As many as the engine takes.
    yield one("layers-125", system, [_TMP, *home()], *([Entry(f"root/n{number}", b"x")] for number in range(123)))
    yield one("bare", bare, users=both, answers={**EMPTY, "writes others'": "no"})


def _volumes(*paths: str) -> dict[str, Any]:
    return {"Volumes": {path: {} for path in paths}}


def _of_others(*folders: str) -> list[Entry]:
    """Folders that the platform mounts over, as somebody else's."""
    made = ((Entry(one, mode=0o700, uid=THIRD), Entry(f"{one}/x", b"", mode=0o600, uid=THIRD)) for one in folders)
    return [entry for pair in made for entry in pair]


def _without_old() -> dict[str, str]:
    return {"reads what is old": "no", "follows a link": "no"}


def _with_hard_link() -> bytes:
    """One file with two names, one of them in the home of the builder."""
    members = io.BytesIO(layer(home()))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=members) as source, tarfile.open(fileobj=buffer, mode="w") as target:
        for info in source:
            target.addfile(info, source.extractfile(info) if info.isfile() else None)
        twin = tarfile.TarInfo("root/twin")
        twin.type, twin.linkname = tarfile.LNKTYPE, "root/.cache/old"
        target.addfile(twin)
    return buffer.getvalue()
