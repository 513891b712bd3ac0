"""logs: print, follow, fetch as an archive."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..backoff import Backoff
from ..client import Client, Refused
from ..errors import HeadwayError
from ..states import TASK_ENDED
from .common import Reference, ReferenceType, client, whole_file
from .log_output import LogOutput, in_one_place
from .log_tail import Tail, TailType, begin_of
from .log_times import Stamper, stamper

BOTH = "both"


@click.command()
@click.argument("reference", type=ReferenceType(3))
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the end.")
@click.option(
    "--stream",
    type=click.Choice(["stdout", "stderr", "both", "platform"]),
    default="both",
    show_default=True,
    help="What to print; platform is Headway's own log of the task.",
)
@click.option("--tail", type=TailType(), help="Print only so many lines from the end, or a size such as 64KiB.")
@click.option("--tail-bytes", type=click.IntRange(0), help="Print only so many bytes from the end.")
@click.option("-t", "--timestamps", is_flag=True, help="Put before each line when it came (UTC).")
@click.option("--zip", "archive", type=click.Path(path_type=Path), help="Write all logs of the job to this ZIP file.")
def logs(
    reference: Reference,
    follow: bool,
    stream: str,
    tail: Tail | None,
    tail_bytes: int | None,
    timestamps: bool,
    archive: Path | None,
) -> None:
    """Print the log of a task (ID/TASK), or of every task of a job (ID).

    Where standard output and standard error lead to the same place, both of the task's streams come in the order of
    time. Otherwise each goes to its own, byte for byte. A line whose time nobody knows has blanks in its place, with
    -t.
    """
    if timestamps and stream == "platform":
        raise click.UsageError("Headway's own log has times in its lines: leave out -t.")
    if timestamps and archive is not None:
        raise click.UsageError("An archive holds the logs byte for byte: leave out -t.")
    if tail is not None and tail_bytes is not None:
        raise click.UsageError("--tail and --tail-bytes say the same in two ways: leave out one.")
    if tail_bytes is not None:
        tail = Tail(size_bytes=tail_bytes)
    with client() as http:
        reference = replace(reference, job=http.meant(reference.job))
        if archive is not None:
            _write_archive(http, reference, archive)
            return
        names = [reference.task]
        if not reference.task:
            names = [task["name"] for task in http.job(reference.job, attempts=False)["tasks"]]
        streams = ["stdout", "stderr"] if stream == "both" else [stream]
        if follow:
            follow_tasks(
                http, reference.job, names, streams, attempt=reference.attempt, timestamps=timestamps, tail=tail
            )
            return
        output = LogOutput(exact=not timestamps)
        for name in names:
            if len(names) > 1:
                output.heading(f"==> {name} <==")
            # Bytes and times are two calls, and so are the streams: all must be of one attempt.
            attempt: int | str = reference.attempt
            if attempt == "latest" and (timestamps or tail is not None):
                attempt = http.task(reference.job, name)["attempt"] or attempt
            printed = functools.partial(_print_log, http, output, reference.job, name, attempt, tail, timestamps)
            try:
                _merged_or_each(streams, printed)
            except Refused as refused:
                # A task that has not started has no log; asked for by name that is an answer, among all it is not.
                if refused.status != 404 or reference.task:
                    raise


def _merged_or_each(streams: list[str], call: Callable[[str], None]) -> None:
    """Calls for the log of both streams in the order of time where they are printed in one place."""
    if len(streams) > 1 and in_one_place():
        try:
            call(BOTH)
            return
        except Refused as refused:
            if refused.status not in (400, 422):  # an older server, which does not know it
                raise
    for one in streams:
        call(one)


def _print_log(
    http: Client,
    output: LogOutput,
    job_id: str,
    name: str,
    attempt: int | str,
    tail: Tail | None,
    timestamps: bool,
    stream: str,
) -> None:
    begin, within = _begin(http, job_id, name, attempt, stream, tail)
    where = {"offset": begin} if begin else {}
    stamped: Stamper | None = None
    try:
        for at, data in http.log_places(job_id, name, attempt=attempt, stream=stream, **where):
            if timestamps and stamped is None:
                stamped = stamper(http, job_id, name, attempt, stream, at, within=within)
            output.write(stream, (name, stream), stamped.of(data) if stamped else data)
    except Refused as refused:
        if refused.status != 416:  # nothing is behind the place where the tail begins
            raise


def _begin(
    http: Client, job_id: str, name: str, attempt: int | str, stream: str, tail: Tail | None
) -> tuple[int, bool]:
    if tail is None:
        return 0, False
    return begin_of(lambda count: http.log_places(job_id, name, attempt=attempt, stream=stream, tail=count), tail)


def _write_archive(http: Client, reference: Reference, archive: Path) -> None:
    with whole_file(archive) as file:
        total = http.logs_zip(reference.job, file)
    click.echo(f"{archive}: {total} bytes", err=True)


def follow_tasks(
    http: Client,
    job_id: str,
    names: list[str],
    streams: list[str],
    *,
    attempt: str = "latest",
    timestamps: bool = False,
    tail: Tail | None = None,
) -> dict[str, Any]:
    """Streams the logs of these tasks until all of them have ended; returns the job as it is then.

    With ``tail`` it begins with the end of the attempt that is the latest now. With several tasks each whole line is
    led by the task's name. Every attempt of a task is shown, one after another, unless one is named. Raises what the
    client raises, and OSError as soon as nobody reads the output any more.
    """
    failures: list[Exception] = []
    several = len(names) > 1
    output = LogOutput(exact=not timestamps)
    followers = [
        _Follower(
            http, job_id, name, streams, attempt, failures, output, prefix=several, timestamps=timestamps, tail=tail
        )
        for name in names
    ]
    threads = [threading.Thread(target=_guarded(f.run, failures), daemon=True) for f in followers]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)  # a join without limit would swallow Ctrl-C
            for failure in failures:
                if isinstance(failure, OSError):
                    raise failure
    if failures:
        raise failures[0]
    return http.job(job_id)


def follow_while_read(http: Client, job_id: str, names: list[str]) -> None:
    """As ``follow_tasks``, of both streams. A reader that has enough, as in `headway run … | head`, ends the printing
    and not the job: who called waits for its end."""
    try:
        follow_tasks(http, job_id, names, ["stdout", "stderr"])
    except BrokenPipeError:
        nobody_reads()


def nobody_reads() -> None:
    """Standard output leads nowhere from now on, so that what is still buffered fails nothing at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _guarded(work: Callable[[], None], failures: list[Exception]) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        except (HeadwayError, OSError) as error:
            failures.append(error)

    return run


