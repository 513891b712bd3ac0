"""How long ended jobs are kept, and which go first where their logs take too much room.

A job's age counts from its end. Pinned jobs are kept by every rule, and so are jobs that have not ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..units import BadValue, parse_duration, shown

DAY_S = 86_400.0
MOST_DAYS = 36_500


def parse_age(text: str) -> float:
    """Seconds, from what people say about how old a job must be: ``90d``, or a duration.

    Raises:
        BadValue: it is none, or not above 0.
    """
    if re.fullmatch(r"\s*-.*|(?=.*0)[0.:a-zA-Z ]*", text, re.DOTALL):
        raise BadValue(f"an age is more than 0, and not {shown(text)}; write for instance 90d")
    if days := re.fullmatch(r"([0-9]{1,64}) ?d", text):
        if int(days[1]) > MOST_DAYS:
            raise BadValue(f"an age is at most {MOST_DAYS}d, and not {shown(text)}", suggestion=f"{MOST_DAYS}d")
        return int(days[1]) * DAY_S
    if long := re.fullmatch(r"([0-9]{1,4}) ?(w|weeks?|y|years?)", text):
        # A year has no fixed length, and nobody has to guess which one is meant.
        meant = f"{int(long[1]) * (7 if long[2].startswith('w') else 365)}d"
        raise BadValue(f"{shown(text)} is no age, since ages are in days; did you mean {meant}?", suggestion=meant)
    if re.fullmatch(r"\+?[0-9]*\.?[0-9]+\.?([eE][+-]?[0-9]+)?", text, re.ASCII):
        raise BadValue(f"{shown(text)} has no unit; write for instance 90d")
    return parse_duration(text, most_days=MOST_DAYS)


@dataclass(frozen=True, slots=True)
class AccountRule:
    """What holds for one account; None: as for the others."""

    days: int | None = None
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EndedJob:
    """What the rules look at. ``ages_from`` is its end by a clock that nobody sets. ``log_bytes`` None: not measured
    yet."""

    id: str
    owner: str
    ages_from: float
    log_bytes: int | None = None
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class AgeLimit:
    """Jobs that ended up to ``before`` are too old: those of ``owner``, or of all accounts but ``others_than``."""

    before: float
    owner: str = ""
    others_than: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The rules of the configuration; None: no limit."""

    days: int | None = None
    log_bytes: int | None = None  # of all accounts together
    log_bytes_per_account: int | None = None
    accounts: Mapping[str, AccountRule] = field(default_factory=dict)

    @property
    def by_age(self) -> bool:
        """Whether any job is ever too old."""
        return self.days is not None or any(rule.days is not None for rule in self.accounts.values())

    @property
    def by_bytes(self) -> bool:
        """Whether logs may ever take too much room."""
        limits = [self.log_bytes, self.log_bytes_per_account, *(rule.log_bytes for rule in self.accounts.values())]
        return any(limit is not None for limit in limits)

    def days_of(self, owner: str) -> int | None:
        """For how many days the jobs of an account are kept; None: for ever."""
        rule = self.accounts.get(owner)
        return rule.days if rule is not None and rule.days is not None else self.days

    def log_bytes_of(self, owner: str) -> int | None:
        """How much the logs of an account's ended jobs may take; None: there is no limit."""
        rule = self.accounts.get(owner)
        return rule.log_bytes if rule is not None and rule.log_bytes is not None else self.log_bytes_per_account

    def kept_until(self, owner: str, ended_at: float | None, *, pinned: bool) -> float | None:
        """Until when a job is kept; None: as long as nobody deletes it, or until some days after its end."""
        days = self.days_of(owner)
        return None if pinned or ended_at is None or days is None else ended_at + days * DAY_S

    def too_old(self, job: EndedJob, now: float) -> bool:
        """Whether its time is over."""
        until = self.kept_until(job.owner, job.ages_from, pinned=job.pinned)
        return until is not None and until <= now

    def age_limits(self, now: float) -> list[AgeLimit]:
        """The same as instants, for a query."""
        own = {owner: days for owner in sorted(self.accounts) if (days := self.days_of(owner)) is not None}
        limits = [AgeLimit(now - days * DAY_S, owner) for owner, days in own.items()]
        if self.days is not None:
            limits.append(AgeLimit(now - self.days * DAY_S, others_than=tuple(sorted(self.accounts))))
        return limits

    @property
    def sentence(self) -> str:
        """For whoever looks for a job that is gone."""
        if self.days is None:
            return ""
        return f"Jobs are kept for {self.days} day{'' if self.days == 1 else 's'} after their end."


class RoomToMake:
    """Which jobs go so that logs take no more than the rules allow. Ask about the oldest job first.

    ``totals``: what the logs of ended jobs take, by account. Pinned jobs do not count: they stay, so nobody else's jobs
    can make room for them.
    """

    def __init__(self, rules: RetentionRules, totals: Mapping[str, int]) -> None:
        self._of_account = {owner: _above(taken, rules.log_bytes_of(owner)) for owner, taken in totals.items()}
        # What goes by the accounts' own limits makes room for all.
        left = sum(totals.values()) - sum(self._of_account.values())
        self._of_all = _above(left, rules.log_bytes)

    @property
    def needed(self) -> bool:
        """Whether any more jobs have to go."""
        return self._of_all > 0 or any(above > 0 for above in self._of_account.values())

    def goes(self, job: EndedJob) -> bool:
        """Whether this job has to go; counts its room as free if so."""
        if job.pinned or not job.log_bytes:
            return False
        above = self._of_account.get(job.owner, 0)
        if self._of_all <= 0 and above <= 0:
            return False
        self._of_account[job.owner] = max(0, above - job.log_bytes)
        self._of_all -= max(0, job.log_bytes - above)
        return True


def _above(taken: int, most: int | None) -> int:
    return 0 if most is None else max(0, taken - most)
