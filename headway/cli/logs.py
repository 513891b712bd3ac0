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
from typing import Any, BinaryIO

import click

from ..backoff import Backoff
from ..client import Client, Refused
from ..errors import HeadwayError
from ..states import TASK_ENDED
from .common import Reference, ReferenceType, client, whole_file
from .log_times import Stamper, stamper


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
@click.option("--tail", type=click.IntRange(0), help="Print only this many bytes, from the end.")
@click.option("-t", "--timestamps", is_flag=True, help="Put before each line when it came (UTC).")
@click.option("--zip", "archive", type=click.Path(path_type=Path), help="Write all logs of the job to this ZIP file.")
def logs(
    reference: Reference, follow: bool, stream: str, tail: int | None, timestamps: bool, archive: Path | None
) -> None:
    """Print the log of a task (ID/TASK), byte for byte, or of every task of a job (ID).

    Standard error of the task goes to standard error here. A line whose time nobody knows has blanks in its place, with
    -t.
    """
    if timestamps and stream == "platform":
        raise click.UsageError("Headway's own log has times in its lines: leave out -t.")
    if timestamps and archive is not None:
        raise click.UsageError("An archive holds the logs byte for byte: leave out -t.")
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
            follow_tasks(http, reference.job, names, streams, attempt=reference.attempt, timestamps=timestamps)
            return
        for name in names:
            if len(names) > 1:
                click.echo(f"==> {name} <==", err=True)
            # Bytes and times are two calls: both must be of one attempt.
            attempt: int | str = reference.attempt
            if timestamps and attempt == "latest":
                attempt = http.task(reference.job, name)["attempt"] or attempt
            for one in streams:
                try:
                    stamped: Stamper | None = None
                    for at, data in http.log_places(reference.job, name, attempt=attempt, stream=one, tail=tail):
                        if timestamps and stamped is None:
                            stamped = stamper(http, reference.job, name, attempt, one, at)
                        _write(_target(one), stamped.of(data) if stamped else data)
                except Refused as refused:
                    # A task that has not started has no log; asked for by name that is an answer, among all it is not.
                    if refused.status != 404 or reference.task:
                        raise
                    continue


def _write_archive(http: Client, reference: Reference, archive: Path) -> None:
    with whole_file(archive) as file:
        total = http.logs_zip(reference.job, file)
    click.echo(f"{archive}: {total} bytes", err=True)


def _target(stream: str) -> BinaryIO:
    return sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer


_print_lock = threading.Lock()


def _write(target: BinaryIO, data: bytes) -> None:
    with _print_lock:
        target.write(data)
        target.flush()


def follow_tasks(
    http: Client,
    job_id: str,
    names: list[str],
    streams: list[str],
    *,
    attempt: str = "latest",
    timestamps: bool = False,
) -> dict[str, Any]:
    """Streams the logs of these tasks until all of them have ended; returns the job as it is then.

    With several tasks each whole line is led by the task's name. Every attempt of a task is shown, one after another,
    unless one is named. Raises what the client raises, and OSError as soon as nobody reads the output any more.
    """
    failures: list[Exception] = []
    several = len(names) > 1
    followers = [
        _Follower(http, job_id, name, streams, attempt, failures, prefix=several, timestamps=timestamps)
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
        *,
        prefix: bool,
        timestamps: bool,
    ) -> None:
        self.http = http
        self.job_id = job_id
        self.name = name
        self.streams = streams
        self.attempt = attempt
        self.failures = failures
        self.prefix = f"{name} | ".encode() if prefix else b""
        self.timestamps = timestamps

    def run(self) -> None:
        if self.attempt != "latest":
            self._attempt(int(self.attempt))
            return
        number = 0
        pauses = Backoff(0.1, 2.0, factor=1.5)
        task = self._task()
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
        threads = [
            threading.Thread(target=_guarded(functools.partial(self._stream, number, s), self.failures), daemon=True)
            for s in self.streams
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _stream(self, number: int, stream: str) -> None:
        target = _target(stream)
        rest = b""
        stamped = stamper(self.http, self.job_id, self.name, number, stream) if self.timestamps else None
        try:
            for piece in self.http.follow_log(self.job_id, self.name, attempt=number, stream=stream):
                data = stamped.of(piece) if stamped else piece
                if not self.prefix:
                    _write(target, data)
                    continue
                *lines, rest = (rest + data).split(b"\n")
                if lines:
                    _write(target, b"".join(self.prefix + line + b"\n" for line in lines))
        except Refused as refused:
            if refused.status != 404:  # the attempt never got as far as a log
                click.echo(f"headway: {self.name}: {refused.message}", err=True)
        if rest:
            _write(target, self.prefix + rest + b"\n")
