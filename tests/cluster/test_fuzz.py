"""Random and broken calls of everything: nothing answers 500 or INTERNAL. `python -m benchmarks fuzz` takes longer."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz import findings
from tests.support.cluster import a_cluster


def test_nothing_that_comes_in_is_taken_for_a_fault_inside(tmp_path: Path) -> None:
    with a_cluster(tmp_path) as cluster:
        calls, over_http, over_rpc = findings(cluster, each=8, seed=20_261_129)
    assert calls > 600
    assert over_http == []
    assert over_rpc == []
