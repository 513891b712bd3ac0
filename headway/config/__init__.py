"""One `headway.toml` for all services, `HEADWAY_<SERVICE>__<KEY>` over it.

    loaded = load(Path("/etc/headway/headway.toml"))
    loaded.config.cluster.lease_s                 # 120.0
    loaded.sources["cluster.lease_s"]             # "default", "headway.toml:7", "HEADWAY_CLUSTER__LEASE_S"

Every value is checked, alone and against the others, before any service starts. All problems come in one
`ConfigInvalid`, one sentence each, with file, line and key.
"""

from .loading import LoadedConfig, default_path, default_state, load
from .sections import (
    ClusterSection,
    HeadwayConfig,
    HttpServerSection,
    JobManagerSection,
    LimitsSection,
    LogSection,
    PeersSection,
    ResourceManagerSection,
    TaskManagerSection,
    WorkerSection,
)
from .values import METADATA, NEVER_REACHED, PRIVATE, split_address, split_reach

__all__ = [
    "METADATA",
    "NEVER_REACHED",
    "PRIVATE",
    "ClusterSection",
    "HeadwayConfig",
    "HttpServerSection",
    "JobManagerSection",
    "LimitsSection",
    "LoadedConfig",
    "LogSection",
    "PeersSection",
    "ResourceManagerSection",
    "TaskManagerSection",
    "WorkerSection",
    "default_path",
    "default_state",
    "load",
    "split_address",
    "split_reach",
]
