"""Why something ended and why something waits: stable words, from which everything else is derived."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from ..states import AttemptState, TaskState


class Fault(StrEnum):
    """Whose fault an end was."""

    NONE = "none"
    USER = "user"
    PLATFORM = "platform"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """What follows from an end word: one row of the table, see ``EndWord``."""

    attempt: AttemptState
    task: TaskState = TaskState.FAILED  # when no further attempt follows
    fault: Fault
    user_retry: bool = False  # one of the user's own retries is spent on it
    platform_retry: bool = False  # retried from the platform's own small budget, on another machine when possible
    detail: str = ""  # what happened, if nobody saw more; empty: the advice says it
    advice: str = ""  # what to do
    of_spec: bool = False  # what was seen may name what the spec holds: program, folder, user


_A, _T, _F = AttemptState, TaskState, Fault


class EndWord(StrEnum):
    """The stable word for an end; see docs/interfaces.md, "End of a task"."""

    # Each word stands with its row.
    facts: EndFacts

    def __new__(cls, word: str, facts: EndFacts | None = None) -> Self:
        assert facts is not None, "a word stands with its row"
        member = str.__new__(cls, word)
        member._value_ = word
        member.facts = facts
        return member

    # It is FAILED unless the exit code is 0: see EndReason, which also says what happened.
    EXITED = (
        "exited",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.USER,
            user_retry=True,
            advice="Read the end of the log for the program's own message.",
        ),
    )
    TIMED_OUT = (
        "timed_out",
        EndFacts(
            attempt=_A.TIMED_OUT,
            task=_T.TIMED_OUT,
            fault=_F.USER,
            user_retry=True,
            detail="It ran past its timeout and was ended.",
            advice="Give it a longer timeout, or less to do.",
        ),
    )
    OUT_OF_MEMORY = (
        "out_of_memory",
        EndFacts(
            attempt=_A.OUT_OF_MEMORY,
            task=_T.OUT_OF_MEMORY,
            fault=_F.USER,
            user_retry=True,
            detail="It used more memory than it asked for and was ended by the kernel.",
            advice="Ask for more memory, or use less of it.",
        ),
    )
    CANCELLED = (
        "cancelled",
        EndFacts(attempt=_A.CANCELLED, task=_T.CANCELLED, fault=_F.OPERATOR, detail="It was cancelled."),
    )
    SKIPPED = (
        "skipped",
        EndFacts(
            attempt=_A.CANCELLED,
            task=_T.SKIPPED,
            fault=_F.USER,
            detail="It was not run, since a task that it needs did not end as asked for.",
            advice="Fix the task that it needs, then retry.",
        ),
    )
    LOG_LIMIT = (
        "log_limit",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.USER,
            user_retry=True,
            detail="It printed more than its log limit allows.",
            advice="Print less, or ask for a larger log limit.",
        ),
    )
    KILLED_OUTSIDE = (
        "killed_outside",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.OPERATOR,
            user_retry=True,
            detail="It was killed, and not by Headway.",
            advice="Someone on the machine ended it, or a program inside the task did.",
        ),
    )
    IMAGE_NOT_FOUND = (
        "image_not_found",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.USER,
            detail="Its image was not found.",
            advice="Check the image's name; `headway nodes show NODE` lists the images of a machine.",
        ),
    )
    IMAGE_PULL_FAILED = (
        "image_pull_failed",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.PLATFORM,
            platform_retry=True,
            of_spec=True,
            advice="The image could not be brought to the machine.",
        ),
    )
    IMAGE_BAD = (
        "image_bad",
        EndFacts(
            of_spec=True,
            attempt=_A.FAILED,
            fault=_F.USER,
            detail="The image can't be run as the job asks.",
            advice="Change the image, or what the job asks of it.",
        ),
    )
    COMMAND_NOT_FOUND = (
        "command_not_found",
        EndFacts(
            of_spec=True,
            attempt=_A.FAILED,
            fault=_F.USER,
            advice="The image lacks this program; check the command and PATH.",
        ),
    )
    SECRET_MISSING = (
        "secret_missing",
        EndFacts(
            of_spec=True,
            attempt=_A.FAILED,
            fault=_F.USER,
            detail="A secret that it asks for is not there, or can't be given as it asks.",
            advice="`headway secrets list` shows yours; `headway secrets set NAME` stores one.",
        ),
    )
    START_FAILED = (
        "start_failed",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.PLATFORM,
            platform_retry=True,
            of_spec=True,
            advice="The container could not be started on that machine.",
        ),
    )
    MOUNT_UNAVAILABLE = (
        "mount_unavailable",
        EndFacts(
            attempt=_A.LOST,
            fault=_F.PLATFORM,
            platform_retry=True,
            of_spec=True,
            advice="The shared folder was not available on that machine.",
        ),
    )
    DISK_FULL = (
        "disk_full",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.USER,
            detail="It filled a disk of its machine and was ended.",
            advice="Write less, delete what it no longer needs, or write to /root/nfs if that is a disk of its own.",
        ),
    )
    GPU_IDLE = (
        "gpu_idle",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.USER,
            detail="Its GPUs were hardly used for long, so it was ended.",
            advice="Ask for fewer GPUs, or for none where only the CPU works; end a task that only waits.",
        ),
    )
    GPU_MEMORY = (
        "gpu_memory",
        EndFacts(
            attempt=_A.FAILED,
            fault=_F.USER,
            user_retry=True,
            detail="It held more of a shared GPU's memory than its share and was ended.",
            advice="Ask for a larger share (`gpu_share`), or use less of the GPU's memory.",
        ),
    )
    GPU_NEIGHBOUR = (
        "gpu_neighbour",
        EndFacts(
            attempt=_A.LOST,
            fault=_F.PLATFORM,
            platform_retry=True,
            detail="It failed while another task took more than its share of the same GPU.",
            advice="That is no fault of its own.",
        ),
    )
    GPU_FAILED = (
        "gpu_failed",
        EndFacts(
            attempt=_A.LOST,
            fault=_F.PLATFORM,
            platform_retry=True,
            advice="A GPU of its machine failed, or was not given to it.",
        ),
    )
    NODE_LOST = (
        "node_lost",
        EndFacts(
            attempt=_A.LOST,
            fault=_F.PLATFORM,
            platform_retry=True,
            advice="Its machine went away, or no longer has it.",
        ),
    )
    DRAINED = (
        "drained",
        EndFacts(
            attempt=_A.CANCELLED,
            task=_T.CANCELLED,
            fault=_F.OPERATOR,
            detail="Its machine was emptied, and it had not ended by the deadline.",
            advice="This counts against no retry of the task.",
        ),
    )
    PLATFORM_ERROR = (
        "platform_error",
        EndFacts(
            attempt=_A.LOST,
            fault=_F.PLATFORM,
            platform_retry=True,
            of_spec=True,
            advice="Headway itself failed here; see its own log of the task.",
        ),
    )


@dataclass(frozen=True, slots=True)
class EndReason:
    """Why an attempt or a task ended; state, retryable, fault and colour all come from here.

    ``exit_code`` is 0 to 255 of the user's process. It is None where the process never ran or nobody saw its end, and
    where a signal ended it; then ``signal`` is its number. ``detail`` is one sentence of what was seen.
    """

    word: EndWord
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""

    @property
    def succeeded(self) -> bool:
        return self.word is EndWord.EXITED and self.exit_code == 0

    @property
    def attempt_state(self) -> AttemptState:
        return AttemptState.SUCCEEDED if self.succeeded else self.word.facts.attempt

    @property
    def task_state(self) -> TaskState:
        """The task's state if no further attempt follows."""
        return TaskState.SUCCEEDED if self.succeeded else self.word.facts.task

    @property
    def fault(self) -> Fault:
        return Fault.NONE if self.succeeded else self.word.facts.fault

    @property
    def user_retry(self) -> bool:
        """Whether the user's own retries apply."""
        return not self.succeeded and self.word.facts.user_retry

    @property
    def platform_retry(self) -> bool:
        """Whether the platform's own retry budget applies."""
        return self.word.facts.platform_retry

    @property
    def sentence(self) -> str:
        """What happened and what to do, for a person."""
        if self.succeeded:
            return "It exited with code 0."
        what = self.detail or _default_detail(self)
        return f"{what} {self.word.facts.advice}".strip()

    @property
    def sentence_for_others(self) -> str:
        """The same without words of the spec, which is the owner's."""
        return replace(self, detail="").sentence if self.word.facts.of_spec else self.sentence


