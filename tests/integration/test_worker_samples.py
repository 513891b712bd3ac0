"""A real Worker's samples: streamed live, on the mount while they grow, past a kill, and summed up in the report."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headway.errors import NotFound
from headway.ids import AttemptId
from headway.rpc import convert
from headway.rpc.v1 import worker_pb2
from headway.samples.reading import read_all
from tests.support.waiting import eventually
from tests.support.worker_rig import WorkerRig, a_launch, an_attempt, scripted, worker_rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


async def streamed(rig: WorkerRig, attempt: AttemptId, *, follow: bool = False) -> bytes:
    request = worker_pb2.ReadSamplesRequest(attempt=convert.attempt_to_pb(attempt), follow=follow)
    return b"".join([chunk.data async for chunk in rig.peer.stream(rig.stub.ReadSamples, request, deadline_s=60)])


async def test_samples_outlive_a_kill_of_the_worker(tmp_path: Path) -> None:
    async with worker_rig(tmp_path, worker__sample_every_s=0.2, worker__simulated_gpus=2) as rig:
        incarnation = await rig.start()
        attempt, never = an_attempt(), an_attempt("never")
        uuids = [gpu.uuid for gpu in rig.resource_manager.statuses[-1].capacity.gpus]
        launch = a_launch(attempt, incarnation=incarnation, env=scripted(300))
        launch.gpu_uuids.extend(uuids)
        await rig.launch(launch)
        file = rig.folder / "attempts" / attempt.folder / "metrics"
        await eventually(lambda: file.exists() and len(read_all(file.read_bytes())[1]) >= 5, within_s=20)
        live = read_all(await streamed(rig, attempt))
        assert [gpu.uuid for gpu in live[0].gpus] == uuids
        await rig.kill()
        before = len(read_all(file.read_bytes())[1])
        await rig.start()
        following = asyncio.create_task(streamed(rig, attempt, follow=True))
        await eventually(lambda: len(read_all(file.read_bytes())[1]) >= before + 5, within_s=20)
        await rig.stop(attempt)
        end = await rig.ended(attempt)
        whole = await following
        header, samples, lost = read_all(whole)
        assert lost == 0
        assert len(samples) >= before + 5
        assert header.every_s == 0.2
        assert end.use.cpu_s > 0
        assert 0 < end.use.measured_s < samples[-1].at - samples[0].at, "without the gap"
        assert [gpu.uuid for gpu in end.use.gpus] == uuids
        assert all(gpu.utilisation is not None for sample in samples for gpu in sample.gpus), "of pretend GPUs, too"
        on_mount = rig.logs(attempt) / "metrics"
        await eventually(lambda: on_mount.exists() and on_mount.read_bytes() == whole, within_s=30)
        assert on_mount.with_name("metrics.minutes").stat().st_size > 0
        with pytest.raises(NotFound):
            await streamed(rig, never)


async def test_zero_seconds_turn_samples_off(tmp_path: Path) -> None:
    async with worker_rig(tmp_path, worker__sample_every_s=0) as rig:
        attempt = an_attempt()
        await rig.launch(a_launch(attempt, incarnation=await rig.start(), env=scripted(2.5)))
        end = await rig.ended(attempt)
        assert not end.HasField("use")
        assert not (rig.folder / "attempts" / attempt.folder).exists()
