"""Images by a grammar, place x kind x order of layers x source, that try to steer the platform; and who won.

Each ends in one of two ways: process 1 was Headway's launcher under its Worker's spec, which the task's own output
proves, or the image was refused, at upload or as ``image_bad``.
"""

from __future__ import annotations

import hashlib
import io
import random
import re
import secrets
import tarfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.client.errors import Refused
from headway.client.uploads import upload
from tests.support.archives import TinyImage, docker_save, tiny_image
from tests.support.cluster import Cluster, a_job
from tests.support.dockerd import Engine
from tests.support.images import busybox_entries, layer
from tests.support.registry import Registry
from worker.launcher import launcher_path

PLACES = (
    "/root",
    "/root/nfs",
    "/root/nfs/below",
    "/root/code",
    "/root/datasets",
    "/root/datasets/any",
    "/headway",
    "/headway/run",
    "/headway/launcher",
    "/proc",
    "/sys",
    "/dev",
    "/dev/shm",
    "/etc",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/passwd",
    "/run",
    "/tmp",
)
TARGETS = (
    "/root/nfs",
    "/root/nfs/run",
    "../root/nfs",
    "nfs",
    "/headway/run",
    "/root/datasets",
    "/tmp",
    "/",
    "..",
    "/etc",
    "/proc/self/root/root/nfs",
    "/dev/shm",
    "/nothing",
    "a ring",
)
ORDERS = ("alone", "below the system", "over a folder", "under a folder", "removed", "removed and back", "opaque")
SOURCES = ("engine", "upload", "registry")
# Engines read keys in any case, and take the long s for an s.
SPELLINGS = ("Volumes", "volumes", "VOLUMES", "vOLUMES", "Volume\u017f")

# What a launcher must never take for its own: root, no end, and a trace in the home.
SPEC = b"""arg=/bin/sh
arg=-c
arg=id -u > /root/nfs/owned; sleep 1
workdir=/
user=0:0
timeout_ms=99999999
grace_ms=1
lease_grace_ms=1
log_limit_bytes=1000000
log_limit_action=drop
drop_caps=0
open_root=1
"""
_PROGRAM = b"#!/bin/sh\nid -u > /root/nfs/owned\nsleep 1\n"
_PROOF = """
echo nonce $NONCE
echo uid $(id -u)
grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status
echo first $(tr '\\0' ' ' < /proc/1/cmdline)
echo folder $HEADWAY_ATTEMPT_DIR
echo sum $(sha256sum < ${HEADWAY_ATTEMPT_DIR%/attempt}/launcher)
echo home $(cat /root/nfs/marker)
"""
Layer = list[tuple[tarfile.TarInfo, bytes]]


@dataclass(frozen=True, slots=True)
class Hostile:
    """An image, and in words how it was made."""

    name: str
    words: str
    source: str
    image: TinyImage


def images(seed: int, count: int) -> Iterator[Hostile]:
    """So many images. Each place, kind and source comes about equally often."""
    dice = random.Random(seed)
    places, kinds, sources = (_round(dice, options) for options in (PLACES, tuple(KINDS), SOURCES))
    for number in range(count):
        place, kind, source, order = next(places), next(kinds), next(sources), dice.choice(ORDERS)
        target, spelling = dice.choice(TARGETS), dice.choice(SPELLINGS)
        bad, volumes = KINDS[kind](place, target)
        if kind.startswith("volume"):
            target = spelling
        settings: dict[str, Any] = {spelling: {path: {} for path in volumes}} if volumes else {}
        settings["Env"] = ["PATH=/bin", "HEADWAY_BOX=/root/nfs", "HEADWAY_ROOT=/root/nfs", f"NUMBER={seed}.{number}"]
        layers = [_tar(one) for one in _ordered(order, place, bad)]
        system = layer(busybox_entries())
        stack = [*layers, system] if order == "below the system" else [system, *layers]
        words = f"{number}: {kind} at {place} ({target}), {order}, by {source}"
        yield Hostile(f"hostile-{seed}-{number}", words, source, tiny_image(*stack, tags=(), settings=settings))


def _round(dice: random.Random, options: Sequence[str]) -> Iterator[str]:
    while True:
        yield from dice.sample(options, len(options))


# -- kinds: members of the bad layer, and volumes ------------------------------------------------------


