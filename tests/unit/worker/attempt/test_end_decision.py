"""Why an attempt ended. Five senders of "137" have five words; nothing counts as success without a record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.model.reasons import EndWord
from headway.states import AttemptEventKind
from worker.attempt.end_decision import EndEvidence, decide
from worker.attempt.start_faults import StartAsked
from worker.box import BoxEnd, EndRecord, StartStage, StopWord
from worker.ports import ContainerFacts, ContainerState

CONTEXT = EndEvidence(
    node="gpu-1",
    timeout_s=600.0,
    memory_bytes=128 << 20,
    log_limit_bytes=1 << 30,
    asked=StartAsked("python3", image_user="app", as_account=False),
    ever_started=True,
)
GONE = ContainerFacts(ContainerState.EXITED, exit_code=0)
ABSENT = ContainerFacts(ContainerState.ABSENT)
E, W, K, S = BoxEnd, EndWord, AttemptEventKind, StopWord


@pytest.mark.parametrize(
    ("record", "container", "want_word", "want_kind", "want_code", "want_signal"),
    [
        (EndRecord(E.EXITED, exit_code=0), GONE, W.EXITED, K.SUCCEEDED, 0, None),
        (EndRecord(E.EXITED, exit_code=3), GONE, W.EXITED, K.FAILED, 3, None),
        (EndRecord(E.EXITED, exit_code=137), GONE, W.EXITED, K.FAILED, 137, None),
        (EndRecord(E.EXITED, signal=11), GONE, W.EXITED, K.FAILED, None, 11),
        (EndRecord(E.EXITED, signal=9), GONE, W.KILLED_OUTSIDE, K.FAILED, None, 9),
        (EndRecord(E.EXITED, signal=9, oom_kills=1), GONE, W.OUT_OF_MEMORY, K.OUT_OF_MEMORY, None, 9),
        (EndRecord(E.EXITED, exit_code=137, oom_kills=1), GONE, W.OUT_OF_MEMORY, K.OUT_OF_MEMORY, 137, None),
        (
            EndRecord(E.EXITED, exit_code=1),
            replace(GONE, oom_killed=True),
            W.OUT_OF_MEMORY,
            K.OUT_OF_MEMORY,
            1,
            None,
        ),
        (EndRecord(E.TIMED_OUT, signal=15), GONE, W.TIMED_OUT, K.TIMED_OUT, None, 15),
        (EndRecord(E.TIMED_OUT, exit_code=0), GONE, W.TIMED_OUT, K.TIMED_OUT, 0, None),
        (EndRecord(E.STOPPED, stop_word=S.CANCELLED, signal=9), GONE, W.CANCELLED, K.CANCELLED, None, 9),
        (EndRecord(E.STOPPED, stop_word=S.SUPERSEDED), GONE, W.CANCELLED, K.CANCELLED, None, None),
        (EndRecord(E.STOPPED, stop_word=S.SHUTDOWN), GONE, W.NODE_LOST, K.LOST, None, None),
        (EndRecord(E.STOPPED, stop_word=S.DISK_FULL), GONE, W.DISK_FULL, K.FAILED, None, None),
        (EndRecord(E.STOPPED, stop_word=S.GPU_IDLE), GONE, W.GPU_IDLE, K.FAILED, None, None),
        (EndRecord(E.STOPPED, stop_word=S.PLATFORM), GONE, W.PLATFORM_ERROR, K.LOST, None, None),
        (EndRecord(E.STOPPED, stop_word=S.KILLED_OUTSIDE), GONE, W.KILLED_OUTSIDE, K.FAILED, None, None),
        (EndRecord(E.LEASE_EXPIRED, signal=15), GONE, W.NODE_LOST, K.LOST, None, 15),
        (EndRecord(E.LOG_LIMIT, signal=15), GONE, W.LOG_LIMIT, K.FAILED, None, 15),
        # Without a record: the engine's exit code 0 is no proof, as after a hard reboot.
        (None, GONE, W.PLATFORM_ERROR, K.LOST, None, None),
        (None, replace(GONE, exit_code=255), W.PLATFORM_ERROR, K.LOST, None, None),
        (None, replace(GONE, exit_code=137), W.KILLED_OUTSIDE, K.FAILED, None, 9),
        (None, replace(GONE, exit_code=137, oom_killed=True), W.OUT_OF_MEMORY, K.OUT_OF_MEMORY, None, None),
        (None, ABSENT, W.KILLED_OUTSIDE, K.FAILED, None, None),
        (None, ContainerFacts(ContainerState.CREATED, error="no such device"), W.START_FAILED, K.FAILED, None, None),
    ],
)
def test_what_was_seen_has_one_reason(
    record: EndRecord | None,
    container: ContainerFacts,
    want_word: EndWord,
    want_kind: AttemptEventKind,
    want_code: int | None,
    want_signal: int | None,
) -> None:
    ending = decide(record, container, CONTEXT)
    assert (ending.reason.word, ending.kind) == (want_word, want_kind)
    assert (ending.reason.exit_code, ending.reason.signal) == (want_code, want_signal)
    assert ending.elsewhere == ending.reason.platform_retry


@pytest.mark.parametrize(
    ("errno", "stage", "shell", "want_word", "want_text"),
    [
        ("ENOENT", StartStage.EXEC, "sh", W.COMMAND_NOT_FOUND, "This image has no shell. Give the command as a list."),
        ("ENOENT", StartStage.EXEC, "bash", W.COMMAND_NOT_FOUND, "no bash"),
        ("ENOENT", StartStage.EXEC, "", W.COMMAND_NOT_FOUND, "no program 'python3'"),
        ("EACCES", StartStage.EXEC, "", W.COMMAND_NOT_FOUND, "is not executable"),
        ("ENOEXEC", StartStage.EXEC, "", W.COMMAND_NOT_FOUND, "another architecture"),
        ("E2BIG", StartStage.EXEC, "", W.COMMAND_NOT_FOUND, "too long"),
        ("ENOMEM", StartStage.EXEC, "", W.START_FAILED, "gpu-1"),
        ("ENOTDIR", StartStage.WORKDIR, "", W.IMAGE_BAD, "working folder"),
        ("ENOENT", StartStage.USER, "", W.IMAGE_BAD, "has no user"),
        ("EIO", StartStage.SETUP, "", W.START_FAILED, "gpu-1"),
        ("ELOOP", StartStage.IMAGE, "", W.IMAGE_BAD, "not started"),
    ],
)
def test_a_start_that_failed_says_why_and_has_no_exit_code(
    errno: str, stage: StartStage, shell: str, want_word: EndWord, want_text: str
) -> None:
    record = EndRecord(E.START_FAILED, errno=errno, stage=stage)
    asked = replace(CONTEXT.asked, shell=shell)
    reason = decide(record, GONE, replace(CONTEXT, asked=asked, ever_started=False)).reason
    assert reason.word is want_word
    assert want_text in reason.sentence
    assert reason.exit_code is None


def test_what_the_worker_did_explains_a_missing_record() -> None:
    killed = replace(GONE, exit_code=137)
    assert decide(None, killed, replace(CONTEXT, overran=True)).reason.word is W.TIMED_OUT
    assert decide(None, killed, replace(CONTEXT, stop=S.CANCELLED)).reason.word is W.CANCELLED
    assert decide(None, ABSENT, replace(CONTEXT, stop=S.CANCELLED, ever_started=False)).reason.word is W.CANCELLED


def test_a_box_that_was_hidden_is_the_images_fault() -> None:
    ending = decide(None, replace(GONE, exit_code=120, box_was_hidden=True), replace(CONTEXT, ever_started=False))
    assert ending.reason.word is W.IMAGE_BAD
    assert not ending.elsewhere
    ending = decide(None, replace(GONE, exit_code=120), replace(CONTEXT, ever_started=False))
    assert ending.reason.word is W.START_FAILED


def test_a_reboot_is_the_machines_fault() -> None:
    ending = decide(None, GONE, replace(CONTEXT, rebooted=True))
    assert ending.reason.word is W.NODE_LOST
    assert ending.elsewhere


def test_a_child_that_ran_out_of_memory_is_a_warning_when_all_ended_well() -> None:
    ending = decide(EndRecord(E.EXITED, exit_code=0, oom_kills=2), replace(GONE, oom_killed=True), CONTEXT)
    assert ending.reason.succeeded
    assert "memory" in ending.warnings[0]


def test_dropped_output_is_a_warning() -> None:
    ending = decide(EndRecord(E.EXITED, exit_code=0, dropped_bytes=5 << 20), GONE, CONTEXT)
    assert ending.reason.succeeded
    assert ending.warnings == ("5MiB of output were dropped, because it printed more than its limit of 1GiB.",)


def test_numbers_that_help_are_in_the_sentence() -> None:
    assert "128MiB" in decide(EndRecord(E.EXITED, signal=9, oom_kills=1), GONE, CONTEXT).reason.sentence
    assert "10m" in decide(EndRecord(E.TIMED_OUT), GONE, CONTEXT).reason.sentence


def test_an_end_for_want_of_an_answer_says_how_long_it_was_waited_for() -> None:
    reason = decide(EndRecord(E.LEASE_EXPIRED, signal=15), GONE, replace(CONTEXT, alone_s=90)).reason
    assert f"{CONTEXT.node} had no answer from Headway for 1m30s, so it ended the task itself." in reason.sentence
