"""The audit log, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from headway.errors import InvalidInput, Problem
from headway.units import BadValue
from headway.when import parse_when

from ..audit import model
from ..audit.log import AuditLog
from ..audit.schemas import AuditCheck, AuditEntry, AuditList
from ..audit.store import AuditFilter, AuditLine
from .common import AnAdmin, TheParts

router = APIRouter(tags=["audit"])

_OUTCOMES = (model.DONE, model.REFUSED, model.FAILED, model.UNKNOWN)


@router.get("/audit")
async def list_audit(
    _: AnAdmin,
    parts: TheParts,
    who: Annotated[str, Query(max_length=64, description="account name")] = "",
    what: Annotated[str, Query(max_length=64, description="a word such as job.cancel, or its family: job")] = "",
    subject: Annotated[str, Query(max_length=300, description="part of what it was done on")] = "",
    outcome: Annotated[str, Query(max_length=20, description=" · ".join(_OUTCOMES))] = "",
    since: Annotated[str, Query(max_length=64, description="from then on: 2026-11-01, 2026-11-01T14:30Z or 7d")] = "",
    until: Annotated[str, Query(max_length=64, description="before then, written alike")] = "",
    before: Annotated[str, Query(max_length=20, pattern="^[0-9]*$", description="a cursor that an answer gave")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> AuditList:
    """Who changed what, from where and with which outcome; newest first."""
    if outcome and outcome not in _OUTCOMES:
        sentence = f"There is no outcome `{outcome}`; there are {', '.join(_OUTCOMES)}."
        raise InvalidInput(sentence, problems=[Problem("", sentence, word=outcome, allowed=_OUTCOMES)])
    now = parts.clock.now()
    wanted = AuditFilter(who, what, subject, outcome, _instant(since, "since", now), _instant(until, "until", now))
    at = min(int(before), 2**63 - 1) if before else None
    lines = await parts.audit.page(wanted, at, limit + 1)
    shown = lines[:limit]
    cursor = str(shown[-1].row.number) if len(lines) > limit else ""
    return AuditList(entries=[_entry(line, parts.audit) for line in shown], cursor=cursor)


@router.get("/audit/verify")
async def verify_audit(_: AnAdmin, parts: TheParts) -> AuditCheck:
    """Goes along all rows that are kept: each holds the hash of the one before, so a changed or removed one shows."""
    place, held, broken = await parts.audit.verify()
    sentence = f"All {held} rows hold." if broken is None else broken.sentence
    return AuditCheck(
        whole=broken is None,
        rows_held=held,
        first=place.gone_number + 1,
        last=place.last_number,
        head=place.last_hash,
        broken_row=None if broken is None else broken.number,
        sentence=sentence,
    )


def _instant(text: str, name: str, now: float) -> float | None:
    try:
        return parse_when(text, now) if text else None
    except BadValue as error:
        sentence = f"`{name}`: {error.message}."
        raise InvalidInput(sentence, problems=[Problem("", sentence, word=text)]) from None


def _entry(line: AuditLine, audit: AuditLog) -> AuditEntry:
    row, end = line.row, line.end
    last = end or row
    outcome: str = last.outcome
    if outcome == model.BEGUN:
        outcome = "under_way" if audit.is_live(row.number) else model.UNKNOWN
    return AuditEntry(
        number=row.number,
        at=row.at,
        who=last.who or row.who,
        way=last.way or row.way,
        address=row.address,
        word=row.word,
        subject=last.subject or row.subject,
        outcome=outcome,
        problem=last.problem,
        ended_at=None if end is None else end.at,
        request_id=row.request_id,
        detail=last.detail or row.detail,
    )
