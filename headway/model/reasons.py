"""Why something ended and why something waits: stable words, from which everything else is derived."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..states import AttemptState, TaskState


class Fault(StrEnum):
    """Whose fault an end was."""

    NONE = "none"
    USER = "user"
    PLATFORM = "platform"
    OPERATOR = "operator"


class EndWord(StrEnum):
    """The stable word for an end; see docs/interfaces.md, "End of a task"."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LOG_LIMIT = "log_limit"
    KILLED_OUTSIDE = "killed_outside"
    IMAGE_NOT_FOUND = "image_not_found"
    IMAGE_PULL_FAILED = "image_pull_failed"
    IMAGE_BAD = "image_bad"
    COMMAND_NOT_FOUND = "command_not_found"
    START_FAILED = "start_failed"
    MOUNT_UNAVAILABLE = "mount_unavailable"
    DISK_FULL = "disk_full"
    GPU_FAILED = "gpu_failed"
    NODE_LOST = "node_lost"
    PLATFORM_ERROR = "platform_error"


@dataclass(frozen=True, slots=True)
class _Facts:
    attempt_state: AttemptState
    task_state: TaskState  # when no further attempt follows
    fault: Fault
    user_retry: bool  # one of the user's own retries is spent on it
    platform_retry: bool  # retried from the platform's own small budget, on another machine when possible
    advice: str


_A, _T, _F = AttemptState, TaskState, Fault
_FACTS: dict[EndWord, _Facts] = {
    # EXITED is FAILED unless the exit code is 0: see EndReason.
    EndWord.EXITED: _Facts(
        _A.FAILED, _T.FAILED, _F.USER, True, False, "Read the end of the log for the program's own message."
    ),
    EndWord.TIMED_OUT: _Facts(
        _A.TIMED_OUT, _T.TIMED_OUT, _F.USER, True, False, "Give it a longer timeout, or less to do."
    ),
    EndWord.OUT_OF_MEMORY: _Facts(
        _A.OUT_OF_MEMORY, _T.OUT_OF_MEMORY, _F.USER, True, False, "Ask for more memory, or use less of it."
    ),
    EndWord.CANCELLED: _Facts(_A.CANCELLED, _T.CANCELLED, _F.OPERATOR, False, False, ""),
    EndWord.SKIPPED: _Facts(_A.CANCELLED, _T.SKIPPED, _F.USER, False, False, "Fix the task that it needs, then retry."),
    EndWord.LOG_LIMIT: _Facts(_A.FAILED, _T.FAILED, _F.USER, True, False, "Print less, or ask for a larger log limit."),
    EndWord.KILLED_OUTSIDE: _Facts(
        _A.FAILED,
        _T.FAILED,
        _F.OPERATOR,
        True,
        False,
        "Someone on the machine ended it, or a program inside the task did.",
    ),
    EndWord.IMAGE_NOT_FOUND: _Facts(
        _A.FAILED,
        _T.FAILED,
        _F.USER,
        False,
        False,
        "Check the image's name; `headway nodes show NODE` lists what a machine has.",
    ),
    EndWord.IMAGE_PULL_FAILED: _Facts(
        _A.FAILED,
        _T.FAILED,
        _F.PLATFORM,
        False,
        True,
        "The image could not be brought to the machine.",
    ),
    EndWord.IMAGE_BAD: _Facts(
        _A.FAILED, _T.FAILED, _F.USER, False, False, "The image can't be run as it is; rebuild it."
    ),
    EndWord.COMMAND_NOT_FOUND: _Facts(
        _A.FAILED,
        _T.FAILED,
        _F.USER,
        False,
        False,
        "The image lacks this program; check the command and PATH.",
    ),
    EndWord.START_FAILED: _Facts(
        _A.FAILED, _T.FAILED, _F.PLATFORM, False, True, "The container could not be started on that machine."
    ),
    EndWord.MOUNT_UNAVAILABLE: _Facts(
        _A.LOST, _T.FAILED, _F.PLATFORM, False, True, "The shared folder was not available on that machine."
    ),
    EndWord.DISK_FULL: _Facts(
        _A.FAILED,
        _T.FAILED,
        _F.USER,
        False,
        False,
        "Write less, delete what it no longer needs, or write to /root/nfs if that is a disk of its own.",
    ),
    EndWord.GPU_FAILED: _Facts(_A.LOST, _T.FAILED, _F.PLATFORM, False, True, "A GPU of its machine failed."),
    EndWord.NODE_LOST: _Facts(
        _A.LOST,
        _T.FAILED,
        _F.PLATFORM,
        False,
        True,
        "Its machine went away, or no longer has it.",
    ),
    EndWord.PLATFORM_ERROR: _Facts(
        _A.LOST, _T.FAILED, _F.PLATFORM, False, True, "Headway itself failed here; see the platform log."
    ),
}


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
    def _facts(self) -> _Facts:
        return _FACTS[self.word]

    @property
    def succeeded(self) -> bool:
        return self.word is EndWord.EXITED and self.exit_code == 0

    @property
    def attempt_state(self) -> AttemptState:
        return AttemptState.SUCCEEDED if self.succeeded else self._facts.attempt_state

    @property
    def task_state(self) -> TaskState:
        """The task's state if no further attempt follows."""
        return TaskState.SUCCEEDED if self.succeeded else self._facts.task_state

    @property
    def fault(self) -> Fault:
        return Fault.NONE if self.succeeded else self._facts.fault

    @property
    def user_retry(self) -> bool:
        """Whether the user's own retries apply."""
        return not self.succeeded and self._facts.user_retry

    @property
    def platform_retry(self) -> bool:
        """Whether the platform's own retry budget applies."""
        return self._facts.platform_retry

    @property
    def sentence(self) -> str:
        """What happened and what to do, for a person."""
        if self.succeeded:
            return "It exited with code 0."
        what = self.detail or _default_detail(self)
        return f"{what} {self._facts.advice}".strip()


def _default_detail(reason: EndReason) -> str:
    if reason.word is EndWord.EXITED:
        if reason.signal is not None:
            return f"Its process was ended by signal {reason.signal}."
        return f"It exited with code {reason.exit_code}."
    words = {
        EndWord.TIMED_OUT: "It ran past its timeout and was ended.",
        EndWord.OUT_OF_MEMORY: "It used more memory than it asked for and was ended by the kernel.",
        EndWord.CANCELLED: "It was cancelled.",
        EndWord.SKIPPED: "It was not run, since a task that it needs did not end as asked for.",
        EndWord.LOG_LIMIT: "It printed more than its log limit allows.",
        EndWord.KILLED_OUTSIDE: "It was killed, and not by Headway.",
        EndWord.IMAGE_NOT_FOUND: "Its image was not found.",
        EndWord.DISK_FULL: "It filled a disk of its machine and was ended.",
    }
    return words.get(reason.word, "")  # the advice of the others says what happened


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
