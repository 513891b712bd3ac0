"""The parts of the service that the routes call. ``app`` and tests put them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.clock import Clock
    from headway.metrics.process import Metrics

    from .audit.log import AuditLog
    from .auth.accounts import Accounts
    from .auth.groups import Groups
    from .auth.sign_in_requests import SignInRequests
    from .cluster.queue_and_nodes import QueueAndNodes
    from .cluster.trust import Trust
    from .cluster.usage import UsageReports
    from .code.service import CodeSnapshots
    from .datasets.service import Datasets
    from .files.homes import Homes
    from .files.quotas import SpaceQuotas
    from .files.service import Files
    from .files.trash import Trash
    from .job_events.event_log import JobEventLog
    from .job_events.reading import EventReading
    from .jobs.account_jobs import AccountJobs
    from .jobs.account_removal import AccountRemoval
    from .jobs.gpu_holds import GpuHolds
    from .jobs.service import Jobs
    from .jobs.submit import Submit
    from .logs.job_folders import JobFolders
    from .logs.service import Logs
    from .market.service import ImageMarket
    from .market.upload_target import ImageUploadTarget
    from .metrics import HttpNumbers
    from .needs.pinning import Pinning
    from .peers.hub import PageEventHub
    from .provider.links import Links
    from .provider.service import ProviderSignIn
    from .readiness import Readiness
    from .registries.service import Registries
    from .samples.following import SampleFollowing
    from .samples.service import Samples
    from .secrets.service import Secrets
    from .settings import Settings
    from .uploads.service import Uploads
    from .uses.service import Uses


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the running service."""

    settings: Settings
    clock: Clock
    audit: AuditLog
    accounts: Accounts
    sign_in_requests: SignInRequests
    links: Links
    provider: ProviderSignIn | None
    account_jobs: AccountJobs
    removal: AccountRemoval
    submit: Submit
    gpu_holds: GpuHolds
    jobs: Jobs
    job_folders: JobFolders
    job_events: JobEventLog
    event_reading: EventReading
    logs: Logs
    samples: Samples
    sample_following: SampleFollowing
    cluster: QueueAndNodes
    trust: Trust
    homes: Homes
    files: Files
    spaces: SpaceQuotas
    trash: Trash
    datasets: Datasets
    code: CodeSnapshots
    uses: Uses
    groups: Groups
    market: ImageMarket
    image_target: ImageUploadTarget
    uploads: Uploads
    usage: UsageReports
    registries: Registries
    secrets: Secrets
    pinning: Pinning
    hub: PageEventHub
    readiness: Readiness
    metrics: Metrics
    numbers: HttpNumbers
