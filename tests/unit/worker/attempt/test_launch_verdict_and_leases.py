"""Whether an attempt is taken, and until when it may run."""

from __future__ import annotations

import pytest

from tests.unit.worker.builders import a_launch, an_attempt
from worker.attempt.launch_verdict import AcceptLaunch, RefuseLaunch, verdict
from worker.attempt.leases import Lease, later_lease, lease_after_answer
from worker.box import StopWord
from worker.model import AttemptRecord, AttemptStage, AttemptTimes, Condition, attempt_of_folder
from worker.store import record_from_row, record_to_row

FULL = Condition("disk_full", "The disk is full.", 0.0)
NOTED = Condition("gpu_unavailable", "No driver.", 0.0, blocks_work=False)


def a_record(stage: AttemptStage, *, stop: StopWord | None = None, launch: bytes | None = b"x") -> AttemptRecord:
    return AttemptRecord(an_attempt(), stage, launch, AttemptTimes(accepted_at=1.0), stop=stop)


@pytest.mark.parametrize(
    ("record", "want"),
    [
        (None, AcceptLaunch()),
        (a_record(AttemptStage.LIVE), AcceptLaunch(known=True)),
        (a_record(AttemptStage.LIVE, stop=StopWord.CANCELLED), AcceptLaunch(known=True)),
        (a_record(AttemptStage.ENDED), AcceptLaunch(known=True)),
        (a_record(AttemptStage.ACKED), "fenced"),
        (a_record(AttemptStage.DONE), "fenced"),
        (a_record(AttemptStage.DONE, launch=None, stop=StopWord.CANCELLED), "fenced"),
    ],
)
def test_a_launch_is_idempotent_and_never_runs_what_has_ended(
    record: AttemptRecord | None, want: AcceptLaunch | str
) -> None:
    answer = verdict(a_launch(), record=record, incarnation=7, conditions=[])
    if isinstance(want, AcceptLaunch):
        assert answer == want
    else:
        assert isinstance(answer, RefuseLaunch)
        assert answer.error.slug == want
        assert not answer.again_later


@pytest.mark.parametrize(
    ("word", "slug"),
    [
        ("disk_full", "disk-full"),
        ("mount_unavailable", "mount-unavailable"),
        ("engine_unavailable", "unavailable"),
        ("stopping", "stopping"),
    ],
)
def test_a_node_that_is_unfit_refuses_for_now(word: str, slug: str) -> None:
    answer = verdict(a_launch(), record=None, incarnation=7, conditions=[NOTED, Condition(word, "No.", 0.0)])
    assert isinstance(answer, RefuseLaunch)
    assert (answer.error.slug, answer.again_later) == (slug, True)


def test_what_only_deserves_a_note_keeps_no_work_away() -> None:
    assert verdict(a_launch(), record=None, incarnation=7, conditions=[NOTED]) == AcceptLaunch()


def test_a_node_that_can_not_give_gpus_takes_no_task_with_gpus_and_goes_on_with_others() -> None:
    answer = verdict(a_launch(gpu_uuids=("GPU-1",)), record=None, incarnation=7, conditions=[NOTED])
    assert isinstance(answer, RefuseLaunch)
    assert (answer.error.message, answer.again_later) == ("No driver.", False)


def test_what_was_taken_stays_taken_though_the_disk_fills_up() -> None:
    answer = verdict(a_launch(), record=a_record(AttemptStage.LIVE), incarnation=8, conditions=[FULL])
    assert answer == AcceptLaunch(known=True)


def test_the_lease_counts_from_the_sending_and_ends_early() -> None:
    assert lease_after_answer(sent_s=1000.0, lease_s=120, enforced=True, stop_s=30) == Lease(1_090_000_000_000)
    assert lease_after_answer(sent_s=1000.0, lease_s=120, enforced=False, stop_s=30) == Lease()
    # A lease shorter than the stop time still leaves half of it.
    assert lease_after_answer(sent_s=1000.0, lease_s=10, enforced=True, stop_s=30) == Lease(1_005_000_000_000)


def test_answers_that_overtake_each_other_shorten_nothing() -> None:
    assert later_lease(Lease(20), Lease(10)) == Lease(20)
    assert later_lease(Lease(10), Lease(20)) == Lease(20)
    assert later_lease(Lease(10), Lease()) == Lease()
    assert later_lease(Lease(), Lease(10)) == Lease(10)


def test_folders_name_attempts_both_ways() -> None:
    attempt = an_attempt("a.b-c_d.3", 12)
    assert attempt_of_folder(attempt.folder) == attempt
    for strange in ("", "x", "j0123456789abcdef.t", "j0123456789abcdef.t.x", "j0123456789abcdef..1", "../etc.t.1"):
        assert attempt_of_folder(strange) is None


def test_records_survive_their_row() -> None:
    from types import SimpleNamespace

    record = a_record(AttemptStage.ENDED, stop=StopWord.CANCELLED)
    record.discarded, record.platform_log, record.end_report, record.unsafe = True, b"n", b"r", True
    record.times = AttemptTimes(1.0, 2.0, 3.0, 4.0, 5.0)
    names = ("folder", "stage", "launch", "facts", "notes", "end_report", "changed_at")
    assert record_from_row(SimpleNamespace(**dict(zip(names, record_to_row(record), strict=True)))) == record
