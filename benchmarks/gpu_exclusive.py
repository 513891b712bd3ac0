"""Two Workers with two pretend GPUs each, and many short tasks: does the engine ever give one GPU to two of them?

Each Worker has an engine and a stand-in for NVIDIA's library of its own. So tasks get GPUs by a real device request,
and the engine itself knows which container has which GPU, and from when until when. Shared cards are not looked at.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from tests.support.cluster import SERVICES, Cluster, a_job
from tests.support.dockerd import Engine, start_engine
from tests.support.images import BUSYBOX
from tests.support.nvml import Gpu, PretendGpus
from tests.support.waiting import soon

from .measure import Figure

NODES, CARDS = ("n1", "n2"), 2
TASKS = int(os.environ.get("HEADWAY_GPU_TASKS", "200"))
SEED = int(os.environ.get("HEADWAY_GPU_SEED", "15"))
_LABEL = "headway.attempt"
_WITHIN_S = 540


@dataclass(frozen=True, slots=True)
class Use:
    """One container and its GPUs. Instants are the engine's, in nanoseconds; None: it has not ended."""

    attempt: str
    gpus: frozenset[str]
    start_ns: int
    end_ns: int | None = None


def twice(uses: Iterable[Use]) -> list[tuple[str, str, str]]:
    """Each GPU that two attempts had at one moment, with both. An end and a start at one instant are no fault."""
    by_gpu: dict[str, list[Use]] = {}
    for use in uses:
        for gpu in use.gpus:
            by_gpu.setdefault(gpu, []).append(use)
    found = []
    for gpu, several in sorted(by_gpu.items()):
        several.sort(key=lambda use: use.start_ns)
        for number, first in enumerate(several):
            for second in several[number + 1 :]:
                if first.end_ns is not None and first.end_ns <= second.start_ns:
                    break  # those behind it start later still
                found.append((gpu, first.attempt, second.attempt))
    return found


def most_at_once(uses: Iterable[Use]) -> int:
    """How many GPUs were in use at one moment."""
    moments = []
    for use in uses:
        moments.append((use.start_ns, 1, len(use.gpus)))
        if use.end_ns is not None:
            moments.append((use.end_ns, 0, -len(use.gpus)))
    most = now = 0
    for _, _, step in sorted(moments):  # an end comes before a start of the same instant
        now += step
        most = max(most, now)
    return most


def shortest_gap_ns(uses: Iterable[Use]) -> int | None:
    """From the end of one attempt to the next start on the same GPU. None: no GPU was used twice."""
    by_gpu: dict[str, list[Use]] = {}
    for use in uses:
        for gpu in use.gpus:
            by_gpu.setdefault(gpu, []).append(use)
    gaps = []
    for several in by_gpu.values():
        several.sort(key=lambda use: use.start_ns)
        for first, second in itertools.pairwise(several):
            if first.end_ns is not None:
                gaps.append(second.start_ns - first.end_ns)
    return min(gaps, default=None)


def not_as_booked(uses: Iterable[Use], booked: Mapping[str, Iterable[str]]) -> set[str]:
    """The attempts that had other GPUs than those that were booked, no container, or no booking."""
    given: dict[str, set[str]] = {}
    for use in uses:
        given.setdefault(use.attempt, set()).update(use.gpus)
    return {name for name in given.keys() | booked.keys() if given.get(name) != set(booked.get(name, ()))}


