"""Plots of a simulation as SVG: plain text, read by every browser, the same bytes for the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from xml.sax.saxutils import escape

from .measures import Life, Measures

_WIDTH, _HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 48, 56
# Told apart by colour-blind eyes too (Okabe and Ito); from the ninth line on, dashes tell.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c4033", "#000000")
_DASHES = ("", "7 4", "2 3", "10 3 2 3")
_POINTS = 800  # as many as there are pixels

_SPAN_TICKS_S = (0, 1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000, 315_360_000)

Point = tuple[float, float]


def plots(lives: Mapping[str, Sequence[Life]], measures: Mapping[str, Measures], *, gpus: int) -> dict[str, str]:
    """File names and their SVG, with a line or bar for each policy."""
    return {
        "waits.svg": waits(lives),
        "means.svg": means(measures),
        "queue.svg": over_time(lives, "Tasks waiting", _waiting),
        "gpus.svg": over_time(lives, f"GPUs held, of {gpus}", _held),
    }


def waits(lives: Mapping[str, Sequence[Life]]) -> str:
    """The share of tasks that waited no longer than so long."""
    longest = max(life.wait_s for run in lives.values() for life in run)
    ticks = [tick for tick in _SPAN_TICKS_S if tick <= longest]
    ticks.append(next((tick for tick in _SPAN_TICKS_S if tick > longest), 10 * ticks[-1]))
    chart = _Chart("Share of tasks that waited no longer", "wait", _log(ticks[-1]), 1.0)
    chart.x_ticks([(_log(tick), _span(tick)) for tick in ticks])
    chart.y_ticks([(i / 5, f"{20 * i} %") for i in range(6)])
    for i, (name, run) in enumerate(lives.items()):
        ordered = sorted(life.wait_s for life in run)
        count = len(ordered)
        picks = sorted({round(k * (count - 1) / _POINTS) for k in range(_POINTS + 1)})
        points = [(0.0, 0.0), *((_log(ordered[k]), (k + 1) / count) for k in picks), (_log(ticks[-1]), 1.0)]
        chart.line(i, name, _steps(points))
    return chart.svg()


def means(measures: Mapping[str, Measures]) -> str:
    """Bars: the mean and the 95th percentile of waits, and the mean of wait + run."""
    kinds: list[tuple[str, Callable[[Measures], float]]] = [
        ("mean wait", lambda m: m.mean_wait_s),
        ("mean finished (wait + run)", lambda m: m.mean_finished_s),
        ("95th percentile of waits", lambda m: m.p95_wait_s),
    ]
    top = max(value(m) for m in measures.values() for _, value in kinds) or 1.0
    ticks = _round_ticks(top, of_time=True)
    chart = _Chart("Wait and finish by policy", "", float(len(measures)), ticks[-1])
    chart.y_ticks([(tick, _span(tick)) for tick in ticks])
    chart.x_ticks([(i + 0.5, name) for i, name in enumerate(measures)], lines=False)
    for k, (name, value) in enumerate(kinds):
        bars = [(i + 0.14 + 0.24 * k, 0.24, value(m)) for i, m in enumerate(measures.values())]
        chart.bars(k, name, bars)
    return chart.svg()


def over_time(lives: Mapping[str, Sequence[Life]], title: str, changes: Callable[[Sequence[Life]], list[Point]]) -> str:
    """A count that ``changes`` (instants and by how much) make up, over time; of each pixel the highest."""
    begin = min(life.submit_s for run in lives.values() for life in run)
    end = max(life.end_s for run in lives.values() for life in run)
    span_s = (end - begin) or 1.0
    lines = {name: _counted(changes(run), begin, span_s) for name, run in lives.items()}
    top = max(y for points in lines.values() for _, y in points) or 1.0
    y_ticks, x_ticks = _round_ticks(top), _round_ticks(span_s, of_time=True)
    chart = _Chart(title, "time since the first submission", span_s, y_ticks[-1])
    chart.x_ticks([(tick, _span(tick)) for tick in x_ticks if tick <= span_s])
    chart.y_ticks([(tick, f"{tick:g}") for tick in y_ticks])
    for i, (name, points) in enumerate(lines.items()):
        chart.line(i, name, _steps(points))
    return chart.svg()


def _waiting(run: Sequence[Life]) -> list[Point]:
    return [p for life in run if life.wait_s > 0 for p in ((life.queued_s, 1.0), (life.start_s, -1.0))]


def _held(run: Sequence[Life]) -> list[Point]:
    return [p for life in run if life.gpus for p in ((life.start_s, float(life.gpus)), (life.end_s, -float(life.gpus)))]


def _counted(changes: list[Point], begin: float, span_s: float) -> list[Point]:
    highest = [0.0] * (_POINTS + 1)
    now = 0.0
    at = 0
    for instant, by in sorted(changes):  # at one instant what ends comes first: it is negative
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


def _round_ticks(top: float, *, of_time: bool = False) -> list[float]:
    """Four to eight ticks from 0 to beyond ``top``, at round numbers."""
    steps: Sequence[float]
    if of_time and top > 60:
        steps = [60 * m for m in (1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 720, 1_440, 2_880, 7_200, 14_400)]
        steps = [*steps, *(864_000 * 10.0**k * m for k in range(1, 6) for m in (1, 2, 5))]
    else:
        magnitude = 10.0 ** math.floor(math.log10(top))
        steps = [magnitude * m for m in (0.1, 0.2, 0.25, 0.5, 1, 2)]
    step = next((step for step in steps if top / step <= 7), steps[-1])
    return [step * k for k in range(math.ceil(top / step) + 1)]


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s" if seconds else "0"


class _Chart:
    """A frame with axes; x and y run from 0."""

    def __init__(self, title: str, x_label: str, x_top: float, y_top: float) -> None:
        self._x_top, self._y_top = x_top or 1.0, y_top or 1.0
        self._parts: list[str] = []
        self._legend: list[str] = []
        self._text(_LEFT, 22, title, size=16, weight="600")
        if x_label:
            self._text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, x_label, anchor="middle")

    def x_ticks(self, ticks: Sequence[tuple[float, str]], *, lines: bool = True) -> None:
        for value, label in ticks:
            x = self._x(value)
            if lines:
                self._parts.append(_grid(x, _TOP, x, _HEIGHT - _BOTTOM))
            self._text(x, _HEIGHT - _BOTTOM + 18, label, anchor="middle")

    def y_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        for value, label in ticks:
            y = self._y(value)
            self._parts.append(_grid(_LEFT, y, _WIDTH - _RIGHT, y))
            self._text(_LEFT - 8, y + 4, label, anchor="end")

    def line(self, number: int, name: str, points: Sequence[Point]) -> None:
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        style = _stroke(number)
        self._parts.append(f'<polyline points="{path}" fill="none" {style}/>')
        self._legend.append(f'<line x1="0" y1="-4" x2="20" y2="-4" {style}/>{_label(name, 26)}')

    def bars(self, number: int, name: str, bars: Sequence[tuple[float, float, float]]) -> None:
        colour = _COLOURS[number % len(_COLOURS)]
        for x, width, height in bars:
            left, right, y = self._x(x), self._x(x + width), self._y(height)
            box = f'x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{self._y(0) - y:.1f}"'
            self._parts.append(f'<rect {box} fill="{colour}"><title>{escape(name)}: {_span(height)}</title></rect>')
        self._legend.append(f'<rect x="4" y="-10" width="12" height="12" fill="{colour}"/>{_label(name, 26)}')

    def svg(self) -> str:
        rows = [
            f'<g transform="translate({_LEFT + 12 + 200 * (i % 4)},{_HEIGHT + 6 + 20 * (i // 4)})">{entry}</g>'
            for i, entry in enumerate(self._legend)
        ]
        height = _HEIGHT + 20 * math.ceil(len(rows) / 4) + 8
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" font-size="12">'
        )
        return "\n".join(
            [head, f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>', *self._parts, *rows, "</svg>\n"]
        )

    def _x(self, value: float) -> float:
        return _LEFT + value / self._x_top * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self._y_top * (_HEIGHT - _TOP - _BOTTOM)

    def _text(self, x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "") -> None:
        bold = f' font-weight="{weight}"' if weight else ""
        where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{bold}'
        self._parts.append(f"<text {where}>{escape(text)}</text>")


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _label(name: str, x: int) -> str:
    shown = name if len(name) <= 26 else name[:25] + "…"
    return f'<text x="{x}" y="0">{escape(shown)}</text>'


def _stroke(number: int) -> str:
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="1.8"{extra}'
