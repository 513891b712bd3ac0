"""What all machines of a cluster have in common in their headway.toml. Pure."""

from __future__ import annotations

from typing import Any

from ..config import ClusterSection, HeadwayConfig

# A machine's own affair, or a secret.
_OWN = frozenset({"token", "token_file", "trust_dir", "state_dir"})


def shared_settings(config: HeadwayConfig) -> dict[str, Any]:
    """Keys such as `cluster.mount` with their values: what differs from the defaults, and where the services are."""
    cluster, default = config.cluster, ClusterSection()
    found = {
        f"cluster.{key}": getattr(cluster, key)
        for key in ClusterSection.model_fields
        if key not in _OWN and (key in ("name", "mount") or getattr(cluster, key) != getattr(default, key))
    }
    peers = config.peers
    for key in ("http_server", "job_manager", "task_manager", "resource_manager"):
        found[f"peers.{key}"] = getattr(peers, key)
    return found
