"""Made-up workloads for benchmarks and tests. The same seed gives the same tasks."""

from __future__ import annotations

import random

from .trace_records import TraceRecord


def paper_queue(seed: int, *, tasks: int = 20, mean_gap_s: float = 25.0) -> list[TraceRecord]:
    """The workload of the paper (docs/scheduling.md): tasks of one GPU whose timeouts are their run times.

    Gaps between submissions are exponential with a mean of ``mean_gap_s`` seconds. log10 of the run time is uniform in
    [1, 3].
    """
    chance = random.Random(seed)
    records, now = [], 0.0
    for i in range(tasks):
        runtime_s = 10.0 ** chance.uniform(1.0, 3.0)
        records.append(_record(i, now, runtime_s, runtime_s, gpus=1))
        now += chance.expovariate(1.0 / mean_gap_s)
    return records


def busy_cluster(seed: int, *, tasks: int, gpus: int, load: float = 0.8, users: int = 20) -> list[TraceRecord]:
    """A mixed workload for a cluster of so many GPUs.

    Most tasks take one GPU, some 2, 4 or 8. Timeouts are 1 to 4 times the run times. ``load`` is the share of the GPUs'
    time that all tasks together need.
    """
    chance = random.Random(seed)
    drafts = []
    for _ in range(tasks):
        runtime_s = 10.0 ** chance.uniform(1.0, 4.0)
        wanted = chance.choices((1, 2, 4, 8), weights=(80, 12, 5, 3))[0]
        drafts.append((runtime_s, runtime_s * chance.uniform(1.0, 4.0), wanted, chance.randrange(users)))
    gap_s = sum(runtime_s * wanted for runtime_s, _, wanted, _ in drafts) / (gpus * load * tasks)
    records, now = [], 0.0
    for i, (runtime_s, timeout_s, wanted, user) in enumerate(drafts):
        records.append(_record(i, now, runtime_s, timeout_s, gpus=wanted, user=f"u{user}"))
        now += chance.expovariate(1.0 / gap_s)
    return records


def _record(
    number: int, submit_s: float, runtime_s: float, timeout_s: float, *, gpus: int, user: str = ""
) -> TraceRecord:
    return TraceRecord(
        label=str(number),
        where=f"generated, row {number + 1}",
        row=number,
        submit_s=submit_s,
        runtime_s=runtime_s,
        timeout_s=timeout_s,
        gpus=gpus,
        user=user,
    )
