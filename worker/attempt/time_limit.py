"""How long an attempt may run: the timeout of its launch, and all extensions since.

An extension is on the Worker's disk before it is sent to the launcher. It counts only once the launcher has confirmed
it. The launcher enforces the timeout, so it alone knows whether the extension came before the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.units import format_duration

from ..model import AttemptRecord, AttemptStage, ExtendAttempt, LaunchAttempt
from ..ports import AttemptProgress
from .context import ExecutorContext


class TimeLimit:
    """The time limit of one attempt, in seconds from the start of the user's process."""

    def __init__(
        self, context: ExecutorContext, record: AttemptRecord, launch: LaunchAttempt, log_line: Callable[[str], None]
    ) -> None:
        self._context = context
        self._record = record
        self._launch = launch
        self._log_line = log_line
        self._sent_s: float | None = None  # sent to the launcher

    @property
    def timeout_s(self) -> float:
        """The timeout with all extensions, whether the launcher has confirmed them or not."""
        return self._record.timeout_s or self._launch.spec.timeout_s

    def take(self, order: ExtendAttempt) -> bool:
        """Accept an order. False: there is nothing to do. True: the caller stores the record, then nudges."""
        record = self._record
        if record.stage is not AttemptStage.LIVE or record.stop is not None or order.timeout_s < self.timeout_s:
            return False
        if order.timeout_s == self.timeout_s and order.timeout_s in (record.counted_s, self._sent_s):
            return False
        for extension in order.extensions[record.extensions_logged :]:
            forced = ", although promised starts are delayed" if extension.forced else ""
            self._log_line(f"{extension.by} gave it {format_duration(extension.seconds)} more{forced}.")
        record.extensions_logged = max(record.extensions_logged, len(order.extensions))
        record.timeout_s = order.timeout_s
        return True

    async def send_to_launcher(self) -> bool:
        """Send the newest timeout to the launcher, unless it has it. True: it was sent."""
        record = self._record
        if record.timeout_s is None or record.timeout_s in (self._sent_s, record.counted_s):
            return False
        try:
            await self._context.runtime.extend(record.attempt, round(record.timeout_s * 1000))
        except OSError as error:
            # A disk without one free block. TaskManager repeats the order with each heartbeat.
            self._log_line(f"The extension could not be passed on to the launcher ({error.strerror}).")
            return False
        self._sent_s = record.timeout_s
        return True

    def is_confirmed_anew(self, progress: AttemptProgress) -> bool:
        """Whether the launcher has confirmed another timeout than before."""
        record = self._record
        if progress.timeout_ms is None or progress.timeout_ms / 1000 == record.counted_s:
            return False
        record.counted_s = progress.timeout_ms / 1000
        record.timeout_s = max(record.counted_s, self.timeout_s)
        started_at = record.times.process_started_at
        if started_at is not None:
            until = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(started_at + record.counted_s))
            self._log_line(f"Its timeout is {format_duration(record.counted_s)} now, until {until} UTC.")
        self._context.store.put_later(record)
        return True
