"""Points as SVG: a plot for each reading, one above the other, with one line for each GPU. Pure.

Four are those that people know of their cards. Then come the cards' memory, and CPU and memory of the attempt. Names
are escaped: a card's model, a job and a task are text, whatever they hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from xml.sax.saxutils import escape

from headway.samples.model import PlotColumn
from headway.samples.thinning import Points
from headway.units import round_duration

_WIDTH, _LEFT, _RIGHT = 860.0, 76.0, 24.0
_HEAD, _PLOT, _TITLE, _FOOT = 56.0, 150.0, 26.0, 44.0
_LEGEND_ROW = 20.0
# The palette of Okabe and Ito (2008) suits colour-blind people too. From the ninth line on, dashes differ.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c4033", "#000000")
_DASHES = ("", "7 4", "2 3", "10 3 2 3")
# XML has no form for these, and a surrogate cannot be sent.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class _Plot:
    column: str
    title: str
    unit: str
    scale: float = 1.0  # of a value
    top: float = 0.0  # the axis ends there at least


_PLOTS = (
    _Plot("utilisation", "GPU utilisation", "%", 100.0, 100.0),
    _Plot("memory_utilisation", "GPU memory copy utilisation", "%", 100.0, 100.0),
    _Plot("temperature_c", "GPU temperature", "°C", 1.0, 50.0),
    _Plot("power_w", "GPU power", "W", 1.0, 50.0),
    _Plot("memory_used_bytes", "GPU memory", "GiB", 1 / _GIB, 1.0),
    _Plot("cpu_used", "CPUs in use", "CPUs", 1.0, 1.0),
    _Plot("memory_bytes", "Memory", "GiB", 1 / _GIB, 1.0),
)


def svg(points: Points, title: str, sentence: str = "") -> str:
    """The picture. ``sentence`` is written below the title."""
    plots = [(plot, lines) for plot in _PLOTS if (lines := _lines(points, plot))]
    names = [f"GPU {number}: {gpu.model or 'unknown'}  {gpu.uuid}" for number, gpu in enumerate(points.header.gpus)]
    legend = _HEAD + len(plots) * (_TITLE + _PLOT) + _FOOT
    rows = math.ceil(len(names) / 2) if plots else 0
    height = math.ceil(legend + rows * _LEGEND_ROW) if plots else int(_HEAD + 20)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height}" width="{_WIDTH:g}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{_text(title)}</title>",
        f'<rect width="{_WIDTH:g}" height="{height}" fill="#fff"/>',
        _words(16, 24, title, size=16, weight="600"),
        _words(16, 44, sentence),
    ]
    if plots and points.at:
        begin, end = points.at[0], max(points.at[-1], points.at[0] + 1.0)
        for number, (plot, lines) in enumerate(plots):
            top = _HEAD + number * (_TITLE + _PLOT) + _TITLE
            out += _one_plot(plot, lines, points.at, begin, end, top, last=number == len(plots) - 1)
        for number, name in enumerate(names):
            x, y = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2 * (number % 2), legend + _LEGEND_ROW * (number // 2)
            out.append(f'<line x1="{x:.0f}" y1="{y - 4:.0f}" x2="{x + 20:.0f}" y2="{y - 4:.0f}" {_stroke(number)}/>')
            out.append(_words(x + 26, y, name, most=46))
    return "\n".join([*out, "</svg>\n"])


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    mean: Sequence[float | None]
    most: Sequence[float | None]


def _lines(points: Points, plot: _Plot) -> list[_Line]:
    """Those with a value. A reading that the driver does not have gets no plot."""
    found: list[tuple[int, PlotColumn]] = [(n, c) for n, c in enumerate(points.columns) if c.name == plot.column]
    lines = [_Line(column.gpu or 0, points.mean[place], points.most[place]) for place, column in found]
    return [line for line in lines if any(value is not None for value in line.mean)]


def _one_plot(
    plot: _Plot, lines: Sequence[_Line], at: Sequence[float], begin: float, end: float, top: float, *, last: bool
) -> list[str]:
    bottom, right = top + _PLOT - 20, _WIDTH - _RIGHT
    highest = max(value for line in lines for value in (*line.most, *line.mean) if value is not None) * plot.scale
    step = _step(max(highest, plot.top))
    ceiling = step * math.ceil(max(highest, plot.top) / step)

    def x(moment: float) -> float:
        return _LEFT + (moment - begin) / (end - begin) * (right - _LEFT)

    def y(value: float) -> float:
        return bottom - max(0.0, value) * plot.scale / ceiling * (bottom - top)

    out = [_words(_LEFT, top - 8, f"{plot.title} ({plot.unit})", weight="600")]
    for number in range(round(ceiling / step) + 1):
        level = bottom - number * step / ceiling * (bottom - top)
        out.append(_rule(_LEFT, level, right, level))
        out.append(_words(_LEFT - 8, level + 4, f"{number * step:g}", anchor="end"))
    for moment, label in _times(begin, end):
        out.append(_rule(x(moment), top, x(moment), bottom))
        if last:
            out.append(_words(x(moment), bottom + 18, label, anchor="middle"))
    if last:
        day = datetime.fromtimestamp(begin, UTC)
        out.append(_words((_LEFT + right) / 2, bottom + 38, f"UTC, from {day:%Y-%m-%d %H:%M:%S}, over "
                          f"{round_duration(round(end - begin))}", anchor="middle"))  # fmt: skip
    for line in lines:
        for run in _runs(at, line.most) if list(line.most) != list(line.mean) else ():
            path = " ".join(f"{x(moment):.1f},{y(value):.1f}" for moment, value in run)
            out.append(f'<polyline points="{path}" fill="none" {_stroke(line.number, faint=True)}/>')
        for run in _runs(at, line.mean):
            path = " ".join(f"{x(moment):.1f},{y(value):.1f}" for moment, value in run)
            if len(run) == 1:  # a line of one point would not be seen
                (moment, value), radius = run[0], 1.8
                colour = _COLOURS[line.number % len(_COLOURS)]
                out.append(f'<circle cx="{x(moment):.1f}" cy="{y(value):.1f}" r="{radius}" fill="{colour}"/>')
            else:
                out.append(f'<polyline points="{path}" fill="none" {_stroke(line.number)}/>')
    return out


def _runs(at: Sequence[float], values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """Parts without a gap."""
    pairs = zip(at, values, strict=True)
    return [
        [(moment, value) for moment, value in group if value is not None]
        for known, group in groupby(pairs, key=lambda pair: pair[1] is not None)
        if known
    ]


def _stroke(number: int, *, faint: bool = False) -> str:
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    width = '0.8" stroke-opacity="0.35' if faint else "1.5"
    return f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="{width}"{extra}'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _words(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "", most: int = 110
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{bold}>{_text(shown)}</text>'


def _text(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text))


def _step(top: float) -> float:
    """Between ticks: a round number, four to five of them."""
    magnitude = 10.0 ** math.floor(math.log10(top))
    return next(step for m in (0.2, 0.25, 0.5, 1, 2) if top / (step := magnitude * m) <= 5)


def _times(begin: float, end: float) -> list[tuple[float, str]]:
    steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
    step = next((one for one in steps if (end - begin) / one <= 8), 86_400 * math.ceil((end - begin) / 86_400 / 8))
    form = "%m-%d %H:%M" if end - begin > 86_400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    first = math.ceil(begin / step) * step
    count = int((end - first) // step) + 1
    return [(moment := float(first + n * step), f"{datetime.fromtimestamp(moment, UTC):{form}}") for n in range(count)]