def _default_detail(reason: EndReason) -> str:
    if reason.word is EndWord.EXITED:
        if reason.signal is not None:
            return f"Its process was ended by signal {reason.signal}."
        return f"It exited with code {reason.exit_code}."
    return reason.word.facts.detail


class WaitWord(StrEnum):
    """The stable word for why a task waits, cheapest to fix first; see docs/interfaces.md, "Why it waits"."""

    HELD = "held"
    MAY_STILL_RUN = "may_still_run"  # an attempt that TaskManager has lost may run
    RETRY_PAUSE = "retry_pause"  # a short pause after a fault of the platform
    DEPENDENCY = "dependency"
    USER_LIMIT = "user_limit"
    WAITING_FOR_CPU_OR_MEMORY = "waiting_for_cpu_or_memory"
    WAITING_FOR_GPU = "waiting_for_gpu"
    WAITING_FOR_GPU_MODEL = "waiting_for_gpu_model"
    RESERVED_FOR_LARGER_TASK = "reserved_for_larger_task"
    BEHIND_PROMISED_START = "behind_promised_start"
    PROMISE_MOVED = "promise_moved"  # a start that it was promised no longer holds
    KEPT_FOR_SHORT_TASKS = "kept_for_short_tasks"
    BEHIND_HIGHER_PRIORITY = "behind_higher_priority"
    GPU_BUSY_OUTSIDE = "gpu_busy_outside"
    GPU_UNAVAILABLE = "gpu_unavailable"  # there are enough cards, but some don't work or can't be given to containers
    IMAGE_MISSING = "image_missing"
    NODE_DRAINED = "node_drained"
    DISK_FULL = "disk_full"
    MOUNT_UNAVAILABLE = "mount_unavailable"
    NO_SUCH_NODE_YET = "no_such_node_yet"


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason why a task waits, and a sentence that says it with numbers."""

    word: WaitWord
    sentence: str