def _member(
    path: str, kind: bytes = tarfile.DIRTYPE, content: bytes = b"", *, link: str = "", mode: int = 0o755
) -> Any:
    info = tarfile.TarInfo(path.strip("/"))
    info.type, info.size, info.linkname, info.mode = kind, len(content), link, mode
    return info, content


def _link(place: str, target: str) -> tuple[Layer, list[str]]:
    if target == "a ring":
        return [
            _member(place, tarfile.SYMTYPE, link=f"{place}-2"),
            _member(f"{place}-2", tarfile.SYMTYPE, link=place),
        ], []
    return [_member(place, tarfile.SYMTYPE, link=target)], []


def _through(place: str, target: str) -> tuple[Layer, list[str]]:
    """A link that is named through another link of the layer."""
    parent, _, base = place.rpartition("/")
    if not parent:
        return _link(place, target)
    made, _ = _link(f"/way/{base}", target)
    return [_member(parent), _member("way", tarfile.SYMTYPE, link=parent.strip("/")), *made], []


def _file(place: str, target: str) -> tuple[Layer, list[str]]:
    return [_member(place, tarfile.REGTYPE, _PROGRAM)], []


def _hard_link(place: str, target: str) -> tuple[Layer, list[str]]:
    made, _ = _link("/first", target)
    return [made[0], _member(place, tarfile.LNKTYPE, link="first")], []


def _pipe(place: str, target: str) -> tuple[Layer, list[str]]:
    return [_member(place, tarfile.FIFOTYPE)], []


def _folder(place: str, target: str) -> tuple[Layer, list[str]]:
    """With all that a launcher looks for."""
    files = [("spec", SPEC, 0o600), ("launcher", _PROGRAM, 0o755), ("lock", b"", 0o600), ("ticket", b"", 0o600)]
    made = [
        _member(f"{place}{run}/{name}", tarfile.REGTYPE, text, mode=mode)
        for run in ("", "/run")
        for name, text, mode in files
    ]
    return [_member(place), _member(f"{place}/run"), *made], []


def _volume(place: str, target: str) -> tuple[Layer, list[str]]:
    return _folder(place, target)[0], [place]


def _volume_below(place: str, target: str) -> tuple[Layer, list[str]]:
    return [_member(place)], [f"{place}/run/deep"]


def _linked_volume(place: str, target: str) -> tuple[Layer, list[str]]:
    """Deeper than the place itself, so that an engine mounts it later."""
    way = "/volumes/so/deep/that/it/comes/last"
    return [_member(way, tarfile.SYMTYPE, link=place)], [way]


KINDS: dict[str, Callable[[str, str], tuple[Layer, list[str]]]] = {
    "link": _link,
    "link through a link": _through,
    "file": _file,
    "hard link": _hard_link,
    "pipe": _pipe,
    "folder": _folder,
    "volume": _volume,
    "volume below": _volume_below,
    "volume by a link": _linked_volume,
}


def _ordered(order: str, place: str, bad: Layer) -> list[Layer]:
    parent, _, base = place.strip("/").rpartition("/")
    within = f"{parent}/" if parent else ""
    removal = [_member(f"{within}.wh.{base}", tarfile.REGTYPE)]
    match order:
        case "over a folder":
            return [[_member(place)], bad]
        case "under a folder":
            return [bad, [_member(place)]]
        case "removed":
            return [bad, removal]
        case "removed and back":
            return [bad, removal, bad]
        case "opaque":
            return [bad, [_member(f"{within}.wh..wh..opq", tarfile.REGTYPE)]] if parent else [bad]
    return [bad]


def _tar(members: Layer) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


# -- trying them ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one image. ``fault`` empty: as it must be."""

    hostile: Hostile
    end: str  # "ran", "refused at upload", "image_bad", "the engine takes no such image"
    fault: str = ""


