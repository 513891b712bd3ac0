"""The efficiency card: asked against used, and what to ask for next time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.samples.efficiency import Outcome, Request, Suggested, Used, UsedGpu, card
from headway.units import GIB

ASKED = Request(timeout_s=8 * 3600, cpus=16, memory_bytes=64 * GIB, gpus=2, gpu_memory_bytes=40 * GIB)
GPU = UsedGpu(memory_bytes=80 * GIB, mean_utilisation=0.9, peak_memory_used_bytes=36 * GIB)
FULL = Used(run_s=7 * 3600, cpus=14.0, peak_cpus=15.5, peak_memory_bytes=60 * GIB, gpus=(GPU, GPU))


def test_what_fits_is_left_as_it_is() -> None:
    made = card(ASKED, FULL, Outcome.DONE)

    assert made.suggested == Suggested()
    assert made.sentences == ("It asked for about what it used.",)
    assert [row.resource for row in made.rows] == ["time", "cpus", "memory", "gpu_utilisation", "gpu_memory"]
    assert made.rows[3].share == pytest.approx(0.9)


def test_less_is_suggested_with_room_above_what_was_seen() -> None:
    idle = replace(GPU, mean_utilisation=0.0, peak_memory_used_bytes=GIB // 2)
    used = Used(
        3600.0, cpus=1.0, peak_cpus=2.4, peak_memory_bytes=5 * GIB, gpus=(idle, replace(GPU, mean_utilisation=0.1))
    )

    made = card(ASKED, used, Outcome.DONE)

    assert made.suggested == Suggested(timeout_s=5400.0, cpus=3.0, memory_bytes=7 * GIB, gpus=1)
    assert any("It never used 1 of its GPUs: ask for 1 GPU." in text for text in made.sentences)
    assert any("waited 90%" in text for text in made.sentences)


def test_a_limit_that_was_hit_is_raised() -> None:
    late = card(ASKED, replace(FULL, run_s=8 * 3600.0), Outcome.OUT_OF_TIME)
    full = card(ASKED, replace(FULL, run_s=5.0), Outcome.OUT_OF_MEMORY)

    assert late.suggested == Suggested(timeout_s=12 * 3600.0)
    assert full.suggested == Suggested(memory_bytes=96 * GIB)


def test_nothing_is_suggested_while_it_runs_or_after_a_break() -> None:
    small = Used(3600.0, 0.1, 0.1, GIB)

    assert card(ASKED, small, Outcome.RUNNING) == replace(card(ASKED, small, Outcome.BROKEN_OFF), final=False)
    assert card(ASKED, small, Outcome.RUNNING).suggested == Suggested()


@pytest.mark.parametrize(("asked", "used", "said"), [(0.1, 0.07, "0.07 of 0.1 CPUs"), (16, 14.04, "14.0 of 16 CPUs")])
def test_less_than_one_cpu_is_told_in_hundredths(asked: float, used: float, said: str) -> None:
    made = card(replace(ASKED, cpus=asked), replace(FULL, cpus=used), Outcome.RUNNING)

    assert f"On average it used {said}." in [row.sentence for row in made.rows]


def test_a_short_run_says_so() -> None:
    made = card(ASKED, Used(3.0, 0.1, None, GIB), Outcome.DONE)

    assert made.sentences == ("It ran too briefly to say what it needs.",)
    assert made.suggested == Suggested()


def test_what_was_not_measured_has_no_row() -> None:
    made = card(ASKED, Used(None, None, None, None, (UsedGpu(0, None, None),)), Outcome.DONE)

    assert made.rows == ()


_share = st.none() | st.floats(0, 1)
_gpus = st.builds(UsedGpu, st.integers(0, 80 * GIB), _share, st.none() | st.integers(0, 80 * GIB))
_used = st.builds(
    Used,
    st.none() | st.floats(0, 1e7),
    st.none() | st.floats(0, 4096),
    st.none() | st.floats(0, 4096),
    st.none() | st.integers(0, 1 << 50),
    st.lists(_gpus, max_size=4).map(tuple),
)


@given(_used)
def test_what_is_suggested_covers_what_was_used_and_is_less_than_was_asked(used: Used) -> None:
    wish = card(ASKED, used, Outcome.DONE).suggested

    if wish.memory_bytes is not None:
        assert used.peak_memory_bytes is not None
        assert used.peak_memory_bytes < wish.memory_bytes < ASKED.memory_bytes
    if wish.timeout_s is not None:
        assert used.run_s is not None
        assert used.run_s < wish.timeout_s < ASKED.timeout_s
    if wish.cpus is not None:
        assert max(used.cpus or 0, used.peak_cpus or 0) < wish.cpus < ASKED.cpus
    if wish.gpus is not None:
        assert 0 <= wish.gpus < ASKED.gpus
