"""Rows of ``use_holds`` in memory, found by thing, by job and by request. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from .store import UseHold

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """A thing that jobs need."""

    kind: str  # image | dataset | code
    key: str  # digest | name@version | account/sha256:…


_Key = tuple[str, Ref]


class HoldIndex:
    """See the module. A row is known by its request and its thing; putting it again replaces it."""

    def __init__(self) -> None:
        self._rows: dict[_Key, UseHold] = {}
        self._of_ref: defaultdict[Ref, set[_Key]] = defaultdict(set)  # without the ended ones
        self._of_job: defaultdict[str, set[_Key]] = defaultdict(set)
        self._of_request: defaultdict[str, set[_Key]] = defaultdict(set)

    def put(self, row: UseHold) -> None:
        """Adds or replaces."""
        key = _key(row)
        self._rows[key] = row
        self._of_request[row.request_key].add(key)
        if row.job_id is not None:
            self._of_job[row.job_id].add(key)
        if row.ended_at is None:
            self._of_ref[key[1]].add(key)
        else:
            _discard(self._of_ref, key[1], key)

    def remove(self, row: UseHold) -> None:
        """Forgets it."""
        key = _key(row)
        del self._rows[key]
        _discard(self._of_ref, key[1], key)
        _discard(self._of_request, row.request_key, key)
        if row.job_id is not None:
            _discard(self._of_job, row.job_id, key)

    def has(self, request_key: str, ref: Ref) -> bool:
        """Whether the request has a row for it, ended or not."""
        return (request_key, ref) in self._rows

    def of_ref(self, ref: Ref) -> list[UseHold]:
        """Rows that have not ended."""
        return self._found(self._of_ref, ref)

    def of_job(self, job_id: str, *, ended: bool) -> list[UseHold]:
        """Rows of the job that have, or have not, ended."""
        return [row for row in self._found(self._of_job, job_id) if (row.ended_at is not None) == ended]

    def open(self, request_key: str) -> list[UseHold]:
        """Rows of the request that are no job's yet."""
        return [row for row in self._found(self._of_request, request_key) if row.job_id is None]

    def unconfirmed(self, before: float) -> list[tuple[str, str, float]]:
        """Requests that hold something since ``before`` and are no job's yet: key, account, time."""
        rows = [row for row in self._rows.values() if row.job_id is None and row.held_at <= before]
        return list({row.request_key: (row.request_key, row.account, row.held_at) for row in rows}.values())

    def needs(self, job_id: str, ref: Ref) -> bool:
        """Whether the job has a row for it, ended or not."""
        return any(key[1] == ref for key in self._of_job.get(job_id, ()))

    def needing(self) -> list[str]:
        """Ids of jobs that have rows which have not ended."""
        return [job_id for job_id in self._of_job if self.of_job(job_id, ended=False)]

    def ended_before(self, before: float) -> list[UseHold]:
        """Rows that ended before."""
        return [row for row in self._rows.values() if row.ended_at is not None and row.ended_at < before]

    def _found(self, index: defaultdict[K, set[_Key]], at: K) -> list[UseHold]:
        return [self._rows[key] for key in index.get(at, ())]


def ref_of(row: UseHold) -> Ref:
    """What it holds."""
    return Ref(row.kind, row.key)


def refs_of(rows: Iterable[UseHold]) -> list[Ref]:
    """What they hold, each once, in order."""
    return sorted({ref_of(row) for row in rows})


def _key(row: UseHold) -> _Key:
    return row.request_key, ref_of(row)


def _discard(index: defaultdict[K, set[V]], at: K, value: V) -> None:
    index[at].discard(value)
    if not index[at]:
        del index[at]
