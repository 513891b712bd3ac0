"""Forty images by a grammar: none steers the platform. ``python -m benchmarks images_in_the_way`` tries hundreds."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.docker.conftest import DOCKER_SETTINGS
from tests.support.archives import tiny_image
from tests.support.cluster import a_cluster
from tests.support.dockerd import Engine
from tests.support.hostile_images import Hostile, Trial, images
from tests.support.images import Entry, busybox_entries
from tests.support.registry import a_registry

pytestmark = [pytest.mark.docker, pytest.mark.timeout(400)]

COUNT = 40


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("generated")
    with (
        a_registry(folder / "registry") as registry,
        a_cluster(
            folder / "cluster",
            worker__docker_host=docker_engine.url,
            task_manager__platform_retries=0,
            **DOCKER_SETTINGS,
        ) as cluster,
    ):
        registry.serve_also_beside(docker_engine.pid)
        yield Trial(cluster, docker_engine, registry, folder)
    docker_engine.remove_containers()


def test_generated_images_do_not_steer_the_platform(trial: Trial) -> None:
    seed = int(os.environ.get("HEADWAY_IMAGES_SEED") or random.SystemRandom().randrange(1 << 31))
    print(f"HEADWAY_IMAGES_SEED={seed}")
    outcomes = trial.run(list(images(seed, COUNT)))
    print(Counter(outcome.end for outcome in outcomes))
    assert [f"{outcome.hostile.words}: {outcome.fault}" for outcome in outcomes if outcome.fault] == []
    assert trial.traces() == []
    assert {"ran", "image_bad", "refused at upload"} <= {outcome.end for outcome in outcomes}


@pytest.mark.parametrize("source", ["engine", "upload", "registry"])
def test_an_image_of_127_layers_with_links_in_a_ring(trial: Trial, source: str) -> None:
    rings = [[Entry(f"root/{number}", link_to=f"{(number + 1) % 126}")] for number in range(125)]
    ring = tiny_image(busybox_entries(), [Entry("root/nfs", link_to="0")], *rings, tags=())
    assert len(ring.layers) == 127
    (outcome,) = trial.run([Hostile("ring-of-127", "a ring", source, ring)])
    assert outcome.fault == ""
    assert outcome.end in ("image_bad", "refused at upload", "the engine takes no such image")
