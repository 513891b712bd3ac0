"""The job files that people copy from."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.jobfile import check_job

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "deploy" / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_a_job_without_problems(path: Path) -> None:
    assert check_job(path.read_bytes()).problems == ()
