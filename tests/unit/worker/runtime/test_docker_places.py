"""What an image may not hold where something is mounted, as the engine tells it."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest
from docker import APIClient
from docker.errors import APIError

from headway.model.reasons import EndWord
from tests.unit.worker.runtime.test_docker_errors import an_error
from worker.ports import EngineUnavailable, RuntimeRefused
from worker.runtime import docker_places
from worker.runtime.docker_options import WorkerIdentity
from worker.runtime.docker_places import ImagePlaces

FOLDER, LINK, FILE = 1 << 31, 1 << 27, 0o644
RING, BROKEN = (0, "ring"), (0, "broken")


class Answer:
    """Of the engine about one path."""

    def __init__(self, found: tuple[int, str] | None) -> None:
        self.status_code = 404 if found is None else 500 if found in (RING, BROKEN) else 200
        self.text = '{"message":"evalSymlinksInScope: too many links in /x"}' if found == RING else '{"message":"no"}'
        mode, target = found or (0, "")
        text = json.dumps({"name": "x", "mode": mode, "linkTarget": target}).encode()
        self.closed = False
        self.headers = {"X-Docker-Container-Path-Stat": base64.b64encode(text).decode()}

    def close(self) -> None:
        self.closed = True


class Api:
    """An engine with one image. ``there``: mode and resolved target of what lies in it."""

    timeout = 5

    def __init__(self, there: dict[str, tuple[int, str]], config: dict[str, Any] | None = None) -> None:
        self.there, self.config = there, config
        self.made: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.left_over: list[str] = []
        self.asked: list[str] = []

    def inspect_image(self, image: str) -> dict[str, Any]:
        return {"Config": self.config}

    def create_container_from_config(self, config: dict[str, Any], name: str) -> dict[str, str]:
        self.made.append(config)
        return {"Id": f"probe{len(self.made)}"}

    def containers(self, **how: Any) -> list[dict[str, str]]:
        return [{"Id": one} for one in self.left_over]

    def remove_container(self, container: str, **how: Any) -> None:
        self.removed.append(container)

    def head(self, url: str, *, params: dict[str, str], timeout: float) -> Answer:
        self.asked.append(params["path"])
        return Answer(self.there.get(params["path"]))

    def get(self, url: str, *, params: dict[str, str], timeout: float, stream: bool) -> Answer:
        return Answer(self.there.get(params["path"]))

    def _url(self, text: str, container: str) -> str:
        return text.format(container)

    def _raise_for_status(self, answer: Answer) -> None:
        if answer.status_code != 200:
            raise an_error(answer.status_code, "no")


def check(api: Api, *mounts: str, places: ImagePlaces | None = None) -> str:
    """The sentence of the refusal; empty if the image is fine."""
    places = places or ImagePlaces(WorkerIdentity("lab", "n1", "/a"))
    refused: RuntimeRefused | None = None
    try:
        places.check(cast(APIClient, api), "sha256:1", mounts)
    except RuntimeRefused as error:
        refused = error
    if refused is None:
        return ""
    assert refused.word is EndWord.IMAGE_BAD
    assert not refused.elsewhere
    return refused.message


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ({"/root": (LINK, "/home")}, "/root is a link to '/home'"),
        ({"/root": (FOLDER, ""), "/root/nfs": (LINK, "/tmp")}, "/root/nfs is a link to '/tmp'"),
        ({"/root": (FOLDER, ""), "/root/code": (FILE, "")}, "/root/code is no folder"),
        ({"/root": (FOLDER, ""), "/root/datasets": (FILE, "")}, "/root/datasets is no folder"),
        ({"/dev": (LINK, "/root/nfs")}, "/dev is a link"),
        ({"/proc": (FILE, "")}, "/proc is no folder"),
        ({"/sys": (LINK, "/root/nfs/sys")}, "/sys is a link"),
        ({"/etc": (LINK, "/root/nfs")}, "/etc is a link to '/root/nfs', which is in the way of /etc/hosts"),
        ({"/etc": (LINK, "/root")}, ""),
        ({"/etc": (FOLDER, ""), "/etc/resolv.conf": (LINK, "/run/systemd/resolve/stub-resolv.conf")}, ""),
        ({"/etc": (FOLDER, ""), "/etc/resolv.conf": (LINK, "/root/nfs/r")}, "/etc/resolv.conf is a link"),
        ({"/etc": (FOLDER, ""), "/etc/hosts": (FOLDER, "")}, "/etc/hosts is a folder"),
        ({"/etc": (FILE, "")}, "/etc is no folder"),
        ({"/etc": (FOLDER, ""), "/etc/passwd": (FOLDER, "")}, "/etc/passwd is no file"),
        ({"/etc": (FOLDER, ""), "/etc/group": (1 << 25, "")}, "/etc/group is no file"),
        ({"/etc": (FOLDER, ""), "/etc/passwd": (LINK, "/root/nfs/p")}, "/etc/passwd is a link to '/root/nfs/p'"),
        ({"/etc": (FOLDER, ""), "/etc/passwd": (LINK, "/etc/passwd")}, "/etc/passwd is a link to 'itself'"),
        ({"/etc": (FOLDER, ""), "/etc/passwd": (LINK, "/p"), "/p": (1 << 25, "")}, "/etc/passwd is a link to '/p'"),
        ({"/etc": (FOLDER, ""), "/etc/passwd": (LINK, "/p"), "/p": (FILE, "")}, ""),
        ({"/etc": (LINK, "/e"), "/e": (FOLDER, ""), "/e/passwd": (FOLDER, "")}, "/etc/passwd is a link to '/e/passwd'"),
        ({"/root": (FOLDER, ""), "/root/nfs": RING}, "/root/nfs is a link to '/root/nfs'"),
        ({"/root": RING}, "/root is a link to '/root'"),
        ({"/etc": (FOLDER, ""), "/etc/hosts": RING}, "/etc/hosts is a link to '/etc/hosts'"),
        ({"/etc": (FOLDER, ""), "/etc/group": RING}, "/etc/group is a link to 'itself'"),
        ({}, ""),
    ],
)
def test_what_lies_in_the_way_is_named(there: dict[str, tuple[int, str]], want: str) -> None:
    api = Api(there)
    sentence = check(api)
    assert want in sentence
    assert bool(want) == bool(sentence)
    assert api.removed == ["probe1"]


@pytest.mark.parametrize(
    ("volume", "bad"),
    [
        ("/", True),
        ("/root", False),
        ("/root/", False),
        ("/root/nfs/", False),
        ("//root//nfs", False),
        ("/a/../root/code", False),
        ("/root/nfs/below", True),
        ("/root/datasets/mnist", True),
        ("/proc", True),
        ("/sys/fs/cgroup", True),
        ("/dev/shm", True),
        ("/etc", True),
        ("/etc/hosts", True),
        ("/a/../root/code/below", True),
        ("data", True),
        ("/data", False),
        ("/root/.cache", False),
        ("/a" * 32, False),
        ("/a" * 33, True),
        ("/" + "a" * 1023, False),
        ("/" + "a" * 1024, True),
        ("/etc/nginx", False),
    ],
)
def test_volumes(volume: str, bad: bool) -> None:
    api = Api({}, {"Volumes": {volume: {}}})
    assert bool(check(api)) is bad
    if bad:
        assert api.made == [], "the config alone told it"


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ({"/data": (LINK, "/root/nfs")}, "'/data/deep', which links lead to '/root/nfs/deep'"),
        ({"/data": (LINK, "/")}, ""),
        ({"/data": (LINK, "/other"), "/other": (FOLDER, ""), "/other/deep": (LINK, "/root")}, "links lead to '/root'"),
        ({"/data": (FOLDER, ""), "/data/deep": (LINK, "/")}, "links lead to '/'"),
        ({"/data": (FOLDER, ""), "/data/deep": (LINK, "/proc")}, "in the way of /proc"),
        ({"/data": (LINK, "/b"), "/b": (LINK, "/data")}, "whose links form a ring"),
        ({"/data": (LINK, "/srv")}, ""),
        ({}, ""),
    ],
)
def test_a_volume_that_links_lead_to_a_mount(there: dict[str, tuple[int, str]], want: str) -> None:
    """An engine follows them, and would put an empty volume over the home."""
    sentence = check(Api(there, {"Volumes": {"/data/deep": {}}}))
    assert want in sentence
    assert bool(want) == bool(sentence)


@pytest.mark.parametrize(("count", "bad"), [(64, False), (65, True)])
def test_an_image_has_so_many_volumes(count: int, bad: bool) -> None:
    """100 volumes of 1,900 folders each were 190,000 questions, and no other image could start."""
    api = Api({}, {"Volumes": {f"/data/{number}": {} for number in range(count)}})
    sentence = check(api)
    assert bool(sentence) is bad
    assert bool(api.made) is not bad
    if bad:
        assert sentence == "The image declares 65 volumes; 64 may be. Build it with fewer VOLUMEs"


def test_nothing_is_asked_below_what_is_not_there() -> None:
    plain, deep = Api({}), Api({}, {"Volumes": {"/a" * 32: {}}})
    assert check(plain) == check(deep) == ""
    assert len(deep.asked) <= len(plain.asked) + 2


def test_an_image_that_leads_through_too_many_folders_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_places, "_MOST_QUESTIONS", 30)
    there = {"/b" * depth: (FOLDER, "") for depth in range(1, 33)}
    api = Api(there, {"Volumes": {"/b" * 32: {}}})
    assert "lead through too many folders" in check(api)
    assert len(api.asked) == 30
    assert api.removed == ["probe1"]


def test_a_look_that_takes_long_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads of the engine waited, until kills and questions of everybody timed out."""
    monkeypatch.setattr(docker_places, "_TURN_S", 0.05)
    places = ImagePlaces(WorkerIdentity("lab", "n1", "/a"))
    with places._lock, pytest.raises(EngineUnavailable, match="Another image is being looked at"):
        check(Api({}), places=places)
    assert check(Api({}), places=places) == "", "the next try"


