"""Plots of a simulation: what is written can be read, and what is equal is seen as two."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import pytest

from headway.ids import JobId
from task_manager.simulate.measures import TaskLife, measure
from task_manager.simulate.plots import plots

SVG = "{http://www.w3.org/2000/svg}"
SIX = tuple(
    f"{policy} {kind}" for policy in ("fifo", "aging_sjf", "fair:spread=2") for kind in ("conservative", "easy")
)
MANY = tuple(
    f"{policy} {kind}"
    for policy in ("aging_sjf:beta=2.5,gamma=0.125", "log_aging:c=600", "hrrn", "adaptive", "sjf", "ljf")
    for kind in ("conservative", "easy", "greedy", "strict")
)
LONG = ("third_party:" + ",".join(f"parameter{number}={number}" for number in range(9)), "fifo")


def run(*waits_s: float) -> tuple[TaskLife, ...]:
    return tuple(
        TaskLife(
            queued_s=10.0 * i, start_s=10.0 * i + wait_s, end_s=10.0 * i + wait_s + 300, gpus=1, cpu_centi=100,
            job=JobId(f"j{i}"), submit_s=10.0 * i, timed_out=False,
        )
        for i, wait_s in enumerate(waits_s)
    )  # fmt: skip


def drawn(runs: Mapping[str, Sequence[TaskLife]], gpus: int = 2) -> dict[str, ElementTree.Element]:
    measures = {name: measure(lives, gpus=gpus, cpu_centi=0) for name, lives in runs.items()}
    return {name: ElementTree.fromstring(svg) for name, svg in plots(runs, measures, gpus=gpus).items()}


def boxes(picture: ElementTree.Element) -> list[tuple[str, float, float, float, float]]:
    """Each text with about the room that it takes: left, top, right, bottom."""
    found = []
    groups = [(picture, 0.0, 0.0)]
    for group in picture.iter(f"{SVG}g"):
        x, y = map(float, group.attrib["transform"].removeprefix("translate(").removesuffix(")").split(","))
        groups.append((group, x, y))
    for group, dx, dy in groups:
        for text in group.findall(f"{SVG}text"):
            size = float(text.get("font-size", "12"))
            wide = 0.58 * size * len(text.text or "")
            left = dx + float(text.attrib["x"])
            left -= {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
            bottom = dy + float(text.attrib["y"])
            found.append((text.text or "", left, bottom - 0.8 * size, left + wide, bottom))
    return found


@pytest.mark.parametrize("names", [("fifo",), SIX, MANY, LONG])
@pytest.mark.parametrize("longest_s", [0.0, 3.0, 70_000.0, 9e8])
def test_no_text_covers_another_or_leaves_the_picture(names: Sequence[str], longest_s: float):
    # With six runs the names below the bars ran into each other.
    for file, picture in drawn({name: run(0, 0, longest_s / 2, longest_s) for name in names}).items():
        width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
        texts = boxes(picture)
        for text, left, top, right, bottom in texts:
            assert 0 <= left <= right <= width, (file, text)
            assert 0 <= top <= bottom <= height, (file, text)
        for one, other in combinations(texts, 2):
            apart = one[1] >= other[3] or other[1] >= one[3] or one[2] >= other[4] or other[2] >= one[4]
            assert apart, (file, one[0], other[0])


@pytest.mark.parametrize("names", [SIX, MANY, LONG])
def test_every_run_is_named_in_every_plot(names: Sequence[str]):
    for file, picture in drawn({name: run(0, 5) for name in names}).items():
        told = set(picture.itertext())
        assert told.issuperset(names), file  # whole, if only where a pointer rests on it


def test_equal_curves_take_turns_and_others_are_drawn_through():
    runs = {"fifo": run(0, 60, 600), "sjf": run(0, 60, 601), "ljf": run(0, 600, 6_000), "hrrn": run(0, 60, 600)}
    lines = drawn(runs)["waits.svg"].iter(f"{SVG}polyline")
    dashes = [(line.get("stroke-dasharray"), line.get("stroke-dashoffset")) for line in lines]
    assert dashes == [("9 18", None), ("9 18", "-9"), (None, None), ("9 18", "-18")]


@pytest.mark.parametrize("file", ["queue.svg", "gpus.svg"])
def test_over_time_each_run_has_a_frame_of_its_own(file: str):
    # One above the other, the last one hid all others.
    picture = drawn({name: run(0, 30, 60) for name in SIX})[file]
    tops = []
    for area in picture.iter(f"{SVG}polygon"):
        heights = [float(pair.split(",")[1]) for pair in area.attrib["points"].split()]
        tops.append((min(heights), max(heights)))
    assert len(tops) == len(SIX)
    assert all(above[1] < below[0] for above, below in pairwise(tops))


def test_counts_have_whole_numbers_at_their_axes():
    for file in ("queue.svg", "gpus.svg"):
        texts = [text for text, *_ in boxes(drawn({"fifo": run(0, 30)}, gpus=1)[file])]
        assert not [text for text in texts if re.fullmatch(r"[0-9]+\.[0-9]+", text)]
