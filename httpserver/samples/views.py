"""Points, sums and asked against used as the HTTP API shows them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from headway.model.gpu_readings import READINGS
from headway.model.reasons import EndWord
from headway.model.simulated_gpus import is_simulated
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.samples.efficiency import Card, Outcome, Request, Used, UsedGpu, card
from headway.samples.model import MACHINE, GpuIdentity, Sample, columns_of, shown
from headway.samples.thinning import Points, Values

from .. import schemas as s
from .. import wire

_OUTCOMES = {EndWord.TIMED_OUT: Outcome.OUT_OF_TIME, EndWord.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY}
_LINES_AT_ONCE = 500


def efficiency(task: jm.TaskView, view: tm.AttemptView, use: tm.AttemptUse, points: Points | None) -> s.Efficiency:
    """Asked against used of an attempt. ``points`` of the whole run tell its busiest moment."""
    asked = Request(
        timeout_s=view.timeout_s or task.timeout_s,
        cpus=task.resources.cpu_centi / 100,
        memory_bytes=task.resources.memory_bytes,
        gpus=task.resources.gpus,
        gpu_memory_bytes=task.resources.gpu_memory_bytes or None,
        gpu_share_bytes=task.resources.gpu_share_bytes or None,
    )
    used = Used(
        run_s=wire.if_set(view.phases, "running_s"),
        cpus=use.cpu_s / use.measured_s if use.HasField("cpu_s") and use.measured_s > 0 else None,
        peak_cpus=_most(points, "cpu_used"),
        peak_memory_bytes=_peak_memory(view, points),
        gpus=[
            UsedGpu(
                memory_bytes=gpu.memory_bytes,
                mean_utilisation=wire.if_set(gpu, "mean_utilisation"),
                peak_memory_used_bytes=gpu.peak_memory_used_bytes if gpu.HasField("peak_memory_used_bytes") else None,
                energy_j=wire.if_set(gpu, "energy_j"),
            )
            for gpu in use.gpus
        ],
    )
    return _shown_card(card(asked, used, outcome(view)))


def outcome(view: tm.AttemptView) -> Outcome:
    """How far the run shows what the task needs: one that failed early does not."""
    reason = wire.reason(view.reason) if view.HasField("reason") and view.reason.word else None
    if reason is None:
        return Outcome.RUNNING
    if reason.word is EndWord.EXITED and reason.exit_code == 0:
        return Outcome.DONE
    return _OUTCOMES.get(reason.word, Outcome.BROKEN_OFF)


def _most(points: Points | None, name: str) -> float | None:
    values = [] if points is None else points.mean[[column.name for column in points.columns].index(name)]
    return max((value for value in values if value is not None), default=None)


def _peak_memory(view: tm.AttemptView, points: Points | None) -> int | None:
    """The kernel's own mark, else the largest sample."""
    if view.HasField("peak_memory_bytes"):
        return view.peak_memory_bytes
    values = [] if points is None else points.most[[column.name for column in points.columns].index("memory_bytes")]
    return int(max((value for value in values if value is not None), default=0)) or None


def _shown_card(made: Card) -> s.Efficiency:
    return s.Efficiency(
        final=made.final,
        rows=[
            s.Asked(
                resource=row.resource,
                unit=row.unit,
                asked=row.asked,
                used=row.used,
                share=row.share,
                sentence=row.sentence,
            )
            for row in made.rows
        ],
        suggested=s.SuggestedRequest(
            timeout_s=made.suggested.timeout_s,
            cpus=made.suggested.cpus,
            memory_bytes=made.suggested.memory_bytes,
            gpus=made.suggested.gpus,
            gpu_memory_bytes=made.suggested.gpu_memory_bytes,
        ),
        sentences=list(made.sentences),
    )


