"""`GET /metrics` of five real processes, against the table in docs/interfaces.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.ports import free_ports
from tests.support.waiting import soon

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interfaces.md"
SERVICES = ("httpserver", "job_manager", "task_manager", "resource_manager", "worker")
OWNER = "ann"


@dataclass(frozen=True)
class Row:
    """One line of the page's table."""

    kind: str
    labels: frozenset[str]
    services: frozenset[str]


def the_page() -> dict[str, Row]:
    rows = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `headway_"):
            name, kind, labels, services = (cell.strip() for cell in line.split("|")[1:5])
            named = SERVICES if services == "all" else services.split(", ")
            rows[name.strip("`")] = Row(kind, frozenset(re.findall(r"`(\w+)`", labels)), frozenset(named))
    return rows


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> Iterator[Cluster]:
    doors = {f"{service}__metrics_listen": f"127.0.0.1:{port}" for service, port in ports.items()}
    with a_cluster(tmp_path_factory.mktemp("metrics"), **doors) as running:
        ann = running.user(OWNER)
        job = a_job(scripted_task("secret-task"), scripted_task("fails", exit_code=3), name="secret-job")
        assert ann.wait(ann.submit(job)["id"], timeout_s=60)["state"] == "FAILED"
        yield running


def scrape(port: int) -> dict[str, Metric]:
    """The families by the names that people type."""
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        found[f"{family.name}_total" if family.type == "counter" else family.name] = family
    return found


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    for sample in families[name].samples:
        if sample.name == name and labels.items() <= sample.labels.items():
            return sample.value
    raise AssertionError(f"no {name} {labels}")


@pytest.mark.parametrize("service", SERVICES)
def test_the_page_names_what_each_service_shows_and_nothing_else(
    cluster: Cluster, ports: dict[str, int], service: str
) -> None:
    families = scrape(ports[service])
    page = the_page()
    mine = {name: family for name, family in families.items() if not name.endswith("_created")}
    ours = {name for name in mine if name.startswith("headway_")}
    assert ours == {name for name, row in page.items() if service in row.services}
    assert {name for name in mine if name not in ours and not name.startswith(("process_", "python_"))} == set()
    assert value(families, "process_resident_memory_bytes") > 1 << 20
    for name in ours:
        assert mine[name].type == page[name].kind, name
        for sample in mine[name].samples:
            assert set(sample.labels) - {"le"} == page[name].labels, sample
    assert value(families, "headway_ready") == 1


def test_the_numbers_are_true(cluster: Cluster, ports: dict[str, int]) -> None:
    jobs, tasks, nodes, worker = (scrape(ports[service]) for service in SERVICES[1:])
    assert value(jobs, "headway_jobs_ended_total", state="FAILED") == 1
    assert value(jobs, "headway_jobs", state="RUNNING") == 0
    assert value(jobs, "headway_submits_total", result="stored") == 1
    assert value(jobs, "headway_outbox_rows", target="task-manager") == 0
    assert value(jobs, "headway_grpc_calls_total", method="JobManager/SubmitJob", code="OK") >= 1
    assert value(tasks, "headway_dispatches_total") == 2
    assert value(tasks, "headway_tasks_waiting") == value(tasks, "headway_attempts_live") == 0
    assert value(nodes, "headway_nodes", health="READY") == 1
    assert value(nodes, "headway_nodes_admission", admission="OPEN") == 1
    assert value(worker, "headway_heartbeats_total") >= 1
    assert value(worker, "headway_heartbeats_failed_total") <= value(worker, "headway_heartbeats_total")

    def lag_is_looked_at() -> bool:
        families = scrape(ports["task_manager"])
        counts = [s.value for s in families["headway_event_loop_lag_seconds"].samples if s.name.endswith("_count")]
        return counts[0] > 0

    soon(lag_is_looked_at, what="the loop's lag is looked at once somebody scrapes")


def test_no_series_names_an_account_a_job_or_a_task(cluster: Cluster, ports: dict[str, int]) -> None:
    assert cluster.client.nodes()
    for port in (*ports.values(), cluster.http_port):
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20).text
        assert "headway_info{" in text
        for name in (f'"{OWNER}"', f"/{OWNER}", "secret-job", "secret-task"):
            assert name not in text
