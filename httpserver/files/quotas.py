"""Quotas of personal spaces: what is used, who is warned, who is refused.

Tasks write into homes without asking HttpServer. So homes are measured again and again in the background, and soon
after a task has ended. What comes and goes through HttpServer counts at once. Where the file system itself has a
quota, it refuses by itself (EDQUOT).
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from headway.backoff import grown_s
from headway.clock import Clock
from headway.errors import HeadwayError, StoreFull
from headway.logs import get_logger
from headway.mount import Layout, MountProbe
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import TaskState
from headway.store.database import Database
from headway.waiting import wait

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..filesystem.rights import drop_groups
from ..filesystem.system_calls import open_beneath
from . import schemas as s
from .measure import HomeSize, MeasuringStopped, Pace, measure
from .messages import size_text
from .tables import space_usage

log = get_logger(__name__)

_WARN_PART = 0.9
_SOON_S = 1.0  # after a deletion: by then the rest of a folder's files is gone too
_AFTER_A_TASK_S = 10.0  # from one measuring to the next at least, where task after task ends
_ASKED_S = 60.0  # a number that somebody looks at is not older than that for long
_FAILED_S = 10.0  # first pause after one that failed
_OFTEN = 5  # times as often, for those who are near their quota
_TIMES_TOOK = 20  # a measuring takes at most a twentieth of the time
_WORK_S, _REST_S = 0.02, 0.06
_AT_WORK = frozenset({TaskState.RUNNING.value, TaskState.STOPPING.value})


@dataclass(slots=True)
class _Usage:
    """What is known of one home. Times are monotonic but for ``measured_at``."""

    used_bytes: int = 0
    files: int = 0  # and folders; not kept through a restart, after which it is measured at once
    uploading_bytes: int = 0  # part of it
    measured_at: float | None = None
    added: int = 0  # through HttpServer since the measuring began
    holds: dict[str, int] = field(default_factory=dict)
    due_at: float = -math.inf
    ended_at: float = -math.inf
    took_s: float = 0.0
    changed: bool = False  # something was deleted since
    logged_state: str = "ok"
    problem: str = ""  # why it could not be measured last time
    failures: int = 0  # in a row

    def estimate(self) -> int:
        held = sum(self.holds.values())
        # What an upload has written already is in its hold too.
        return max(0, self.used_bytes - min(self.uploading_bytes, held) + max(0, self.added) + held)


class SpaceQuotas:
    """Who may still store something.

    All methods but :meth:`run` and :meth:`require_quota` answer at once, from memory.
    """

    def __init__(
        self,
        layout: Layout,
        mount: MountProbe,
        accounts: Accounts,
        db: Database,
        clock: Clock,
        *,
        default_quota_bytes: int = 0,
        max_files: int = 0,
        measure_s: float = 300.0,
    ) -> None:
        self._layout = layout
        self._mount = mount
        self._accounts = accounts
        self._db = db
        self._clock = clock
        self._default = default_quota_bytes
        self._max_files = max_files
        self._measure_s = measure_s
        self._usages: dict[str, _Usage] = {}
        self._wake = asyncio.Event()
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="measure", initializer=drop_groups)

    async def load(self) -> None:
        """What was measured before the last stop, so that a restart lifts nothing."""

        def work(conn: Connection) -> list[Any]:
            return list(conn.execute(select(space_usage)))

        for row in await self._db.read(work):
            self._usages[row.account] = _Usage(used_bytes=row.used_bytes, measured_at=row.measured_at)

    def close(self) -> None:
        """Lets go of the thread."""
        self._stop.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- asked by others ------------------------------------------------------------------------

    def quota_of(self, account: Account) -> int | None:
        """Bytes; None: no limit."""
        quota = self._default if account.quota_bytes is None else account.quota_bytes
        return quota or None

    def used_by(self, account: Account) -> int | None:
        """Bytes, as far as they are known; None: never measured. Measures nothing."""
        usage = self._usage(account)
        return None if usage.measured_at is None else usage.estimate()

    def refuse_new_work(self, account: Account) -> str:
        """Why the account may not submit a job now, one sentence; empty: it may."""
        quota = self.quota_of(account)
        usage = self._usage(account)
        if why := self._too_many_files(account, usage):
            self._soon(usage)
            return f"{why}: delete files for good or empty the trash, then submit again."
        if quota is None or usage.estimate() < quota:
            return ""
        self._soon(usage)
        return f"{self._numbers(account, usage, quota)}: delete files for good or empty the trash, then submit again."

    async def require_quota(self, account: Account, bytes: int, *, hold: str = "") -> None:
        """Refuses what would go beyond the quota.

        Args:
            bytes: that shall be stored; 0 where it isn't known yet.
            hold: a name under which they count as used until :meth:`let_go`. The same name again replaces it.

        Raises:
            StoreFull: the quota is used up, or would be.
        """
        quota = self.quota_of(account)
        usage = self._usage(account)
        self.refuse_more_files(account)
        if quota is not None:
            rest = quota - usage.estimate() + usage.holds.get(hold, 0)
            if rest < max(1, bytes):
                self._soon(usage)
                more = f", and {size_text(bytes)} more are asked for" if rest > 0 else ""
                raise StoreFull(
                    f"{self._numbers(account, usage, quota)}{more}: delete files for good or empty the trash, then try "
                    "again.",
                    extra={"quota_bytes": quota, "used_bytes": usage.estimate()},
                )
        if hold:
            usage.holds[hold] = bytes

    def refuse_more_files(self, account: Account) -> None:
        """
        Raises:
            StoreFull: the home has as many files and folders as it may.
        """
        usage = self._usage(account)
        if why := self._too_many_files(account, usage):
            self._soon(usage)
            raise StoreFull(f"{why}: delete files for good or empty the trash, then try again.")

    def hold(self, account: Account, hold: str, bytes: int) -> None:
        """So many bytes count as used until :meth:`let_go`, whatever the quota: a restart takes no promise back."""
        self._usage(account).holds[hold] = bytes

    def let_go(self, account: Account, hold: str, *, stored: bool) -> None:
        """Ends a hold; with ``stored`` its bytes are in the home now. Safe twice."""
        usage = self._usage(account)
        held = usage.holds.pop(hold, 0)
        # What was measured of it while it came: not counted once more when it is stored, and gone when it is not.
        measured = min(usage.uploading_bytes, held)
        usage.uploading_bytes -= measured
        if stored:
            usage.added += held - measured
            usage.files += 1
        else:
            usage.used_bytes -= measured

    def added(self, account: Account, bytes: int) -> None:
        """So much was written into the home (negative: taken back)."""
        self._usage(account).added += bytes

    def one_more(self, account: Account) -> None:
        """A file or folder was made in the home."""
        self._usage(account).files += 1

    def freed(self, account: Account) -> None:
        """Something in the home was deleted or replaced: it is measured again soon."""
        usage = self._usage(account)
        usage.changed = True
        if self._limited(account):
            self._soon(usage)

    def on_jobs(self, changes: jm.JobChanges) -> None:
        """From JobManager's watch: what an attempt wrote counts soon after its end."""
        for change in changes.changes:
            account = self._accounts.get(change.job.owner)
            if account is not None and any(task.attempt and task.state not in _AT_WORK for task in change.tasks):
                usage = self._usage(account)
                usage.changed = True
                if self._limited(account):
                    pause_s = max(_AFTER_A_TASK_S, usage.took_s * _TIMES_TOOK)
                    self._soon(usage, max(_SOON_S, usage.ended_at + pause_s - self._clock.monotonic()))

    def view(self, account: Account) -> s.Space:
        """For people; asks for a new number when this one is old."""
        usage, quota = self._usage(account), self.quota_of(account)
        if usage.changed or usage.measured_at is None or self._clock.now() - usage.measured_at > _ASKED_S:
            self._soon(usage, 0.0)
        used, state = usage.estimate(), self._state(account)
        what = "new jobs and uploads are refused until files are deleted for good or the trash is emptied"
        sentence = ""
        if why := self._too_many_files(account, usage):
            sentence = f"{why}: {what}."
        elif quota is not None and state != "ok":
            sentence = self._numbers(account, usage, quota)
            sentence += f": {what}." if state == "full" else "; at the quota new jobs and uploads are refused."
        sentence = " ".join(part for part in (sentence, usage.problem) if part)
        return s.Space(
            used_bytes=used, quota_bytes=quota, measured_at=usage.measured_at, state=state, sentence=sentence
        )

    # -- in the background ----------------------------------------------------------------------

    async def run(self) -> None:
        """Measures homes, the one that is due first, one at a time."""
        while True:
            wait_s = await self._measure_due()
            self._wake.clear()
            await wait(self._wake, wait_s, self._clock)

    async def _measure_due(self) -> float:
        """Measures all that are due; seconds until the next one is."""
        for account in await self._accounts.all():
            usage = self._usage(account)
            if self._limited(account) and usage.due_at == math.inf:
                usage.due_at = self._clock.monotonic()
            if usage.due_at > self._clock.monotonic():
                continue
            if not (await self._mount.check()).readable:
                return self._measure_s / _OFTEN
            await self._measure(account, usage)
        now = self._clock.monotonic()
        due = [self._usage(account).due_at for account in await self._accounts.all()]
        return max(0.0, min([*due, now + self._measure_s]) - now)

    async def _measure(self, account: Account, usage: _Usage) -> None:
        began, added_before = self._clock.monotonic(), usage.added
        usage.due_at, usage.changed = math.inf, False
        try:
            measured = await asyncio.get_running_loop().run_in_executor(self._thread, self._blocking, account)
        except MeasuringStopped:
            return
        except (OSError, HeadwayError) as error:
            pause_s = grown_s(usage.failures, first_s=_FAILED_S, most_s=self._measure_s)
            usage.due_at = self._clock.monotonic() + pause_s
            usage.failures += 1
            usage.problem = (
                f"The personal space of {account.name} could not be measured, so the number may be old: {error}. An "
                f"admin has to look at {self._layout.home(account.name)}."
            )
            log.warning("space.not_measured", account=account.name, reason=str(error), retry_s=round(pause_s))
            return
        usage.problem, usage.failures = "", 0
        now = self._clock.monotonic()
        usage.used_bytes, usage.uploading_bytes = measured.used_bytes, measured.uploading_bytes
        usage.files = measured.entries
        # What came while it was measured may or may not be in it; the next time it is.
        usage.added -= added_before
        usage.measured_at = self._clock.now()
        usage.ended_at, usage.took_s = now, now - began
        if self._limited(account):
            state = self._state(account)
            every_s = self._measure_s if state == "ok" else self._measure_s / _OFTEN
            usage.due_at = min(usage.due_at, now + max(every_s, usage.took_s * _TIMES_TOOK))
            self._tell(account, usage, state)
        self._remember(account.name, usage)

    def _blocking(self, account: Account) -> HomeSize:
        home = self._layout.home(account.name)
        pace = Pace(_WORK_S, lambda: self._stop.wait(_REST_S))
        try:
            parent = os.open(home.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return HomeSize(0, 0, 0)
        try:
            root = open_beneath(parent, home.name, os.O_PATH | os.O_DIRECTORY, links=False)
        except FileNotFoundError:
            return HomeSize(0, 0, 0)  # nobody has been there yet
        finally:
            os.close(parent)
        try:
            return measure(root, account.uid, account.gid, pace)
        finally:
            os.close(root)

    def _tell(self, account: Account, usage: _Usage, state: str) -> None:
        if state == usage.logged_state:
            return
        usage.logged_state = state
        tell: Callable[..., None] = log.info if state == "ok" else log.warning
        tell(
            f"space.{state}", account=account.name, used_bytes=usage.used_bytes, quota_bytes=self.quota_of(account) or 0
        )

    def _remember(self, name: str, usage: _Usage) -> None:
        row = {"account": name, "used_bytes": usage.used_bytes, "measured_at": usage.measured_at}

        def work(conn: Connection) -> None:
            conn.execute(delete(space_usage).where(space_usage.c.account == name))
            conn.execute(insert(space_usage).values(**row))

        self._db.defer(work)

    # -- inside ---------------------------------------------------------------------------------

    def _usage(self, account: Account) -> _Usage:
        found = self._usages.get(account.name)
        if found is None:
            # Without a quota only when somebody asks.
            due = -math.inf if self._limited(account) else math.inf
            found = self._usages[account.name] = _Usage(due_at=due)
        return found

    def _soon(self, usage: _Usage, in_s: float = _SOON_S) -> None:
        # A large home is not measured without end because small things are deleted in it one after the other.
        at = max(self._clock.monotonic() + in_s, usage.ended_at + usage.took_s)
        usage.due_at = min(usage.due_at, at)
        self._wake.set()

    def _state(self, account: Account) -> s.SpaceState:
        quota, used = self.quota_of(account), self._usage(account).estimate()
        if self._too_many_files(account, self._usage(account)):
            return s.SpaceState.FULL
        if quota is None or used < _WARN_PART * quota:
            return s.SpaceState.OK
        return s.SpaceState.FULL if used >= quota else s.SpaceState.WARNING

    def _limited(self, account: Account) -> bool:
        return bool(self._max_files) or self.quota_of(account) is not None

    def _too_many_files(self, account: Account, usage: _Usage) -> str:
        if not self._max_files or usage.files < self._max_files:
            return ""
        return (
            f"The personal space of {account.name} has {usage.files:,} files and folders of {self._max_files:,} that "
            "may be in it (pack small ones into an archive)"
        )

    def _numbers(self, account: Account, usage: _Usage, quota: int) -> str:
        used = size_text(usage.estimate())
        return f"The personal space of {account.name} holds {used} of {size_text(quota)}"
