"""The parts of a priority, as people read them."""

from __future__ import annotations

import pytest

from headway.cli.priority import priority_lines

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        (  # aging_sjf
            {"priority": 0.0, "waited_s": 138.0, "alpha_p": 0.0, "beta_t": -600.0, "gamma_t": -(NOW - 138)},
            [
                "priority: normal", "raises its score: waiting for 2m18s",
                "lowers its score: its timeout, counted as 10m",
                "score: -7m42s (the highest score starts first)",
            ],
        ),
        (  # aging_sjf:beta=2,gamma=0.5
            {"priority": 1.0, "waited_s": 600.0, "alpha_p": 1.0, "beta_t": -200.0, "gamma_t": -0.5 * (NOW - 600)},
            [
                "priority: high", "raises its score: waiting for 10m, counted as 5m",
                "lowers its score: its timeout, counted as 3m20s", "score: +1m40s (the highest score starts first)",
            ],
        ),
        ({"priority": -1.0, "waited_s": 5.0}, ["priority: low", "waiting for 5s"]),  # fifo
        (  # sjf
            {"priority": 0.0, "waited_s": 5.0, "timeout_s": -600.0},
            ["priority: normal", "waiting for 5s", "lowers its score: its timeout, counted as 10m"],
        ),
        (  # ljf
            {"priority": 0.0, "waited_s": 5.0, "timeout_s": 600.0},
            ["priority: normal", "waiting for 5s", "raises its score: its timeout, counted as 10m"],
        ),
        (  # hrrn
            {"priority": 0.0, "waited_s": 60.0, "response_ratio": 1.236},
            [
                "priority: normal", "waiting for 1m",
                "score: 1.24, its wait beside its timeout (the highest score starts first)",
            ],
        ),
        (  # fair
            {"priority": 0.0, "waited_s": 60.0, "c": 800.0, "log_timeout_s": -1600.0, "spread_s": -0.0},
            [
                "priority: normal", "waiting for 1m", "ten times the timeout costs 13m20s of waiting",
                "lowers its score: its timeout, counted as 26m40s",
                "lowers its score: other tasks of the same account, counted as 0s",
            ],
        ),
        (  # another package's
            {"priority": 3.0, "waited_s": 60.0, "team_share": 0.125, "owed_s": -90.0, "evil\x1b[m": 1.0},
            ["priority: 3", "waiting for 1m", "team share: 0.125", "owed: -1m30s",
             "evil\N{REPLACEMENT CHARACTER}[m: 1"],
        ),
        ({}, ["priority: normal"]),
    ],
)  # fmt: skip
def test_each_policys_terms_in_words(terms: dict[str, float], want: list[str]) -> None:
    assert priority_lines(terms, NOW) == want
