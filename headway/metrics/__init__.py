"""The numbers of one process, as Prometheus reads them. docs/interfaces.md names them all.

    metrics = open_metrics(service, settings.metrics_listen)     # None: nobody looks, so nothing is counted
    db = await Database.open(url, room="job_manager", numbers=metrics.database if metrics else None)
    server = RpcServer(service, bind=bind, token=token, numbers=metrics.rpc if metrics else None)
    if metrics is not None:
        metrics.watch_inbox("jobs", jobs.inbox)
        metrics.watch_outbox(pump)

No label holds what users name, so the number of series does not grow with the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..lifecycle import Service
    from .process import Metrics


def open_metrics(service: Service, listen: str) -> Metrics | None:
    """The numbers of a process that shows them at ``listen`` (HOST:PORT), or None where that is empty.

    Then the library is not even imported: a process that nobody looks at pays nothing.
    """
    if not listen:
        return None
    from .endpoint import MetricsEndpoint
    from .process import Metrics

    metrics = Metrics(service)
    MetricsEndpoint(service, metrics, listen)
    return metrics
