"""Forty images by a grammar: none steers the platform. ``python -m benchmarks images_in_the_way`` tries hundreds."""

from __future__ import annotations

import os
import random
import tarfile
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.docker.conftest import DOCKER_SETTINGS
from tests.support.archives import layer, tar_of, tiny_image
from tests.support.cluster import a_cluster
from tests.support.dockerd import Engine
from tests.support.hostile_images import SPEC, Hostile, Trial, images
from tests.support.images import Entry, busybox_entries
from tests.support.layer_orders import special
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


def _fixed() -> dict[str, tuple[list[Entry], dict[str, object], str]]:
    spec = Entry("headway/run/spec", SPEC, mode=0o600)
    return {
        "a link in the launcher's old place": ([Entry("headway", link_to="/root/nfs")], {}, "ran"),
        "a link for the home": ([Entry("root/nfs", link_to="/headway/run")], {}, "image_bad"),
        "a volume in the box's old place": ([spec], {"Volumes": {"/headway/run": {}}}, "ran"),
        "the same in small letters": ([spec], {"volumes": {"/headway/run": {}}}, "ran"),
        "a volume at the home": ([spec], {"Volumes": {"/root/nfs": {}}}, "ran"),
        "a table that is a folder": ([Entry("etc/passwd")], {}, "image_bad"),
        "a table that is a ring": ([Entry("etc/group", link_to="group")], {}, "image_bad"),
        "a table in the home": ([Entry("etc/passwd", link_to="/root/nfs/spec")], {}, "image_bad"),
    }


def test_images_of_earlier_reports(trial: Trial) -> None:
    """Three of them were root, with seven capabilities and no timeout."""
    kept = [entry for entry in busybox_entries() if not entry.path.startswith("etc/")]
    hostile, wanted = [], {}
    for number, (words, (entries, settings, end)) in enumerate(_fixed().items()):
        image = tiny_image([*kept, *entries], tags=(), settings={"Env": ["PATH=/bin"], **settings})
        hostile.append(Hostile(f"fixed-{number}", words, "engine", image))
        wanted[words] = end
    outcomes = trial.run(hostile)
    assert {outcome.hostile.words: outcome.end for outcome in outcomes} == wanted
    assert [outcome.fault for outcome in outcomes if outcome.fault] == []
    assert trial.traces() == []


@pytest.mark.parametrize("source", ["engine", "registry"])
def test_a_pipe_in_the_place_of_a_table_holds_no_engine(trial: Trial, source: str) -> None:
    pipe = tar_of({"etc": special("etc/passwd", tarfile.FIFOTYPE)})
    kept = layer([entry for entry in busybox_entries() if not entry.path.startswith("etc/")])
    image = tiny_image(kept, pipe, tags=(), settings={"Env": ["PATH=/bin"]})
    (outcome,) = trial.run([Hostile(f"pipe-{source}", "a pipe", source, image)])
    assert (outcome.end, outcome.fault) == ("image_bad", "")
