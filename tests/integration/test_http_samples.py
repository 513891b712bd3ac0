"""Samples of attempts over HTTP: points, tables, plots and followers; what is cut, broken or missing."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headway.model.gpu_readings import GpuReadings
from headway.model.simulated_gpus import simulated_uuid
from headway.rpc.v1 import common_pb2 as common
from headway.samples.model import GpuIdentity, Header, Sample
from headway.samples.writing import RollUp, encode_header, encode_sample
from httpserver.logs.places import FollowPlaces
from tests.integration.http_rig import Rig, a_rig, submit
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

BEGAN = 1_760_000_000.0
HOSTILE = '<script>alert("&")</script>\x00\ud7ff'
CARDS = (GpuIdentity("GPU-1", HOSTILE, 80 << 30), GpuIdentity(simulated_uuid("node-1", 2), "A100", 40 << 30))
HEADER = Header(CARDS, 1.0, BEGAN)
LONE = {"resources": {"cpus": 8, "memory": "32GiB", "gpus": 2}, "timeout": "8h"}


def sample(second: int) -> Sample:
    gpu = GpuReadings(
        utilisation=0.5, memory_utilisation=0.25, memory_used_bytes=8 << 30, temperature_c=60.0, power_w=200
    )
    return Sample(
        at=BEGAN + second, cpu_used=1.0 + second % 2, memory_bytes=4 << 30, disk_read_bytes=100, gpus=(gpu, gpu)
    )


def written(first: int, end: int) -> bytes:
    return b"".join(encode_sample(HEADER, sample(second)) for second in range(first, end))


def store(rig: Rig, job_id: str, raw: bytes, minutes: bytes | None = None) -> None:
    folder = rig.store_log(job_id, "a", b"").parent
    (folder / "metrics").write_bytes(raw)
    if minutes is not None:
        (folder / "metrics.minutes").write_bytes(minutes)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("samples")) as rig:
        yield rig


async def a_task(rig: Rig, state: str = "RUNNING", **view: Any) -> tuple[str, str]:
    """A job's id and the address of its task's samples."""
    job_id = await submit(await rig.client("ann"), tasks=[{"name": "a", "image": "base", "command": "true", **LONE}])
    rig.tasks.put(job_id, "a", state=state, **view)
    return job_id, f"/jobs/{job_id}/tasks/a/attempts/1/metrics"


def done(**more: Any) -> dict[str, Any]:
    return {
        "state": "SUCCEEDED",
        "reason": common.EndReason(word="exited", exit_code=0),
        "phases": common.Phases(running_s=3600.0),
        "timeout_s": 8 * 3600.0,
        "peak_memory_bytes": 4 << 30,
        **more,
    }


async def test_an_ended_attempt_is_read_from_the_mount_with_asked_against_used(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, **done())
    roll = RollUp(HEADER)
    minutes = [record for second in range(3600) if (record := roll.add(sample(second)))]
    raw = encode_header(HEADER) + written(0, 3600)
    store(rig, job_id, raw, encode_header(HEADER) + b"".join(minutes) + (roll.flush() or b""))

    whole = (await ann.get(path, params={"points": 100})).json()

    assert (whole["ended"], whole["samples"], whole["lost"], whole["sentence"]) == (True, 3600, 0, "")
    assert 99 <= len(whole["at"]) <= 101
    assert [gpu["simulated"] for gpu in whole["gpus"]] == [False, True]
    lines = {(line["name"], line["gpu"]): line for line in whole["columns"]}
    assert lines["cpu_used", None]["mean"][10] == pytest.approx(1.5)
    assert lines["cpu_used", None]["max"][10] == 2.0
    assert lines["disk_read_bytes_per_s", None]["unit"] == "bytes/s"
    assert lines["disk_written_bytes_per_s", None]["mean"][0] is None
    assert lines["power_w", 1]["mean"][0] == 200
    assert whole["use"]["measured_s"] == pytest.approx(3600)
    assert whole["use"]["gpus"][0]["energy_j"] == pytest.approx(720_000, rel=0.01)
    assert [row["resource"] for row in whole["efficiency"]["rows"]] == [
        "time", "cpus", "memory", "gpu_utilisation", "gpu_memory",
    ]  # fmt: skip
    assert whole["efficiency"]["suggested"] == {
        "timeout_s": 5400.0, "cpus": 2.0, "memory_bytes": 5 << 30, "gpus": None, "gpu_memory_bytes": None,
    }  # fmt: skip
    part = (await ann.get(path, params={"since": BEGAN + 100, "until": BEGAN + 109})).json()
    assert part["at"] == [BEGAN + second for second in range(100, 110)]
    assert (part["use"], part["efficiency"]) == (None, None)


async def test_a_table_has_every_sample_and_a_plot_shows_hostile_names_as_text(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, **done())
    store(rig, job_id, encode_header(HEADER) + written(0, 120))

    table = await ann.get(path, params={"format": "csv"})
    thinned = await ann.get(path, params={"format": "csv", "points": 10})
    plot = await ann.get(path, params={"format": "svg"})

    lines = table.text.splitlines()
    assert table.headers["content-disposition"] == f'attachment; filename="{job_id}.a.1.metrics.csv"'
    assert len(lines) == 121
    assert lines[0].startswith("at,time,cpu_used,memory_bytes,disk_read_bytes,")
    assert lines[1].startswith(f"{BEGAN:.3f},2025-10-09T08:53:20.000Z,1,4294967296,100,,,,0.5,0.25")
    assert "gpu1_power_w_max" in thinned.text.splitlines()[0]
    assert ",0.5,0.25,8589934592,60,200,0.5," in lines[1] + ","
    assert ",8589934592," in thinned.text  # no 8.589934592e+09
    assert len(thinned.text.splitlines()) <= 12
    assert plot.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in plot.headers["content-security-policy"]
    tree = ET.fromstring(plot.text)
    assert {node.tag.rpartition("}")[2] for node in tree.iter()} <= {
        "svg", "title", "rect", "text", "line", "polyline", "circle",
    }  # fmt: skip
    words = "".join(tree.itertext())
    assert "GPU memory copy utilisation (%)" in words
    assert '<script>alert("&")</script>' in words


async def test_a_live_attempt_joins_the_mount_and_its_worker(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig)
    raw = encode_header(HEADER) + written(0, 50)
    store(rig, job_id, raw[:-7])  # the copy stopped in a record
    await rig.worker.measure(job_id, "a", raw)

    live = (await ann.get(path)).json()

    assert (live["ended"], live["samples"], live["lost"]) == (False, 50, 0)
    assert live["efficiency"]["final"] is False
    assert live["efficiency"]["sentences"] == []
    rig.tasks.worker_address, address = "127.0.0.1:1", rig.tasks.worker_address
    try:
        alone = (await ann.get(path)).json()
    finally:
        rig.tasks.worker_address = address
    assert (alone["samples"], alone["lost"]) == (49, 1)
    assert alone["sentence"].startswith("Its node does not answer now")


@pytest.mark.parametrize(
    ("state", "said"), [("RUNNING", "Nothing has been measured yet."), ("SUCCEEDED", "Nothing was measured")]
)
async def test_without_samples_every_form_says_so(rig: Rig, state: str, said: str):
    ann = await rig.client("ann")
    _, path = await a_task(rig, state)

    answer = (await ann.get(path)).json()

    assert (answer["samples"], answer["at"], answer["columns"], answer["every_s"]) == (0, [], [], None)
    assert answer["sentence"].startswith(said)
    assert (await ann.get(path, params={"format": "csv"})).text.count("\n") == 1
    assert said in (await ann.get(path, params={"format": "svg"})).text


async def test_a_worker_of_an_older_version_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    _, path = await a_task(rig)
    monkeypatch.setattr(rig.worker, "older", True)

    answer = (await (await rig.client("ann")).get(path)).json()

    assert answer["sentence"] == "Its node measures nothing: its Worker is of an older version."


async def test_what_is_readable_of_broken_files_is_shown(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, **done())
    raw = bytearray(encode_header(HEADER) + written(0, 100))
    raw[len(raw) // 2] ^= 0xFF
    for data, samples in ((bytes(raw), 99), (bytes(raw[:-3]), 98), (bytes(raw[3000:]), None), (b"\0" * 999, 0)):
        store(rig, job_id, data, data[:500])
        answer = (await ann.get(path)).json()
        assert answer["lost"] >= 1
        assert "left out" in answer["sentence"]
        assert ("About 1 record is broken" in answer["sentence"]) == (answer["lost"] == 1)
        assert samples is None or answer["samples"] == samples
        for form in ("csv", "svg"):
            assert (await ann.get(path, params={"format": form})).status_code == 200


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"points": 0}, 422),
        ({"points": 1_000_000_000}, 422),
        ({"format": "x"}, 422),
        ({"since": "nan"}, 422),
        ({"since": 1e300}, 422),
        ({"until": -1}, 422),
        ({"since": 200, "until": 100}, 400),
        ({"nonsense": 1}, 422),
    ],
)
async def test_what_makes_no_sense_is_refused_with_a_sentence(rig: Rig, asked: dict[str, Any], status: int):
    _, path = await a_task(rig)

    answer = await (await rig.client("ann")).get(path, params=asked)

    assert answer.status_code in (status, 400), answer.text
    assert answer.json()["detail"]


async def test_they_are_as_private_as_logs(rig: Rig):
    _, path = await a_task(rig)
    eve, root = await rig.client("eve"), await rig.client("boss", admin=True)

    for place in (path, f"{path}?format=csv", f"{path}?format=svg", f"{path}/follow"):
        assert (await eve.get(place)).status_code == 403
        assert (await (await rig.client()).get(place)).status_code == 401
    assert (await root.get(path)).status_code == 200
    assert (await root.get(path.replace("/a/", "/zz/"))).status_code == 404
    assert (await root.get(path.replace("/1/", "/7/"))).status_code == 404


async def test_a_follower_gets_each_sample_once_until_the_end(rig: Rig):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig)
    raw = encode_header(HEADER) + written(0, 5)
    await rig.worker.measure(job_id, "a", raw)
    seen: list[tuple[str, dict[str, Any]]] = []
    ids: list[str] = []

    async def follow(**headers: str) -> None:
        name = ""
        async with ann.stream("GET", f"{path}/follow", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                key, _, value = line.partition(": ")
                if key == "event":
                    name = value
                elif key == "id":
                    ids.append(value)
                elif key == "data":
                    seen.append((name, json.loads(value)))

    following = asyncio.create_task(follow())
    await eventually(lambda: len(seen) >= 2, what="head and latest sample")
    more = written(5, 8)
    await rig.worker.measure(job_id, "a", more[:100])
    await rig.worker.measure(job_id, "a", more[100:])
    await eventually(lambda: len(seen) >= 5, what="new samples")
    rig.tasks.put(job_id, "a", **done())
    await rig.worker.end(job_id, "a")
    await asyncio.wait_for(following, 30)

    assert [name for name, _ in seen] == ["head", *["sample"] * 4, "end"]
    assert [data["at"] for name, data in seen if name == "sample"] == [BEGAN + second for second in (4, 5, 6, 7)]
    assert len(seen[0][1]["columns"]) == len(seen[1][1]["values"])
    seen.clear()
    await asyncio.wait_for(follow(**{"Last-Event-ID": ids[1]}), 30)
    assert [data["at"] for name, data in seen if name == "sample"] == [BEGAN + second for second in (6, 7)]


async def test_a_follower_who_was_shut_out_sees_nothing_more(rig: Rig):
    job_id, path = await a_task(rig)
    await rig.worker.measure(job_id, "a", encode_header(HEADER) + written(0, 1))
    session = await rig.parts.accounts.open_session("ann")
    ann = await rig.client("ann")
    lines: list[str] = []

    async def follow() -> None:
        headers = {"Authorization": f"Bearer {session.token}"}
        async with ann.stream("GET", f"{path}/follow", headers=headers) as answer:
            with suppress(httpx.RemoteProtocolError):  # it may be cut in the middle
                async for line in answer.aiter_lines():
                    lines.append(line)  # noqa: PERF401

    following = asyncio.create_task(follow())
    await eventually(lambda: "event: sample" in lines, what="the first sample")
    await rig.parts.accounts.sign_out(session.token)
    await rig.worker.measure(job_id, "a", written(1, 2))
    await asyncio.wait_for(following, 30)

    assert lines.count("event: sample") == 1


async def test_followers_take_places_as_those_of_logs_do(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    ann = await rig.client("ann")
    _, path = await a_task(rig)
    monkeypatch.setattr(rig.parts.sample_following, "_follow_places", FollowPlaces(per_account=0))

    assert (await ann.get(f"{path}/follow")).status_code == 429


async def test_a_link_or_a_folder_in_the_place_of_a_file_is_not_followed(rig: Rig, tmp_path: Path):
    ann = await rig.client("ann")
    job_id, path = await a_task(rig, **done())
    elsewhere = tmp_path / "metrics"
    elsewhere.write_bytes(encode_header(HEADER) + written(0, 9))
    store(rig, job_id, encode_header(HEADER) + written(0, 200))
    folder = rig.store_log(job_id, "a", b"").parent
    (folder / "metrics.minutes").symlink_to(elsewhere)
    assert (await ann.get(path)).status_code == 503
    (folder / "metrics.minutes").unlink()
    (folder / "metrics").unlink()
    (folder / "metrics").symlink_to(elsewhere)
    assert (await ann.get(path)).json()["samples"] == 0
    (folder / "metrics").unlink()
    (folder / "metrics").mkdir()
    assert (await ann.get(path)).json()["samples"] == 0
