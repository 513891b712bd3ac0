"""The chaos run as a command: `python -m tests.chaos --seed 7 --minutes 15`. Needs root and the parts of tests/run."""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from tests.support.machines.lab import a_lab

from .reaper import watched
from .run import Outcome, run
from .schedule import Schedule, draw, read


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of jobs and faults; drawn and told where none is given")
    parser.add_argument("--minutes", type=float, default=15.0, help="how long faults go on (default 15)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this schedule, which an earlier run has kept")
    parser.add_argument("--runs", type=int, default=1, help="how many runs, with one seed after the other")
    parser.add_argument("--keep", type=Path, default=Path(".cache/chaos"), help="where schedule, journal and logs go")
    parser.add_argument("--plain", action="store_true", help="services talk as plain text, not by mutual TLS")
    parser.add_argument("--aloud", action="store_true", help="print the journal as it comes")
    return parser.parse_args()


def _schedules(options: argparse.Namespace) -> list[Schedule]:
    if options.replay:
        return [read(options.replay)]
    first = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    return [draw(first + number, options.minutes * 60) for number in range(options.runs)]


def _tell(schedule: Schedule, outcome: Outcome, kept: Path) -> None:
    for note in outcome.notes:
        print(f"  {note}")
    for problem in outcome.problems:
        print(f"  PROBLEM OF THE TESTS: {problem}")
    for finding in outcome.findings:
        print(f"  FINDING: {finding}")
    if outcome.good:
        print(f"seed {schedule.seed}: all is as it has to be", flush=True)
    else:
        print((kept / "journal").read_text("utf-8"))
        print(
            f"seed {schedule.seed}: broken. Again: python -m tests.chaos --replay {kept / 'schedule.json'}", flush=True
        )


def main() -> int:
    options = _arguments()
    if os.geteuid() != 0:
        print("This needs root: for network namespaces, engines and mounts.", file=sys.stderr)
        return 2
    try:
        schedules = _schedules(options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    # Ended from outside, the lab is still taken down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("HEADWAY_TESTS_RUN", f"hwc{secrets.token_hex(3)}")
    broken = 0
    for schedule in schedules:
        kept = options.keep / str(schedule.seed)
        print(
            f"seed {schedule.seed}, {schedule.seconds:g} s, {len(schedule.faults)} faults; kept in {kept}", flush=True
        )
        folder = Path(tempfile.mkdtemp(prefix="ch", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
        with watched(os.environ["HEADWAY_TESTS_RUN"], folder), a_lab(folder, tls=not options.plain) as lab:
            outcome = run(schedule, lab, kept, aloud=options.aloud)
        _tell(schedule, outcome, kept)
        broken += not outcome.good
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
