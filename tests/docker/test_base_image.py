from __future__ import annotations

import os
import subprocess
from pathlib import Path

import docker
import pytest

from tests.support.dockerd import Engine

# Making the image takes a minute or two where it isn't kept from an earlier run.
pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(600)]

_LOOK = """
import os, sys
from sklearn.datasets import load_digits
print(sys.version_info[:2] >= (3, 11), load_digits().data.shape, os.environ["LANG"], os.stat("/root").st_mode & 0o77)
"""


def test_the_base_image_has_python_and_the_digits(docker_client: docker.DockerClient, python_image: str) -> None:
    output = docker_client.containers.run(python_image, ["python3", "-c", _LOOK], remove=True, network_mode="none")
    assert output == b"True (1797, 64) C.UTF-8 0\n"
    assert b"pip 2" in docker_client.containers.run(python_image, ["pip", "--version"], remove=True)


def test_an_image_that_is_there_is_left_alone(
    docker_engine: Engine, docker_client: docker.DockerClient, python_image: str, repository: Path
) -> None:
    before = docker_client.images.get(python_image).id
    subprocess.run(
        [repository / "images" / "build-base"], env={**os.environ, "DOCKER_HOST": docker_engine.url}, check=True
    )
    assert docker_client.images.get(python_image).id == before


def test_an_engine_that_does_not_answer_is_one_clear_sentence(repository: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [repository / "images" / "build-base"],
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "does not answer" in done.stderr
