"""What the routes call, put together by app.py and by tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.clock import Clock

    from .auth.accounts import Accounts
    from .auth.groups import Groups
    from .cluster.queue_and_nodes import Cluster
    from .cluster.usage import UsageDesk
    from .code.service import Code
    from .datasets.service import Datasets
    from .files.homes import Homes
    from .files.quotas import Spaces
    from .files.service import Files
    from .files.trash import Trash
    from .jobs.service import Jobs
    from .jobs.submit import Submit
    from .logs.service import Logs
    from .market.service import Market
    from .market.upload_target import ImageTarget
    from .needs.pinning import Pinning
    from .peers.hub import Hub
    from .peers.readiness import Readiness
    from .registries.service import Registries
    from .settings import Settings
    from .uploads.service import Uploads
    from .uses.service import Uses


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the running service."""

    settings: Settings
    clock: Clock
    accounts: Accounts
    submit: Submit
    jobs: Jobs
    logs: Logs
    cluster: Cluster
    homes: Homes
    files: Files
    spaces: Spaces
    trash: Trash
    datasets: Datasets
    code: Code
    uses: Uses
    groups: Groups
    market: Market
    image_target: ImageTarget
    uploads: Uploads
    usage: UsageDesk
    registries: Registries
    pinning: Pinning
    hub: Hub
    readiness: Readiness
