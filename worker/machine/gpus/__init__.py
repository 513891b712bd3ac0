"""The machine's GPUs, as NVIDIA's management library (NVML) reports them, and which of them are well."""

from __future__ import annotations

from .library import cuda_version
from .nvml import NvmlGpus, with_outside_use

__all__ = ["NvmlGpus", "cuda_version", "with_outside_use"]
