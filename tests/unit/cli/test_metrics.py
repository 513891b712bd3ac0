"""`headway metrics`, and what `headway show` says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import metrics
from headway.cli.main import cli
from headway.client.answers import parsed
from headway.errors import Unavailable

GPU = {"uuid": "GPU-1", "model": "A\x1b[31m100", "memory_bytes": 80 << 30, "simulated": True}
CARD = {
    "final": True,
    "rows": [{
        "resource": "gpu_utilisation", "unit": "share", "asked": 1.0, "used": 0.4, "share": 0.4,
        "sentence": "Its GPU was busy 40% of the time.",
    }],
    "suggested": {
        "timeout_s": 5400.0, "cpus": 3.0, "memory_bytes": 7 << 30, "gpus": 1, "gpu_memory_bytes": None,
    },
    "sentences": ["Memory of 7GiB is enough."],
}  # fmt: skip


def column(name: str, unit: str, values: list[float | None], gpu: int | None = None) -> dict[str, Any]:
    return {"name": name, "unit": unit, "gpu": gpu, "mean": values, "max": values}


def found(**more: Any) -> dict[str, Any]:
    return {
        "attempt": 2, "ended": True, "sentence": "", "every_s": 1.0, "began_at": 1.76e9, "step_s": 1.0, "samples": 4,
        "lost": 0, "gpus": [GPU], "at": [1.76e9 + n for n in range(4)],
        "columns": [
            column("cpu_used", "cpus", [0.0, 1.0, None, 2.0]),
            column("disk_read_bytes_per_s", "bytes/s", [2048.0] * 4),
            column("network_sent_bytes_per_s", "bytes/s", [None] * 4),
            column("utilisation", "share", [0.0, 0.5, None, 0.5], 0),
            column("power_w", "watt", [200.0] * 4, 0),
        ],
        "use": None, "efficiency": CARD,
        **more,
    }  # fmt: skip


class Server:
    """Answers, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer = found()
        self.asked: list[str] = []
        self.tasks = ["train"]
        self.events = ""
        self.breaks = False

    def meant(self, job: str) -> str:
        return job

    def job(self, job: str, *, attempts: bool = True) -> dict[str, Any]:
        return {"id": job, "tasks": [{"name": name} for name in self.tasks]}

    def ask(self, method: str, path: str, **kwargs: Any) -> Any:
        self.asked.append(path)
        request = httpx.Request(method, f"http://headway.test{path}")
        return parsed(json.dumps(self.answer), httpx.Response(200, json={}, request=request))

    def download(self, path: str, target: BinaryIO) -> int:
        self.asked.append(path)
        target.write(b"at,time")
        if self.breaks:
            raise Unavailable("It broke off.")
        return 7

    def stream(self, path: str, params: Any, *, silent_s: float) -> httpx.Response:
        self.asked.append(f"{path}?{params}")
        request = httpx.Request("GET", f"http://headway.test{path}")
        return httpx.Response(200, text=self.events, headers={"content-type": "text/event-stream"}, request=request)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def client() -> Iterator[Any]:
        yield made

    monkeypatch.setattr(metrics, "client", client)
    return made


def run(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(cli, ["metrics", *words])
    assert done.exit_code == status, done.output
    return done.output


def test_each_measured_column_is_a_line_with_its_plot_and_the_card_comes_last(server: Server) -> None:
    shown = run("j1")

    assert server.asked == ["/jobs/j1/tasks/train/attempts/latest/metrics"]
    lines = shown.splitlines()
    assert lines[0].startswith("attempt 2: 4 samples, one every 1s, from 2025-10-09")
    assert lines[3].split() == ["CPUs", "in", "use", "1.00", "2.00", "▁▅", "█"]
    assert "network out" not in shown
    assert "GPU 0, A�[31m100 (simulated)" in lines
    assert any(line.split() == ["utilisation", "33%", "50%", "▁▅", "▅"] for line in lines)
    assert lines[-4:] == [
        "asked against used",
        "   40% gpu utilisation  Its GPU was busy 40% of the time.",
        "  Memory of 7GiB is enough.",
        "  next time: timeout=1h30m cpus=3 memory=7GiB gpus=1",
    ]


def test_nothing_measured_is_one_sentence(server: Server) -> None:
    server.answer = found(samples=0, columns=[], at=[], efficiency=None, sentence="Nothing has been measured yet.")

    assert run("j1/train/2") == "Nothing has been measured yet.\n"
    assert server.asked == ["/jobs/j1/tasks/train/attempts/2/metrics"]


def test_a_table_is_whole_or_not_there(server: Server, tmp_path: Path) -> None:
    place = tmp_path / "samples.csv"
    run("j1/train", "--csv", str(place))
    assert place.read_text() == "at,time"
    server.breaks = True

    run("j1/train", "--csv", str(tmp_path / "other.csv"), status=1)

    assert [path.name for path in tmp_path.iterdir()] == ["samples.csv"]
    assert "can't be written" in run("j1/train", "--csv", str(tmp_path / "no" / "such"), status=1)


def test_what_excludes_each_other_and_a_job_of_many_tasks_are_told(server: Server) -> None:
    assert "goes without" in run("j1/train", "--csv", "-", "--follow", status=2)
    server.tasks = ["a", "b"]
    assert "name one of them, j1/TASK" in run("j1", status=2)
    assert "plots are SVG" in CliRunner().invoke(cli, ["show", "j1/a", "--plots", "x.png"]).output


def test_samples_are_printed_as_they_come_until_the_end(server: Server) -> None:
    head = {"attempt": 1, "columns": [{k: c[k] for k in ("name", "unit", "gpu")} for c in server.answer["columns"]]}
    server.events = (
        f"event: head\ndata: {json.dumps(head)}\n\n: alive\n\n"
        'id: 1\nevent: sample\ndata: {"at": 1760000000, "values": [1.5, 10, null, 0.5, 200]}\n\n'
        'event: end\ndata: {"sentence": ""}\n\n'
    )

    (line,) = run("j1", "-f").splitlines()

    assert line.split("  ", 1)[1] == "1.50 CPUs  | GPU 0:  50%  200 W"
    assert [json.loads(text)["event"] for text in run("j1", "-f", "-o", "json").splitlines()] == [
        "head", "sample", "end",
    ]  # fmt: skip


def test_a_broken_line_shows_no_sample_twice(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.client.samples._FIRST_PAUSE_S", 0.0)
    head = 'event: head\ndata: {"attempt": 1, "columns": []}\n\n'
    sample = 'id: 1.0004\nevent: sample\ndata: {{"at": {}, "values": []}}\n\n'
    lines = [
        head + sample.format(1),
        head + sample.format(1) + sample.format(2) + 'event: end\ndata: {"sentence": ""}\n\n',
    ]
    monkeypatch.setattr(Server, "events", property(lambda _: lines.pop(0)), raising=False)

    told = [json.loads(text) for text in run("j1", "-f", "-o", "json").splitlines()]

    assert [event.get("at", event["event"]) for event in told] == ["head", 1, 2, "end"]


def test_a_terminal_without_these_letters_gets_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_can_show", lambda text: False)

    assert metrics.spark([0.0, None, 1.0], 1.0) == "_ #"
    assert metrics._written(61.0, "celsius") == "61 C"
