"""Log lines: one form, nothing secret, nothing forged."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from headway.logs import bound, get_logger, setup


class Lines:
    """What was logged."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def raw(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def last(self) -> dict[str, Any]:
        return dict(json.loads(self.raw[-1]))


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    lines = Lines()
    setup(service="job-manager", fmt="json", stream=lines.stream)
    yield lines
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    logging.raiseExceptions = before[2]
    logging.captureWarnings(False)


log = get_logger("job_manager.job_writer")


def test_a_line_is_one_json_object(lines: Lines) -> None:
    log.info("job.accepted", job="j1", tasks=3, waited_s=1.23456789)
    line = lines.last
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "info",
        "service": "job-manager",
        "event": "job.accepted",
        "job": "j1",
        "tasks": 3,
        "waited_s": 1.234568,
    }


def test_levels_below_are_not_written(lines: Lines) -> None:
    log.debug("noise")
    assert lines.raw == []
    assert not log.enabled("debug")


@pytest.mark.parametrize("name", ["token", "cluster_token", "password", "Authorization", "api_key", "session_cookie"])
def test_secrets_never_reach_a_line(lines: Lines, name: str) -> None:
    log.info("e", **{name: "geheim"}, nested={name: "geheim", "env": {"A": "geheim"}}, env={"KEY": "geheim"})
    assert "geheim" not in lines.raw[-1]
    assert lines.last["env"] == {"KEY": "[hidden]"}


def test_counts_of_tokens_are_no_secret(lines: Lines) -> None:
    log.info("e", tokens=3, tokenizer="bpe")
    assert (lines.last["tokens"], lines.last["tokenizer"]) == (3, "bpe")


def test_bound_ids_are_on_every_line_and_nest(lines: Lines) -> None:
    with bound(job="j1"):
        with bound(task="a"):
            log.info("inner")
        log.info("outer", job="j2")
    log.info("after")
    inner, outer, after = (json.loads(line) for line in lines.raw)
    assert (inner["job"], inner["task"]) == ("j1", "a")
    assert (outer["job"], "task" in outer) == ("j2", False)
    assert "job" not in after


async def test_bound_ids_follow_into_tasks_but_not_across(lines: Lines) -> None:
    async def work(name: str) -> None:
        with bound(task=name):
            await asyncio.sleep(0)
            log.info(name)

    with bound(job="j1"):
        await asyncio.gather(work("a"), work("b"))
    assert [(json.loads(line)["task"], json.loads(line)["job"]) for line in lines.raw] == [("a", "j1"), ("b", "j1")]


def test_an_error_brings_its_traceback(lines: Lines) -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        log.error("e", exc=error)
    assert "ValueError: why" in lines.last["traceback"]
    assert len(lines.raw) == 1


def test_odd_values_are_written_somehow(lines: Lines) -> None:
    class State(Enum):
        RUNNING = 1

    log.info("e", state=State.RUNNING, data=b"abc", path=ValueError("x"), ids={"a"}, long="y" * 10_000, event_="z")
    assert lines.last["state"] == "RUNNING"
    assert lines.last["data"] == "<3 bytes>"
    assert len(lines.last["long"]) < 5_000


def test_a_field_can_not_replace_the_event(lines: Lines) -> None:
    log.info("job.accepted", level="fatal", at=0)
    assert (lines.last["event"], lines.last["level"], lines.last["level_"]) == ("job.accepted", "info", "fatal")


def test_other_libraries_warnings_come_the_same_way(lines: Lines) -> None:
    logging.getLogger("sqlalchemy.pool").warning("pool %s", "full")
    assert (lines.last["event"], lines.last["logger"]) == ("pool full", "sqlalchemy.pool")


def test_text_can_not_forge_a_second_line(lines: Lines) -> None:
    setup(fmt="text", stream=lines.stream)
    log.info("job.accepted", name='evil"\n12:00:00 error  all.lost \x1b[2J\u202e\x9b', plain="digits")
    (line,) = lines.stream.getvalue().rstrip("\n").split("\n")
    assert "plain=digits" in line
    assert not any(ord(character) < 32 or character in "\x9b\u202e" for character in line)


def test_a_log_file_stays_bounded(lines: Lines, tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    setup(fmt="text", file=str(path), max_bytes=2_000)
    for number in range(500):
        log.info("step.done", number=number)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        "service.log", "service.log.1", "service.log.2", "service.log.3",
    ]  # fmt: skip
    assert sum(file.stat().st_size for file in files) <= 8_000
    assert "number=499" in path.read_text()
    assert path.read_text().startswith("20"), "lines in files carry the date"
