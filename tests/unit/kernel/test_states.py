"""The state tables: total, and right where people looked."""

import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import common
from headway.model.reasons import EndReason, EndWord, Fault
from headway.model.tones import STATES, Tone, tone_of, tones_of
from headway.states import (
    ATTEMPT,
    ATTEMPT_ENDED,
    ATTEMPT_LIVE,
    JOB,
    JOB_ENDED,
    TASK,
    TASK_ENDED,
    AttemptEventKind,
    AttemptState,
    ImpossibleEvent,
    JobEventKind,
    JobState,
    StateMachine,
    TaskEventKind,
    TaskState,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("machine", [JOB, TASK, ATTEMPT], ids=lambda m: m.name)
def test_every_target_is_a_state_and_every_ignored_pair_has_a_reason(machine):
    for (state, event), target in machine.moves.items():
        assert state in machine.states
        assert event in machine.events
        assert target in machine.states
    assert all(why.strip() for why in machine.ignored.values())


def test_reports_of_an_attempt_are_total():
    """Workers report at least once and late: no report may ever raise."""
    for state in AttemptState:
        for event in AttemptEventKind:
            ATTEMPT.after(state, event)


@pytest.mark.parametrize("event", list(AttemptEventKind))
def test_an_ended_attempt_never_changes_but_for_a_lost_one_whose_good_end_comes_late(event):
    for state in ATTEMPT_ENDED:
        if (state, event) == (AttemptState.LOST, AttemptEventKind.SUCCEEDED):
            assert ATTEMPT.after(state, event) is AttemptState.SUCCEEDED
            continue
        assert ATTEMPT.after(state, event) is state
        assert not ATTEMPT.moves_on(state, event)


def test_an_ended_task_changes_by_a_retry_alone():
    for state in TASK_ENDED:
        for event in TaskEventKind:
            if event is TaskEventKind.RETRIED:
                continue
            assert TASK.after(state, event) is state


def test_a_succeeded_task_can_not_be_retried():
    with pytest.raises(ImpossibleEvent):
        TASK.after(TaskState.SUCCEEDED, TaskEventKind.RETRIED)


def test_events_of_task_manager_never_raise_whatever_the_order():
    told = [
        TaskEventKind.ATTEMPT_STARTED,
        TaskEventKind.REQUEUED,
        TaskEventKind.SUCCEEDED,
        TaskEventKind.FAILED,
        TaskEventKind.TIMED_OUT,
        TaskEventKind.OUT_OF_MEMORY,
        TaskEventKind.CANCELLED,
    ]
    for state in set(TaskState) - {TaskState.BLOCKED}:
        for event in told:
            TASK.after(state, event)


def test_a_blocked_task_that_runs_is_a_bug():
    with pytest.raises(ImpossibleEvent):
        TASK.after(TaskState.BLOCKED, TaskEventKind.ATTEMPT_STARTED)


def test_a_job_cancelled_by_a_user_is_cancelled_whatever_its_tasks_made_of_it():
    for event in (
        JobEventKind.ALL_SUCCEEDED,
        JobEventKind.ALL_ENDED_SOME_FAILED,
        JobEventKind.ALL_ENDED_CANCELLED,
    ):
        assert JOB.after(JobState.STOPPING, event) is JobState.CANCELLED


def test_a_machine_that_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="both move and are ignored"):
        StateMachine(
            "bad",
            JobState,
            JobEventKind,
            moves={(JobState.PENDING, JobEventKind.RETRIED): JobState.PENDING},
            ignored={(JobState.PENDING, JobEventKind.RETRIED): "?"},
        )


def test_live_and_ended_divide_the_states():
    assert ATTEMPT_LIVE | ATTEMPT_ENDED == set(AttemptState)
    assert not ATTEMPT_LIVE & ATTEMPT_ENDED
    assert JOB_ENDED < set(JobState)


@pytest.mark.parametrize("word", list(EndWord))
def test_every_end_word_has_state_fault_and_sentence(word):
    reason = EndReason(word, exit_code=1 if word is EndWord.EXITED else None)
    assert reason.attempt_state in ATTEMPT_ENDED
    assert reason.task_state in TASK_ENDED
    assert reason.fault in Fault
    assert reason.sentence.endswith(".")
    assert not (reason.user_retry and reason.platform_retry)


@pytest.mark.parametrize("word", list(EndWord))
def test_a_word_is_a_plain_string_to_those_who_store_and_send_it(word):
    assert EndWord(word.value) is word
    assert (f"{word}", str(word), word.value) == (word, word, word)
    assert json.dumps(word) == f'"{word}"'
    assert pickle.loads(pickle.dumps(word)) is word
    assert copy.deepcopy(word) is word


def test_every_end_word_reaches_the_page_and_the_docs():
    schemas = json.loads((ROOT / "httpserver" / "openapi.json").read_text())["components"]["schemas"]
    assert schemas["EndWord"]["enum"] == [word.value for word in EndWord]
    ends = (ROOT / "docs" / "states.md").read_text().partition("## Ends")[2]
    assert all(f"\n| `{word}` | {word.facts.attempt} | {word.facts.task} |" in ends for word in EndWord)


@pytest.mark.parametrize("states", STATES, ids=lambda states: states.__name__)
def test_every_state_has_a_tone(states, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tones = tones_of(states)
    assert list(tones) == [state.value for state in states]
    for state, tone in tones.items():
        assert tone_of(state) is tone
        assert ("\x1b[3" in common.tone(state)) == (tone is not Tone.MUTED)
    assert tone_of("OF_A_NEWER_VERSION") is Tone.MUTED


def test_a_state_that_has_ended_is_neither_live_nor_waiting():
    for ended in (JOB_ENDED, TASK_ENDED, ATTEMPT_ENDED):
        assert {tone_of(state) for state in ended} <= {Tone.GOOD, Tone.BAD, Tone.MUTED}


def test_exit_137_and_a_kill_are_told_apart():
    exited = EndReason(EndWord.EXITED, exit_code=137)
    killed = EndReason(EndWord.EXITED, signal=9)
    assert "code 137" in exited.sentence
    assert "signal 9" in killed.sentence
    assert not EndReason(EndWord.EXITED, signal=9).succeeded


def test_what_is_told_of_states_and_ends_is_what_the_tables_say():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "render_states", "--check"], check=False)
    assert done.returncode == 0, "run scripts/render_states"


def test_the_page_on_states_begins_with_words_for_people_and_says_each_state():
    text = (ROOT / "docs" / "states.md").read_text()
    shown = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    beginning = shown.partition("## Moves")[0]
    assert not re.search(r"scripts/|\.py\b|never edit|a bug|raises", beginning)
    for states in STATES:
        assert all(f"\n| {state} | " in beginning for state in states)
