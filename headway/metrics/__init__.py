"""The numbers of one process, as Prometheus reads them. docs/interfaces.md names them all.

    metrics = Metrics(service)                                   # one a process, handed to whoever counts
    db = await Database.open(url, room="job_manager", numbers=metrics.database)
    server = RpcServer(service, bind=bind, token=token, numbers=metrics.rpc)
    metrics.watch_inbox("jobs", jobs.inbox)
    metrics.watch_outbox(pump)
    MetricsEndpoint(service, metrics, "127.0.0.1:9101")          # where `metrics_listen` says so

No label holds what users name, so the number of series does not grow with the work.
"""

from .endpoint import MetricsEndpoint
from .process import Metrics
from .shared import DatabaseNumbers, RpcNumbers

__all__ = ["DatabaseNumbers", "Metrics", "MetricsEndpoint", "RpcNumbers"]
