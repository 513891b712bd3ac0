"""The units that `headway init` writes, run as systemd would: they come back, stop in good order, and jobs go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.test_init_and_join import Machines
from tests.support.cluster import first_attempts, submitted
from tests.support.unit_runner import UnitRunner
from tests.support.waiting import soon

pytestmark = pytest.mark.slow


@pytest.fixture
def units(tmp_path: Path) -> Iterator[dict[str, UnitRunner]]:
    """All units of one machine with a Worker, started in the order of their names."""
    machines = Machines(tmp_path / "with a blank 100%")
    machines.folder.mkdir()
    machines.init("--worker", "--name", "n1", f"--set=worker.bind=127.0.0.1:{machines.ports[4]}")
    found: dict[str, UnitRunner] = {}
    with ExitStack() as stack:
        for path in sorted((machines.folder / "a").glob("*.service")):
            runner = UnitRunner(path.stem, path.read_text(), tmp_path / f"{path.stem}.log")
            runner.start()
            stack.callback(runner.stop)
            found[path.stem] = runner
        found["client"] = machines.admin()  # type: ignore[assignment]
        yield found


def test_a_job_goes_on_over_every_stop_and_kill_of_a_workers_unit(units: dict[str, UnitRunner]) -> None:
    client = units.pop("client")
    worker = units["headway-worker"]
    soon(lambda: [n["health"] for n in client.nodes()] == ["READY"], within_s=30, what="the machine is ready")
    job = submitted(client, run_s=12)
    soon(lambda: [a["state"] for a in first_attempts(client, job)] == ["RUNNING"], within_s=30, what="it runs")

    assert worker.stop() == 0
    assert worker.starts == 1, "one that was stopped stays so"
    worker.start()
    worker.kill()
    worker.wait_ready()
    assert worker.ends[-1] == -signal.SIGKILL
    assert worker.starts == 3

    # The managers come back from a kill, too, in the time that a Worker's lease bears.
    for name, unit in units.items():
        if name != "headway-worker":
            unit.kill()
            unit.wait_ready()
    soon(lambda: client.patiently(lambda: client.job(job))["state"] == "SUCCEEDED", within_s=90, what="it ended well")
    # The page finds a service that was started anew a moment later, and shows no attempts until then.
    found = soon(lambda: first_attempts(client, job), within_s=30, what="the attempts are told")
    assert [one["number"] for one in found] == [1]

    for unit in units.values():
        assert unit.stop() == 0, unit.name
        unit.start()
