"""Who is at fault when a container is not given its GPUs."""

from __future__ import annotations

import pytest

from headway.model.reasons import EndWord
from worker.runtime.gpu_faults import GpuFaultKind, gpu_fault

_RUNC = (
    "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running prestart hook #0: exit status 1, "
    "stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: {}: unknown"
)
_NODE, _CARD, _IMAGE, _UNSURE = GpuFaultKind.NODE, GpuFaultKind.CARD, GpuFaultKind.IMAGE, GpuFaultKind.UNSURE


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('could not select device driver "nvidia" with capabilities: [[gpu]]', _NODE, "nvidia-ctk runtime configure"),
        ("unknown or invalid runtime name: nvidia", _NODE, "not installed on the machine n1"),
        ('exec: "nvidia-container-runtime-hook": executable file not found in $PATH', _NODE, "not installed"),
        ("fork/exec /usr/bin/nvidia-container-runtime-hook: no such file or directory", _NODE, "not installed"),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all", _NODE, "nvidia-ctk cdi generate"),
        ("failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-1", _CARD, "this GPU"),
        (_RUNC.format("initialization error: nvml error: driver not loaded"), _NODE, "`nvidia-smi`"),
        (_RUNC.format("initialization error: load library failed: libnvidia-ml.so.1: cannot open"), _NODE, "(init"),
        (_RUNC.format("initialization error: nvml error: driver/library version mismatch"), _NODE, "restart the mach"),
        (_RUNC.format("initialization error: driver rpc error: timed out"), _NODE, "hangs"),
        (_RUNC.format("detection error: nvml error: unknown error"), _NODE, "`nvidia-smi`"),
        (_RUNC.format("container error: cgroup subsystem devices not found"), _NODE, "`nvidia-container-cli info`"),
        ("OCI runtime create failed: error running hook #0: error running hook: exit status 2, stdout: , stderr: ",
         _NODE, "(error running hook #0: error running hook: exit status 2)"),
        ("fork/exec /usr/bin/nvidia-container-runtime: permission denied", _NODE, "install it anew"),
        ('error mounting "/usr/lib/libcuda.so.535" to rootfs at "/usr/lib/libcuda.so.535": gone', _NODE, "anew"),
        (_RUNC.format("device error: GPU-1: unknown device"), _CARD, "unknown device"),
        (_RUNC.format("device error: nvml error: gpu is lost"), _CARD, "gpu is lost"),
        (_RUNC.format("requirement error: unsatisfied condition: cuda>=12.4, please update your driver to a newer "
                      "version, or use an earlier cuda container"), _IMAGE, "asks for cuda>=12.4"),
        (_RUNC.format("requirement error: invalid expression"), _IMAGE, "NVIDIA_REQUIRE_CUDA can't be read"),
        (_RUNC.format("mount error: file creation failed: /var/lib/docker/overlay2/0a/merged/usr/lib/x86_64-linux-gnu/"
                      "libnvidia-ml.so.1: file exists"), _IMAGE, "image's /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
        (_RUNC.format("mount error: stat failed: /dev/nvidia-modeset: no such file or directory"), _UNSURE, "modeset"),
        (_RUNC.format("ldcache error: process /sbin/ldconfig terminated with signal 9"), _UNSURE, "signal 9"),
    ],
)  # fmt: skip
def test_faults_are_told_apart(text: str, kind: GpuFaultKind, words: str) -> None:
    fault = gpu_fault(" ".join(text.split()), "n1")
    assert fault is not None
    assert fault.kind is kind
    assert words in fault.sentence
    assert not any(noise in fault.sentence for noise in ("OCI runtime", "Auto-detected", "overlay2", ": unknown)"))
    refusal = fault.refusal()
    assert (refusal.word is EndWord.IMAGE_BAD) == (kind is _IMAGE)
    assert refusal.elsewhere == (kind is not _IMAGE)


@pytest.mark.parametrize(
    "text",
    [
        "started",
        'exec: "/no-program": stat /no-program: no such file or directory: unknown',
        "error mounting /x to rootfs at /y: permission denied",
        'error mounting "/m/nvidia-ctk" to rootfs at "/root/datasets/nvidia-ctk": stat /m/nvidia-ctk: no such file',
        'chdir to cwd ("/root/nvidia-smi/libcuda") set in config.json failed: permission denied',
        "mkdir /var/lib/docker/overlay2/0a/merged/opt/nvidia-ctk: no such file or directory",
        'image "nvidia/cuda:12.4 nvml error" has a platform that does not match: unknown',
        "cannot open /data/hook/timeout/ldconfig: permission denied",
    ],
)
def test_anything_else_is_not_about_gpus(text: str) -> None:
    assert gpu_fault(text, "n1") is None
