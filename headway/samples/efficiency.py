"""The efficiency card: what a task asked for against what its attempt used, and what to ask for next time. Pure.

A suggestion leaves room above what was seen and is rounded up to a number that people write. It is made only if it
saves a fifth or more. A run that was cut short by a limit is told to ask for more of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ..units import GIB, MAX_DURATION_S, MIB, counted, format_cpus, round_duration, round_size

_SHORTEST_S: Final = 30.0  # a shorter run says little
_WORTH_IT: Final = 0.8  # of what was asked: only less than that is suggested
_TIME_ROOM, _CPU_ROOM, _MEMORY_ROOM = 1.5, 1.2, 1.25
_MORE: Final = 1.5  # of a limit that was hit
_LEAST_TIME_S: Final = 60.0
_LEAST_MEMORY: Final = 256 * MIB
_UNUSED_BELOW: Final = 0.01  # mean utilisation
_UNUSED_MEMORY: Final = GIB
_LOW_BELOW: Final = 0.3


class Outcome(StrEnum):
    """How far the run may be trusted to show what the task needs."""

    RUNNING = "running"
    DONE = "done"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_MEMORY = "out_of_memory"
    BROKEN_OFF = "broken_off"


@dataclass(frozen=True, slots=True)
class Request:
    """What the task asked for."""

    timeout_s: float
    cpus: float
    memory_bytes: int
    gpus: int
    gpu_memory_bytes: int | None = None
    gpu_share_bytes: int | None = None  # of one GPU, whose utilisation is that of all tasks on it


@dataclass(frozen=True, slots=True)
class UsedGpu:
    """One GPU over the run; None: not measured."""

    memory_bytes: int
    mean_utilisation: float | None
    peak_memory_used_bytes: int | None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """What the attempt used; None: not measured."""

    run_s: float | None
    cpus: float | None  # the mean
    peak_cpus: float | None  # of a minute, where that is known
    peak_memory_bytes: int | None
    gpus: Sequence[UsedGpu] = ()


@dataclass(frozen=True, slots=True)
class CardRow:
    resource: str
    unit: str
    asked: float
    used: float
    sentence: str

    @property
    def share(self) -> float:
        return self.used / self.asked if self.asked > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Suggested:
    """What to ask for next time; None: as before."""

    timeout_s: float | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Card:
    final: bool
    rows: tuple[CardRow, ...]
    suggested: Suggested
    sentences: tuple[str, ...]


def card(asked: Request, used: Used, outcome: Outcome) -> Card:
    """The card of one attempt."""
    rows = tuple(_rows(asked, used))
    final = outcome is not Outcome.RUNNING
    if not final or outcome is Outcome.BROKEN_OFF:
        return Card(final, rows, Suggested(), ())
    suggested, sentences = _suggested(asked, used, outcome)
    if not sentences and rows:
        sentences = ["It asked for about what it used."]
    return Card(final, rows, suggested, tuple(sentences))


def _rows(asked: Request, used: Used) -> list[CardRow]:
    rows = []
    if used.run_s is not None and asked.timeout_s > 0:
        text = f"It ran {round_duration(used.run_s)} of {round_duration(asked.timeout_s)}."
        rows.append(CardRow("time", "seconds", asked.timeout_s, used.run_s, text))
    if used.cpus is not None and asked.cpus > 0:
        text = f"On average it used {_mean_cpus(used.cpus)} of {_cpus(asked.cpus)}."
        rows.append(CardRow("cpus", "cpus", asked.cpus, used.cpus, text))
    if used.peak_memory_bytes is not None and asked.memory_bytes > 0:
        text = f"It used {round_size(used.peak_memory_bytes)} of {round_size(asked.memory_bytes)} at most."
        rows.append(CardRow("memory", "bytes", asked.memory_bytes, used.peak_memory_bytes, text))
    if (mean := _mean_utilisation(used.gpus)) is not None:
        which = "Its GPU was" if len(used.gpus) == 1 else f"Its {len(used.gpus)} GPUs were"
        if asked.gpu_share_bytes:
            which = "Its GPU, with all tasks on it, was"
        rows.append(CardRow("gpu_utilisation", "share", 1.0, mean, f"{which} busy {mean:.0%} of the time."))
    peaks = [gpu for gpu in used.gpus if gpu.peak_memory_used_bytes is not None]
    if peaks:
        most = max(gpu.peak_memory_used_bytes or 0 for gpu in peaks)
        room = asked.gpu_share_bytes or asked.gpu_memory_bytes or min(gpu.memory_bytes for gpu in peaks)
        if room > 0:
            whole = "its share" if asked.gpu_share_bytes else "a GPU's memory"
            text = f"It used {round_size(most)} of {round_size(room)} of {whole} at most."
            rows.append(CardRow("gpu_memory", "bytes", room, most, text))
    return rows


def _suggested(asked: Request, used: Used, outcome: Outcome) -> tuple[Suggested, list[str]]:
    wish, said = Suggested(), list[str]()
    if outcome is Outcome.OUT_OF_TIME:
        wish = replace(wish, timeout_s=min(MAX_DURATION_S, _round_time(asked.timeout_s * _MORE)))
        said.append(f"It ran out of time: ask for {round_duration(wish.timeout_s or 0)}.")
    if outcome is Outcome.OUT_OF_MEMORY:
        wish = replace(wish, memory_bytes=_round_memory(asked.memory_bytes * _MORE))
        said.append(f"It ran out of memory: ask for {round_size(wish.memory_bytes or 0)}.")
    if used.run_s is None or used.run_s < _SHORTEST_S:
        if not said:
            said.append("It ran too briefly to say what it needs.")
        return wish, said
    if outcome is Outcome.DONE:
        time_s = _round_time(used.run_s * _TIME_ROOM)
        if time_s <= asked.timeout_s * _WORTH_IT:
            wish = replace(wish, timeout_s=time_s)
            said.append(f"A timeout of {round_duration(time_s)} is enough, and short tasks find a gap sooner.")
        if used.peak_memory_bytes is not None:
            memory = _round_memory(used.peak_memory_bytes * _MEMORY_ROOM)
            if memory <= asked.memory_bytes * _WORTH_IT:
                wish = replace(wish, memory_bytes=memory)
                said.append(f"Memory of {round_size(memory)} is enough.")
    busy = max((value for value in (used.cpus, used.peak_cpus) if value is not None), default=None)
    if busy is not None:
        cpus = _round_cpus(busy * _CPU_ROOM)
        if cpus <= asked.cpus * _WORTH_IT:
            wish = replace(wish, cpus=cpus)
            said.append(f"{_cpus(cpus)} {'is' if cpus == 1 else 'are'} enough.")
    return _for_gpus(asked, used, wish, said)


def _for_gpus(asked: Request, used: Used, wish: Suggested, said: list[str]) -> tuple[Suggested, list[str]]:
    unused = sum(1 for gpu in used.gpus if _is_unused(gpu))
    busy = [gpu for gpu in used.gpus if not _is_unused(gpu)]
    if unused and asked.gpus:
        wish = replace(wish, gpus=max(0, asked.gpus - unused))
        said.append(
            f"It never used {'its GPU' if asked.gpus == 1 else counted(unused, 'of its GPUs', 'of its GPUs')}: "
            f"ask for {counted(wish.gpus or 0, 'GPU') if wish.gpus else 'none'}."
        )
    mean = None if asked.gpu_share_bytes else _mean_utilisation(busy)
    if mean is not None and mean < _LOW_BELOW:
        said.append(
            f"The GPUs waited {1 - mean:.0%} of the time: look whether reading the data holds them up, or take larger "
            "batches."
        )
    peaks = [gpu.peak_memory_used_bytes for gpu in used.gpus if gpu.peak_memory_used_bytes is not None]
    if asked.gpu_memory_bytes and peaks:
        memory = _round_memory(max(peaks) * _MEMORY_ROOM)
        if memory <= asked.gpu_memory_bytes * _WORTH_IT:
            wish = replace(wish, gpu_memory_bytes=memory)
            said.append(f"GPUs of {round_size(memory)} are enough, so smaller ones fit too.")
    if asked.gpu_share_bytes and peaks:
        memory = _round_memory(max(peaks) * _MEMORY_ROOM)
        if memory <= asked.gpu_share_bytes * _WORTH_IT:
            said.append(f"A share of {round_size(memory)} is enough, so more tasks fit on the GPU.")
    return wish, said


def _is_unused(gpu: UsedGpu) -> bool:
    return (
        gpu.mean_utilisation is not None
        and gpu.mean_utilisation < _UNUSED_BELOW
        and (gpu.peak_memory_used_bytes or 0) < _UNUSED_MEMORY
    )


def _mean_utilisation(gpus: Sequence[UsedGpu]) -> float | None:
    known = [gpu.mean_utilisation for gpu in gpus if gpu.mean_utilisation is not None]
    return sum(known) / len(known) if known else None


def _round_time(seconds: float) -> float:
    step = 60 if seconds < 600 else 300 if seconds < 3600 else 1800 if seconds < 43_200 else 3600
    return max(_LEAST_TIME_S, math.ceil(seconds / step) * float(step))


def _round_memory(size_bytes: float) -> int:
    step = 256 * MIB if size_bytes < 4 * GIB else GIB if size_bytes < 64 * GIB else 4 * GIB
    return max(_LEAST_MEMORY, math.ceil(size_bytes / step) * step)


def _round_cpus(cpus: float) -> float:
    return 0.5 if cpus <= 0.5 else float(math.ceil(cpus))


def _mean_cpus(cpus: float) -> str:
    """A tenth of a CPU may be all that was asked for."""
    return f"{cpus:.1f}" if cpus >= 1 else format_cpus(round(cpus * 100))


def _cpus(cpus: float) -> str:
    return f"{format_cpus(round(cpus * 100))} {'CPU' if cpus == 1 else 'CPUs'}"
