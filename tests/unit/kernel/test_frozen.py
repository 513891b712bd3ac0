"""Copies of frozen dataclasses with some fields changed."""

from __future__ import annotations

import dataclasses

import pytest

from headway.frozen import replace
from tests.unit.task_manager.rig import a_task


@dataclasses.dataclass(frozen=True, slots=True)
class _Checked:
    number: int = 1

    def __post_init__(self) -> None:
        assert self.number


def test_it_does_what_dataclasses_do() -> None:
    task = a_task("t")
    changed = replace(task, attempt=3, avoid=("n1",))
    assert changed == dataclasses.replace(task, attempt=3, avoid=("n1",))
    assert task == a_task("t")
    assert replace(changed) == changed


def test_a_field_that_is_not_there_and_a_class_with_checks_are_refused() -> None:
    with pytest.raises(TypeError, match="no field attempts"):
        replace(a_task("t"), attempts=3)
    with pytest.raises(TypeError, match="__post_init__"):
        replace(_Checked(), number=0)
