"""``headway run``: its own options stand first, and all from the command's first word on is the program's."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from headway.cli import slurm, submit
from headway.cli.main import cli


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The jobs that were sent."""
    sent: list[dict[str, Any]] = []

    class Nobody:
        def __enter__(self) -> Nobody:
            return self

        def __exit__(self, *error: object) -> None: ...

    def submitted(_http: object, job: dict[str, Any], _code: str) -> dict[str, Any]:
        sent.append(job)
        return {"id": "j0123456789abcdef", "warnings": []}

    monkeypatch.setattr(submit, "client", Nobody)
    monkeypatch.setattr(submit, "_submit_without_a_file", submitted)
    return sent


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["run", *words])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--gpu 1 -- x", "did you mean `--gpus`?"),
        ("--gpu_model A100 x", "did you mean `--gpu-model`?"),
        ("-gpus 1 x", "`-gpus` of `headway run`; did you mean `--gpus`?"),
        ("--timeuot 1h x", "did you mean `--timeout`?"),
        ("--time 2h -- x", "write `--timeout 2h`."),
        ("--time=1-12:30 x", "write `--timeout 1d12h30m`."),
        ("-t 90 x", "write `--timeout 1h30m`."),
        ("-it ubuntu bash", "`-it` of `headway run`: a job has no terminal"),
        ("-i -t ubuntu bash", "a job has no terminal"),
        ("--gres=gpu:1 python3", "write `--gpus 1`."),
        ("--gres gpu:a100:2 python3", "write `--gpus 2 --gpu-model A100`."),
        ("--mem 16G x", "write `--memory 16GiB`."),
        ("--mem=4000 x", "write `--memory 4000MiB`."),
        ("--mem=8GB x", "write `--memory 8GB`."),
        ("-c 4 x", "write `--cpus 4`."),
        ("-c4 x", "write `--cpus 4`."),
        ("-n 4 x", "one container on one machine"),
        ("-e A=1 x", "write `--env A=1`."),
        ("-v /a:/b x", "a task sees no folder of yours"),
        ("--rm x", "containers are always removed"),
        ("--quux x", "Options of your program stand behind its first word."),
    ],
)
def test_an_option_that_there_is_not_is_refused_with_what_was_meant(
    jobs: list[dict[str, Any]], words: str, told: str
) -> None:
    done = run("-d", *words.split())
    assert (done.exit_code, jobs) == (2, [])
    assert told in done.output


def test_all_from_the_first_word_on_goes_to_the_program(jobs: list[dict[str, Any]]) -> None:
    done = run("-d", "--image", "i", "python3", "train.py", "--gpus", "2", "--name=foo", "--unknown", "-x", "--", "--y")
    assert done.exit_code == 0, done.output
    (job,) = jobs
    (task,) = job["tasks"]
    assert task["command"] == ["python3", "train.py", "--gpus", "2", "--name=foo", "--unknown", "-x", "--", "--y"]
    assert (task["image"], task["resources"]["gpus"], job["name"]) == ("i", 0, " ".join(task["command"])[:60])
    assert done.stdout == "j0123456789abcdef\n"
    assert "note: `--gpus 2` and `--name=foo` went to your program; write options of" in done.stderr


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("x --gpus 2", "headway: note: `--gpus 2` went to your program; write it before the command to ask for "
                       "GPUs.\n"),
        ("x --ulimit", "headway: note: `--ulimit` went to your program; write it before the command to give `--ulimit` "
                       "to Headway.\n"),
        ("x --help", ""),
        ("-- x --gpus 2", ""),
        ("--gpus 1 x -y", ""),
    ],
)  # fmt: skip
def test_a_note_says_which_option_went_to_the_program(jobs: list[dict[str, Any]], words: str, note: str) -> None:
    done = run("-d", *words.split())
    assert done.exit_code == 0, done.output
    assert done.stderr == note


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("30", "30m"), ("90:30", "1h30m30s"), ("2:00:00", "2h"), ("1-0", "1d"), ("1-00:30", "1d30m"),
        ("0", ""), ("UNLIMITED", ""), ("9" * 400, ""),
    ],
)  # fmt: skip
def test_a_time_of_slurm_is_a_timeout(value: str, want: str) -> None:
    assert slurm.meaning("--time", value) == (f"--timeout {want}" if want else "")
