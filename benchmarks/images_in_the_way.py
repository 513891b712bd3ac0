"""Hundreds of images by a grammar (tests/support/hostile_images.py) that try to steer the platform, on a real engine.

Each ends in one of two ways: process 1 was Headway's launcher under its Worker's spec, or the image was refused.

HEADWAY_IMAGES: how many (300). HEADWAY_IMAGES_SEED: of their making; a fault names its image by it.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import a_cluster
from tests.support.dockerd import start_engine
from tests.support.hostile_images import Outcome, Trial, images
from tests.support.registry import a_registry

from .measure import Figure

IMAGES = 300
AT_A_TIME = 40  # so that no more than these lie in memory


def images_in_the_way() -> Iterator[Figure]:
    """One cluster, an engine and a registry of its own."""
    count = int(os.environ.get("HEADWAY_IMAGES", IMAGES))
    seed = int(os.environ.get("HEADWAY_IMAGES_SEED", random.SystemRandom().randrange(10_000)))
    outcomes: list[Outcome] = []
    with (
        start_engine() as engine,
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_registry(Path(folder) / "registry") as registry,
        a_cluster(
            Path(folder) / "cluster",
            worker__runtime="docker",
            worker__docker_host=engine.url,
            worker__cpus=8,
            worker__memory_bytes=16 << 30,
            task_manager__platform_retries=0,
        ) as cluster,
    ):
        registry.serve_also_beside(engine.pid)
        trial = Trial(cluster, engine, registry, Path(folder))
        made = images(seed, count)
        while some := list(itertools.islice(made, AT_A_TIME)):
            outcomes += trial.run(some)
        traces = trial.traces()
    faults = [outcome for outcome in outcomes if outcome.fault]
    ends = Counter(outcome.end for outcome in outcomes)
    for outcome in faults:
        print(f"       {outcome.hostile.words}: {outcome.fault}")
    for trace in traces:
        print(f"       in the home: {trace}")
    note = ", ".join(f"{number} {end}" for end, number in ends.most_common())
    yield Figure(f"images in the way: of {count}, neither ours nor refused", len(faults), "images", 0.0, note=note)
    yield Figure("images in the way: traces in the home", len(traces), "names", 0.0, note=f"seed {seed}")
