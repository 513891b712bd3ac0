"""Files of other tools are named for what they are, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.cli import foreign
from headway.cli.main import cli
from headway.errors import JobFileInvalid

SLURM = """\
#!/bin/bash -l
#SBATCH --job-name=train
#SBATCH --gres=gpu:a100:2
#SBATCH -t 1:30:00
#SBATCH --cpus-per-task=4 --mem=16G
#SBATCH -p gpu # comment
##SBATCH --mem=99G

srun python t.py
#SBATCH --time=9
"""
RUN = (
    "headway run --code . --name train --gpus 2 --gpu-model A100 --timeout 1h30m --cpus 4 --memory 16GiB -- bash job.sh"
)


@pytest.mark.parametrize(
    "words", [["submit"], ["sbatch"], ["srun"], ["qsub"], ["queue", "preview"], ["submit", "--dry-run"], ["bash"]]
)
def test_a_script_for_slurm_is_told_as_the_run_that_it_means(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text(SLURM)
    error = CliRunner().invoke(cli, [*words, "job.sh"]).exception
    assert isinstance(error, JobFileInvalid)
    assert str(error) == (
        f"job.sh is a shell script for Slurm, not a job file. Run it: `{RUN}`. Its --partition has no option there."
    )


def test_a_script_elsewhere_and_from_standard_input() -> None:
    assert "`headway run --code 'a b' -- sh 'x y.sh'`" in foreign.named(b"#!/bin/sh\n", "a b/x y.sh")
    assert "a script for python3, not a job file" in foreign.named(b"#!/usr/bin/env -S python3 -u\n", "x")
    assert "-- python3 t.py`" in foreign.named(b"import os\n", "t.py")
    said = CliRunner().invoke(cli, ["submit", "-"], input=SLURM).exception
    assert str(said).startswith("job.sh is a shell script for Slurm")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("services:\n  a:\n    image: x\n", "a Compose file"),
        ("version: '3'\nservices: {a: {image: x}}\n", "a Compose file"),
        ("type: task\ncommands: [a]\n", "a dstack file"),
        ("name: ci\non: [push]\njobs:\n  a: {}\n", "a GitHub workflow"),
        ('"on":\n  push:\njobs:\n  a: {}\n', "a GitHub workflow"),
        ("apiVersion: batch/v1\nkind: Job\n", "a Kubernetes manifest"),
        ("# x\nFROM a\n", "a Dockerfile"),
    ],
)
def test_a_file_of_another_tool_is_named(text: str, what: str) -> None:
    assert foreign.named(text.encode(), "f").startswith(f"f is {what}, not a job file")


@pytest.mark.parametrize(
    "text",
    [
        "#!/usr/bin/env -S headway submit\nversion: 1\ntasks: []\n",
        "version: 1\nname: services\ntasks:\n  - {name: a, command: '#SBATCH'}\n",
        "name: a\njobs: 3\n", "", "{", "\0\xff", "type: x\n",
    ],
)  # fmt: skip
def test_a_job_file_and_what_nobody_knows_go_to_the_server(text: str) -> None:
    for file in ("f.yaml", "-"):
        assert foreign.named(text.encode(errors="surrogateescape"), file) == ""
