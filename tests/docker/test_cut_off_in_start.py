"""A machine that is cut off while its engine hangs in a start: what was given to another machine begins there alone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS
from tests.support.cluster import QUICK_LEASES, Cluster, a_job
from tests.support.cut_lines import CutLines
from tests.support.dockerd import Engine, start_engine
from tests.support.scratch import short_folder
from tests.support.ticking import import_ticker, read_file, ticking_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

Machines = tuple[Cluster, dict[str, Engine], dict[str, CutLines]]


@pytest.fixture
def machines() -> Iterator[Machines]:
    """Two machines, each with an engine and lines of its own."""
    folder = short_folder("cut")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        engines = {name: stack.enter_context(start_engine(gpu_hook=False)) for name in ("n1", "n2")}
        lines = {name: CutLines() for name in engines}
        for engine in engines.values():
            client = engine.client()
            import_ticker(client)
            client.close()
        settings = {**DOCKER_SETTINGS, **QUICK_LEASES, "worker__pull_images": False, "worker__engine_timeout_s": 10}
        settings["task_manager__platform_retry_delay_s"] = 0.5
        cluster = Cluster(
            folder,
            tuple(engines),
            {key.replace("__", "."): value for key, value in settings.items()},
            {name: {**lines[name].settings, "worker.docker_host": engines[name].url} for name in engines},
        )
        stack.callback(cluster.close)
        for line in lines.values():
            stack.callback(line.close)
            line.connect(cluster)
        cluster.start()
        cluster.wait_ready()
        yield cluster, engines, lines


def test_an_engine_that_goes_on_after_the_lease_begins_nothing(machines: Machines) -> None:
    """The first attempt began 40 s after the cut, beside the second: its lease counted from the container's start."""
    cluster, engines, lines = machines
    client, file = cluster.client, cluster.mount / "homes" / "admin" / "ticks"
    for name in engines:
        soon(lambda name=name: "enforced=true" in cluster.log(name).lower(), within_s=30, what="leases are enforced")
    for engine in engines.values():
        engine.pause()
    job = client.submit(a_job(ticking_task("ticks", ticks=24)))["id"]
    cut_off = "n1"

    def attempts() -> list[dict[str, Any]]:
        return list(client.job(job)["tasks"][0]["attempts"])

    try:
        cut_off = soon(attempts, within_s=20, what="it is placed")[0]["node_id"]
        time.sleep(2)  # its launch comes; the engine hangs in the start
        (other,) = set(engines) - {cut_off}
        lines[cut_off].cut()
        engines[other].resume()
        soon(lambda: "2" in read_file(file).begun, within_s=40, what="it was lost, and begun on the other machine")
    finally:
        engines[cut_off].resume()
    time.sleep(4)
    assert read_file(file).begun == ("2",), "the engine goes on, and the first must not begin"
    lines[cut_off].heal()
    (task,) = client.wait(job, timeout_s=60)["tasks"]
    assert [attempt["node_id"] for attempt in task["attempts"]] == [cut_off, other]
    assert (task["state"], task["attempts"][0]["state"]) == ("SUCCEEDED", "LOST")
    time.sleep(2)
    told = read_file(file)
    assert (told.begun, told.ended, told.at_once) == (("2",), ("2",), False)
    soon(lambda: not _containers(engines[cut_off]), within_s=30, what="nothing is left of the first")


def _containers(engine: Engine) -> list[str]:
    client = engine.client()
    try:
        return [entry["Names"][0] for entry in client.api.containers(all=True)]
    finally:
        client.close()
