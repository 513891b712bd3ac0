"""End sentences without words of the spec, for those whose job it is not (ADR 9)."""

from __future__ import annotations

import pytest

from headway.model.reasons import EndReason, EndWord, WaitWord
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from httpserver import schemas as s
from httpserver import wire

SECRET = "The image has no program '/opt/own-word/tool'."


def job(word: EndWord) -> jm.Job:
    end = common.EndReason(word=word.value, detail=SECRET)
    return jm.Job(id="j", name="n", owner="ann", state="FAILED", priority=common.PRIORITY_NORMAL, reason=end)


@pytest.mark.parametrize("word", [word for word in EndWord if word.facts.of_spec])
def test_what_was_seen_is_the_owners_where_it_may_name_the_spec(word: EndWord) -> None:
    shown = wire.job(job(word))
    assert shown.reason is not None
    assert "own-word" in shown.reason.sentence
    less = wire.job_for_others(shown)
    assert less.reason is not None
    assert "own-word" not in less.reason.sentence
    assert less.reason.sentence == EndReason(word).sentence
    assert less.reason.word is word


def test_words_without_a_trace_of_the_spec_stay_as_they_are() -> None:
    shown = wire.job(job(EndWord.NODE_LOST))
    assert wire.job_for_others(shown) == shown


def test_what_the_worker_says_of_program_folder_and_user_is_covered() -> None:
    assert {EndWord.COMMAND_NOT_FOUND, EndWord.IMAGE_BAD, EndWord.START_FAILED} <= {
        word for word in EndWord if word.facts.of_spec
    }


def test_a_pause_tells_others_no_reason() -> None:
    wait = s.Wait(word=WaitWord.RETRY_PAUSE, sentence=f"It is tried again in 4 s. {SECRET}")
    other = s.Wait(word=WaitWord.HELD, sentence="It is on hold. Release it.")
    assert [one.sentence for one in wire.waits_for_others([wait, other])] == [
        "It is tried again in 4 s.",
        other.sentence,
    ]
