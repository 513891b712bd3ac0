"""`logs -t`: the time of each line, never a guessed one."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from headway.cli import logs
from headway.cli.log_times import LineClock, Stamper, stamp
from headway.cli.main import cli

DAY = 86_400.0


class Index:
    """Times of a log as a server tells them; each answer ends after so many marks."""

    def __init__(self, *marks: tuple[int, float | None], named: int, ended: bool = True, most: int = 100) -> None:
        self.marks, self.named, self.ended, self.most = marks, named, ended, most
        self.asked: list[int] = []

    def __call__(self, offset: int, length: int) -> dict[str, Any]:
        self.asked.append(offset)
        before = [mark for mark in self.marks if mark[0] <= offset][-1:]
        found = ([*before, *[mark for mark in self.marks if mark[0] > offset]])[: self.most + 1]
        end = found.pop()[0] if len(found) > self.most else self.named
        return {
            "offsets": [max(offset, at) for at, _ in found],
            "at": [at for _, at in found],
            "end": max(offset, min(end, offset + length)),
            "ended": self.ended,
        }


def test_a_time_is_as_docker_has_it_and_blank_where_nobody_knows() -> None:
    assert stamp(DAY + 1.0625) == b"1970-01-02T00:00:01.062Z "
    assert stamp(None) == b" " * len(stamp(0.0))


@pytest.mark.parametrize("most", [1, 2, 100])
def test_each_line_has_the_time_of_its_first_byte(most: int) -> None:
    log = b"one\n10%\r20%\r\n\nlast \xff"
    index = Index((0, None), (4, 1.0), (8, 2.0), (13, 3.5), named=len(log), most=most)
    want = stamp(None) + b"one\n" + stamp(1) + b"10%\r20%\r\n" + stamp(3.5) + b"\n" + stamp(3.5) + b"last \xff"
    for size in (1, 3, 100):
        stamper = Stamper(LineClock(index))
        assert b"".join(stamper.of(log[at : at + size]) for at in range(0, len(log), size)) == want
    assert Stamper(LineClock(index), 10).of(log[10:]).startswith(stamp(2.0) + b"%\r\n")


def test_a_log_that_grows_is_waited_for_and_one_without_an_index_not_at_each_line() -> None:
    index = Index((0, 1.0), named=4, ended=False)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            index.named = 8

    stamper = Stamper(LineClock(index, sleep=sleep))
    assert stamper.of(b"one\ntwo\n") == stamp(1) + b"one\n" + stamp(1) + b"two\n"
    assert len(slept) == 3
    blind = Index(named=0, ended=False)
    slept.clear()
    assert Stamper(LineClock(blind, sleep=slept.append)).of(b"a\n" * 50) == (stamp(None) + b"a\n") * 50
    assert sum(slept) < 2


def test_what_has_no_times_says_so() -> None:
    run = CliRunner().invoke(cli, ["logs", "-t", "--stream", "platform", "j1/a"])
    assert run.exit_code == 2
    assert "has times in its lines" in run.output


def test_each_stream_is_printed_with_its_own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        meant = staticmethod(lambda ref: ref)
        patiently = staticmethod(lambda call: call())

        def task(self, job: str, name: str) -> dict[str, Any]:
            return {"attempt": 2}

        def log_places(self, job: str, name: str, *, attempt: int, stream: str, tail: int = 0, offset: int = 0) -> Any:
            assert attempt == 2
            log = b"a text\nn\n" if stream == "stdout" else b"warn\n"
            begin = max(0, len(log) - tail) if tail else offset
            yield from ((at, log[at : at + 3]) for at in range(begin, len(log), 3))

        def log_times(self, job: str, name: str, **asked: Any) -> dict[str, Any]:
            assert asked["attempt"] == 2
            at = 1.0 if asked["stream"] == "stdout" else 2.0
            return {"offsets": [asked["offset"]], "at": [at], "end": 100, "ended": True}

    monkeypatch.setattr(logs, "client", Server)
    for tail, want in (
        ("--tail-bytes=5", b"xt\n" + stamp(1) + b"n\n"),
        ("--tail=1", stamp(1) + b"n\n"),
        ("--tail=0", b""),
    ):
        run = CliRunner().invoke(cli, ["logs", "-t", tail, "j1/a"])
        assert run.exit_code == 0, run.output
        assert run.stdout_bytes == want, "half a line has no time"
        assert run.stderr_bytes == (stamp(2) + b"warn\n" if want else b"")
