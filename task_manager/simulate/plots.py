"""Plots of a simulation as SVG. The same numbers always give the same bytes."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

from .drawing import BOTTOM, TOP, WIDTH, Axes, Canvas, LineStyle, Point, round_ticks, span
from .measures import Measures, TaskLife

_POINTS = 800  # about one for each pixel
_NEAR_PX = 2.0  # curves that are nowhere farther apart hide each other
_SPAN_TICKS_S = (0, 1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000, 315_360_000)


def plots(lives: Mapping[str, Sequence[TaskLife]], measures: Mapping[str, Measures], *, gpus: int) -> dict[str, str]:
    """File names and their SVG. A policy has the same colour in all of them."""
    return {
        "waits.svg": waits(lives),
        "means.svg": means(measures),
        "queue.svg": over_time(lives, "Tasks waiting", _waiting),
        "gpus.svg": over_time(lives, f"GPUs held, of {gpus}", _held),
    }


def waits(lives: Mapping[str, Sequence[TaskLife]]) -> str:
    """The cumulative distribution of waits. Where curves lie on each other, their dashes take turns."""
    longest = max(life.wait_s for run in lives.values() for life in run)
    ticks = [tick for tick in _SPAN_TICKS_S if tick <= longest]
    ticks.append(next((tick for tick in _SPAN_TICKS_S if tick > longest), 10 * ticks[-1]))
    bottom = TOP + 356.0
    canvas = Canvas("Share of tasks that waited no longer", bottom + BOTTOM)
    axes = Axes(canvas, x_top=_log(ticks[-1]), y_top=1.0, bottom=bottom)
    axes.x_ticks([(_log(tick), span(tick)) for tick in ticks], "wait")
    axes.y_ticks([(i / 5, f"{20 * i} %") for i in range(6)])
    ordered = {name: sorted(axes.x(_log(life.wait_s)) for life in run) for name, run in lives.items()}
    turns = _turns(list(ordered.values()), axes.bottom - axes.top)
    for i, (name, run) in enumerate(ordered.items()):
        count = len(run)
        picks = sorted({round(k * (count - 1) / _POINTS) for k in range(_POINTS + 1)})
        points = [
            (axes.x(0.0), axes.y(0.0)),
            *((run[k], axes.y((k + 1) / count)) for k in picks),
            (axes.x(_log(ticks[-1])), axes.y(1.0)),
        ]
        axes.line(LineStyle(i, *turns[i]), _steps(points))
        canvas.legend(name, LineStyle(i))
    return canvas.svg()


def _turns(curves: Sequence[Sequence[float]], height_px: float) -> list[tuple[int, int]]:
    """For each curve its index among those that look the same, and how many of these there are.

    A curve is a sequence of pixels in rising order.
    """
    groups: list[list[int]] = []
    for i, curve in enumerate(curves):
        group = next((group for group in groups if _look_alike(curves[group[0]], curve, height_px)), None)
        if group is None:
            groups.append([i])
        else:
            group.append(i)
    found = {i: (place, len(group)) for group in groups for place, i in enumerate(group)}
    return [found[i] for i in range(len(curves))]


def _look_alike(one: Sequence[float], other: Sequence[float], height_px: float) -> bool:
    count = len(other)
    slack = _NEAR_PX / height_px * count
    for k in range(0, count, max(1, count // _POINTS)):
        x = other[k]
        if bisect_right(one, x + _NEAR_PX) + slack < k + 1 or bisect_left(one, x - _NEAR_PX) - slack > k:
            return False
    return True


def means(measures: Mapping[str, Measures]) -> str:
    """Bars of the mean and the 95th percentile of waits and of the mean of wait + run, a row for each policy."""
    kinds: list[tuple[str, Callable[[Measures], float]]] = [
        ("mean wait", lambda m: m.mean_wait_s),
        ("mean finished (wait + run)", lambda m: m.mean_finished_s),
        ("95th percentile of waits", lambda m: m.p95_wait_s),
    ]
    top = max(value(m) for m in measures.values() for _, value in kinds) or 1.0
    ticks = round_ticks(top, of_time=True)
    bar, row = 14.0, 62.0
    bottom = TOP + row * len(measures)
    canvas = Canvas("Wait and finish by policy", bottom + BOTTOM - 16)
    left = min(320.0, 24 + 7 * max(map(len, measures)))
    axes = Axes(canvas, x_top=ticks[-1], y_top=1.0, left=left, right=WIDTH - 70, bottom=bottom)
    axes.x_ticks([(tick, span(tick)) for tick in ticks])
    for i, (name, measure) in enumerate(measures.items()):
        y = axes.top + row * i + (row - bar * len(kinds)) / 2
        canvas.text(axes.left - 10, y + bar * len(kinds) / 2 + 4, name, anchor="end", most=44)
        for k, (_, value) in enumerate(kinds):
            axes.bar(k, y + bar * k, bar, value(measure), f"{span(value(measure))}")
    for k, (kind, _) in enumerate(kinds):
        canvas.legend(kind, k)
    return canvas.svg()


def over_time(
    lives: Mapping[str, Sequence[TaskLife]], title: str, changes: Callable[[Sequence[TaskLife]], list[Point]]
) -> str:
    """A count over time; each pixel shows the highest value of its span.

    ``changes`` gives moments in seconds and by how much the count changes then. Each policy has axes of its own, since
    curves on the same axes would hide each other.
    """
    begin = min(life.submit_s for run in lives.values() for life in run)
    end = max(life.end_s for run in lives.values() for life in run)
    span_s = (end - begin) or 1.0
    lines = {name: _counted(changes(run), begin, span_s) for name, run in lives.items()}
    top = max(y for points in lines.values() for _, y in points) or 1.0
    tall = 150.0 if len(lines) <= 3 else 90.0
    y_ticks, x_ticks = round_ticks(top, most=4, whole=True), round_ticks(span_s, of_time=True)
    each = tall + 34
    canvas = Canvas(title, TOP + each * len(lines) + BOTTOM - 16)
    for i, (name, points) in enumerate(lines.items()):
        axes = Axes(canvas, x_top=span_s, y_top=y_ticks[-1], top=TOP + each * i + 20, bottom=TOP + each * i + 20 + tall)
        canvas.text(axes.left, axes.top - 7, name, weight="600", most=100)
        last = i == len(lines) - 1
        label = "time since the first submission" if last else ""
        axes.x_ticks([(tick, span(tick) if last else "") for tick in x_ticks if tick <= span_s], label)
        axes.y_ticks([(tick, f"{tick:g}") for tick in y_ticks])
        drawn = [(axes.x(x), axes.y(y)) for x, y in _steps(points)]
        axes.area(LineStyle(i), drawn)
    return canvas.svg()


def _waiting(run: Sequence[TaskLife]) -> list[Point]:
    return [p for life in run if life.wait_s > 0 for p in ((life.queued_s, 1.0), (life.start_s, -1.0))]


def _held(run: Sequence[TaskLife]) -> list[Point]:
    return [p for life in run if life.gpus for p in ((life.start_s, float(life.gpus)), (life.end_s, -float(life.gpus)))]


def _counted(changes: list[Point], begin: float, span_s: float) -> list[Point]:
    highest = [0.0] * (_POINTS + 1)
    now = 0.0
    at = 0
    for instant, by in sorted(changes):  # ends of one moment come before starts: they are negative
        bucket = min(_POINTS, int((instant - begin) / span_s * _POINTS))
        while at < bucket:
            at += 1
            highest[at] = now
        now += by
        highest[at] = max(highest[at], now)
    for rest in range(at + 1, _POINTS + 1):
        highest[rest] = now
    return [(k / _POINTS * span_s, value) for k, value in enumerate(highest)]


def _steps(points: Sequence[Point]) -> list[Point]:
    out = [points[0]]
    for x, y in points[1:]:
        if y != out[-1][1]:
            out.extend(((x, out[-1][1]), (x, y)))
    if points[-1][0] != out[-1][0]:
        out.append((points[-1][0], out[-1][1]))
    return out


def _log(seconds: float) -> float:
    return math.log10(1 + seconds)
