"""Where the suite's time goes. A pytest plugin of ``tests/run``.

Three files run at a time. The longest go first, by the times that ``tests/times.json`` knows, so that none is left
alone at the end. What was measured is kept below ``.cache``, slowest first; ``--durations`` prints the slowest.
``python -m tests.support.times`` makes it the known times, after a whole run on an idle machine.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KNOWN = ROOT / "tests" / "times.json"
MEASURED = ROOT / ".cache" / "test-times.json"
_UNKNOWN_S = 5.0  # of a file that no run has measured yet


def known_times(path: Path | None = None) -> dict[str, float]:
    """Seconds by file. Empty: nothing is known. What is no time is left out: an order is no reason to run no tests."""
    try:
        found = json.loads((path or KNOWN).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {file: float(time) for file, time in found.items() if _is_time(time)}


def _is_time(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)


def longest_first(files: Iterable[str], known: Mapping[str, float]) -> list[str]:
    """The files, each once. Those of the same time keep their order."""
    return sorted(dict.fromkeys(files), key=lambda file: -known.get(file, _UNKNOWN_S))


def by_file(tests: Mapping[str, float]) -> dict[str, float]:
    """Seconds by file, of seconds by test."""
    sums: defaultdict[str, float] = defaultdict(float)
    for test, seconds in tests.items():
        sums[test.split("::", 1)[0]] += seconds
    return {file: round(seconds, 1) for file, seconds in sorted(sums.items())}


class Times:
    """Measures one run. In a process of pytest-xdist that only runs tests it does nothing but order them."""

    def __init__(self, is_worker: bool) -> None:
        self._is_worker = is_worker
        self._tests: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        files = [item.nodeid.split("::", 1)[0] for item in items]
        place = {file: number for number, file in enumerate(longest_first(files, known_times()))}
        items.sort(key=lambda item: place[item.nodeid.split("::", 1)[0]])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._is_worker or not self._tests:
            return
        slowest_first = sorted(self._tests.items(), key=lambda item: (-item[1], item[0]))
        measured = {test: round(seconds, 2) for test, seconds in slowest_first}
        # Nobody's tests are red because their times could not be kept.
        with contextlib.suppress(OSError):
            MEASURED.parent.mkdir(exist_ok=True)
            MEASURED.write_text(json.dumps(measured, indent=0) + "\n", "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(hasattr(config, "workerinput")), "times of tests")


def merged(known: Mapping[str, float], measured: Mapping[str, float], root: Path = ROOT) -> dict[str, float]:
    """The known times with what was measured now. Files that a part of the suite left out keep theirs."""
    both = {**known, **measured}
    return {file: both[file] for file in sorted(both) if (root / file).is_file()}


def main() -> None:
    """Makes what the last run measured the known times."""
    tests = known_times(MEASURED)
    KNOWN.write_text(json.dumps(merged(known_times(), by_file(tests)), indent=1) + "\n", "utf-8")
    print(f"{KNOWN.relative_to(ROOT)}: {len(tests)} tests, {sum(tests.values()):.0f} s")


if __name__ == "__main__":
    main()