@pytest.mark.parametrize(
    ("entry", "bad"), [("=x", True), ("A=" + "x" * (128 << 10), True), ("A=", False), ("A", False)]
)
def test_variables(entry: str, bad: bool) -> None:
    assert bool(check(Api({}, {"Env": [entry]}))) is bad


def test_an_image_is_looked_at_once_and_again_for_other_mounts() -> None:
    api, places = Api({}), ImagePlaces(WorkerIdentity("lab", "n1", "/a"))
    assert check(api, "/root/nfs", places=places) == check(api, "/root/nfs", places=places) == ""
    assert len(api.made) == 1
    api.there = {"/root": (FOLDER, ""), "/root/datasets": (FOLDER, ""), "/root/datasets/m": (LINK, "/root/nfs")}
    assert "/root/datasets/m is a link" in check(api, "/root/nfs", "/root/datasets/m", places=places)
    assert len(api.made) == 2


def test_what_an_earlier_life_left_is_removed() -> None:
    api = Api({})
    api.left_over = ["old"]
    assert check(api) == ""
    assert api.removed == ["old", "probe1"]


def test_the_container_is_never_started_and_takes_nothing_of_the_image() -> None:
    api = Api({})
    check(api)
    assert api.made[0]["Entrypoint"] == ["/never"]
    assert api.made[0]["WorkingDir"] == "/"
    assert api.made[0]["Labels"]["headway.probe"] == "1"


def test_a_known_image_waits_for_no_other() -> None:
    """One image may be looked at for a while, by an engine that is slow."""
    places = ImagePlaces(WorkerIdentity("lab", "n1", "/a"))
    assert check(Api({}), places=places) == ""
    with places._lock:
        assert check(Api({}), places=places) == ""


def test_an_image_of_which_the_engine_makes_no_container_is_bad() -> None:
    class Refusing(Api):
        def create_container_from_config(self, config: dict[str, Any], name: str) -> dict[str, str]:
            raise an_error(500, "cannot mount volume over existing file, file exists /etc/hosts")

    assert "file exists /etc/hosts" in check(Refusing({}))


def test_an_engine_that_can_not_tell_blames_no_image() -> None:
    with pytest.raises(APIError):
        check(Api({"/root": BROKEN}))
