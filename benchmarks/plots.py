"""Samples of an attempt with eight GPUs: what an hour takes on disk, and how fast a day becomes a plot."""

from __future__ import annotations

import functools
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headway.model.gpu_readings import GpuReadings
from headway.samples.layout import MINUTE
from headway.samples.model import FILE, MINUTES_FILE, GpuIdentity, Header, Sample
from headway.samples.reading import FileSource, SampleFile
from headway.samples.thinning import Points, thin
from headway.samples.writing import RollUp, encode_header, encode_sample
from httpserver.samples.plots import svg
from httpserver.samples.views import document

from .measure import Figure, median

GPUS = 8
DAY_S = 86_400
POINTS = 500
HOUR_GOAL_MB = 1.0
DAY_GOAL_MS = 300.0
ROUNDS = 9
_BEGAN = 1_760_000_000.0
_HEADER = Header(tuple(GpuIdentity(f"GPU-{n}", "NVIDIA A100", 80 << 30) for n in range(GPUS)), 1.0, _BEGAN)


def plots() -> Iterator[Figure]:
    """Writes a day of samples, then asks for points and pictures of it, opening the files each time."""
    with tempfile.TemporaryDirectory(prefix="hwb") as place:
        folder = Path(place)
        kept = _write(folder)
        yield Figure(f"an hour of {GPUS} GPUs, one sample a second", kept / 1e6, "MB", HOUR_GOAL_MB)
        hour = _BEGAN + 40_000, _BEGAN + 43_600
        for what, (since, until), goal in (("a day", (None, None), DAY_GOAL_MS), ("an hour of that day", hour, None)):
            read = functools.partial(_points, folder, since, until)
            points = read()
            for form, draw in ((f"{len(points.at)} points of JSON", _as_json), ("SVG", _as_svg)):
                took, cpu = _ms(draw, read)
                note = f"{cpu:.0f} ms of CPU; {len(points.columns)} columns of {points.samples} samples"
                yield Figure(f"{what} as {form}, median", took, "ms", goal, note=note)


def _as_json(read: Callable[[], Points]) -> bytes:
    return document(1, True, "", read(), None, None)


def _as_svg(read: Callable[[], Points]) -> str:
    return svg(read(), "a / b")


def _write(folder: Path) -> float:
    """A day; returns the bytes of an hour."""
    roll = RollUp(_HEADER)
    with (folder / FILE).open("wb") as raw, (folder / MINUTES_FILE).open("wb") as minutes:
        for file in (raw, minutes):
            file.write(encode_header(_HEADER))
        for second in range(DAY_S):
            one = _sample(second)
            raw.write(encode_sample(_HEADER, one))
            minutes.write(roll.add(one) or b"")
        minutes.write(roll.flush() or b"")
    return sum((folder / name).stat().st_size for name in (FILE, MINUTES_FILE)) / (DAY_S / 3600)


def _sample(second: int) -> Sample:
    wave = math.sin(second / 300)
    gpu = GpuReadings(
        utilisation=0.5 + wave / 2,
        memory_utilisation=0.3 + wave / 5,
        memory_used_bytes=(40 << 30) + second,
        temperature_c=60 + 10 * wave,
        power_w=300 + 100 * wave,
    )
    return Sample(
        at=_BEGAN + second,
        cpu_used=8 + wave,
        memory_bytes=100 << 30,
        disk_read_bytes=1 << 20,
        disk_written_bytes=1 << 16,
        network_received_bytes=second,
        network_sent_bytes=0,
        gpus=(gpu,) * GPUS,
    )


def _points(folder: Path, since: float | None, until: float | None) -> Points:
    files = [os.open(folder / name, os.O_RDONLY) for name in (FILE, MINUTES_FILE)]
    try:
        samples, minutes = SampleFile(FileSource(files[0])), SampleFile(FileSource(files[1]), MINUTE)
        return thin(samples, minutes, points=POINTS, since=since, until=until)
    finally:
        for descriptor in files:
            os.close(descriptor)


def _ms(draw: Callable[[Callable[[], Points]], object], read: Callable[[], Points]) -> tuple[float, float]:
    """By the clock, and of CPU."""
    took, cpu = [], []
    for _ in range(ROUNDS):
        began, used = time.perf_counter(), time.process_time()
        draw(read)
        took.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - used) * 1000)
    return median(took), median(cpu)
