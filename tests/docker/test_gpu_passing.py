"""GPUs as device files on an engine without NVIDIA's toolkit, whose default runtime is NVIDIA's all the same."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.contracts.subjects import DockerSubject
from tests.support import images
from tests.support.dockerd import Engine, start_engine
from tests.support.nvml import Gpu, PretendGpus, Slice
from tests.support.waiting import eventually
from tests.support.worker_rig import an_attempt
from worker.model import WantedImage
from worker.ports import RuntimeRefused
from worker.runtime.docker_gpu_ways import GpuWays
from worker.runtime.gpu_nodes import CardNumbers, DeviceNodes

pytestmark = [pytest.mark.docker, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(120)]

ONE, TWO = "GPU-11111111-aaaa-bbbb-cccc-000000000001", "GPU-22222222-aaaa-bbbb-cccc-000000000002"
_LOOK = """
ls /dev | grep nvidia
echo "visible: $NVIDIA_VISIBLE_DEVICES"
echo "libraries: $LD_LIBRARY_PATH"
ls /usr/local/nvidia/lib64 2>/dev/null
echo changed > /usr/local/nvidia/lib64/libcuda.so.1 || echo closed
head -c 4 /dev/nvidia1 | wc -c
true
"""


@dataclass(frozen=True)
class Rig:
    engine: Engine
    asked: Path  # what the stand-in for NVIDIA's runtime was called for


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("nvidias")
    asked, runtime = folder / "asked", folder / "nvidia-container-runtime"
    # The engine asks every runtime for its version, which starts nothing.
    runtime.write_text(f'#!/bin/sh\n[ "$*" = --version ] || echo "$*" >>{asked}\nexec runc "$@"\n')
    runtime.chmod(0o755)
    options = [f"--add-runtime=gpus={runtime}", "--default-runtime=gpus"]
    with start_engine(gpu_hook=False, options=options) as engine:
        asked.touch()
        yield Rig(engine, asked)


def a_machine(root: Path, library: Path) -> Path:
    """Device files that do no harm, and libraries that the machine's own loader finds."""
    for folder in ("dev", "etc", "usr/lib", "usr/bin"):
        (root / folder).mkdir(parents=True)
    for name, minor in {"nvidiactl": 5, "nvidia-uvm": 5, "nvidia0": 5, "nvidia1": 5}.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        (root / "dev" / name).chmod(0o666)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(library, root / "usr/lib" / name)
    (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
    (root / "etc/ld.so.conf").write_text("/usr/lib\n")
    subprocess.run(["/usr/sbin/ldconfig", "-r", root], check=True)
    return root


@pytest.fixture
async def subject(tmp_path: Path, rig: Rig, pretend_gpus: PretendGpus) -> AsyncIterator[DockerSubject]:
    root = a_machine(tmp_path / "machine", pretend_gpus.library)
    numbers = {ONE: CardNumbers(0), TWO: CardNumbers(1)}
    nodes = DeviceNodes("n1", tmp_path / "gpu-driver", root=root, numbers=lambda: numbers)
    subject = DockerSubject(tmp_path, rig.engine.url, gpu_ways=GpuWays("n1", nodes=nodes))
    await subject.open()
    await subject.runtime.check()
    subject.runtime.gpu_probe.cards([ONE, TWO])
    yield subject
    for attempt in await subject.runtime.list():
        await subject.runtime.remove(attempt)
    await subject.abandon()


async def _prints(subject: DockerSubject, name: str, *gpus: str, image: str = "") -> list[str]:
    attempt = an_attempt(name)
    order = await subject.order(attempt)
    env = {**order.spec.env, "NVIDIA_VISIBLE_DEVICES": "all", "LD_LIBRARY_PATH": "/mine"}
    order = replace(order, spec=replace(order.spec, args=("/bin/sh", "-c", _LOOK), env=env), gpu_uuids=gpus)
    if image:
        found = await subject.runtime.find_image(WantedImage(image))
        assert found is not None
        order = replace(order, image=found)
    await subject.runtime.start(order)

    async def ended() -> bool:
        return (await subject.runtime.progress(attempt)).end is not None

    await eventually(ended, within_s=20)
    return subject.runtime.box(attempt).stdout.read_text().splitlines()


async def test_a_task_has_the_device_files_of_its_own_gpus_and_the_driver(subject: DockerSubject, rig: Rig) -> None:
    assert await subject.runtime.gpu_probe.problem() == ""
    assert subject.runtime.gpu_probe.passing() == "device_nodes"
    rig.asked.write_text("")
    assert await _prints(subject, "one", TWO) == [
        "nvidia-uvm", "nvidia1", "nvidiactl", "visible: all", "libraries: /usr/local/nvidia/lib64:/mine",
        "libcuda.so.1", "libnvidia-ml.so.1", "closed", "4",
    ]  # fmt: skip
    both = await _prints(subject, "both", ONE, TWO)
    assert both[:4] == ["nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl"]
    assert rig.asked.read_text() == "", "the toolkit's runtime has no part in it"
    with pytest.raises(RuntimeRefused, match="has no device file for this GPU"):
        await _prints(subject, "other", "GPU-33333333")


async def test_without_gpus_an_image_gets_none_from_the_default_runtime(subject: DockerSubject, rig: Rig) -> None:
    """GPU-08, GPU-09: variables of image and user, and volumes that the toolkit takes for requests."""
    client = rig.engine.client()
    try:
        name = images.import_busybox(client, "headway-test/cuda:2", environment={"NVIDIA_VISIBLE_DEVICES": "all"})
        rig.asked.write_text("")
        assert await _prints(subject, "none", image=name) == ["visible: all", "libraries: /mine", "closed", "0"]
        container = client.api.containers(all=True)[0]["Id"]
        found = client.api.inspect_container(container)
        assert "NVIDIA_VISIBLE_DEVICES=void" in found["Config"]["Env"]
        assert (found["HostConfig"]["Runtime"], found["HostConfig"]["Devices"] or []) == ("runc", [])
        assert rig.asked.read_text() == ""
        change = ["VOLUME /var/run/nvidia-container-devices/all"]
        client.api.import_image_from_data(
            images.layer([images.Entry("bin")]), repository="headway-test/asks", tag="1", changes=change
        )
    finally:
        client.close()
    with pytest.raises(RuntimeRefused, match="GPUs that nobody booked"):
        await _prints(subject, "asks", image="headway-test/asks:1")


def test_the_driver_tells_which_device_file_is_whose(pretend_gpus: PretendGpus) -> None:
    """GPU-06: by UUID, through the real bindings. A card that can't be read is no other's fault."""
    pretend_gpus.set(
        [Gpu(ONE, fails={"*": 15}), Gpu(TWO, slices=[Slice("MIG-1", instance=7), Slice("MIG-2", instance=8)])]
    )
    script = (
        "import dataclasses, json\nfrom worker.runtime.gpu_nodes import numbers_of_cards\n"
        "print(json.dumps({uuid: dataclasses.astuple(one) for uuid, one in numbers_of_cards().items()}))"
    )
    environment = {**os.environ, **pretend_gpus.environment()}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found = {uuid: CardNumbers(*numbers) for uuid, numbers in json.loads(done.stdout).items()}
    assert set(found) == {TWO, "MIG-1", "MIG-2"}
    assert found[TWO] == CardNumbers(1)
    assert {one.minor for one in found.values()} == {1}
    assert (found["MIG-1"].gpu_instance, found["MIG-2"].gpu_instance) == (7, 8)
