"""Makes the parts of the data market."""

from __future__ import annotations

from headway.clock import Clock
from headway.lifecycle import Service
from headway.mount import Layout, MountProbe
from headway.store import Database

from ..auth.accounts import Accounts
from ..auth.groups import Groups
from ..peers.clients import ServiceClients
from ..uses.service import Uses
from . import store
from .live_tasks import JobManagerRunningTasks
from .ports import QuotaCheck
from .publisher import DatasetPublisher
from .service import Datasets
from .source_folder import DatasetLimits


def build(
    service: Service,
    db: Database,
    clock: Clock,
    layout: Layout,
    mount: MountProbe,
    accounts: Accounts,
    services: ServiceClients,
    groups: Groups,
    uses: Uses,
    room: QuotaCheck,
    *,
    max_files: int,
) -> Datasets:
    """Registered with ``service``."""
    limits = DatasetLimits(files=max_files)
    publisher = DatasetPublisher(
        db, clock, layout, mount, accounts, JobManagerRunningTasks(services), uses, room, limits
    )
    service.side_task("datasets", publisher.run)
    service.on_stop(publisher.close)
    groups.when_deleted(store.drop_group)
    accounts.when_removed(store.drop_account)
    return Datasets(db, clock, mount, accounts, groups, uses, publisher)