class _Follower:
    """Prints one task's logs, attempt after attempt."""

    def __init__(
        self,
        http: Client,
        job_id: str,
        name: str,
        streams: list[str],
        attempt: str,
        failures: list[Exception],
        output: LogOutput,
        *,
        prefix: bool,
        timestamps: bool,
        tail: Tail | None,
    ) -> None:
        self.http = http
        self.job_id = job_id
        self.name = name
        self.streams = streams
        self.attempt = attempt
        self.failures = failures
        self.prefix = f"{name} | ".encode() if prefix else b""
        self.timestamps = timestamps
        self.output = output
        self.tail = tail

    def run(self) -> None:
        if self.attempt != "latest":
            self._attempt(int(self.attempt))
            return
        number = 0
        pauses = Backoff(0.1, 2.0, factor=1.5)
        task = self._task()
        if self.tail is not None:
            number = max(0, task["attempt"] - 1)
        while True:
            if task["attempt"] > number:
                for unseen in range(number + 1, task["attempt"] + 1):
                    self._attempt(unseen)
                number = task["attempt"]
                pauses.reset()
                task = self.http.patiently(self._task)
                continue
            if task["state"] in TASK_ENDED:
                return
            time.sleep(pauses.next_s())
            task = self.http.patiently(self._task)

    def _task(self) -> dict[str, Any]:
        return self.http.task(self.job_id, self.name)

    def _attempt(self, number: int) -> None:
        tail, self.tail = self.tail, None
        if len(self.streams) > 1 and in_one_place():
            # An older server does not know it, and refuses before the first byte.
            try:
                self._stream(number, BOTH, tail)
                return
            except Refused as refused:
                if refused.status not in (400, 422):
                    raise
        threads = [
            threading.Thread(
                target=_guarded(functools.partial(self._stream, number, s, tail), self.failures), daemon=True
            )
            for s in self.streams
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _stream(self, number: int, stream: str, tail: Tail | None) -> None:
        rest = b""
        of = (self.name, number, stream)
        try:
            begin, within = _begin(self.http, self.job_id, self.name, number, stream, tail)
            stamped = (
                stamper(self.http, self.job_id, self.name, number, stream, begin, within=within)
                if self.timestamps
                else None
            )
            where = {"offset": begin} if begin else {}
            for piece in self.http.follow_log(self.job_id, self.name, attempt=number, stream=stream, **where):
                data = stamped.of(piece) if stamped else piece
                if not self.prefix:
                    self.output.write(stream, of, data)
                    continue
                *lines, rest = (rest + data).split(b"\n")
                if lines:
                    self.output.write(stream, of, b"".join(self.prefix + line + b"\n" for line in lines))
        except Refused as refused:
            if stream == BOTH and refused.status in (400, 422):
                raise
            if refused.status != 404:  # the attempt never got as far as a log
                self.output.heading(f"headway: {self.name}: {refused.message}")
        if rest:
            self.output.write(stream, of, self.prefix + rest + b"\n")
