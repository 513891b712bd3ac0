"""Submits jobs. A job is read and checked, then handed to JobManager whole or refused whole with all problems."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

from headway.errors import (
    Conflict,
    HeadwayError,
    IdempotencyMismatch,
    InvalidInput,
    JobFileInvalid,
    Problem,
    StoreFull,
    TooManyWaiting,
    Unavailable,
    Unsatisfiable,
)
from headway.jobfile import Priority, invalid
from headway.jobfile.parse import Media
from headway.logs import get_logger
from headway.rpc import convert
from headway.rpc.v1 import job_manager_pb2 as jm

from .. import schemas
from ..auth.model import Account
from ..auth.views import account_to_pb
from ..http.problems import UnsupportedMedia
from ..needs.pinning import Pinning, Pins
from ..peers.clients import ACT_S, SUBMIT_S, ServiceClients
from ..uses.service import Uses
from . import job_file, preview, timeout_advice
from .job_file_process import JobFileProcess

log = get_logger(__name__)

# Read here in a thread up to so many bytes: less time than another process needs for its start.
_INLINE_BYTES = 32 * 1024

# What only the cluster and its limits can refuse about a file that is fine in itself.
_OF_THE_CLUSTER = re.compile(r"/tasks/[0-9]+/(resources(/gpus)?|timeout)")

_MEDIA: dict[str, Media] = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "text/x-yaml": "yaml",
    "": "yaml",
}


class Submit:
    """See the module. ``refuses`` says why an account may submit nothing now, or raises it; empty: it may."""

    def __init__(
        self,
        services: ServiceClients,
        process: JobFileProcess,
        pinning: Pinning,
        uses: Uses,
        refuses: Callable[[Account], str],
        before_it_counts: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._process = process
        self._pinning = pinning
        self._uses = uses
        self._refuses = refuses
        self._before_it_counts = before_it_counts

    async def submit(
        self,
        account: Account,
        body: AsyncIterable[bytes],
        *,
        content_type: str,
        idempotency_key: str | None,
        dry_run: bool,
        allow_unsatisfiable: bool,
        code: str = "",
        changes: tuple[str, ...] = (),
    ) -> schemas.Submitted:
        """Stores the job, or only checks it. ``code`` is the snapshot of all tasks that name none; ``changes``: see
        headway/jobfile/changes.py.

        Raises:
            JobFileInvalid: with all problems, images, datasets and code that are nowhere among them; nothing is stored.
            Unsatisfiable: tasks that no machine could ever run, or that the cluster's limits rule out.
            TooManyWaiting: the account would have more waiting tasks than it may.
            IdempotencyMismatch: the key came with another job before.
            UnsupportedMedia: neither JSON nor YAML.
            StoreFull: the account's space is full.
            GoneMeanwhile: something that the job needs was deleted at this very moment.
            Unavailable: JobManager is away; the same call with the same key may be made again.
        """
        media = _media(content_type)
        data = b"".join([chunk async for chunk in body])
        grants = job_file.Grants(account.may_use_high_priority, account.may_use_image_user)
        found: job_file.ExaminedJobFile = await self._run(
            account.name, len(data), "examine", data, media, grants, code, changes
        )
        # Made once per call, so that a try again inside this call is the same request.
        key = idempotency_key or secrets.token_hex(16)
        header = jm.JobHeader(
            owner=account_to_pb(account),
            request_id=job_file.request_id(account.name, key),
            name=found.name,
            priority=convert.priority_to_pb(Priority(found.priority)),
            spec_hash=found.spec_hash,
            dry_run=dry_run,
            allow_unsatisfiable=allow_unsatisfiable,
            task_count=found.task_count,
            graph_only=bool(found.problems),
        )
        if found.problems:
            raise invalid(await self._all_problems(header, found, data, media, grants, changes))
        # A call made again is answered as then, whatever has become since of what it named. JobManager looks for that
        # itself before anything else, so it is asked beforehand only where it might not come to that.
        again = bool(idempotency_key) and not dry_run
        try:
            if sentence := self._refuses(account):
                raise StoreFull(sentence)
            pins = await self._pinning.pin(account, found.wanted)
        except HeadwayError:
            if again and (known := await self._known(header, found)) is not None:
                return known
            raise
        may_stop = pins.unknown or pins.refs(account.name, found.wanted)
        if again and may_stop and (known := await self._known(header, found)) is not None:
            return known
        if pins.unknown:
            header.dry_run = True
            more = await self._problems(header, found, pins)
            problems = await self._run(
                account.name, len(data), "all_problems", data, media, grants, more, pins.unknown, code, changes
            )
            raise invalid(problems)
        reply = await self._hand_over(account, header, found, pins)
        if reply.problems:
            more = tuple(convert.problem(problem) for problem in reply.problems)
            problems = await self._run(
                account.name, len(data), "all_problems", data, media, grants, more, (), code, changes
            )
            raise _refusal(problems)
        if not dry_run and not reply.already_known:
            log.info("job.submitted", job=reply.job_id, owner=account.name, tasks=found.task_count)
        return schemas.Submitted(
            id=reply.job_id or None,
            name=found.name,
            task_count=found.task_count,
            dry_run=dry_run,
            already_known=reply.already_known,
            order=list(reply.order),
            warnings=[*reply.warnings, *pins.warnings],
            timeouts=await timeout_advice.advise(self._services, account.name, found.parts) if dry_run else [],
            preview=await self._preview(account, found, pins, reply, allow_unsatisfiable) if dry_run else None,
        )

    async def preview(
        self, account: Account, body: AsyncIterable[bytes], *, content_type: str, code: str = ""
    ) -> schemas.Preview:
        """When a job's tasks, or variants of one, would start.

        Raises:
            HeadwayError: the job would be refused, as ``submit`` says; or the queue can't be asked.
        """
        _media(content_type)
        data = b"".join([chunk async for chunk in body])
        variants = preview.variants_of(data)
        if variants is not None:
            asked = preview.checked(variants, owner=account.name, high_priority=account.may_use_high_priority)
            await self._may_wait(account)
            return await preview.of_variants(self._services, asked)

        async def again() -> AsyncIterator[bytes]:
            yield data

        checked = await self.submit(
            account, again(), content_type=content_type, idempotency_key=None, dry_run=True,
            allow_unsatisfiable=False, code=code,
        )  # fmt: skip
        if checked.preview is None:
            raise Unavailable("The job is fine, but the queue can't be asked now; try again soon.")
        return checked.preview

    async def _may_wait(self, account: Account) -> None:
        """Nothing if one more task of the account would be taken, or nobody can be asked.

        Raises:
            TooManyWaiting: it would not.
        """
        try:
            await self._services.jobs.call(
                "CheckWaiting", jm.CheckWaitingRequest(owner=account.name, tasks=1), deadline_s=ACT_S
            )
        except Unavailable as error:
            log.warning("preview.waiting_not_checked", reason=error.message)

    async def _preview(
        self,
        account: Account,
        found: job_file.ExaminedJobFile,
        pins: Pins,
        reply: jm.SubmitJobReply,
        allow_unsatisfiable: bool,
    ) -> schemas.Preview | None:
        """Nothing where the queue can't be asked: a check must not fail for want of a preview."""
        try:
            return await preview.of_job(
                self._services, account.name, found.priority, found.parts, pins, reply.order,
                allow_unsatisfiable=allow_unsatisfiable,
            )  # fmt: skip
        except HeadwayError as error:
            log.warning("submit.no_preview", reason=error.message)
            return None

    async def _known(self, header: jm.JobHeader, found: job_file.ExaminedJobFile) -> schemas.Submitted | None:
        asked = jm.JobHeader()
        asked.CopyFrom(header)
        asked.known_only = True
        reply = await self._send(asked, (), Pins())
        if not reply.job_id:
            return None
        return schemas.Submitted(
            id=reply.job_id,
            name=found.name,
            task_count=found.task_count,
            dry_run=False,
            already_known=True,
            order=[],
            warnings=[],
        )

    async def _hand_over(
        self, account: Account, header: jm.JobHeader, found: job_file.ExaminedJobFile, pins: Pins
    ) -> jm.SubmitJobReply:
        """To JobManager, while nobody can delete what the job needs."""
        refs = pins.refs(account.name, found.wanted)
        if header.dry_run or not refs:
            if not header.dry_run:
                await self._before_it_counts()
            return await self._send(header, found.parts, pins)
        await self._uses.hold(header.request_id, account.name, refs)
        await self._before_it_counts()
        try:
            reply = await self._send(header, found.parts, pins)
        except HeadwayError as error:
            if _surely_refused(error):
                await self._uses.drop(header.request_id)
            raise
        if not reply.job_id:
            await self._uses.drop(header.request_id)
            return reply
        try:
            await self._uses.confirm(header.request_id, reply.job_id)
        except HeadwayError as error:
            # The job is taken; whose hold that was is found out by asking.
            log.warning("submit.hold_not_confirmed", job=reply.job_id, reason=error.message)
        return reply

    async def _problems(self, header: jm.JobHeader, found: job_file.ExaminedJobFile, pins: Pins) -> tuple[Problem, ...]:
        """What JobManager finds wrong; nothing where it can't be asked."""
        try:
            reply = await self._send(header, found.parts, pins)
        except Unavailable:
            return ()
        except HeadwayError as error:
            log.warning("submit.graph_not_checked", reason=str(error))
            return ()
        return tuple(convert.problem(problem) for problem in reply.problems)

    async def _all_problems(
        self,
        header: jm.JobHeader,
        found: job_file.ExaminedJobFile,
        data: bytes,
        media: Media,
        grants: job_file.Grants,
        changes: tuple[str, ...],
    ) -> tuple[Problem, ...]:
        # Known problems are reported even if JobManager can't be asked.
        more = await self._problems(header, found, Pins()) if found.parts else ()
        if not more:
            return found.problems
        return cast(
            "tuple[Problem, ...]",
            await self._run(header.owner.name, len(data), "all_problems", data, media, grants, more, (), "", changes),
        )

    async def _send(self, header: jm.JobHeader, parts: tuple[bytes, ...], pins: Pins) -> jm.SubmitJobReply:
        def messages() -> Iterator[jm.SubmitJobPart]:
            # The header goes with the first tasks: each message costs both sides as much as many tasks.
            for number, packed in enumerate(parts or (b"",)):
                part = jm.SubmitJobPart.FromString(packed)
                for task in part.tasks:
                    pins.put_into(task)
                if number == 0:
                    part.header.CopyFrom(header)
                yield part

        reply: jm.SubmitJobReply = await self._services.jobs.upload(
            "SubmitJob", messages, deadline_s=SUBMIT_S, request_id=header.request_id
        )
        return reply

    async def _run(self, turn: str, size: int, name: str, *args: Any) -> Any:
        if size <= _INLINE_BYTES:
            return await asyncio.to_thread(getattr(job_file, name), *args)
        return await self._process.call(name, *args, turn=turn)


def _media(content_type: str) -> Media:
    name = content_type.partition(";")[0].strip().lower()
    if name not in _MEDIA:
        raise UnsupportedMedia(
            f"A job file comes as application/yaml or application/json, not {name[:80]!r}: set Content-Type."
        )
    return _MEDIA[name]


def _surely_refused(error: HeadwayError) -> bool:
    # Another job has this request id: what is held under it may be that job's.
    refused = isinstance(error, InvalidInput | Conflict | StoreFull | TooManyWaiting)
    return refused and not isinstance(error, IdempotencyMismatch)


def _refusal(problems: tuple[Problem, ...]) -> HeadwayError:
    if all(_OF_THE_CLUSTER.fullmatch(problem.pointer) for problem in problems):
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return Unsatisfiable(f"{problems[0].message}{rest}", problems=problems)
    refusal: JobFileInvalid = invalid(problems)
    return refusal
