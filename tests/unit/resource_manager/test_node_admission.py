"""Cordon, drain and back."""

from __future__ import annotations

import pytest

from headway.states import Admission
from resource_manager.node_admission import ADMISSION, AdmissionEvent, after_status

OPEN, CORDONED, DRAINING, DRAINED = Admission
CORDON, UNCORDON, DRAIN = AdmissionEvent.CORDON, AdmissionEvent.UNCORDON, AdmissionEvent.DRAIN


def test_the_table_is_total() -> None:
    for state in Admission:
        for event in AdmissionEvent:
            assert ADMISSION.after(state, event) in Admission


@pytest.mark.parametrize(
    ("before", "event", "want"),
    [
        (OPEN, CORDON, CORDONED),
        (OPEN, DRAIN, DRAINING),
        (CORDONED, DRAIN, DRAINING),
        (DRAINED, CORDON, CORDONED),
        (DRAINED, DRAIN, DRAINED),
        (DRAINING, UNCORDON, OPEN),
        (DRAINED, UNCORDON, OPEN),
    ],
)
def test_operators_words(before: Admission, event: AdmissionEvent, want: Admission) -> None:
    assert ADMISSION.after(before, event) is want


def test_a_drain_is_over_when_nothing_lives_and_goes_on_if_something_was_under_way() -> None:
    assert after_status(DRAINING, 3) is DRAINING
    assert after_status(DRAINING, 0) is DRAINED
    assert after_status(DRAINED, 1) is DRAINING
    assert after_status(OPEN, 0) is OPEN
    assert after_status(CORDONED, 0) is CORDONED
