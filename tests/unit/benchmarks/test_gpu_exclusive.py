"""`python -m benchmarks gpu_exclusive`: when two attempts had one GPU, by intervals."""

from __future__ import annotations

from benchmarks.gpu_exclusive import Use, most_at_once, not_as_booked, shortest_gap_ns, twice


def use(attempt: str, gpus: str, start_ns: int, end_ns: int | None) -> Use:
    return Use(attempt, frozenset(gpus), start_ns, end_ns)


def test_one_after_the_other_on_a_gpu_is_no_fault() -> None:
    uses = [use("b", "x", 10, 20), use("a", "x", 0, 10), use("c", "y", 5, 15), use("d", "xy", 20, 30)]
    assert twice(uses) == []
    assert shortest_gap_ns(uses) == 0


def test_two_at_one_moment_are_named_with_their_gpu() -> None:
    uses = [use("a", "x", 0, 10), use("b", "xy", 9, 20), use("c", "y", 19, 30), use("d", "y", 30, 31)]
    assert twice(uses) == [("x", "a", "b"), ("y", "b", "c")]
    assert shortest_gap_ns(uses) == -1


def test_a_long_one_is_compared_with_all_that_start_before_its_end() -> None:
    uses = [use("long", "x", 0, 100), use("a", "x", 10, 20), use("b", "x", 30, 40)]
    assert twice(uses) == [("x", "long", "a"), ("x", "long", "b")]


def test_one_that_never_ended_still_has_its_gpus() -> None:
    uses = [use("a", "x", 0, None), use("b", "x", 1_000, 1_001)]
    assert twice(uses) == [("x", "a", "b")]


def test_gpus_in_use_at_one_moment_are_counted() -> None:
    assert most_at_once([use("a", "xy", 0, 10), use("b", "z", 5, 7), use("c", "x", 10, None)]) == 3
    assert most_at_once([]) == 0
    assert shortest_gap_ns([use("a", "x", 0, None)]) is None


def test_attempts_have_the_gpus_that_were_booked_for_them() -> None:
    uses = [use("a", "x", 0, 10), use("b", "xy", 10, 20), use("c", "z", 0, 5)]
    assert not_as_booked(uses, {"a": ["x"], "b": ["y", "x"], "c": ["z"]}) == set()
    assert not_as_booked(uses, {"a": ["y"], "b": ["x"], "d": ["z"]}) == {"a", "b", "c", "d"}
