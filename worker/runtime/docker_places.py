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

from ..ports import RuntimeRefused
from .docker_errors import text_of
from .docker_options import WorkerIdentity, container_name

log = get_logger(__name__)

_PROBE = "headway.probe"
# Bits of a mode as Go has them.
_FOLDER, _LINK = 1 << 31, 1 << 27
_MOST_IMAGES = 10_000


class ImagePlaces:
    """Remembers which places of which image are free. Any thread may call it."""

    def __init__(self, identity: WorkerIdentity) -> None:
        self._identity = identity
        self._lock = threading.Lock()
        self._free: dict[str, set[str]] = {}

    def check(self, api: APIClient, image: str, mounts: Iterable[str]) -> None:
        """``mounts``: where the task's folders will be, besides those that every image is asked for.

        Raises:
            RuntimeRefused: something of the image is in the way.
            APIError: the engine answered something else than what is there.
        """
        wanted = {*places.FOLDERS, *mounts}
        with self._lock:
            free = self._free.get(image, set())
            if wanted <= free:
                return
            problem = self._problem(api, image, sorted(wanted - free))
            if problem:
                raise RuntimeRefused(problem, word=EndWord.IMAGE_BAD)
            if len(self._free) >= _MOST_IMAGES:
                self._free.clear()
            self._free[image] = free | wanted

    def _problem(self, api: APIClient, image: str, wanted: Iterable[str]) -> str:
        config = api.inspect_image(image).get("Config") or {}  # type: ignore[no-untyped-call]
        problem = places.problem_of_config(config.get("Volumes") or {}, config.get("Env") or ())
        if problem:
            return problem
        self._remove_left_over(api)
        probe = self._make(api, image)
        try:
            return _look(api, probe, wanted)
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
        return str(api.create_container_from_config(config, name)["Id"])  # type: ignore[no-untyped-call]

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


def _look(api: APIClient, probe: str, wanted: Iterable[str]) -> str:
    """The sentence about what is in the way of these folders or the engine's own files. Empty: nothing."""
    seen: dict[str, dict[str, Any] | None] = {}

    def at(path: str) -> dict[str, Any] | None:
        if path not in seen:
            seen[path] = _stat(api, probe, path)
        return seen[path]

    for place in wanted:
        for path in places.ways(place):
            found = at(path)
            if found is None:
                break
            if found["mode"] & _LINK:
                return places.problem_of_link(path, str(found.get("linkTarget", "")), place)
            if not found["mode"] & _FOLDER:
                return places.problem_of_file(path, place)
    for place in places.FILES:
        for path in places.ways(place):
            found = at(path)
            if found is None:
                break
            if found["mode"] & _LINK:
                # The engine's answer has followed all links. What lies behind one is judged by where it leads.
                target = str(found.get("linkTarget", ""))
                if places.leads_into_mounts(target + place[len(path) :]):
                    return places.problem_of_link(path, target, place)
            elif path == place and found["mode"] & _FOLDER:
                return places.problem_of_folder(path)
            elif path != place and not found["mode"] & _FOLDER:
                return places.problem_of_file(path, place)
    return ""


def _stat(api: APIClient, probe: str, path: str) -> dict[str, Any] | None:
    """What is at this path of the image, without following a link at its end. None: nothing."""
    # The SDK has this call only with the content behind it.
    client: Any = api
    answer = client.head(client._url("/containers/{0}/archive", probe), params={"path": path}, timeout=client.timeout)
    if answer.status_code == 404:
        return None
    client._raise_for_status(answer)
    found: dict[str, Any] = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
    return found
