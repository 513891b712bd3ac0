"""A real Prometheus of the tests' own, on a free port, that looks at what a test names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from .ports import free_port
from .waiting import soon

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **params: str) -> Any:
        """The data of an answer; it must be a good one."""
        answer = httpx.get(f"{self._url}/{path}", params=params, timeout=20).json()
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    def values(self, expression: str) -> list[float]:
        """What an expression is now, one value for each series."""
        return [float(one["value"][1]) for one in self.ask("query", query=expression)["result"]]

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self._url}/status/config", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def a_prometheus(folder: Path, ports: Mapping[str, int]) -> Iterator[Prometheus]:
    """With the configuration that we ship; only the addresses, by service, are the test's, and it looks each second."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(MONITORING / name) for name in config["rule_files"]]
    (job,) = config["scrape_configs"]
    assert {target["labels"]["service"] for target in job["static_configs"]} == set(ports)
    for target in job["static_configs"]:
        target["targets"] = [f"127.0.0.1:{ports[target['labels']['service']]}"]
    folder.mkdir(parents=True)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    try:
        made = Prometheus(port)
        soon(made.answers, within_s=60, what="Prometheus answers")
        yield made
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
