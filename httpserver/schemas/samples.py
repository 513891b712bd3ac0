"""What an attempt used: its sums, its samples as lines of a plot, and asked against used."""

from __future__ import annotations

from pydantic import Field

from .base import ApiResponse


class GpuUse(ApiResponse):
    """One GPU over the whole run."""

    uuid: str
    model: str
    memory_bytes: int = Field(description="of the card; 0: not known")
    measured_s: float = Field(description="the time for which its utilisation is known")
    mean_utilisation: float | None = Field(description="0 to 1")
    peak_memory_used_bytes: int | None
    energy_j: float | None
    idle_s: float = Field(description="of measured_s, with a utilisation below 0.05")


class AttemptUse(ApiResponse):
    """What an attempt used over its whole run, summed up."""

    measured_s: float = Field(description="the time that the sums cover; gaps in the samples don't count")
    cpu_s: float | None = Field(description="CPU time, in seconds of one CPU")
    disk_read_bytes: int | None
    disk_written_bytes: int | None
    network_received_bytes: int | None
    network_sent_bytes: int | None
    gpus: list[GpuUse]


class SampledGpu(ApiResponse):
    uuid: str = Field(description="empty: the file's head is broken")
    model: str
    memory_bytes: int = Field(description="of the card; 0: not known")
    simulated: bool


class SampleColumn(ApiResponse):
    """One line of a plot. Its values stand in the order of `at`; null: not measured, or a gap."""

    name: str = Field(
        description="cpu_used, memory_bytes, disk_read_bytes_per_s and so on; of a GPU the reading, such as utilisation"
    )
    unit: str = Field(description="cpus, bytes, bytes/s; of a GPU share (0 to 1), bytes, celsius, watt")
    gpu: int | None = Field(description="its place in `gpus`; null: of the attempt as a whole")
    mean: list[float | None]
    max: list[float | None] = Field(description="the same as `mean` where a point is one sample")


class Asked(ApiResponse):
    """One resource: asked for, and used."""

    resource: str = Field(description="time, cpus, memory, gpu_utilisation, gpu_memory")
    unit: str = Field(description="seconds, cpus, bytes, share")
    asked: float
    used: float
    share: float = Field(description="used of asked; 1 is all of it")
    sentence: str


class SuggestedRequest(ApiResponse):
    """What a job file might ask next time; null: leave it as it is."""

    timeout_s: float | None
    cpus: float | None
    memory_bytes: int | None
    gpus: int | None
    gpu_memory_bytes: int | None


class Efficiency(ApiResponse):
    """Asked against used."""

    final: bool = Field(description="false: it still runs, and nothing is suggested yet")
    rows: list[Asked]
    suggested: SuggestedRequest
    sentences: list[str] = Field(description="what to ask for next time, and why")


class AttemptMetrics(ApiResponse):
    """Samples of an attempt, thinned to so many points, with sums and asked against used."""

    attempt: int
    ended: bool = Field(description="false: more may come")
    sentence: str = Field(description="why there is nothing, or what is missing; empty: all is there")
    every_s: float | None = Field(description="between two samples; null: there are none")
    began_at: float | None = Field(description="of the first sample")
    step_s: float | None = Field(description="between two points")
    samples: int = Field(description="that the points stand for; 0: nothing was measured")
    lost: int = Field(description="records that could not be read")
    gpus: list[SampledGpu]
    at: list[float] = Field(description="moments of the points, in rising order")
    columns: list[SampleColumn]
    use: AttemptUse | None = Field(description="so far, while it runs")
    efficiency: Efficiency | None
