"""Datasets as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable

from ..auth.model import Account
from ..schemas import SharedWith, UsedBy
from ..uses.service import AccountUse, Ref, Uses
from . import schemas as s
from . import store
from .publisher import KIND, DatasetPublisher
from .store import Dataset, Version
from .unmanaged import UnmanagedDataset


def dataset(
    known: Dataset, account: Account, publisher: DatasetPublisher, uses: Uses, used_by: Iterable[AccountUse] = ()
) -> s.Dataset:
    """The dataset as this account may see it. Only those who may change it see unfinished and failed versions."""
    may_change = known.may_change(account)
    users, groups = sorted(known.users), sorted(known.groups)
    return s.Dataset(
        name=known.name,
        owner=known.owner,
        public=known.public,
        shared_with=SharedWith(users=users if may_change else [], groups=groups if may_change else []),
        description=known.description,
        created_at=known.created_at,
        may_change=may_change,
        versions=[
            _version(v, publisher, uses)
            for v in known.versions
            if v.state == store.READY or (may_change and v.state != store.DELETING)
        ],
        used_by=_together(used_by),
    )


def _version(row: Version, publisher: DatasetPublisher, uses: Uses) -> s.DatasetVersion:
    ready = row.state == store.READY
    return s.DatasetVersion(
        version=row.version,
        state=s.DatasetState(row.state),
        progress=None if row.state != store.PUBLISHING else publisher.progress(row.key) or 0.0,
        files=row.files if ready else None,
        size_bytes=row.size_bytes if ready else None,
        checksum=row.checksum if ready else None,
        method=row.method,  # type: ignore[arg-type]
        published_at=row.published_at,
        problem=row.problem or None,
        live_jobs=uses.live_in_memory(Ref(KIND, row.key)),
    )


def by_hand(found: UnmanagedDataset) -> s.Dataset:
    """Owned by nobody, seen by all."""
    return s.Dataset(
        name=found.name,
        owner="",
        public=True,
        shared_with=SharedWith(users=[], groups=[]),
        description="",
        created_at=min(at for _, at in found.versions),
        may_change=False,
        versions=[
            s.DatasetVersion(
                version=version,
                state=s.DatasetState.READY,
                progress=None,
                files=None,
                size_bytes=None,
                checksum=None,
                method="",
                published_at=at,
                problem=None,
                live_jobs=[],
            )
            for version, at in found.versions
        ],
        used_by=[],
    )


def _together(uses: Iterable[AccountUse]) -> list[UsedBy]:
    """Over all versions, the latest first."""
    jobs: dict[str, int] = {}
    last: dict[str, float] = {}
    for use in uses:
        jobs[use.account] = jobs.get(use.account, 0) + use.jobs
        last[use.account] = max(last.get(use.account, 0.0), use.last_used_at)
    return [UsedBy(account=a, jobs=jobs[a], last_used_at=last[a]) for a in sorted(last, key=lambda a: -last[a])]
