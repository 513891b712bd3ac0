"""What was used, and what ran. The numbers come from TaskManager; groups of accounts are known only here.

The sums are for everybody who is signed in, since they follow from states that all accounts see. A list of single runs
is only for the account that ran them and for admins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Literal, NoReturn

from pydantic import Field

from headway.clock import Clock
from headway.errors import InvalidInput, NotAllowed, NotFound, Problem
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.when import BadSpan, parse_span

from ..auth.accounts import Accounts
from ..auth.groups import Groups
from ..auth.model import Account
from ..peers.clients import PARTS_S, ServiceClients
from ..schemas import ApiResponse
from . import trace, usage_csv

log = get_logger(__name__)

By = Literal["user", "group", "day", "job", "node"]

_MOST_ROWS = 1_000
_MOST_DAYS = 400
_DAY_S = 86_400.0
_HOUR_S = 3_600.0
_GIB = 1 << 30


class UsageSums(ApiResponse):
    """What attempts used of what they booked, from their placement to their end; with their part within the span."""

    gpu_hours: float
    cpu_hours: float
    memory_gib_hours: float
    attempts: int = Field(description="that held something within the span")
    tasks: int = Field(description="whose attempts these were")
    started: int = Field(description="attempts that were placed within the span")
    mean_wait_s: float | None = Field(description="of those, from queued to placed; null: there were none")
    ended: int = Field(description="attempts that ended within the span")
    timed_out: int = Field(description="of those, killed at their timeout")
    booked_gpu_hours: float = Field(
        description="of those that ended by themselves or at their timeout: GPUs times timeouts"
    )
    used_gpu_hours: float = Field(description="what these ran of it")
    booked_used: float | None = Field(description="the share of both, 0 to 1; null: nothing was booked")
    measured_gpu_hours: float = Field(0.0, description="of `gpu_hours`: GPUs of ended attempts that were measured")
    mean_gpu_utilisation: float | None = Field(None, description="of these, 0 to 1; null: nothing was measured")
    idle_gpu_hours: float = Field(0.0, description="of these, with hardly any utilisation: booked, and not used")
    failed_gpu_hours: float = Field(
        0.0, description="of `gpu_hours`: attempts that failed, were lost, or ran into their timeout or memory"
    )
    wasted_gpu_hours: float = Field(0.0, description="the last one, and what all other attempts were idle")


class UsageRow(UsageSums):
    key: str = Field(
        description="account, group (empty: accounts in none), day as 2026-11-01 (UTC), job id (empty: jobs that are "
        "no longer kept) or node id"
    )
    job_name: str | None = Field(description="of a job; else null")
    owner: str | None = Field(description="likewise")


class Usage(ApiResponse):
    by: By
    user: str | None = Field(description="whose; null: everybody's")
    from_at: float
    to_at: float = Field(description="not in the span; what lives counts until now")
    rows: list[UsageRow] = Field(
        description="days in their order, without those on which nothing ran; else by GPU hours, then CPU hours, the "
        "greatest first. An account that is in several groups counts in each"
    )
    rows_in_all: int
    total: UsageSums


class UsageReports:
    """See the module."""

    def __init__(self, services: ServiceClients, accounts: Accounts, groups: Groups, clock: Clock) -> None:
        self._services = services
        self._accounts = accounts
        self._groups = groups
        self._clock = clock

    async def sums(
        self, account: Account, *, by: By, begin: str, end: str, user: str, limit: int, offset: int
    ) -> Usage:
        """Sums over a span; ``user`` empty: everybody's.

        Raises:
            InvalidInput: the span is none, or has too many days.
            NotFound: no such account.
        """
        return await self._of_span(account, by, self._span(begin, end), user, limit=limit, offset=offset)

    async def _of_span(
        self, account: Account, by: By, span: tuple[float, float], user: str, *, limit: int, offset: int
    ) -> Usage:
        from_at, to_at = span
        owner = self._named(account, user)
        request = tm.GetUsageRequest(
            by="user" if by == "group" else by, from_at=from_at, to_at=to_at, owner=owner, limit=limit, offset=offset
        )
        if by == "group":
            rows, total = await self._of_groups(request)
            in_all, rows = len(rows), rows[offset : offset + limit]
        else:
            reply = await self._ask(request)
            rows, total, in_all = list(reply.rows), reply.total, reply.rows_in_all
        return Usage(
            by=by,
            user=owner or None,
            from_at=from_at,
            to_at=to_at,
            rows=[_row(row) for row in rows],
            rows_in_all=in_all,
            total=UsageSums(**_sums(total)),
        )

    async def csv(
        self, account: Account, *, by: By, begin: str, end: str, user: str, daily: bool
    ) -> AsyncGenerator[bytes, None]:
        """All sums over a span as CSV; ``daily``: of each of its days (UTC), as far as anything ran on them.

        Raises:
            InvalidInput: the span is none, or has too many days.
            NotFound: no such account.
        """
        from_at, to_at = self._span(begin, end)
        if daily and by == "day":
            raise InvalidInput("`by=day` has a row for each day already: leave out `daily`, or say another `by`.")
        if daily and to_at - from_at > _MOST_DAYS * _DAY_S:
            raise InvalidInput(f"Days are told for {_MOST_DAYS} of them at most: ask for a shorter span.")

        spans = usage_csv.days(from_at, to_at) if daily else [(from_at, to_at)]

        async def rows_of(span: tuple[float, float]) -> list[UsageRow]:
            found: list[UsageRow] = []
            while True:
                page = await self._of_span(account, by, span, user, limit=_MOST_ROWS, offset=len(found))
                found += page.rows
                if not page.rows or len(found) >= page.rows_in_all:
                    return found

        # The first is asked before the answer begins, so that what can't be answered is refused.
        first = await rows_of(spans[0])
        return usage_csv.pieces(by, spans, first, rows_of, daily=daily)

    async def trace(
        self, account: Account, *, begin: str, end: str, user: str, everybody: bool
    ) -> AsyncGenerator[bytes, None]:
        """Ended runs as CSV that ``headway simulate`` reads, piece by piece. TaskManager has begun to answer when this
        returns; a later failure breaks the answer off.

        Raises:
            InvalidInput: the span is none, or both one user's and everybody's are asked for.
            NotAllowed: others' runs, by who is no admin.
            NotFound: no such account.
        """
        if everybody and user:
            raise InvalidInput("Ask for the runs of one `user` or of `all`, not both.")
        owner = "" if everybody else self._named(account, user or "me")
        if owner != account.name and not account.admin:
            raise NotAllowed("Only an admin may export what others ran; without `user` and `all` it is your own.")
        from_at, to_at = self._span(begin, end)
        request = tm.ListRunsRequest(from_at=from_at, to_at=to_at, owner=owner)
        # It is as slow as its reader, so there is no deadline for the whole.
        parts = self._services.tasks.parts("ListRuns", request, deadline_s=None)
        try:
            first = await anext(parts, None)
        except BaseException:
            await parts.aclose()
            raise
        if owner != account.name:
            log.info("usage.trace", of=owner or "everybody", by=account.name)
        return _csv(first, parts)

    def _span(self, begin: str, end: str) -> tuple[float, float]:
        try:
            return parse_span(begin, end, self._clock.now())
        except BadSpan as error:
            _refuse(error)

    def _named(self, account: Account, user: str) -> str:
        if user == "me":
            return account.name
        if user and self._accounts.get(user) is None:
            raise NotFound(f"There is no account `{user[:64]}`.")
        return user

    async def _ask(self, request: tm.GetUsageRequest) -> tm.GetUsageReply:
        reply: tm.GetUsageReply = await self._services.tasks.call("GetUsage", request, deadline_s=PARTS_S)
        return reply

    async def _of_groups(self, asked: tm.GetUsageRequest) -> tuple[list[tm.GetUsageReply.Row], tm.UsageSums]:
        members = {group.name: group.members for group in await self._groups.all()}
        request = tm.GetUsageRequest()
        request.CopyFrom(asked)
        request.limit, request.offset = _MOST_ROWS, 0
        of_users: list[tm.GetUsageReply.Row] = []
        while True:
            reply = await self._ask(request)
            of_users += reply.rows
            request.offset += _MOST_ROWS
            if request.offset >= reply.rows_in_all:
                return of_groups(of_users, members), reply.total


def of_groups(
    of_users: Iterable[tm.GetUsageReply.Row], members: Mapping[str, Iterable[str]]
) -> list[tm.GetUsageReply.Row]:
    """The rows of users summed by group.

    An account in several groups counts in each. Accounts in no group count under an empty name.
    """
    groups_of: dict[str, list[str]] = {}
    for group, accounts in members.items():
        for account in accounts:
            groups_of.setdefault(account, []).append(group)
    rows: dict[str, tm.GetUsageReply.Row] = {}
    for of_user in of_users:
        for group in groups_of.get(of_user.key, [""]):
            row = rows.setdefault(group, tm.GetUsageReply.Row(key=group))
            for field, value in of_user.sums.ListFields():
                setattr(row.sums, field.name, getattr(row.sums, field.name) + value)
    return sorted(rows.values(), key=lambda row: (-row.sums.gpu_s, -row.sums.cpu_s, row.key))


def _row(row: tm.GetUsageReply.Row) -> UsageRow:
    return UsageRow(key=row.key, job_name=row.job_name or None, owner=row.owner or None, **_sums(row.sums))


def _sums(sums: tm.UsageSums) -> dict[str, Any]:
    return {
        "gpu_hours": sums.gpu_s / _HOUR_S,
        "cpu_hours": sums.cpu_s / _HOUR_S,
        "memory_gib_hours": sums.memory_byte_s / _GIB / _HOUR_S,
        "attempts": sums.attempts,
        "tasks": sums.tasks,
        "started": sums.started,
        "mean_wait_s": sums.wait_s / sums.started if sums.started else None,
        "ended": sums.ended,
        "timed_out": sums.timed_out,
        "booked_gpu_hours": sums.booked_gpu_s / _HOUR_S,
        "used_gpu_hours": sums.used_gpu_s / _HOUR_S,
        "booked_used": sums.used_gpu_s / sums.booked_gpu_s if sums.booked_gpu_s else None,
        "measured_gpu_hours": sums.measured_gpu_s / _HOUR_S,
        "mean_gpu_utilisation": sums.busy_gpu_s / sums.measured_gpu_s if sums.measured_gpu_s else None,
        "idle_gpu_hours": sums.idle_gpu_s / _HOUR_S,
        "failed_gpu_hours": sums.failed_gpu_s / _HOUR_S,
        "wasted_gpu_hours": sums.wasted_gpu_s / _HOUR_S,
    }


def _refuse(error: BadSpan) -> NoReturn:
    message = f"The parameter `{error.field}`: {error.message}."
    near = error.suggestion or ""
    problem = Problem(f"/{error.field}", message, word=error.word[:64], allowed=error.allowed, suggestion=near)
    raise InvalidInput(message, problems=[problem]) from error


async def _csv(
    part: tm.ListRunsReply | None, rest: AsyncGenerator[tm.ListRunsReply, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield trace.HEADER
        # The earliest: they come in this order.
        began_at = part.runs[0].queued_at if part is not None and part.runs else 0.0
        while part is not None:
            for piece in trace.pieces(part.runs, began_at):
                yield piece
                await asyncio.sleep(0)
            part = await anext(rest, None)
