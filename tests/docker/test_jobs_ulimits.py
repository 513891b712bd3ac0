"""Limits of processes: what the kernel lets this engine give, and what tasks then have."""

from __future__ import annotations

import pytest
from docker.errors import APIError

from headway.client import Refused
from headway.model.reasons import EndWord
from tests.docker.conftest import Jobs, a_task
from tests.support.images import BUSYBOX
from worker.runtime.docker_errors import start_refusal
from worker.runtime.docker_ulimits import most_ulimits

pytestmark = pytest.mark.docker

# The shell counts locked memory in KiB.
_TOLD = "ulimit -Sn; ulimit -Hn; ulimit -Sl; ulimit -Hl"


def most(jobs: Jobs) -> dict[str, int]:
    """What the node tells, which is what the engine's process may hand on."""
    told: dict[str, int] = jobs.cluster.client.nodes()[0]["most_ulimits"]
    assert told == dict(most_ulimits(jobs.engine.pid))
    assert set(told) == {"memlock", "nofile"}
    return told


def engine_starts(jobs: Jobs, **limit: int | str) -> str:
    """What the engine says to a container with this limit; empty: it started it."""
    client = jobs.engine.client()
    try:
        host = {"Ulimits": [limit], "NetworkMode": "none"}
        made = client.api.create_container_from_config({"Image": BUSYBOX, "Cmd": ["true"], "HostConfig": host})["Id"]
        try:
            client.api.start(made)
        except APIError as error:
            refusal = start_refusal(error, node="n1", image=BUSYBOX, gpus=False)
            assert (refusal.word, refusal.elsewhere) == (EndWord.START_FAILED, True)
            return refusal.message
        finally:
            client.api.remove_container(made, force=True)
        return ""
    finally:
        client.close()


def test_the_program_has_what_was_asked_for(jobs: Jobs) -> None:
    limits = {"nofile": {"soft": 300, "hard": 700}, "memlock": {"soft": "64KiB", "hard": "1MiB"}}
    assert jobs.prints(_TOLD, ulimits=limits).split() == [b"300", b"700", b"64", b"1024"]
    assert jobs.prints(_TOLD, ulimits={"nofile": 512, "memlock": "128KiB"}).split() == [b"512", b"512", b"128", b"128"]


def test_the_most_that_a_node_tells_is_what_its_engine_gives(jobs: Jobs) -> None:
    told = most(jobs)
    locked = "unlimited" if told["memlock"] < 0 else f"{told['memlock']}B"
    limits = {"nofile": told["nofile"], "memlock": locked}
    shown = b"unlimited" if told["memlock"] < 0 else str(told["memlock"] // 1024).encode()
    files = str(told["nofile"]).encode()
    assert jobs.prints(_TOLD, ulimits=limits).split() == [files, files, shown, shown]
    above = told["nofile"] + 1
    assert "no such ulimits" in engine_starts(jobs, Name="nofile", Soft=above, Hard=above)
    if told["memlock"] >= 0:
        assert "no such ulimits" in engine_starts(jobs, Name="memlock", Soft=-1, Hard=-1)


def test_more_than_every_node_has_is_refused_at_submit(jobs: Jobs) -> None:
    told = most(jobs)
    with pytest.raises(Refused) as refused:
        jobs.begin(a_task("true", ulimits={"nofile": told["nofile"] + 1}))
    (problem,) = refused.value.problems
    assert problem.pointer == "/tasks/0/ulimits"
    assert f"n1 gives nofile {told['nofile']:,} at most." in problem.message


def test_a_task_without_has_what_the_engine_gives_by_itself(jobs: Jobs) -> None:
    client = jobs.engine.client()
    try:
        own = client.containers.run(BUSYBOX, ["sh", "-c", _TOLD], network_mode="none", remove=True)
    finally:
        client.close()
    assert jobs.prints(_TOLD) == own
