"""Amounts and lists as the sentences of explanations write them."""

from __future__ import annotations

from collections.abc import Sequence

from headway.units import counted, format_size

from ...model import Shape

_NAMES_SHOWN = 3


def gpus_asked(shape: Shape) -> str:
    """The GPUs of a shape: `2 GPUs of model A40 with 25GiB each`."""
    words = [counted(shape.gpus, "GPU")]
    if shape.gpu_models:
        words.append(f"of model {' or '.join(shape.gpu_models)}")
    if shape.gpu_memory_bytes:
        words.append(f"with {format_size(shape.gpu_memory_bytes)}{' each' if shape.gpus > 1 else ''}")
    return " ".join(words)


def count_cpus(centi: int) -> str:
    """Hundredths of a CPU as CPUs: `1.5 CPUs`."""
    return f"{cpus(centi)} CPU" if centi == 100 else f"{cpus(centi)} CPUs"


def cpus(centi: int) -> str:
    """Hundredths of a CPU as a bare number: `1.5`."""
    return f"{max(0, centi) / 100:g}"


def some_of(sentences: Sequence[str]) -> str:
    """The first few of these, and how many more there are."""
    shown = "; ".join(sentences[:_NAMES_SHOWN])
    more = len(sentences) - _NAMES_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown
