"""When a card is taken out, and when it comes back: the decision alone, by a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.model.gpu_faults import GpuFaultWord as Word
from worker.machine.gpus.health import CardFacts, CardHealth, HealthRules, judge, returned
from worker.machine.gpus.xids import OF_HARDWARE, OF_PROGRAMS

RULES = HealthRules(clean_s=60.0, hot_s=10.0, hot_looks=3)
WELL = CardFacts(temperature_c=60, limit_c=90, uncorrected=2)
LOST = CardFacts(unreadable="GPU is lost", lost=True)


class Card:
    """A card that is looked at; each look is later than the last."""

    def __init__(self) -> None:
        self.health = CardHealth()
        self.at = 1_000.0

    def look(self, facts: CardFacts = WELL, *, after_s: float = 5.0) -> Word | None:
        self.at += after_s
        self.health = judge(self.health, facts, at=self.at, monotonic=self.at, rules=RULES)
        return self.health.fault


@pytest.mark.parametrize("xid", sorted(OF_PROGRAMS))
def test_a_fault_of_the_program_takes_no_card_out(xid: int) -> None:
    assert Card().look(replace(WELL, xids=(xid,))) is None


@pytest.mark.parametrize("xid", sorted(OF_HARDWARE))
def test_a_fault_of_the_hardware_takes_the_card_out(xid: int) -> None:
    card = Card()
    assert card.look(replace(WELL, xids=(xid,))) is OF_HARDWARE[xid][0]
    assert f"XID {xid}" in card.health.note(RULES)
    assert card.look() is OF_HARDWARE[xid][0], "one clean look is not enough"


def test_an_unknown_xid_changes_nothing_and_no_number_is_in_both_tables() -> None:
    assert Card().look(replace(WELL, xids=(9_999,))) is None
    assert not OF_PROGRAMS.keys() & OF_HARDWARE.keys()


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (CardFacts(listed=False), Word.VANISHED),
        (LOST, Word.OFF_THE_BUS),
        (CardFacts(unreadable="Unknown Error"), Word.UNREADABLE),
        (replace(WELL, rows_pending=True), Word.ROW_REMAP),
    ],
)
def test_what_passes_comes_back_by_itself_once_it_was_clean_for_long_enough(facts: CardFacts, word: Word) -> None:
    card = Card()
    assert card.look(facts) is word
    assert card.look(after_s=3_600.0) is word, "it is clean from this look on"
    assert "comes back by itself" in card.health.note(RULES)
    card.look(after_s=40.0)
    assert card.look(facts) is word
    card.look()
    assert card.look(after_s=59.0) is word, "it was not clean in between"
    assert card.look(after_s=2.0) is None
    assert card.health.note(RULES) == ""


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (replace(WELL, uncorrected=3), Word.ECC_ERRORS),
        (replace(WELL, rows_failed=True, rows_pending=True), Word.ROW_REMAP_FAILED),
        (replace(WELL, xids=(119,)), Word.XID_ERROR),
    ],
)
def test_what_does_not_pass_waits_for_an_admin(facts: CardFacts, word: Word) -> None:
    card = Card()
    card.look()
    assert card.look(facts) is word
    clean = replace(facts, rows_failed=False, rows_pending=False, xids=())
    assert card.look(clean) is word
    assert card.look(clean, after_s=1e6) is word
    assert "an admin may return it" in card.health.note(RULES)
    assert returned(card.health).fault is None


def test_only_a_clean_card_is_returned() -> None:
    card = Card()
    card.look(replace(WELL, rows_failed=True))
    with pytest.raises(ValueError, match="no spare ones are left"):
        returned(card.health)


def test_errors_of_before_are_no_fault_and_a_reset_counts_from_nothing() -> None:
    card = Card()
    assert card.look(replace(WELL, uncorrected=7)) is None
    assert card.look(replace(WELL, uncorrected=0)) is None, "the driver was loaded anew"
    assert card.look(replace(WELL, uncorrected=None)) is None
    assert card.look(replace(WELL, uncorrected=1)) is Word.ECC_ERRORS


def test_a_card_is_too_hot_only_after_a_while_and_cooled_down_only_well_below() -> None:
    card, hot = Card(), replace(WELL, temperature_c=91)
    assert [card.look(hot, after_s=1.0) for _ in range(5)] == [None] * 5, "many looks in a short time"
    assert card.look(hot, after_s=6.0) is Word.TOO_HOT
    for _ in range(20):
        assert card.look(replace(WELL, temperature_c=87)) is Word.TOO_HOT, "below the limit is not cool"
    card.look(replace(WELL, temperature_c=85))
    assert card.look(replace(WELL, temperature_c=85), after_s=60.0) is None


def test_a_peak_is_not_too_hot() -> None:
    card, hot = Card(), replace(WELL, temperature_c=95)
    for _ in range(10):
        assert card.look(hot) is None
        assert card.look(hot) is None
        assert card.look() is None


def test_what_needs_an_admin_counts_more_than_what_passes() -> None:
    card = Card()
    card.look(CardFacts(unreadable="Timeout"))
    since = card.health.since
    assert card.look(replace(WELL, xids=(48,))) is Word.ECC_ERRORS
    assert card.look(CardFacts(unreadable="Timeout")) is Word.ECC_ERRORS
    assert card.health.since == since


def test_a_fault_that_comes_again_and_again_stays_until_an_admin_says_so() -> None:
    card = Card()
    for _ in range(2):
        card.look(LOST)
        card.look()
        assert card.look(after_s=60.0) is None
    card.look(LOST)
    card.look()
    assert card.look(after_s=3_600.0) is Word.OFF_THE_BUS
    assert "several times" in card.health.note(RULES)
    card.health = returned(card.health)
    card.look(LOST, after_s=10.0)
    card.look()
    assert card.look(after_s=60.0) is None, "the admin's word ends the count"


def test_faults_of_long_ago_do_not_count() -> None:
    card = Card()
    for _ in range(6):
        card.look(LOST, after_s=50_000.0)
        card.look()
        assert card.look(after_s=60.0) is None
