"""`logs`: where its lines go, in which order, and how many from the end."""

from __future__ import annotations

import os
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headway.cli import log_output, logs
from headway.cli.log_output import LogOutput
from headway.cli.log_tail import Tail, TailType, begin_of
from headway.cli.main import cli
from headway.client import Refused
from headway.errors import InvalidInput

LOGS = {"stdout": b"one\nthree\nno end", "stderr": b"two\nfour\n", "both": b"one\ntwo\nthree\nfour\nno end"}


class Server:
    """Two tasks that wrote alike."""

    old = False

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    meant = staticmethod(lambda ref: ref)
    patiently = staticmethod(lambda call: call())

    def job(self, _id: str, **_: Any) -> dict[str, Any]:
        return {"tasks": [{"name": "a"}, {"name": "b"}]}

    def task(self, _job: str, _name: str) -> dict[str, Any]:
        return {"attempt": 1, "state": "SUCCEEDED"}

    def log_places(self, _job: str, _name: str, *, attempt: Any, stream: str, tail: int = 0, offset: int = 0) -> Any:
        if self.old and stream == "both":
            raise Refused("no such stream", kind=InvalidInput, status=422, request_id="", problems=())
        begin = max(0, len(LOGS[stream]) - tail) if tail else offset
        yield begin, LOGS[stream][begin:]

    def follow_log(self, _job: str, _name: str, *, attempt: Any, stream: str, offset: int = 0) -> Any:
        for _, data in self.log_places(_job, _name, attempt=attempt, stream=stream, offset=offset):
            yield data


class OldServer(Server):
    old = True


@pytest.fixture
def one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "in_one_place", lambda: True)
    monkeypatch.setattr(log_output, "in_one_place", lambda: True)


def printed(monkeypatch: pytest.MonkeyPatch, *words: str, server: type[Server] = Server) -> Any:
    monkeypatch.setattr(logs, "client", server)
    result = CliRunner().invoke(cli, ["logs", *words])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.usefixtures("one_place")
@pytest.mark.parametrize("how", [(), ("-f",)])
def test_in_one_place_both_streams_come_in_the_order_of_time(monkeypatch, how):
    if not how:
        assert printed(monkeypatch, "j1/a").stdout_bytes == LOGS["both"]
        return
    monkeypatch.setattr(Server, "job", lambda *_a, **_k: {"state": "SUCCEEDED", "tasks": []})
    assert printed(monkeypatch, *how, "j1/a").stdout_bytes == LOGS["both"]


def test_in_two_places_each_stream_is_as_the_task_wrote_it(monkeypatch):
    result = printed(monkeypatch, "j1/a")
    assert (result.stdout_bytes, result.stderr_bytes) == (LOGS["stdout"], LOGS["stderr"])


@pytest.mark.usefixtures("one_place")
@pytest.mark.parametrize("tail", ["--tail=2", "--tail-bytes=11", "--tail=11B"])
def test_a_tail_is_of_both_streams_together(monkeypatch, tail):
    assert printed(monkeypatch, tail, "j1/a").stdout_bytes == b"four\nno end"


@pytest.mark.usefixtures("one_place")
def test_an_older_server_sends_one_stream_after_the_other_each_on_its_own_lines(monkeypatch):
    result = printed(monkeypatch, "j1/a", server=OldServer)
    assert result.stdout_bytes + result.stderr_bytes == b"one\nthree\nno end\ntwo\nfour\n"


@pytest.mark.usefixtures("one_place")
def test_a_heading_begins_on_a_line_of_its_own(monkeypatch):
    result = printed(monkeypatch, "j1")
    assert result.stderr == "==> a <==\n\n==> b <==\n"


def test_a_line_without_an_end_is_ended_before_another_log_with_times(capfdbinary):
    for exact, want in ((True, b"eb"), (False, b"e\nb")):
        output = LogOutput(exact=exact)
        output.write("stdout", ("a", "stdout"), b"e")
        output.write("stdout", ("b", "stdout"), b"b")
        assert capfdbinary.readouterr().out == want


def test_one_place_is_seen_by_what_the_descriptors_lead_to(capfd, monkeypatch):
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "w") as out, open(os.devnull, "w") as err:
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        assert not log_output.in_one_place()
        monkeypatch.setattr("sys.stderr", out)
        assert log_output.in_one_place()


@pytest.mark.parametrize("log", [b"", b"a", b"a\n", b"a\nbb\n\nc", b"\n\n", b"x" * 70_000 + b"\ny\n" * 3])
@pytest.mark.parametrize("lines", [0, 1, 2, 3, 9])
def test_the_last_lines_are_those_of_tail(log, lines):
    def read(count: int) -> Any:
        begin = max(0, len(log) - count)
        yield from ((at, log[at : at + 7]) for at in range(begin, len(log), 7))

    begin, within = begin_of(read, Tail(lines=lines))
    want = b"".join(log.splitlines(keepends=True)[-lines:]) if lines else b""
    assert (log[begin:], within) == (want, False)


def test_the_last_bytes_tell_whether_they_begin_within_a_line():
    log = b"ab\ncd\n"
    read = lambda count: [(max(0, len(log) - count), log[max(0, len(log) - count) :])]  # noqa: E731
    found = [begin_of(read, Tail(size_bytes=count)) for count in range(7)]
    assert found == [(6, False), (5, True), (4, True), (3, False), (2, True), (1, True), (0, False)]
    assert TailType().convert("64KiB", None, None) == Tail(size_bytes=65_536)
    for wrong in ("-1", "x", "", "3 parsecs"):
        with pytest.raises(click.BadParameter, match="lines such as 200"):
            TailType().convert(wrong, None, None)