class Trial:
    """One cluster with an engine and a registry, and a home that is prepared for what the images lead to."""

    def __init__(self, cluster: Cluster, engine: Engine, registry: Registry, folder: Path) -> None:
        self._cluster, self._engine, self._registry, self._folder = cluster, engine, registry, folder
        self._sum = hashlib.sha256(launcher_path().read_bytes()).hexdigest()
        self._marker = secrets.token_hex(8)
        self._first_task()
        self._home = cluster.mount / "homes" / "admin"
        self._uid = self._home.stat().st_uid
        self._prepare()
        self._before = self._names()

    def _first_task(self) -> None:
        task = {**self._task("true"), "image": "headway-test/busybox:1"}
        done = self._cluster.client.wait(self._cluster.client.submit(a_job(task))["id"], timeout_s=120)
        assert done["tasks"][0]["state"] == "SUCCEEDED", done["tasks"][0]

    def _prepare(self) -> None:
        for info, content in _folder("home", "")[0]:
            path = self._home / info.name.removeprefix("home").strip("/")
            if info.isdir():
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(content)
                path.chmod(info.mode)
        (self._home / "marker").write_text(self._marker)

    def _names(self) -> set[str]:
        return {str(path.relative_to(self._home)) for path in self._home.rglob("*")}

    def run(self, hostile: Sequence[Hostile], *, at_once: int = 8) -> list[Outcome]:
        """Try them all."""
        with ThreadPoolExecutor(at_once) as threads:
            return list(threads.map(self._try, hostile))

    def traces(self) -> list[str]:
        """Names in the home that nobody should have made. They may be an engine's, or a program's that was root."""
        return sorted(self._names() - self._before)

    def _try(self, hostile: Hostile) -> Outcome:
        try:
            name = getattr(self, f"_by_{hostile.source}")(hostile)
        except _NotTaken as refused:
            return Outcome(hostile, refused.end, refused.fault)
        nonce = secrets.token_hex(8)
        task = {**self._task(_PROOF), "image": name, "env": {"NONCE": nonce}}
        client = self._cluster.client
        job = client.submit(a_job(task))["id"]
        done = client.wait(job, timeout_s=240, poll_s=0.2)["tasks"][0]
        if done["state"] == "SUCCEEDED":
            out = client.log(job, "a").decode("utf-8", "replace")
            return Outcome(hostile, "ran", self._doubt(out, nonce))
        word, sentence = done["reason"]["word"], done["reason"]["sentence"]
        return Outcome(hostile, word, "" if word == "image_bad" and sentence else f"{word}: {sentence}")

    def _task(self, command: str) -> dict[str, Any]:
        resources = {"cpus": 0.5, "memory": "64MiB"}
        return {"name": "a", "image": "", "command": command, "timeout": "1m", "resources": resources}

    def _doubt(self, out: str, nonce: str) -> str:
        """Why the output is no proof."""
        said = dict(line.partition(" ")[::2] for line in out.replace(":\t", " ").splitlines())
        first = said.get("first", "").split()
        place = said.get("folder", "").removesuffix("/attempt")
        none = "0" * 16
        want = {
            "nonce": nonce,
            "uid": str(self._uid),
            "CapEff": none,
            "CapPrm": none,
            "CapBnd": none,
            "NoNewPrivs": "1",
            "sum": f"{self._sum} -",
            "home": self._marker,
        }
        wrong = {key: said.get(key) for key, value in want.items() if said.get(key) != value}
        if wrong:
            return f"it ran otherwise: {wrong}"
        if not re.fullmatch(r"/headway-[0-9a-f]{32}", place) or first[:2] != [f"{place}/launcher", place]:
            return f"process 1 is {first} with its box at {place!r}"
        return ""

    def _by_engine(self, hostile: Hostile) -> str:
        name = f"headway-test/{hostile.name}:1"
        client = self._engine.client()
        try:
            image = TinyImage(hostile.image.layers, hostile.image.config, (name,))
            answers = client.api.load_image(docker_save(image))  # type: ignore[no-untyped-call]
            for answer in answers:
                if "error" in answer:
                    raise _NotTaken("the engine takes no such image")
        finally:
            client.close()
        return name

    def _by_registry(self, hostile: Hostile) -> str:
        self._registry.push(hostile.name, "1", hostile.image)
        return self._registry.name(f"{hostile.name}:1")

    def _by_upload(self, hostile: Hostile) -> str:
        source = self._folder / f"{hostile.name}.tar"
        source.write_bytes(docker_save(hostile.image))
        try:
            metadata = {"name": f"{hostile.name}:1", "filename": source.name}
            status = upload(self._cluster.client, "images", source, metadata, lambda count: None)
        except Refused as refused:
            raise _NotTaken("refused at upload") from refused
        finally:
            source.unlink()
        if status["state"] != "done":
            sentence = (status.get("problem") or {}).get("detail", "")
            raise _NotTaken("refused at upload", "" if sentence else f"no sentence: {status}")
        return f"admin/{hostile.name}:1"


class _NotTaken(Exception):
    def __init__(self, end: str, fault: str = "") -> None:
        super().__init__(end)
        self.end, self.fault = end, fault
