"""`GET /metrics` of five real processes, against the table in docs/interfaces.md."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.ports import free_ports
from tests.support.prometheus import MONITORING, a_prometheus
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
    settings: dict[str, Any] = {f"{name}__metrics_listen": f"127.0.0.1:{port}" for name, port in ports.items()}
    with a_cluster(tmp_path_factory.mktemp("metrics"), tls=True, worker__simulated_gpus=2, **settings) as running:
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
    for sample in families[name.removesuffix("_count")].samples:
        if sample.name == name and labels.items() <= sample.labels.items():
            return sample.value
    raise AssertionError(f"no {name} {labels}")


# No hook for growth is configured here.
ONLY_WITH_A_HOOK = {"headway_autoscale_calls"}


@pytest.mark.parametrize("service", SERVICES)
def test_the_page_names_what_each_service_shows_and_nothing_else(
    cluster: Cluster, ports: dict[str, int], service: str
) -> None:
    families = scrape(ports[service])
    page = the_page()
    mine = {name: family for name, family in families.items() if not name.endswith("_created")}
    ours = {name for name in mine if name.startswith("headway_")}
    assert ours == {name for name, row in page.items() if service in row.services} - ONLY_WITH_A_HOOK
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
    assert value(tasks, "headway_queue_wait_seconds_count") == 2
    for phase in ("scheduling", "dispatch", "startup", "preparing", "running"):
        assert value(tasks, "headway_attempt_phase_seconds_count", phase=phase) == 2, phase
    assert value(tasks, "headway_attempts_ended_total", state="SUCCEEDED", end="exited") == 1
    assert value(tasks, "headway_attempts_ended_total", state="FAILED", end="exited") == 1
    assert value(tasks, "headway_attempts_ended_total", state="LOST", end="node_lost") == 0
    assert value(nodes, "headway_nodes", health="READY") == 1
    assert value(nodes, "headway_node_health", node="n1", health="READY") == 1
    assert value(nodes, "headway_node_health", node="n1", health="DOWN") == 0
    assert value(nodes, "headway_node_disk_free_bytes", node="n1") > 0
    assert len(nodes["headway_gpu_info"].samples) == 2
    assert {sample.value for sample in nodes["headway_gpu_sick"].samples} == {0}
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


# -- what we ship for Prometheus and Grafana ---------------------------------------------------------


def dashboard_expressions() -> list[str]:
    """What the panels ask, with Grafana's variables filled in."""
    board = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(found) > 40
    return [one.replace("$__rate_interval", "1m").replace("$node", ".*") for one in found]


def alert_expressions() -> list[str]:
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def families_in(expressions: Iterable[str]) -> set[str]:
    names = re.findall(r"\b(?:headway|process)_\w+", " ".join(expressions))
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


def test_dashboard_and_alerts_name_only_what_is_there(cluster: Cluster, ports: dict[str, int]) -> None:
    shown = {name for port in ports.values() for name in scrape(port)}
    asked = families_in([*dashboard_expressions(), *alert_expressions()])
    assert asked <= shown, asked - shown
    # What nobody sees on the dashboard and no alert needs is named here, so that a new number gets its place.
    unseen = {name for name in shown - asked if name.startswith("headway_") and not name.endswith("_created")}
    assert unseen == {
        "headway_info", "headway_nodes_admission", "headway_worker_attempts", "headway_worker_blocking_conditions",
        "headway_grpc_call_seconds", "headway_grpc_streams", "headway_db_commit_seconds", "headway_inbox_items",
        "headway_inbox_batch_items", "headway_outbox_rows", "headway_http_request_seconds",
        "headway_http_event_streams", "headway_http_log_streams", "headway_jobs", "headway_jobs_ended_total",
        "headway_submits_total", "headway_turn_seconds", "headway_pass_seconds",
    }  # fmt: skip


@pytest.mark.prometheus
def test_a_real_prometheus_takes_numbers_dashboard_and_alerts(
    cluster: Cluster, ports: dict[str, int], tmp_path: Path
) -> None:
    with a_prometheus(tmp_path / "prometheus", ports) as prometheus:
        soon(lambda: prometheus.values('up{job="headway"}') == [1.0] * 5, what="all services are up", within_s=60)
        assert prometheus.values("count(headway_gpu_info)") == [2]
        for expression in dashboard_expressions():
            prometheus.ask("query", query=expression)
        task = scripted_task("holds", run_s=120, resources={"gpus": 1})
        holder = cluster.client.submit(a_job(task))["id"]
        soon(lambda: prometheus.values("count(headway_gpu_booked)") == [1], what="a GPU is booked", within_s=60)
        joined = "headway_gpu_info and on (node, uuid) headway_gpu_booked"
        assert prometheus.values(joined) == [1], "bookings and readings meet by machine and card"
        cluster.client.act("cancel", holder)
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        assert len(rules) == len(alert_expressions())
        soon(
            lambda: (
                {rule["health"] for group in prometheus.ask("rules")["groups"] for rule in group["rules"]} == {"ok"}
            ),
            what="all rules are evaluated",
        )


@pytest.mark.prometheus
def test_each_alert_comes_when_it_shall() -> None:
    for command in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts.test.yml")):
        done = subprocess.run(["promtool", *command], cwd=MONITORING, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = (MONITORING / "alerts.test.yml").read_text()
    alerts = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    assert [name for name in alerts if f"alertname: {name}\n" not in tested] == []
