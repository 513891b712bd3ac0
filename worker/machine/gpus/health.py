"""Whether a card is well enough to be given out: what was seen of it, and what was known, to what holds now. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.model.gpu_faults import GpuFaultWord

from .xids import hardware_fault


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What one look told about a card. None: card or driver can't tell."""

    listed: bool = True
    unreadable: str = ""  # what the driver says instead of readings
    lost: bool = False  # it says that the card fell off the bus
    temperature_c: float | None = None
    limit_c: float | None = None  # from here on it slows down to protect itself
    uncorrected: int | None = None  # memory errors since the driver was loaded
    rows_pending: bool = False  # parts of the memory are replaced at the next reset
    rows_failed: bool = False
    xids: tuple[int, ...] = ()  # since the last look


@dataclass(frozen=True, slots=True)
class HealthRules:
    """How long is long."""

    clean_s: float = 60.0  # so long without a fault before a card comes back by itself
    hot_s: float = 10.0  # so long too hot, and
    hot_looks: int = 3  # at so many looks
    cooled_c: float = 5.0  # so far below the limit it counts as cooled down
    relapses: int = 3  # as many faults
    relapse_s: float = 86_400.0  # in this time, and it no longer comes back by itself


@dataclass(frozen=True, slots=True)
class CardHealth:
    """What is known of a card. A ``fault`` takes it out until it is clean again."""

    fault: GpuFaultWord | None = None
    detail: str = ""
    since: float = 0.0  # epoch seconds
    uncorrected: int | None = None  # memory errors that were seen before
    faults_at: tuple[float, ...] = ()  # when it was taken out lately
    # What follows is known anew after a restart.
    unclean: str = ""  # what is wrong at this moment, as a clause
    clean_since_s: float | None = None  # monotonic seconds
    hot_since_s: float | None = None
    hot_looks: int = 0

    def passes(self, rules: HealthRules) -> bool:
        """Whether it comes back by itself."""
        return self.fault is not None and self.fault.facts.passes and len(self.faults_at) < rules.relapses

    def comes_back(self, rules: HealthRules) -> bool:
        """Whether that is only a matter of time."""
        return not self.unclean and self.passes(rules)

    def note(self, rules: HealthRules) -> str:
        """Why it is not given out, as a clause for people. Empty: it is well."""
        if self.fault is None:
            return ""
        what = _clause(self.fault, self.detail)
        if self.unclean:
            return what
        if self.comes_back(rules):
            return f"{what}. It is clean now, and comes back by itself soon"
        again = " several times" if self.fault.facts.passes else ""
        return f"{what}{again}. It is clean now, and an admin may return it"


def judge(health: CardHealth, facts: CardFacts, *, at: float, monotonic: float, rules: HealthRules) -> CardHealth:
    """The card's health after a look at ``at`` (epoch seconds) and ``monotonic``."""
    health = _heat(health, facts, monotonic, rules)
    found = _fault(health, facts, monotonic, rules)
    if facts.uncorrected is not None:
        health = replace(health, uncorrected=facts.uncorrected)
    if found is not None:
        word, detail = found
        health = replace(health, unclean=_clause(word, detail), clean_since_s=None)
        if health.fault is None:
            lately = tuple(one for one in health.faults_at if at - rules.relapse_s < one <= at)
            return replace(health, fault=word, detail=detail, since=at, faults_at=(*lately, at))
        if health.fault.facts.passes and not word.facts.passes:
            # What needs an admin counts more than what passes.
            return replace(health, fault=word, detail=detail)
        return health
    since_s = monotonic if health.clean_since_s is None else health.clean_since_s
    health = replace(health, unclean="", clean_since_s=since_s)
    if health.passes(rules) and monotonic - since_s >= rules.clean_s:
        return replace(health, fault=None, detail="", since=0.0)
    return health


def returned(health: CardHealth) -> CardHealth:
    """Its health once an admin has returned it. It must be clean."""
    if health.unclean:
        raise ValueError(health.unclean)
    return replace(health, fault=None, detail="", since=0.0, faults_at=())


def _heat(health: CardHealth, facts: CardFacts, monotonic: float, rules: HealthRules) -> CardHealth:
    """For how long it has been too hot. Only one that has cooled down well starts anew, so it does not swing."""
    if facts.temperature_c is None or facts.limit_c is None or facts.temperature_c <= facts.limit_c - rules.cooled_c:
        return replace(health, hot_since_s=None, hot_looks=0)
    if facts.temperature_c >= facts.limit_c:
        since_s = monotonic if health.hot_since_s is None else health.hot_since_s
        return replace(health, hot_since_s=since_s, hot_looks=health.hot_looks + 1)
    return health


def _fault(
    health: CardHealth, facts: CardFacts, monotonic: float, rules: HealthRules
) -> tuple[GpuFaultWord, str] | None:
    """What is wrong at this look, the worst of it."""
    found = [fault for xid in facts.xids if (fault := hardware_fault(xid)) is not None]
    if not facts.listed:
        found.append((GpuFaultWord.VANISHED, ""))
    elif facts.lost:
        found.append((GpuFaultWord.OFF_THE_BUS, facts.unreadable))
    elif facts.unreadable:
        found.append((GpuFaultWord.UNREADABLE, facts.unreadable))
    if facts.rows_failed:
        found.append((GpuFaultWord.ROW_REMAP_FAILED, ""))
    if health.uncorrected is not None and (facts.uncorrected or 0) > health.uncorrected:
        more = (facts.uncorrected or 0) - health.uncorrected
        found.append((GpuFaultWord.ECC_ERRORS, f"{more} more than before"))
    if facts.rows_pending:
        found.append((GpuFaultWord.ROW_REMAP, ""))
    if hot := _too_hot(health, facts, monotonic, rules):
        found.append((GpuFaultWord.TOO_HOT, hot))
    return min(found, key=lambda one: one[0].facts.passes, default=None)


def _too_hot(health: CardHealth, facts: CardFacts, monotonic: float, rules: HealthRules) -> str:
    """How hot, if that is too hot for too long. ``health`` counts this look already."""
    if facts.temperature_c is None or facts.limit_c is None or health.hot_since_s is None:
        return ""
    known = health.fault is GpuFaultWord.TOO_HOT
    if not known and (health.hot_looks < rules.hot_looks or monotonic - health.hot_since_s < rules.hot_s):
        return ""
    return f"its limit is {facts.limit_c:.0f} °C"


def _clause(word: GpuFaultWord, detail: str) -> str:
    return f"{word.facts.what} ({detail})" if detail else word.facts.what
