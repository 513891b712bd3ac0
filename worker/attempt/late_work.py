"""What is left to do after an attempt's end, and may fail: it is tried again, and people are told while it fails.

Each failure is a warning on the attempt. It says what could not be done, where and why, and who has to do what. It
changes or goes with the next tries, also after a restart of the Worker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from headway.backoff import Backoff
from headway.errors import HeadwayError, MountUnavailable
from headway.logs import get_logger
from headway.safe_text import printable_text

from .. import wire
from ..model import AttemptRecord
from .context import ExecutorContext
from .home_files import NewerOutput

log = get_logger(__name__)

CONTAINER, LOG, FILES, OUTPUT = "container", "log", "files", "output"
AGAIN = "Headway tries again."
_FOR_A_DAY = "Headway tries again for a day, with pauses of 10 minutes at most."
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 600.0


def tell_late_warnings(context: ExecutorContext, record: AttemptRecord) -> None:
    """Tell TaskManager all warnings that hold now."""
    message = wire.late_warnings(record, node_id=context.node_id, incarnation=context.incarnation)
    context.late.submit(record.attempt, message)


class LateWork:
    """The works of one attempt; each has a word. See the module."""

    def __init__(self, context: ExecutorContext, record: AttemptRecord, generation: int) -> None:
        self._context = context
        self._record = record
        self._generation = generation

    def is_left(self, work: str) -> bool:
        """Whether it failed before, also before a restart of the Worker."""
        return work in self._record.late

    async def warn(self, work: str, sentence: str) -> None:
        """This could not be done. It is stored before it is told: a restarted Worker has to take it back one day."""
        record, sentence = self._record, printable_text(sentence)  # names of files may hold any bytes
        if record.late.get(work) == sentence:
            return
        log.warning("attempt.late_work_failed", attempt=str(record.attempt), work=work, reason=sentence)
        record.late[work], record.generation = sentence, self._generation
        with contextlib.suppress(HeadwayError):  # a full disk: then it is told all the same
            await self._context.store.put(record)
        tell_late_warnings(self._context, record)

    def done(self, work: str) -> None:
        """It worked, perhaps at last."""
        if self._record.late.pop(work, None) is None:
            return
        log.info("attempt.late_work_done", attempt=str(self._record.attempt), work=work)
        self._context.store.put_later(self._record)
        tell_late_warnings(self._context, self._record)

    async def until_done(
        self, work: str, do: Callable[[], Awaitable[object]], why: Callable[[Exception], str], *, given_up: str
    ) -> None:
        """Try with growing pauses, for a day after the attempt's end. Then the warning stays, and ends with
        ``given_up``. Where output of a later end lies, there is no other try."""
        context, record = self._context, self._record
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                await do()
            except NewerOutput as error:
                await self.warn(work, f"{why(error)} `headway logs {record.attempt}` shows it.")
                return
            except (OSError, MountUnavailable) as error:
                over = context.clock.now() >= (record.times.ended_at or 0.0) + context.limits.late_s
                await self.warn(work, f"{why(error)} {given_up if over else _FOR_A_DAY}")
                if over:
                    return
            else:
                self.done(work)
                return
            await context.clock.sleep(pauses.next_s())
