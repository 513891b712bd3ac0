"""Texts of strangers are made fit for messages, databases and sentences."""

from __future__ import annotations

import pytest

from headway.model.reasons import EndReason, EndWord, WaitReason, WaitWord
from headway.rpc import convert
from headway.safe_text import printable_text, valid_text

BROKEN = "caf\udce9 \x00\ud83d"


@pytest.mark.parametrize(
    ("text", "valid"),
    [("", ""), ("a\nb", "a\nb"), ("обучение", "обучение"), (BROKEN, "caf\ufffd \ufffd"), ("\x00", "\ufffd")],
)
def test_what_can_not_be_stored_is_marked(text: str, valid: str) -> None:
    assert valid_text(text) == valid


def test_what_moves_a_cursor_is_marked() -> None:
    assert printable_text("a\x1b[31m\u2028b\udcd0 é") == "a\ufffd[31m\ufffdb\ufffd é"


def test_a_reason_with_a_broken_name_is_a_message() -> None:
    end = convert.end_reason_to_pb(EndReason(EndWord.IMAGE_BAD, detail=BROKEN))
    wait = convert.wait_reason_to_pb(WaitReason(next(iter(WaitWord)), BROKEN))
    assert (end.detail, wait.sentence) == (valid_text(BROKEN), valid_text(BROKEN))
