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
    for broken in ("{", "[1]", '"a.py"', "null", "\0"):
        (tmp_path / "times.json").write_text(broken)
        assert times.known_times() == {}
    (tmp_path / "times.json").write_bytes(b"\xff")
    assert times.known_times() == {}
    (tmp_path / "times.json").write_text('{"a.py": 2, "b.py": "3", "c.py": null, "d.py": NaN, "e.py": true}')
    assert times.known_times() == {"a.py": 2.0}
    assert times.longest_first(["b.py", "a.py"], {}) == ["b.py", "a.py"]


def test_a_run_of_a_part_changes_the_times_of_its_files_only(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "new.py"):
        (tmp_path / name).touch()
    known = {"a.py": 1.0, "b.py": 2.0, "removed.py": 9.0}
    assert times.merged(known, {"b.py": 3.0, "new.py": 4.0}, tmp_path) == {"a.py": 1.0, "b.py": 3.0, "new.py": 4.0}


def test_a_run_whose_times_can_not_be_kept_is_as_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(times, "MEASURED", tmp_path / "file" / "times.json")
    one = times.Times(is_worker=False)
    one.pytest_runtest_logreport(
        pytest.TestReport("a.py::one", ("a.py", 1, "one"), {}, "passed", None, "call", duration=2)
    )
    one.pytest_sessionfinish()
    monkeypatch.setattr(times, "MEASURED", tmp_path / "new" / "times.json")
    one.pytest_sessionfinish()
    assert times.known_times(times.MEASURED) == {"a.py::one": 2.0}


def test_the_known_times_are_of_files_that_exist() -> None:
    gone = [file for file in times.known_times() if not (times.ROOT / file).exists()]
    assert gone == [], "`python -m tests.support.times` takes them out"
