"""Looks into an image before its first container: has it a link, a file or a volume where something is mounted?

An engine follows an image's links to where it mounts. If a link led into a task's own home, another task could swap
folders on the way. So this is asked before any mount, once for each image. The launcher looks once more from inside.
The image is looked at through a container that is never started.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Iterable
from typing import Any

from docker import APIClient
from docker.errors import APIError

from headway.archive import places
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..ports import EngineUnavailable, RuntimeRefused
from .docker_errors import of_image, text_of
from .docker_options import WorkerIdentity, container_name

log = get_logger(__name__)

_PROBE = "headway.probe"
# Bits of a mode as Go has them.
_FOLDER, _LINK = 1 << 31, 1 << 27
_NO_FILE = sum(1 << bit for bit in (31, 27, 26, 25, 24, 21, 19))
_MOST_IMAGES = 10_000
_HOPS = 40
# An image that needs more questions than this was made to hold an engine.
_MOST_QUESTIONS = 2_000
_TURN_S = 10.0
_MAZE = "The image's volumes and links lead through too many folders. Build it with fewer or shorter ones"
_RING = "too many "  # links in a path, or levels of them
_NONE: frozenset[str] = frozenset()


class LookTakesLong(EngineUnavailable):
    """Another image is being looked at, so this start comes again later. The engine itself is well."""


class ImagePlaces:
    """Remembers which places of which image are free. Any thread may call it."""

    def __init__(self, identity: WorkerIdentity) -> None:
        self._identity = identity
        self._lock = threading.Lock()
        self._free: dict[str, frozenset[str]] = {}

    def check(self, api: APIClient, image: str, mounts: Iterable[str]) -> None:
        """``mounts``: where the task's folders will be, besides those that every image is asked for.

        Raises:
            RuntimeRefused: something of the image is in the way.
            LookTakesLong: another image is looked at for long. No thread of the engine waits for that.
            APIError: the engine answered something else than what is there.
        """
        wanted = {*places.FOLDERS, *mounts}
        if wanted <= self._free.get(image, _NONE):
            return  # without the lock: another image may be looked at for a while
        if not self._lock.acquire(timeout=_TURN_S):
            raise LookTakesLong("Another image is being looked at.")
        try:
            free = self._free.get(image, _NONE)
            if wanted <= free:
                return
            problem = self._problem(api, image, sorted(wanted - free))
            if problem:
                raise RuntimeRefused(problem, word=EndWord.IMAGE_BAD)
            if len(self._free) >= _MOST_IMAGES:
                self._free.clear()
            self._free[image] = free | wanted
        finally:
            self._lock.release()

    def _problem(self, api: APIClient, image: str, wanted: Iterable[str]) -> str:
        config = api.inspect_image(image).get("Config") or {}  # type: ignore[no-untyped-call]
        problem = places.problem_of_config(config.get("Volumes") or {}, config.get("Env") or ())
        if problem:
            return problem
        self._remove_left_over(api)
        probe = self._make(api, image)
        try:
            return _Look(api, probe).problem(wanted, config.get("Volumes") or ())
        finally:
            self._remove(api, probe)

    def _make(self, api: APIClient, image: str) -> str:
        config = {
            "Image": image,
            "Entrypoint": ["/never"],
            # The engine makes the folder, and stops where an image names a file.
            "WorkingDir": "/",
            "Cmd": [],
            "Labels": {**self._identity.labels(), _PROBE: "1"},
            "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "none"}},
        }
        name = container_name(self._identity.cluster, f"probe-{secrets.token_hex(8)}")
        try:
            return str(api.create_container_from_config(config, name)["Id"])  # type: ignore[no-untyped-call]
        except APIError as error:
            refusal = of_image(error, image=image)
            if refusal is None:
                raise
            raise refusal from error

    def _remove_left_over(self, api: APIClient) -> None:
        """Of a Worker that was killed while it looked."""
        filters = {"label": [*self._identity.filters(), f"{_PROBE}=1"]}
        for entry in api.containers(all=True, filters=filters):
            self._remove(api, entry["Id"])

    def _remove(self, api: APIClient, container: str) -> None:
        try:
            api.remove_container(container, v=True, force=True)
        except APIError as error:
            log.warning("container.not_removed", container=container[:12], reason=text_of(error))


class _Look:
    """Into one image, through the container that was made of it."""

    def __init__(self, api: APIClient, probe: str) -> None:
        self._api = api
        self._probe = probe
        self._seen: dict[str, dict[str, Any] | None] = {}

    def problem(self, wanted: Iterable[str], volumes: Iterable[str]) -> str:
        """The sentence about what is in the way of these folders or the engine's own files. Empty: nothing."""
        looks = ((self._of_folder, wanted), (self._of_file, places.FILES), (self._of_table, places.TABLES))
        for look, what in (*looks, (self._of_volume, volumes)):
            for one in what:
                problem = look(one)
                if problem:
                    return problem
        return ""

    def _of_folder(self, place: str) -> str:
        for path in places.ways(place):
            found = self._at(path)
            if found is None:
                break
            if found["mode"] & _LINK:
                return places.problem_of_link(path, str(found.get("linkTarget", "")), place)
            if not found["mode"] & _FOLDER:
                return places.problem_of_file(path, place)
        return ""

    def _of_file(self, place: str) -> str:
        for path in places.ways(place):
            found = self._at(path)
            if found is None:
                break
            if found["mode"] & _LINK:
                # The engine's answer has followed all links. What lies behind one is judged by where it leads.
                target = str(found.get("linkTarget", ""))
                if target == path or places.leads_into_mounts(target + place[len(path) :]):
                    return places.problem_of_link(path, target, place)
            elif path == place and found["mode"] & _FOLDER:
                return places.problem_of_folder(path)
            elif path != place and not found["mode"] & _FOLDER:
                return places.problem_of_file(path, place)
        return ""

    def _of_table(self, path: str) -> str:
        real = self._resolved(path)
        if not real or places.leads_into_mounts(real):
            return places.problem_of_table(path, real or "itself")
        found = self._at(real)
        if found is not None and found["mode"] & _NO_FILE:
            return places.problem_of_table(path, "" if real == path else real)
        return ""

    def _of_volume(self, volume: str) -> str:
        """An engine follows links to a volume's place, too, and may put it over what was mounted before."""
        path = places.plain(volume)
        real = self._resolved(path)
        return "" if real == path else places.problem_of_linked_volume(volume, real)

    def _resolved(self, path: str) -> str:
        """The path with all links followed as in a container. Empty: they lead in a ring."""
        for _ in range(_HOPS):
            followed = self._followed(path)
            if not followed:
                return path
            path = followed
        return ""

    def _followed(self, path: str) -> str:
        """The path with its first link followed. Empty: it has none."""
        for way in places.ways(path):
            found = self._at(way)
            if found is None:
                break  # nothing lies below
            if found["mode"] & _LINK:
                return places.plain(str(found.get("linkTarget", "/")) + path[len(way) :])
        return ""

    def _at(self, path: str) -> dict[str, Any] | None:
        if path not in self._seen:
            if len(self._seen) >= _MOST_QUESTIONS:
                raise RuntimeRefused(_MAZE, word=EndWord.IMAGE_BAD)
            self._seen[path] = _stat(self._api, self._probe, path)
        return self._seen[path]


def _stat(api: APIClient, probe: str, path: str) -> dict[str, Any] | None:
    """What is at this path of the image, without following a link at its end. None: nothing."""
    # The SDK has this call only with the content behind it.
    client: Any = api
    answer = client.head(client._url("/containers/{0}/archive", probe), params={"path": path}, timeout=client.timeout)
    if answer.status_code == 404:
        return None
    if answer.status_code >= 500 and _is_ring(client, probe, path):
        return {"mode": _LINK, "linkTarget": path}
    client._raise_for_status(answer)
    found: dict[str, Any] = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
    return found


def _is_ring(client: Any, probe: str, path: str) -> bool:
    """Whether the engine can't tell because links lead in a ring. Only another call has its words."""
    url = client._url("/containers/{0}/archive", probe)
    answer = client.get(url, params={"path": path}, timeout=client.timeout, stream=True)
    try:
        return answer.status_code >= 500 and _RING in answer.text
    finally:
        answer.close()
