from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.units import (
    GIB,
    MIB,
    BadValue,
    format_cpus,
    format_duration,
    format_size,
    parse_cpus,
    parse_duration,
    parse_size,
    round_duration,
    round_size,
)


@pytest.mark.parametrize(
    ("text", "want_s"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7_200),
        ("1d", 86_400),
        ("1h30m", 5_400),
        ("1d2h3m4s", 93_784),
        ("1h90m", 9_000),
        ("12:30:45", 45_045),
        ("00:00:30", 30),
        ("36:00:00", 129_600),
        ("1.5h", 5_400),
        ("0.5s", 0.5),
        ("90 s", 90),
        ("365d", 31_536_000),
    ],
)
def test_durations_that_are_taken(text: str, want_s: float) -> None:
    assert parse_duration(text) == want_s


@pytest.mark.parametrize(
    ("text", "want_suggestion", "want_in_message"),
    [
        ("5", "5m", "write 5s, 5m or 5h"),
        ("90", "90m", "90s, 90m or 90h"),
        ("1.5", "1.5m", "no unit"),
        ("0", None, "zero"),
        ("0s", None, "zero"),
        ("00:00:00", None, "zero"),
        ("-1", None, "negative"),
        ("-5m", None, "negative"),
        ("", None, "empty"),
        ("  ", None, "empty"),
        ("abc", None, "not a duration"),
        ("inf", None, "not a duration"),
        ("nan", None, "not a duration"),
        ("1e3", None, "no unit"),
        ("15 Min", "15m", "did you mean 15m?"),
        ("15M", "15m", "did you mean 15m?"),
        ("2 hours", "2h", "did you mean 2h?"),
        ("1h 30m", "1h30m", "did you mean 1h30m?"),
        ("30m1h", "1h30m", "did you mean 1h30m?"),
        ("1-02:00:00", "1d2h", "did you mean 1d2h?"),
        ("1w", "7d", "did you mean 7d?"),
        ("500ms", "0.5s", "did you mean 0.5s?"),
        ("5:00", None, "05:00:00 or 00:05:00"),
        ("1:75:00", None, "above 59"),
        ("366d", "365d", "more than 365 days"),
        ("9" * 60 + "d", "365d", "more than 365 days"),
        ("9" * 10_000 + "d", None, "not a duration"),
        ("0.01s", "1s", "less than 0.1"),
        ("٣s", None, "not a duration"),
        ("5m\n", "5m", "not a duration"),
        ("5m\x00", None, "\\u0000"),
    ],
)
def test_durations_that_are_refused_say_what_to_write(
    text: str, want_suggestion: str | None, want_in_message: str
) -> None:
    with pytest.raises(BadValue) as caught:
        parse_duration(text)
    assert caught.value.suggestion == want_suggestion
    assert want_in_message in caught.value.message


@pytest.mark.parametrize(
    ("text", "want_bytes"),
    [
        ("8GB", 8_000_000_000),
        ("8GiB", 8 * GIB),
        ("8Gi", 8 * GIB),
        ("8 GB", 8_000_000_000),
        ("512MiB", 512 * MIB),
        ("0.5GiB", 512 * MIB),
        ("0.1GiB", 107_374_182),
        ("1TiB", 1024 * GIB),
        ("1kB", 1_000),
        ("1TB", 10**12),
        ("4096B", 4_096),
    ],
)
def test_sizes_that_are_taken(text: str, want_bytes: int) -> None:
    assert parse_size(text) == want_bytes


@pytest.mark.parametrize(
    ("text", "want_suggestion", "want_in_message"),
    [
        ("8G", "8GiB", "8GiB (8,589,934,592 bytes) or 8GB (8,000,000,000 bytes)"),
        ("8g", "8GiB", "8GiB"),
        ("8192M", "8192MiB", "8192MiB"),
        ("0.5G", "0.5GiB", "0.5GiB"),
        ("1KB", "1KiB", "1KiB (1,024 bytes) or 1kB (1,000 bytes)"),
        ("8192", "8192MiB", "write 8192MiB, 8192GiB or 8192B"),
        ("500m", "500MiB", "thousandth"),
        ("8gb", "8GB", "did you mean 8GB?"),
        ("8gib", "8GiB", "did you mean 8GiB?"),
        ("8Gb", "8GB", "did you mean 8GB?"),
        ("8TBs", "8TB", "did you mean 8TB?"),
        ("-1G", None, "negative"),
        ("1e3", None, "no unit"),
        ("inf", None, "not a size"),
        ("0", None, "zero"),
        ("0GiB", None, "less than one byte"),
        ("0.5B", None, "less than one byte"),
        ("", None, "empty"),
        ("8XiB", None, "not a size"),
        ("9999999TiB", None, "more than 1024TiB"),
        ("9" * 10_000 + "B", None, "not a size"),
    ],
)
def test_sizes_that_tools_read_differently_are_never_guessed(
    text: str, want_suggestion: str | None, want_in_message: str
) -> None:
    with pytest.raises(BadValue) as caught:
        parse_size(text)
    assert caught.value.suggestion == want_suggestion
    assert want_in_message in caught.value.message


@pytest.mark.parametrize(
    ("value", "want_centi"),
    [(1, 100), (0.5, 50), (0.29, 29), (0.07, 7), ("0.5", 50), ("2", 200), (0.01, 1), (4096, 409_600), (1.10, 110)],
)
def test_cpus_that_are_taken(value: int | float | str, want_centi: int) -> None:
    assert parse_cpus(value) == want_centi


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        0.001,
        1e-9,
        1e300,
        True,
        False,
        float("nan"),
        float("inf"),
        "",
        "x",
        "1e2",
        "-1",
        "+1",
        "500m",
        4097,
        " 1",
    ],
)
def test_cpus_that_are_refused(value: int | float | str) -> None:
    with pytest.raises(BadValue):
        parse_cpus(value)


@given(st.integers(min_value=100, max_value=365 * 86_400_000))
def test_a_duration_is_read_back_as_it_was_written(millis: int) -> None:
    assert parse_duration(format_duration(millis / 1000)) == millis / 1000


@given(st.integers(min_value=1, max_value=2**50))
def test_a_size_is_read_back_as_it_was_written(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@given(st.integers(min_value=1, max_value=409_600))
def test_cpus_are_read_back_as_they_were_written(centi: int) -> None:
    assert parse_cpus(format_cpus(centi)) == centi
    assert parse_cpus(float(format_cpus(centi))) == centi


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_duration, parse_size, parse_cpus):
        try:
            value = read(text)
        except BadValue as bad:
            value, message = 1, bad.message
        else:
            message = "fine"
        assert value > 0
        assert message.isprintable()


@pytest.mark.parametrize(
    ("size_bytes", "want"),
    [
        (0, "0B"), (1_234, "1234B"), (8 * GIB, "8GiB"), (1_536 * MIB, "1536MiB"), (24_012_684_698, "22.3GiB"),
        (GIB - 1, "1023MiB"), (GIB + 1, "1GiB"), (5_000_000_001, "4.65GiB"), (123_456_789_012_345, "112TiB"),
    ],
)  # fmt: skip
def test_sizes_in_sentences_have_three_figures(size_bytes: int, want: str) -> None:
    assert round_size(size_bytes) == want


@pytest.mark.parametrize(
    ("seconds", "want"), [(0.5, "0.5s"), (59.25, "59.25s"), (5_467.6, "1h31m8s"), (60.4, "1m"), (3_600.0, "1h")]
)
def test_durations_in_sentences_are_whole_seconds_from_a_minute_on(seconds: float, want: str) -> None:
    assert round_duration(seconds) == want