def document(
    number: int,
    ended: bool,
    sentence: str,
    points: Points | None,
    use: tm.AttemptUse | None,
    efficiency: s.Efficiency | None,
) -> bytes:
    """An ``AttemptMetrics`` as JSON. Written by hand: to check tens of thousands of numbers takes longer than to plot
    them."""
    some = points if points is not None and points.samples else None
    header = some.header if some else None
    answer = {
        "attempt": number,
        "ended": ended,
        "sentence": sentence,
        "every_s": header.every_s if header else None,
        "began_at": header.began_at if header else None,
        "step_s": some.step_s if some else None,
        "samples": some.samples if some else 0,
        "lost": points.lost if points is not None else 0,
        "gpus": [gpu_of(gpu) for gpu in header.gpus] if header else [],
        "at": [round(moment, 3) for moment in some.at] if some else [],
        "columns": list(_lines(some)) if some else [],
        "use": wire.attempt_use(use).model_dump(mode="json") if use is not None else None,
        "efficiency": efficiency.model_dump(mode="json") if efficiency is not None else None,
    }
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()


def gpu_of(gpu: GpuIdentity) -> dict[str, Any]:
    return {
        "uuid": gpu.uuid,
        "model": gpu.model,
        "memory_bytes": gpu.memory_bytes,
        "simulated": is_simulated(gpu.uuid),
    }


def _lines(points: Points) -> Iterator[dict[str, Any]]:
    for column, mean, most in zip(points.columns, points.mean, points.most, strict=True):
        yield {
            "name": column.name,
            "unit": column.unit,
            "gpu": column.gpu,
            "mean": _rounded(mean, column.unit),
            "max": _rounded(most, column.unit),
        }


_FIGURES = {"share": 4, "cpus": 3, "celsius": 1, "watt": 1}  # behind the point; of bytes none


def _rounded(values: Iterable[float | None], unit: str) -> list[float | None]:
    """No screen shows more."""
    figures = _FIGURES.get(unit)  # round() makes whole numbers of None
    return [None if value is None else round(value, figures) for value in values]


def values_of(sample: Sample, span_s: float) -> list[float | int | None]:
    values = zip(shown(sample, span_s), columns_of(len(sample.gpus)), strict=True)
    return [None if value is None else round(value, _FIGURES.get(column.unit)) for value, column in values]


def csv_of_samples(samples: Iterable[Sample], gpus: int) -> Iterator[bytes]:
    """Every sample as it was written."""
    names = [row.name for row in MACHINE] + [f"gpu{n}_{row.name}" for n in range(gpus) for row in READINGS]
    units = [row.unit for row in MACHINE] + [row.unit.value for _ in range(gpus) for row in READINGS]
    rows = (
        (
            sample.at,
            [
                *(getattr(sample, row.name) for row in MACHINE),
                *(getattr(gpu, row.name) for gpu in sample.gpus for row in READINGS),
            ],
        )
        for sample in samples
    )
    return _csv(names, units, rows)


def csv_of_points(points: Points) -> Iterator[bytes]:
    """Means, then maxima."""
    names = [c.name if c.gpu is None else f"gpu{c.gpu}_{c.name}" for c in columns_of(len(points.header.gpus))]
    units = [c.unit for c in columns_of(len(points.header.gpus))]
    columns: list[Values] = [*points.mean, *points.most]
    rows = ((moment, list(values)) for moment, *values in zip(points.at, *columns, strict=True) if any_known(values))
    return _csv([*names, *(f"{name}_max" for name in names)], units * 2, rows)


def any_known(values: Iterable[float | None]) -> bool:
    return any(value is not None for value in values)


def _csv(names: list[str], units: list[str], rows: Iterable[tuple[float, list[Any]]]) -> Iterator[bytes]:
    """Nothing in it comes from a person, so no cell needs quotes."""
    lines = [",".join(["at", "time", *names])]
    for at, values in rows:
        time = datetime.fromtimestamp(round(at, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines.append(",".join([f"{at:.3f}", time, *map(_cell, values, units)]))
        if len(lines) >= _LINES_AT_ONCE:
            yield ("\r\n".join(lines) + "\r\n").encode()
            lines = []
    if lines:
        yield ("\r\n".join(lines) + "\r\n").encode()


def _cell(value: float | int | None, unit: str) -> str:
    """Without the last figures of a packed value, such as 0.2500076 for 25 %."""
    if value is None:
        return ""
    figures = _FIGURES.get(unit, 0)
    return f"{value:.{figures}f}".rstrip("0").rstrip(".") if figures else f"{value:.0f}"
