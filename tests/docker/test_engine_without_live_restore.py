"""An engine with Docker's default settings: it ends its containers when it goes. That is no fault of the tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import a_cluster, a_job
from tests.support.dockerd import Engine, start_engine
from tests.support.images import BUSYBOX
from tests.support.ticking import import_ticker, read_file, ticking_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

COUNT = 3
# A graceful stop of the engine waits for it, and answers meanwhile on connections that are open.
_ENDS_SLOWLY = """[ $HEADWAY_ATTEMPT = 2 ] && exit 0
trap 'sleep 5; exit 1' TERM
echo up
while :; do sleep 0.1; done"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with start_engine(gpu_hook=False, live_restore=False) as engine:
        client = engine.client()
        try:
            import_ticker(client)
        finally:
            client.close()
        yield engine


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Jobs]:
    with a_cluster(
        tmp_path_factory.mktemp("house"),
        worker__docker_host=engine.url,
        worker__pull_images=False,
        worker__engine_timeout_s=10,
        task_manager__platform_retry_delay_s=0.5,
        **DOCKER_SETTINGS,
    ) as cluster:
        yield Jobs(cluster, engine)
    engine.remove_containers()


def conditions(house: Jobs) -> set[str]:
    return {condition["word"] for condition in house.cluster.client.node("n1")["conditions"]}


def test_the_node_says_so_and_takes_work(house: Jobs) -> None:
    soon(lambda: "live_restore_off" in conditions(house), within_s=30, what="the condition holds")
    assert house.prints("echo well") == b"well\n"


@pytest.mark.parametrize("how", ["crash", "stop"])
def test_what_the_engine_ended_is_run_again(house: Jobs, how: str) -> None:
    """6 of 10 tasks ended for good, as if a person had killed them. Some were just being started."""
    names = [f"{how}-{i}" for i in range(COUNT)]
    slow = house.begin(a_task(_ENDS_SLOWLY, grace="20s"))
    house.until_it_prints(slow, b"up")
    running = house.begin(*(ticking_task(name, ticks=20) for name in names))
    soon(lambda: all((house.home() / name).exists() for name in names), within_s=60, every_s=0.05, what="all run")
    starting = house.begin(*(ticking_task(f"{how}-late-{i}", ticks=4) for i in range(COUNT)))
    if how == "crash":
        house.engine.kill9()
    else:
        house.engine.stop()
    house.engine.start()
    for job in (running, starting):
        done = house.cluster.client.wait(job, timeout_s=120)
        for task in done["tasks"]:
            reasons = [attempt["reason"] for attempt in task["attempts"]]
            assert task["state"] == "SUCCEEDED", reasons
            assert "killed_outside" not in {reason["word"] for reason in reasons if reason}
            told = read_file(house.home() / task["name"])
            assert (told.at_once, told.again, len(told.ended)) == (False, False, 1), told
    task = house.ended(slow)
    assert (task["state"], len(task["attempts"])) == ("SUCCEEDED", 2), task["attempts"]
    house.none_is_left(within_s=60)


def test_a_container_of_somebody_else_is_never_touched(house: Jobs) -> None:
    """One with an attempt's name stalled it for minutes, and was then removed by force with its volumes."""
    job = str(
        house.cluster.client.submit(
            a_job(a_task("sleep 6", "first"), *(a_task("echo ran", name, needs=["first"]) for name in ("one", "two")))
        )["id"]
    )
    client = house.engine.client()
    try:
        others = {}
        for name in ("one", "two"):
            folder = f"{job}.{name}.1"
            labels = {"headway.attempt": folder, "headway.cluster": "another"} if name == "two" else {}
            others[f"headway-{folder}"] = client.containers.run(
                BUSYBOX, ["sleep", "300"], name=f"headway-{folder}", labels=labels, volumes=["/kept"], detach=True
            )
        done = house.cluster.client.wait(job, timeout_s=90)
        for task in done["tasks"][1:]:
            first, second = task["attempts"]
            assert first["reason"]["word"] == "start_failed"
            assert f"headway-{job}.{task['name']}.1 that is not Headway's" in first["reason"]["sentence"], first
            assert (task["state"], second["state"]) == ("SUCCEEDED", "SUCCEEDED")
        for name, other in others.items():
            other.reload()
            assert (other.status, other.name) == ("running", name)
            assert client.api.inspect_container(other.id)["Mounts"][0]["Type"] == "volume"
            other.remove(force=True, v=True)
    finally:
        client.close()