@dataclass(slots=True)
class Records:
    """Reads what one engine writes of its containers, while they come and go."""

    engine: Engine
    uses: dict[str, Use] = field(default_factory=dict)  # by the container's id
    failures: list[str] = field(default_factory=list)
    _ask: Any = None
    _stream: Any = None
    _thread: threading.Thread | None = None

    def open(self) -> None:
        self._ask, listener = self.engine.client(), self.engine.client()
        self._stream = listener.api.events(
            decode=True, filters={"type": "container", "label": _LABEL, "event": ["start", "die"]}
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._ask.close()

    def _listen(self) -> None:
        for event in self._stream:
            try:
                self._note(event)
            except (DockerException, KeyError, TypeError) as error:
                self.failures.append(str(error))

    def _note(self, event: dict[str, Any]) -> None:
        container, at_ns = str(event["id"]), int(event["timeNano"])
        if event["Action"] == "start":
            found = self._ask.api.inspect_container(container)
            gpus = [uuid for one in found["HostConfig"]["DeviceRequests"] or () for uuid in one["DeviceIDs"] or ()]
            labels = found["Config"]["Labels"]
            name = f"{labels['headway.task']}.{labels['headway.number']}"
            self.uses[container] = Use(name, frozenset(gpus), at_ns)
        elif container in self.uses:
            self.uses[container] = replace(self.uses[container], end_ns=at_ns)


def _uuid(node: str, card: int) -> str:
    return f"GPU-{node[1:]:0>8}-aaaa-bbbb-cccc-{card:012}"


def _tasks() -> list[dict[str, Any]]:
    """One or two GPUs each, and up to half a second."""
    dice = random.Random(SEED)
    return [
        {
            "name": f"t{number}",
            "image": BUSYBOX,
            "command": ["sleep", f"{dice.uniform(0, 0.5):.2f}"],
            "timeout": "5m",
            "resources": {"cpus": 0.5, "memory": "64MiB", "gpus": dice.choice((1, 1, 2))},
        }
        for number in range(TASKS)
    ]


def gpu_exclusive() -> Iterator[Figure]:
    """By the engines' own records of each container's start, end and device request."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hwb")))
        engines = {node: stack.enter_context(start_engine()) for node in NODES}
        cluster = _cluster(folder, engines)
        stack.callback(cluster.close)
        records = [Records(engine) for engine in engines.values()]
        for one in records:
            stack.callback(one.close)
            one.open()
        tasks = _tasks()
        began = time.monotonic()
        job = cluster.client.submit(a_job(*tasks))["id"]
        done = cluster.client.wait(job, timeout_s=_WITHIN_S, poll_s=0.5)
        took = time.monotonic() - began
        assert done["state"] == "SUCCEEDED", done["state"]
        booked = {f"{task['name']}.{a['number']}": a["gpu_uuids"] for task in done["tasks"] for a in task["attempts"]}
        soon(lambda: not any(_running(one) for one in records), within_s=30, what="all containers have ended")
        uses = [use for one in records for use in one.uses.values()]
        failures = [failure for one in records for failure in one.failures]
    found = twice(uses)
    asked = sum(task["resources"]["gpus"] for task in tasks)
    gap = shortest_gap_ns(uses)
    note = f"{len(uses)} containers with {sum(len(use.gpus) for use in uses)} GPUs in {took:.0f} s, seed {SEED}"
    if gap is not None:
        note += f"; shortest time from an end to the next start on a GPU: {gap / 1e6:.0f} ms"
    yield Figure("gpu_exclusive: two attempts on one GPU", len(found), "times", 0, note=note)
    for gpu, first, second in found[:5]:
        yield Figure(f"  {gpu}: {first} and {second}", 1, "times")
    wrong = not_as_booked(uses, booked)
    note = f"{asked} asked for"
    if wrong or failures:
        note += f"; {', '.join(sorted(wrong)[:5])}; {'; '.join(failures[:3])}"
    yield Figure("gpu_exclusive: attempts without the GPUs that were booked", len(wrong), "", 0, note=note)
    yield Figure("gpu_exclusive: GPUs in use at one moment", most_at_once(uses), "", len(NODES) * CARDS, at_most=False)


def _running(records: Records) -> bool:
    return any(use.end_ns is None for use in list(records.uses.values()))


def _cluster(folder: Path, engines: dict[str, Engine]) -> Cluster:
    settings = {
        "worker.runtime": "docker",
        "worker.cpus": 4,
        "worker.memory_bytes": 8 << 30,
        "worker.pull_images": False,
        "httpserver.ask_registries": False,
    }
    own = {node: {"worker.docker_host": engine.url} for node, engine in engines.items()}
    cluster = Cluster(folder / "c", NODES, settings, worker_settings=own)
    try:
        cluster.start(*SERVICES)
        for node in NODES:  # each machine has a driver of its own
            (folder / node).mkdir()
            gpus = PretendGpus(folder / node)
            gpus.set([Gpu(_uuid(node, card)) for card in range(CARDS)])
            cluster.environment = gpus.environment()
            cluster.start(node)
        cluster.wait_ready()
        soon(
            lambda: sum(len(node["gpus"]) for node in cluster.client.nodes()) == len(NODES) * CARDS,
            within_s=60,
            what="all GPUs are found",
        )
    except BaseException:
        cluster.close()
        raise
    return cluster
