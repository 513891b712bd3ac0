"""What an attempt used over its whole run, added up sample by sample."""

from __future__ import annotations

from ..model.gpu_readings import GpuReadings
from ..rpc.v1 import task_manager_pb2 as tm
from .model import GpuIdentity, Header, Sample
from .thinning import Points

IDLE_BELOW = 0.05  # utilisation
_COUNTED = ("disk_read_bytes", "disk_written_bytes", "network_received_bytes", "network_sent_bytes")


class Sums:
    """Samples in the order of time.

    A sample's CPUs and utilisation count for the time since the sample before (rectangles): they are means of that
    time. Power is read at an instant, so energy is the mean of two neighbours over the time between (trapezoids).
    A gap counts for none of them. Bytes count always: their counters ran on in the gap.
    """

    def __init__(self, header: Header) -> None:
        self._header = header
        self._before: Sample | None = None
        self._measured_s = 0.0
        self._cpu_s: float | None = None
        self._counted: dict[str, int] = {}
        self._gpus = [_GpuSums(gpu) for gpu in header.gpus]

    def add(self, sample: Sample) -> None:
        before = self._before
        if before is not None and sample.at <= before.at:
            before = None  # the clock went back
        span_s = sample.at - before.at if before is not None else 0.0
        if span_s > self._header.longest_gap_s:
            span_s = 0.0
        self._measured_s += span_s
        if sample.cpu_used is not None:
            self._cpu_s = (self._cpu_s or 0.0) + sample.cpu_used * span_s
        for name in _COUNTED:
            if (value := getattr(sample, name)) is not None:
                self._counted[name] = self._counted.get(name, 0) + value
        for index, (sums, now) in enumerate(zip(self._gpus, sample.gpus, strict=False)):
            sums.add(before.gpus[index] if before is not None and index < len(before.gpus) else None, now, span_s)
        self._before = sample

    def use(self) -> tm.AttemptUse:
        """The sums so far."""
        return tm.AttemptUse(
            measured_s=self._measured_s,
            cpu_s=self._cpu_s,
            gpus=[gpu.use() for gpu in self._gpus],
            **{name: self._counted.get(name) for name in _COUNTED},
        )


def use_of(points: Points) -> tm.AttemptUse:
    """About what ``Sums`` would say, from the points of the whole run: for one that still runs, or without sums."""
    lines = {(column.gpu, column.name): place for place, column in enumerate(points.columns)}

    def known(gpu: int | None, name: str) -> list[tuple[float, float]]:
        place = lines[gpu, name]
        return [(v, s) for v, s in zip(points.mean[place], points.spans, strict=True) if v is not None]

    def total(gpu: int | None, name: str) -> float | None:
        pairs = known(gpu, name)
        return sum(value * span for value, span in pairs) if pairs else None

    def most(gpu: int, name: str) -> int | None:
        values = [value for value in points.most[lines[gpu, name]] if value is not None]
        return int(max(values)) if values else None

    def whole(value: float | None) -> int | None:
        return None if value is None else round(value)

    gpus = []
    for number, gpu in enumerate(points.header.gpus):
        busy = known(number, "utilisation")
        measured_s = sum(span for _, span in busy)
        gpus.append(
            tm.GpuUse(
                uuid=gpu.uuid,
                model=gpu.model,
                memory_bytes=gpu.memory_bytes,
                measured_s=measured_s,
                mean_utilisation=sum(v * s for v, s in busy) / measured_s if measured_s > 0 else None,
                peak_memory_used_bytes=most(number, "memory_used_bytes"),
                energy_j=total(number, "power_w"),
                idle_s=sum(span for value, span in busy if value < IDLE_BELOW),
            )
        )
    return tm.AttemptUse(
        measured_s=sum(points.spans),
        cpu_s=total(None, "cpu_used"),
        gpus=gpus,
        **{name: whole(total(None, f"{name}_per_s")) for name in _COUNTED},
    )


class _GpuSums:
    def __init__(self, gpu: GpuIdentity) -> None:
        self._gpu = gpu
        self._measured_s = self._idle_s = self._utilisation_s = 0.0
        self._energy_j: float | None = None
        self._peak: int | None = None

    def add(self, before: GpuReadings | None, now: GpuReadings, span_s: float) -> None:
        if now.memory_used_bytes is not None:
            self._peak = max(self._peak or 0, now.memory_used_bytes)
        if span_s <= 0:
            return
        if now.utilisation is not None:
            self._measured_s += span_s
            self._utilisation_s += now.utilisation * span_s
            if now.utilisation < IDLE_BELOW:
                self._idle_s += span_s
        if before is not None and before.power_w is not None and now.power_w is not None:
            self._energy_j = (self._energy_j or 0.0) + (before.power_w + now.power_w) / 2 * span_s

    def use(self) -> tm.GpuUse:
        return tm.GpuUse(
            uuid=self._gpu.uuid,
            model=self._gpu.model,
            memory_bytes=self._gpu.memory_bytes,
            measured_s=self._measured_s,
            mean_utilisation=self._utilisation_s / self._measured_s if self._measured_s > 0 else None,
            peak_memory_used_bytes=self._peak,
            energy_j=self._energy_j,
            idle_s=self._idle_s,
        )
