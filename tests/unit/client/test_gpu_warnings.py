"""A card that fails under a person's own process: its client says so, and goes on."""

from __future__ import annotations

import warnings

import pytest

from headway.client import gpu_context
from headway.client.gpu_holding import Holding


def a_holding(told: list[str]) -> Holding:
    holding = Holding.__new__(Holding)
    holding._warn, holding._warned = told.append, set()
    return holding


def test_each_warning_of_the_worker_is_shown_once() -> None:
    told: list[str] = []
    holding = a_holding(told)
    for sentence in ("GPU 0 failed.", "GPU 0 failed.", "GPU 1 failed."):
        holding._hear({"warning": sentence})
    assert told == ["GPU 0 failed.", "GPU 1 failed."]


def test_in_python_it_is_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match=r"^GPU 0 failed\. The program goes on\.$"):
        gpu_context._warn("GPU 0 failed.")


def test_where_warnings_are_errors_the_thread_that_keeps_the_gpus_lives(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gpu_context._warn("GPU 0 failed.")
    assert capsys.readouterr().err == "headway: GPU 0 failed. The program goes on.\n"
