"""Draws plots as SVG: a canvas, axes on it, and a legend below. Lengths are in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 860
LEFT, RIGHT, TOP, BOTTOM = 76, 36, 48, 56
# The palette of Okabe and Ito (2008) suits colour-blind people too. From the ninth line on, dashes differ.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c4033", "#000000")
_DASHES = ("", "7 4", "2 3", "10 3 2 3")
_TURN_PX = 9.0
_CHAR_PX = 7.0  # at least the mean width of a letter

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How line ``number`` is drawn. ``turn`` is its index among the ``of`` lines that lie on each other."""

    number: int
    turn: int = 0
    of: int = 1

    @property
    def colour(self) -> str:
        return _COLOURS[self.number % len(_COLOURS)]

    @property
    def attributes(self) -> str:
        dash = _DASHES[self.number // len(_COLOURS) % len(_DASHES)]
        if self.of > 1:
            dash = f"{_TURN_PX:g} {_TURN_PX * (self.of - 1):g}"
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        extra += f' stroke-dashoffset="{-_TURN_PX * self.turn:g}"' if self.turn else ""
        return f'stroke="{self.colour}" stroke-width="1.8"{extra}'


class Canvas:
    """A picture with a title. ``height`` does not include the legend."""

    def __init__(self, title: str, height: float) -> None:
        self.height = height
        self._parts: list[str] = []
        self._legend: list[tuple[str, str]] = []
        self.text(LEFT, 22, title, size=16, weight="600")

    def add(self, part: str) -> None:
        self._parts.append(part)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        size: int = 12,
        weight: str = "",
        most: int = 0,
    ) -> None:
        """Writes text. More than ``most`` letters are cut off and shown as a tooltip; 0: none are."""
        bold = f' font-weight="{weight}"' if weight else ""
        where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{bold}'
        self.add(f"<text {where}>{_clipped(text, most)}</text>")

    def legend(self, name: str, mark: LineStyle | int) -> None:
        """Adds an entry to the legend: of a line, or of the bars with this number."""
        if isinstance(mark, LineStyle):
            shape = f'<line x1="0" y1="-4" x2="20" y2="-4" {mark.attributes}/>'
        else:
            shape = f'<rect x="4" y="-10" width="12" height="12" fill="{LineStyle(mark).colour}"/>'
        self._legend.append((name, shape))

    def svg(self) -> str:
        longest = max((len(name) for name, _ in self._legend), default=0)
        room = WIDTH - LEFT - RIGHT
        columns = max(1, int(room // max(200.0, 50 + _CHAR_PX * longest)))
        rows = []
        for i, (name, shape) in enumerate(self._legend):
            at = f"{LEFT + 12 + room / columns * (i % columns):.0f},{self.height + 6 + 20 * (i // columns):.0f}"
            rows.append(f'<g transform="translate({at})">{shape}<text x="26" y="0">{_clipped(name, 100)}</text></g>')
        height = math.ceil(self.height + 20 * math.ceil(len(rows) / columns) + 8)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" font-size="12">'
        )
        ground = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        return "\n".join([head, ground, *self._parts, *rows, "</svg>\n"])


class Axes:
    """A part of the canvas with axes; x and y begin at 0."""

    def __init__(
        self,
        canvas: Canvas,
        *,
        x_top: float,
        y_top: float,
        left: float = LEFT,
        right: float = WIDTH - RIGHT,
        top: float = TOP,
        bottom: float | None = None,
    ) -> None:
        self.left, self.right, self.top = left, right, top
        self.bottom = canvas.height - BOTTOM if bottom is None else bottom
        self._canvas = canvas
        self._x_top, self._y_top = x_top or 1.0, y_top or 1.0

    def x(self, value: float) -> float:
        return self.left + value / self._x_top * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - value / self._y_top * (self.bottom - self.top)

    def x_ticks(self, ticks: Sequence[tuple[float, str]], axis: str = "") -> None:
        for value, label in ticks:
            x = self.x(value)
            self._grid(x, self.top, x, self.bottom)
            if label:
                self._canvas.text(x, self.bottom + 18, label, anchor="middle")
        if axis:
            self._canvas.text((self.left + self.right) / 2, self.bottom + 42, axis, anchor="middle")

    def y_ticks(self, ticks: Sequence[tuple[float, str]]) -> None:
        for value, label in ticks:
            y = self.y(value)
            self._grid(self.left, y, self.right, y)
            self._canvas.text(self.left - 8, y + 4, label, anchor="end")

    def line(self, stroke: LineStyle, points: Sequence[Point]) -> None:
        self._canvas.add(f'<polyline points="{_path(points)}" fill="none" {stroke.attributes}/>')

    def area(self, stroke: LineStyle, points: Sequence[Point]) -> None:
        """Draws a line and tints the area below it."""
        foot = [(points[-1][0], self.bottom), (points[0][0], self.bottom)]
        self._canvas.add(
            f'<polygon points="{_path([*points, *foot])}" fill="{stroke.colour}" fill-opacity="0.25" stroke="none"/>'
        )
        plain = f'stroke="{stroke.colour}" stroke-width="1.2"'
        self._canvas.add(f'<polyline points="{_path(points)}" fill="none" {plain}/>')

    def bar(self, number: int, y: float, thick: float, value: float, label: str) -> None:
        """Draws a bar from the left with ``label`` at its end."""
        box = f'x="{self.left:.1f}" y="{y:.1f}" width="{self.x(value) - self.left:.1f}" height="{thick - 1:.1f}"'
        self._canvas.add(f'<rect {box} fill="{LineStyle(number).colour}"/>')
        self._canvas.text(self.x(value) + 5, y + thick - 4, label, size=11)

    def _grid(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self._canvas.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>')


def round_ticks(top: float, *, of_time: bool = False, most: int = 7, whole: bool = False) -> list[float]:
    """Ticks at round numbers from 0 to at least ``top``, with about ``most`` steps."""
    steps: Sequence[float]
    if of_time and top > 60:
        steps = [60 * m for m in (1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 720, 1_440, 2_880, 7_200, 14_400)]
        steps = [*steps, *(864_000 * 10.0**k * m for k in range(1, 6) for m in (1, 2, 5))]
    else:
        magnitude = 10.0 ** math.floor(math.log10(top))
        steps = [magnitude * m for m in (0.1, 0.2, 0.25, 0.5, 1, 2, 5)]
        steps = [step for step in steps if step >= 1 and step == int(step)] if whole else steps
    step = next((step for step in steps if top / step <= most), steps[-1])
    return [step * k for k in range(math.ceil(top / step) + 1)]


def span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{float(f'{seconds / size:.4g}'):,.10g} {unit}"
    return f"{seconds:.4g} s" if seconds else "0"


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _clipped(text: str, most: int) -> str:
    if not most or len(text) <= most:
        return escape(text)
    return f"{escape(text[: most - 1])}…<title>{escape(text)}</title>"
