"""Puts the data market together."""

from __future__ import annotations

from headway.clock import Clock
from headway.lifecycle import Service
from headway.mount import Layout, MountProbe
from headway.store import Database

from ..auth.accounts import Accounts
from ..auth.groups import Groups
from ..peers.clients import Services
from ..uses.service import Uses
from . import store
from .live_tasks import RunningTasks
from .ports import HasRoom
from .publisher import Publisher
from .service import Datasets
from .source_folder import Limits


def build(
    service: Service,
    db: Database,
    clock: Clock,
    layout: Layout,
    mount: MountProbe,
    accounts: Accounts,
    services: Services,
    groups: Groups,
    uses: Uses,
    room: HasRoom,
    *,
    max_files: int,
) -> Datasets:
    """Registered with ``service``."""
    limits = Limits(files=max_files)
    publisher = Publisher(db, clock, layout, mount, accounts, RunningTasks(services), uses, room, limits)
    service.side_task("datasets", publisher.run)
    service.on_stop(publisher.close)
    groups.when_deleted(store.drop_group)
    return Datasets(db, clock, mount, accounts, groups, uses, publisher)
