"""The files of samples: what was written is read, and what is broken costs no more than itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.gpu_readings import READINGS, GpuReadings, Unit
from headway.samples.layout import MINUTE, OURS, size_of
from headway.samples.model import MACHINE, GpuIdentity, Header, Sample
from headway.samples.reading import InMemory, SampleFile, read_all
from headway.samples.sums import Sums
from headway.samples.thinning import thin
from headway.samples.writing import RollUp, encode_header, encode_sample

BEGAN = 1_760_000_000.0


def header(gpus: int = 2, every_s: float = 1.0) -> Header:
    return Header(tuple(GpuIdentity(f"GPU-{n}", 'Tesla "V"', 16 << 30) for n in range(gpus)), every_s, BEGAN)


def sample(second: float, gpus: int = 2, **values: object) -> Sample:
    readings = GpuReadings(utilisation=0.5, memory_used_bytes=1 << 30, temperature_c=60.0, power_w=200.0)
    return Sample(at=BEGAN + second, gpus=(readings,) * gpus, **values)  # type: ignore[arg-type]


def written(samples: list[Sample], gpus: int = 2) -> bytes:
    return encode_header(header(gpus)) + b"".join(encode_sample(header(gpus), one) for one in samples)


_values = st.fixed_dictionaries(
    {
        row.name: st.none()
        | (st.integers(0, 1 << 62) if row.kind is int else st.floats(0, 4096, width=32, allow_nan=False))
        for row in MACHINE
    }
)
_readings = st.builds(
    GpuReadings,
    **{
        row.name: st.none()
        | (
            st.integers(0, 1 << 50)
            if row.unit is Unit.BYTES
            else st.floats(0, 1 if row.unit is Unit.SHARE else 1000, width=32)
        )
        for row in READINGS
    },
)


@given(_values, st.lists(_readings, max_size=8))
def test_a_sample_is_read_as_it_was_written(values: dict[str, object], gpus: list[GpuReadings]) -> None:
    told = Sample(at=BEGAN, gpus=tuple(gpus), **values)  # type: ignore[arg-type]

    head, [read], lost = read_all(written([told], len(gpus)))

    assert (head, lost) == (header(len(gpus)), 0)
    for row in MACHINE:
        assert getattr(read, row.name) == getattr(told, row.name)
    for before, after in zip(told.gpus, read.gpus, strict=True):
        for reading in READINGS:
            assert getattr(after, reading.name) == pytest.approx(getattr(before, reading.name), abs=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_what_is_no_number_counts_as_not_measured(value: float) -> None:
    told = Sample(at=BEGAN, cpu_used=value, gpus=(GpuReadings(power_w=value),) * 2)

    _, [read], _ = read_all(written([told]))

    assert read.cpu_used is None
    assert read.gpus[0].power_w is None


MANY = [sample(n, cpu_used=1.0, disk_read_bytes=n) for n in range(40)]
WHOLE = written(MANY)
BEGIN = len(encode_header(header()))
SIZE = len(encode_sample(header(), MANY[0]))


@given(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)))
def test_any_cut_leaves_every_whole_record_readable(one: int, other: int) -> None:
    start, end = sorted((one, other))

    _, samples, lost = read_all(WHOLE[start:end])

    whole = [n for n in range(40) if start <= BEGIN + n * SIZE and BEGIN + (n + 1) * SIZE <= end]
    assert [read.disk_read_bytes for read in samples] == whole
    if start == 0 and end >= BEGIN:
        assert lost == int((end - BEGIN) % SIZE != 0)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_costs_one_record_at_most(place: int, bits: int) -> None:
    broken = bytearray(WHOLE)
    broken[place] ^= bits

    head, samples, lost = read_all(bytes(broken))

    assert head == header()
    hit = (place - BEGIN) // SIZE if place >= BEGIN else None
    assert [read.disk_read_bytes for read in samples] == [n for n in range(40) if n != hit]
    assert lost == (0 if hit is None else 1)


@given(st.integers(0, len(WHOLE)), st.binary(max_size=200), st.integers(0, 200))
def test_bytes_put_in_or_taken_out_cost_only_what_they_touch(place: int, put: bytes, taken: int) -> None:
    _, samples, _ = read_all(WHOLE[:place] + put + WHOLE[place + taken :])

    read = {one.disk_read_bytes for one in samples}
    far = {n for n in range(40) if BEGIN + (n + 1) * SIZE <= place or BEGIN + n * SIZE >= place + taken}
    assert read >= far


@given(st.binary(max_size=2000))
def test_any_bytes_at_all_are_read_without_an_error(data: bytes) -> None:
    read_all(data)
    file = SampleFile(InMemory(data), MINUTE)
    list(file.records(BEGAN, BEGAN + 5))
    file.bounds()


@given(st.lists(st.integers(0, len(WHOLE) - 1), max_size=20), st.integers(-5, 45), st.integers(-5, 45))
def test_a_part_is_found_by_halving_as_by_reading_all(places: list[int], since: int, until: int) -> None:
    long = [sample(n, disk_read_bytes=n) for n in range(400)]
    broken = bytearray(written(long))
    for place in places:
        broken[BEGIN + place * 9 % (len(broken) - BEGIN)] ^= 0xFF
    first, last = BEGAN + since * 10, BEGAN + until * 10

    found = list(SampleFile(InMemory(bytes(broken))).samples(first, last))

    _, everything, _ = read_all(bytes(broken))
    assert found == [one for one in everything if first <= one.at <= last]


def test_a_file_of_a_later_version_shows_the_columns_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from headway.samples import layout

    later = layout.RecordColumns((*OURS.machine[:2], ("threads", "Q")), (*OURS.gpu, ("fan", "H")))
    with monkeypatch.context() as patched:
        patched.setattr(layout, "OURS", later)
        data = layout.header_bytes(header())
    body = layout.sample_struct(2, later).pack(
        layout.MARK, layout.SAMPLE, 2, BEGAN, 1.5, 77, 9, *(32767, 65535, 5, 60.0, 1.0, 3) * 2
    )

    _, [read], lost = read_all(data + layout.checked(body))

    assert (read.cpu_used, read.memory_bytes, read.disk_read_bytes, lost) == (1.5, 77, None, 0)
    assert read.gpus[1].utilisation == pytest.approx(0.5)


def test_a_minute_keeps_the_mean_and_the_maximum() -> None:
    roll = RollUp(header())
    start = 60 - BEGAN % 60
    records = [
        roll.add(sample(start + n, cpu_used=float(n % 2), disk_read_bytes=60, memory_bytes=n)) for n in range(121)
    ]
    made = [record for record in (*records, roll.flush()) if record]

    file = SampleFile(InMemory(encode_header(header()) + b"".join(made)), MINUTE)
    first, *_, last = file.records()

    assert len(made) == 3
    assert len(made[0]) == size_of(MINUTE, 2)
    assert first.at == BEGAN + start
    assert first.values[4:6] == (60, 60.0)
    assert first.values[6:9] == (0.5, 29.5, 60.0)
    assert first.values[6 + 16 : 6 + 19] == (1.0, 59.0, 60.0)
    assert last.values[4] == 1
    assert roll.flush() is None


def test_an_hour_of_eight_gpus_takes_less_than_a_megabyte() -> None:
    head = header(8)
    roll = RollUp(head)
    kept = 2 * len(encode_header(head))
    for second in range(3600):
        one = sample(second, 8, cpu_used=1.0)
        kept += len(encode_sample(head, one)) + len(roll.add(one) or b"")

    assert kept < 1_000_000


def test_sums_leave_gaps_out_but_count_their_bytes() -> None:
    sums = Sums(header())
    for second in (0, 1, 2, 100, 101):
        sums.add(sample(second, cpu_used=2.0, disk_read_bytes=10))

    use = sums.use()

    assert (use.measured_s, use.cpu_s, use.disk_read_bytes) == (3.0, 6.0, 50)
    assert not use.HasField("network_sent_bytes")
    assert [(gpu.uuid, gpu.measured_s, gpu.mean_utilisation, gpu.energy_j) for gpu in use.gpus] == [
        ("GPU-0", 3.0, 0.5, 600.0),
        ("GPU-1", 3.0, 0.5, 600.0),
    ]
    assert use.gpus[0].peak_memory_used_bytes == 1 << 30


def test_sums_of_what_was_not_measured_say_nothing() -> None:
    sums = Sums(header(1))
    for second in (0, 1, 0.5):
        sums.add(Sample(at=BEGAN + second, gpus=(GpuReadings(),)))

    use = sums.use()

    assert use.measured_s == 1.0
    assert not use.HasField("cpu_s")
    assert not use.gpus[0].HasField("mean_utilisation")
    assert not use.gpus[0].HasField("energy_j")


@pytest.mark.parametrize("at", [math.nan, math.inf, -1.0, 1e300])
def test_a_moment_that_no_calendar_has_counts_as_broken(at: float) -> None:
    data = encode_header(header()) + encode_sample(header(), Sample(at=at, gpus=(GpuReadings(),) * 2)) + WHOLE[BEGIN:]

    _, samples, lost = read_all(data)

    assert (len(samples), lost) == (40, 1)


@pytest.mark.slow
@pytest.mark.parametrize("place", [1, 100])
def test_minutes_that_are_broken_are_read_from_the_samples(place: int) -> None:
    told = [sample(second) for second in range(24_000)]
    roll, minutes = RollUp(header()), [encode_header(header())]
    minutes += [record for one in told if (record := roll.add(one)) is not None]
    minutes[place] = bytes(len(minutes[place]))
    file, rolled = SampleFile(InMemory(written(told))), SampleFile(InMemory(b"".join(minutes)), MINUTE)

    points = thin(file, rolled, points=100)

    assert (points.samples, points.lost) == (24_000, 0)
    assert None not in points.mean[6]
    assert points.at == sorted(points.at)
