"""Usage and past runs as messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from headway.rpc import convert
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import task_manager_pb2 as pb

from ..engine.usage import PastRunRow, UsageSummary, UsageSums


def usage(found: UsageSummary) -> pb.GetUsageReply:
    rows = [
        pb.GetUsageReply.Row(key=row.key, sums=_sums(row.sums), job_name=row.job_name, owner=row.owner)
        for row in found.rows
    ]
    return pb.GetUsageReply(rows=rows, rows_in_all=found.rows_in_all, total=_sums(found.total))


def _sums(sums: UsageSums) -> pb.UsageSums:
    return pb.UsageSums(**asdict(sums))


def runs(found: Iterable[PastRunRow]) -> pb.ListRunsReply:
    return pb.ListRunsReply(runs=[_run(run) for run in found])


def _run(run: PastRunRow) -> pb.PastRun:
    return pb.PastRun(
        attempt=convert.attempt_to_pb(run.attempt),
        owner=run.owner,
        queued_at=run.queued_at,
        run_s=run.run_s,
        timeout_s=run.timeout_s,
        resources=common_pb2.Resources(
            cpu_centi=run.cpu_centi, memory_bytes=run.memory_bytes, gpus=run.gpus, gpu_models=run.gpu_models
        ),
        priority=run.priority,
        timed_out=run.timed_out,
    )
