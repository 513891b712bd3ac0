"""The order of the suite's files, and what is told of its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import times


def test_the_longest_file_goes_first_and_an_unknown_one_before_the_short_ones() -> None:
    files = ["a.py", "b.py", "new.py", "a.py", "c.py"]
    assert times.longest_first(files, {"a.py": 1.0, "b.py": 90.0, "c.py": 1.0}) == ["b.py", "new.py", "a.py", "c.py"]


def test_times_are_summed_by_file() -> None:
    assert times.by_file({"b.py::two": 1.0, "a.py::one[x::y]": 2.0, "b.py::three": 0.26}) == {"a.py": 2.0, "b.py": 1.3}


def test_without_known_times_the_order_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "KNOWN", tmp_path / "times.json")
    assert times.known_times() == {}
    (tmp_path / "times.json").write_text("{")
    assert times.known_times() == {}
    assert times.longest_first(["b.py", "a.py"], {}) == ["b.py", "a.py"]


def test_the_known_times_are_of_files_that_exist() -> None:
    gone = [file for file in times.known_times() if not (times.ROOT / file).exists()]
    assert gone == [], "run the whole suite and then `python -m tests.support.times`"
