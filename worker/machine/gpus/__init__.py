"""The machine's GPUs, as NVIDIA's management library (NVML) reports them."""

from __future__ import annotations

from .nvml import NvmlGpus, cuda_version, with_outside_use

__all__ = ["NvmlGpus", "cuda_version", "with_outside_use"]
