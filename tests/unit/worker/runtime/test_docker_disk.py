"""Where an engine keeps its data, as far as that can be seen from here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import requests
from docker.errors import NotFound

from worker.ports import ContainerFiles
from worker.runtime.docker_disk import EngineFolders, container_files, data_folders


class Api:
    """Answers about one container."""

    def __init__(self, found: dict[str, Any] | None, size: int = 0) -> None:
        self.found = found
        self.size = size
        self.asked_size = False

    def inspect_container(self, name: str) -> dict[str, Any]:
        if self.found is None:
            raise NotFound("no such container", response=requests.Response())
        return self.found

    def containers(self, *, all: bool, size: bool, filters: dict[str, str]) -> list[dict[str, Any]]:
        self.asked_size = size
        return [{"SizeRw": self.size}]


def files(api: Api, *here: Path) -> ContainerFiles:
    return container_files(api, "headway-x", here)  # type: ignore[arg-type]


def test_an_overlay_is_looked_into_and_so_are_volumes_of_the_image(tmp_path: Path) -> None:
    upper, volume = tmp_path / "upper", tmp_path / "volume"
    upper.mkdir()
    mounts = [{"Type": "volume", "Source": str(volume)}, {"Type": "bind", "Source": "/srv/homes/ann"}]
    said = {"State": {"Pid": 4242}, "GraphDriver": {"Data": {"UpperDir": str(upper)}}, "Mounts": mounts}
    api = Api(said, size=1 << 40)
    assert files(api, tmp_path) == ContainerFiles(upper, (upper, volume), 0, 4242)
    assert not api.asked_size, "adding up is left to those who count blocks"


@pytest.mark.parametrize("driver", [{"Data": None}, {"Data": {"UpperDir": "/nonexistent/upper"}}, None])
def test_what_cannot_be_looked_into_the_engine_adds_up(tmp_path: Path, driver: object) -> None:
    api = Api({"State": {"Pid": 0}, "GraphDriver": driver, "Mounts": None}, size=77)
    assert files(api, tmp_path) == ContainerFiles(tmp_path, (), 77, None)


def test_an_engine_elsewhere_has_no_folders_here(tmp_path: Path) -> None:
    """A folder of that name may be here by chance, and is another machine's business then."""
    api = Api({"State": {"Pid": os.getpid()}, "GraphDriver": {"Data": {"UpperDir": str(tmp_path)}}}, size=77)
    found = files(api)
    assert (found.folders, found.more_bytes, found.root.exists()) == ((), 77, False)


def test_a_container_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert files(Api(None), tmp_path) == ContainerFiles()


def test_data_folders_are_those_that_are_there(tmp_path: Path) -> None:
    assert data_folders({"DockerRootDir": str(tmp_path)}) == (tmp_path,)
    assert data_folders({"DockerRootDir": str(tmp_path / "gone")}) == ()
    assert data_folders({}) == ()


class Engine:
    """Answers about itself, and counts how often it is asked."""

    def __init__(self, url: str, root: Path) -> None:
        self.url = url
        self.root = root
        self.asked = 0

    async def quick(self, work: object) -> dict[str, Any]:
        self.asked += 1
        return {"DockerRootDir": str(self.root)}


async def test_an_engine_is_asked_once_and_again_when_it_was_away(tmp_path: Path) -> None:
    engine = Engine("unix:///run/docker.sock", tmp_path)
    folders = EngineFolders(engine)  # type: ignore[arg-type]
    for _ in range(3):
        await folders.look()
    assert (folders.found, engine.asked) == ((tmp_path,), 1)
    folders.forget()
    assert folders.found == (tmp_path,), "its disk stays watched while it is away"
    await folders.look()
    assert engine.asked == 2


async def test_an_engine_over_the_network_has_its_disk_elsewhere(tmp_path: Path) -> None:
    folders = EngineFolders(Engine("tcp://10.0.0.7:2376", tmp_path))  # type: ignore[arg-type]
    await folders.look()
    assert folders.found == ()
