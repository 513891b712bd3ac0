"""What the files of ticking tasks prove."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.support.ticking import Told, read_file, still_runs, told_by


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], Told((), (), False, False)),
        (["begin 1", "tick 1", "end 1"], Told(("1",), ("1",), False, False)),
        (["begin 1", "tick 1", "begin 2", "tick 2", "end 2"], Told(("1", "2"), ("2",), False, False)),
        (["begin 1", "begin 2", "tick 1", "end 2"], Told(("1", "2"), ("2",), True, False)),
        (["begin 1", "tick 1", "twice 2", "begin 2"], Told(("1", "2"), (), True, False)),
        (["begin 1", "end 1", "begin 2", "end 2"], Told(("1", "2"), ("1", "2"), False, True)),
        (["begin 2", "end 2", "begin 1"], Told(("2", "1"), ("2",), False, True)),
    ],
)
def test_what_lines_prove(lines: list[str], told: Told) -> None:
    assert told_by(lines) == told


def test_a_file_that_somebody_holds(tmp_path: Path) -> None:
    file = tmp_path / "a"
    assert (read_file(file), still_runs(file)) == (Told((), (), False, False), False)
    file.write_text("begin 1\n")
    with file.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert still_runs(file)
    assert not still_runs(file)
    assert read_file(file).begun == ("1",)
