"""Who has what at a terminal: `headway gpus`, `nodes`, `queue` and `ps`."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import cluster, gpus, nodes_top, ps, watching
from headway.cli.gpus import summary
from headway.cli.main import cli

JOB = "j0123456789abcdef"


ANNS = {"pid": 7, "owner": "ann", "command": "python train.py\x1b[31m", "memory_used_bytes": 300 << 20}


def a_booking(**more: Any) -> dict[str, Any]:
    return {
        "job_id": JOB, "job_name": "digits\x1b[31m", "task": "train", "owner": "ann", "node_id": "n1",
        "resources": {"gpus": 1, "cpus": 2.0, "memory_bytes": 4 << 30}, "since_at": time.time() - 3600,
        "ends_by_at": time.time() + 3600, "overdue": False, **more,
    }  # fmt: skip


def a_gpu(index: int, state: str | None = "free", **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"GPU-{index}", "index": index, "model": "A100", "memory_bytes": 40 << 30, "simulated": False,
        "utilisation": None, "sick": False, "busy_outside": False, "note": "", "state": state, "booking": None, **more,
    }  # fmt: skip


def a_node(*cards: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "n1", "health": "READY", "health_sentence": "", "admission": "OPEN", "cpus": 8.0, "cpus_used": 0.1,
        "memory_bytes": 32 << 30, "memory_used_bytes": 1 << 30, "live_attempts": 1, "runtime": "docker",
        "conditions": [], "note": "", "gpus": list(cards),
        "booked": {"gpus": 1, "cpus": 2.0, "memory_bytes": 4 << 30, "tasks": 1, "closed": ""}, **more,
    }  # fmt: skip


def told(total: int, free: int | None, *, unusable: int = 0, next_free_at: float | None = None) -> dict[str, Any]:
    return {"total": total, "free": free, "booked": 0, "unusable": unusable, "next_free_at": next_free_at}


class Server:
    """Answers as a server would."""

    def __init__(self) -> None:
        cards = (
            a_gpu(0, "booked", booking=a_booking(), utilisation=0.0),
            a_gpu(1, "booked", booking=a_booking(overdue=True), sick=True),
            a_gpu(2, "busy_outside", busy_outside=True, note="used by pid 7", processes=[ANNS]),
            a_gpu(3),
        )
        self.answer = {"nodes": [a_node(*cards)], "gpus": told(4, 1, unusable=1, next_free_at=1.0), "missing": []}
        self.asked: dict[str, Any] = {}

    def node_list(self) -> dict[str, Any]:
        return self.answer

    def nodes(self) -> Any:
        return self.answer["nodes"]

    def node(self, node_id: str) -> dict[str, Any]:
        (node,) = (node for node in self.answer["nodes"] if node["id"] == node_id)
        return node

    def return_gpu(self, node_id: str, uuid: str, *, gone: bool = False) -> dict[str, Any]:
        self.asked = {"node": node_id, "uuid": uuid, "gone": gone}
        return {"sentence": f"{uuid} is given out again.\x1b"}

    def me(self) -> dict[str, Any]:
        return {"name": "ann"}

    def jobs(self, **_: Any) -> Any:
        job = {
            "id": JOB, "state": "RUNNING", "held": False, "tasks_by_state": {}, "task_count": 3, "owner": "ann",
            "submitted_at": 1.0, "started_at": None, "ended_at": None, "name": "digits",
        }  # fmt: skip
        yield {**job, "gpus_booked": 3}
        yield {**job, "gpus_booked": None}

    def queue(self, **params: Any) -> dict[str, Any]:
        self.asked = params
        nobody = dict.fromkeys(("policy_set_by", "discipline_set_by", "failure", "contradictions"))
        return {
            "entries": [], "total_waiting": 0, "total_matching": 0, "total_running": 3, "policy": "fifo",
            "discipline": "easy", "scheduling": nobody, "running": [a_booking()], "running_matching": 3,
        }  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def client() -> Any:
        yield made

    for module in (cluster, gpus, nodes_top, ps):
        monkeypatch.setattr(module, "client", client)
    return made


def run(*args: str) -> str:
    result = CliRunner().invoke(cli, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_line_a_gpu_says_who_has_it_and_the_last_line_what_is_free(server: Server) -> None:
    heads, booked, sick, outside, free, process, last = run("gpus").splitlines()
    assert heads.split("  ")[0] == "NODE"
    assert f"booked          0%   {JOB}/train  ann    1h ago  " in booked
    assert "\x1b" not in booked
    assert "booked, faulty" in sick
    assert "overdue" in sick
    assert outside.split()[3:5] == ["busy", "outside"]
    assert outside.endswith("used by pid 7")
    assert process == "! GPU 2 of n1: python train.py�[31m of ann (process 7, 300 MiB) runs on it without Headway"
    assert free.split() == ["n1", "3", "A100", "free", "-", "-", "-", "-", "-"]
    assert last.startswith("1 of 4 GPUs free; 1 can't be used now; the next is free at ")
    assert last.endswith(" at the latest")
    assert json.loads(run("gpus", "-o", "json")) == server.answer


def test_a_gpu_is_returned_by_its_node_and_uuid(server: Server) -> None:
    assert "\x1b" not in run("gpus", "return", "n1", "GPU-2")
    assert server.asked == {"node": "n1", "uuid": "GPU-2", "gone": False}
    run("gpus", "return", "n1", "GPU-2", "--gone")
    assert server.asked["gone"]


def test_a_gpu_is_returned_by_its_number_too(server: Server) -> None:
    number = server.answer["nodes"][0]["gpus"][1]["index"]
    run("gpus", "return", "n1", str(number))
    assert server.asked["uuid"] == server.answer["nodes"][0]["gpus"][1]["uuid"]
    for node, named in (("n1", "99"), ("n9", "1")):
        result = CliRunner().invoke(cli, ["gpus", "return", node, named])
        assert (result.exit_code, f"{node} has no GPU {named}" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"nodes": [], "gpus": told(0, 0), "missing": []}, "no machine has registered yet"),
        ({"nodes": [a_node()], "gpus": told(0, 0), "missing": []}, "no machine has a GPU"),
        ({"nodes": [a_node()], "gpus": told(1, 1), "missing": []}, "1 of 1 GPU free"),
        (
            {"nodes": [a_node()], "gpus": told(2, None), "missing": [{"sentence": "Who holds them can't be shown."}]},
            "2 GPUs. Who holds them can't be shown.",
        ),
        ({"nodes": [a_node()]}, "this server is too old to tell who holds the GPUs"),
    ],
)
def test_the_last_line_fits_every_cluster(answer: dict[str, Any], sentence: str) -> None:
    assert summary(answer, 0.0) == sentence


def test_without_bookings_gpus_are_listed_and_a_closed_machine_says_why(server: Server) -> None:
    closed = {"gpus": 0, "cpus": 0.0, "memory_bytes": 0, "tasks": 0, "closed": "n1 does not answer"}
    server.answer["nodes"] = [a_node(a_gpu(0, "closed"), a_gpu(1, None), booked=closed)]
    lines = run("gpus").splitlines()
    assert [line.split()[3] for line in lines[1:3]] == ["closed", "unknown"]
    assert lines[3] == "! n1 does not answer"


def test_machines_tell_booked_and_used_apart(server: Server) -> None:
    heads, node = run("nodes").splitlines()
    assert "GPUS BOOKED  CPUS BOOKED  MEMORY BOOKED     CPUS USED  MEMORY USED" in heads
    assert "1/4          2/8          4.0 GiB/32.0 GiB  0.1        1.0 GiB" in node
    server.answer["nodes"] = [a_node(booked=None)]
    assert "?/8" in run("nodes")


def test_the_queue_shows_what_runs_and_what_it_holds(server: Server) -> None:
    lines = run("queue").splitlines()
    assert lines[0] == "0 waiting, 3 running (policy fifo, overtaking easy)"
    assert lines[2].startswith(f"{JOB}/train  ann    1     2     4.0 GiB  n1    1h ago")
    assert lines[3] == "(and 2 more; the next to end stand first)"
    assert server.asked["running"] == 20


def test_jobs_tell_how_many_gpus_they_hold(server: Server) -> None:
    heads, first, second = run("ps").splitlines()
    at = heads.index("GPUS")
    assert (first[at : at + 4].strip(), second[at : at + 4].strip()) == ("3", "-")


def test_top_shows_each_machine_and_all_readings_of_each_gpu(server: Server) -> None:
    hot = a_gpu(
        0, "booked", booking=a_booking(), utilisation=0.93, memory_used_bytes=30 << 30, memory_utilisation=0.41,
        temperature_c=71.4, power_w=288.7,
    )  # fmt: skip
    idle = a_gpu(1, "sick", sick=True, note="fell off the bus")
    server.answer["nodes"] = [a_node(hot, idle, load1=1.25, disk_free_bytes=1 << 40)]
    heads, node, _, gpu_heads, first, second, last = run("nodes", "top", "--once").splitlines()
    assert heads.split()[:4] == ["NODE", "HEALTH", "CPU", "OF"]
    assert "0.1  8   1.0 GiB  32.0 GiB  1.0 TiB" in node
    assert gpu_heads.split() == (
        ["NODE", "GPU", "MODEL", "USE", "MEMORY", "OF", "COPY", "TEMP", "POWER", "STATE", "TASK", "OWNER", "ENDS", "BY"]
    )
    assert "93%  30.0 GiB  40.0 GiB  41%   71 °C  289 W  booked" in first
    assert f"{JOB}/train  ann" in first
    assert second.split()[3:9] == ["-", "-", "40.0", "GiB", "-", "-"]
    assert "fell off the bus" in second
    assert last.startswith("1 of 4 GPUs free")
    assert json.loads(run("nodes", "top", "-o", "json"))["nodes"] == server.answer["nodes"]


def test_top_shows_it_anew_until_it_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([None, None])

    def rest(_seconds: float) -> None:
        if next(rounds, KeyboardInterrupt) is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", rest)
    result = CliRunner().invoke(cli, ["nodes", "top", "n1"])
    assert result.output.count("NODE  HEALTH") == 3
    assert "GPUs free" not in result.output, "what is free in all is no matter of one machine"


def test_top_says_which_machine_does_not_answer_and_shows_no_old_readings(server: Server) -> None:
    card = a_gpu(0, "closed", utilisation=0.93, memory_used_bytes=30 << 30, temperature_c=71.0, power_w=288.0)
    server.answer["nodes"] = [
        a_node(card, id="n1", health="DOWN", health_sentence="It has not answered for 2 min.", load1=9.5),
        a_node(id="n2", health="SUSPECT", health_sentence="It has not answered for 40 s.", load1=2.5),
    ]
    _, down, suspect, _, _, gpu, *_ = run("nodes", "top", "--once").splitlines()
    assert down.split()[:7] == ["n1", "DOWN", "-", "8", "-", "32.0", "GiB"]
    assert "It has not answered for 2 min." in down
    assert "9.5" not in down
    assert "2.50" in suspect
    assert "It has not answered for 40 s." in suspect
    assert gpu.split()[3:10] == ["-", "-", "40.0", "GiB", "-", "-", "-"]


def test_what_is_watched_is_cut_to_the_terminal() -> None:
    shown = ["\x1b[32mREADY\x1b[0m  a table", "wide 名前 名前", "third", "fourth"]
    assert watching.fitted(shown, 80, 4) == shown
    first, second, last = watching.fitted(shown, 8, 3)
    assert first == "\x1b[32mREADY\x1b[0m  a"
    assert second == "wide 名 "
    assert last == "(2 more "


def test_what_is_watched_keeps_its_colours_in_a_terminal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr(watching.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(watching.time, "sleep", lambda _s: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr(watching.shutil, "get_terminal_size", lambda: (40, 3))
    monkeypatch.setattr(watching.click, "clear", lambda: printed.append("clear"))
    monkeypatch.setattr(watching.click, "echo", lambda line: printed.append(line))
    with pytest.raises(KeyboardInterrupt):
        watching.watch(lambda: None, lambda _answer: print("\x1b[32mone\x1b[0m\n" * 5, end=""))
    assert printed == ["clear", "\x1b[32mone\x1b[0m", "(4 more lines do not fit here)"]


def test_a_machine_says_why_each_of_its_gpus_is_not_given_out(server: Server) -> None:
    cards = (a_gpu(0, "sick", sick=True, note="it fell off the bus"), a_gpu(1, "booked", booking=a_booking()))
    server.answer["nodes"] = [
        a_node(
            *cards, seen_at=1.0, engine_version="29.6", architecture="amd64", version="1.0", load1=None, images=[],
            disk_free_bytes=1, disk_total_bytes=2, driver_version="550.54", gpu_passing="",
        )
    ]  # fmt: skip
    lines = run("nodes", "show", "n1").splitlines()
    assert "driver 550.54" in lines
    assert "GPU 0 GPU-0 A100 40.0 GiB: faulty: it fell off the bus" in lines
    assert f"GPU 1 GPU-1 A100 40.0 GiB: without faults, held by ann: {JOB}/train" in lines
