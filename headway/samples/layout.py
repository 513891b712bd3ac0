"""The bytes of the header and of a record.

A file is a header and records of one size, in order of time. A record is a mark, its kind, its number of GPUs, its
moment, its values and a checksum. So a reader finds the next good record after damage, even without the header.
"""

from __future__ import annotations

import functools
import json
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..model.gpu_readings import READINGS, GpuReadings, Unit
from .model import MACHINE, GpuIdentity, Header, Sample

MARK: Final = b"\xa5"
SAMPLE: Final = b"S"
MINUTE: Final = b"M"
_RECORD_HEAD: Final = "<csHd"  # mark, kind, GPUs, moment
_CHECK: Final = struct.Struct("<I")

_HEADER_MARK: Final = b"HWsamples1\n"
_HEADER_HEAD: Final = struct.Struct("<II")  # length and checksum of the text
_LARGEST_HEADER: Final = 1 << 20
_HEADER_COPIES: Final = 2  # one flipped byte does not break both

# How a value stands in a record. None has a code of its own: the largest whole number, or "not a number".
_SHARE, _FRACTION, _WHOLE = "H", "f", "Q"
_SHARE_STEPS: Final = 65534
_NO_SHARE: Final = 65535
_NO_WHOLE: Final = (1 << 64) - 1
_CODES: Final = {Unit.SHARE: _SHARE, Unit.BYTES: _WHOLE}


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Names and codes of the values, as the header of a file tells them. A later Headway may have others."""

    machine: tuple[tuple[str, str], ...]
    gpu: tuple[tuple[str, str], ...]

    def codes(self, gpus: int) -> str:
        return "".join(code for _, code in self.machine) + "".join(code for _, code in self.gpu) * gpus


OURS: Final = RecordColumns(
    machine=tuple((row.name, _WHOLE if row.kind is int else _FRACTION) for row in MACHINE),
    gpu=tuple((row.name, _CODES.get(row.unit, _FRACTION)) for row in READINGS),
)


@functools.lru_cache(maxsize=64)
def sample_struct(gpus: int, columns: RecordColumns = OURS) -> struct.Struct:
    return struct.Struct(_RECORD_HEAD + columns.codes(gpus))


@functools.lru_cache(maxsize=64)
def minute_struct(gpus: int, columns: RecordColumns = OURS) -> struct.Struct:
    """Samples in it, seconds that it spans, then means and maxima."""
    values = len(columns.codes(gpus))
    return struct.Struct(_RECORD_HEAD + "If" + "f" * (2 * values))


def body_of(kind: bytes, gpus: int, columns: RecordColumns = OURS) -> struct.Struct:
    return minute_struct(gpus, columns) if kind == MINUTE else sample_struct(gpus, columns)


def size_of(kind: bytes, gpus: int, columns: RecordColumns = OURS) -> int:
    """Of a whole record."""
    return body_of(kind, gpus, columns).size + _CHECK.size


def coded(value: float | None, code: str) -> float | int:
    if value is None or not math.isfinite(value):
        return _NO_SHARE if code == _SHARE else _NO_WHOLE if code == _WHOLE else math.nan
    if code == _SHARE:
        return round(min(1.0, max(0.0, value)) * _SHARE_STEPS)
    if code == _WHOLE:
        return min(_NO_WHOLE - 1, max(0, int(value)))
    return value if abs(value) < 3e38 else math.nan


def decoded(value: float, code: str) -> float | int | None:
    if code == _SHARE:
        return None if value == _NO_SHARE else value / _SHARE_STEPS
    if code == _WHOLE:
        return None if value == _NO_WHOLE else value
    return value if math.isfinite(value) else None


def decoded_all(values: Sequence[Any], code: str) -> list[float | None]:
    """A column at once. Most lack nothing, and go fast."""
    if code == _SHARE and _NO_SHARE not in values:
        return [value / _SHARE_STEPS for value in values]
    if (code == _WHOLE and _NO_WHOLE not in values) or (code == _FRACTION and math.isfinite(sum(values))):
        return list(values)
    return [decoded(value, code) for value in values]


def checked(body: bytes) -> bytes:
    return body + _CHECK.pack(zlib.crc32(body))


def is_good(record: bytes | memoryview) -> bool:
    """Whether a record's checksum fits."""
    body, check = record[: -_CHECK.size], record[-_CHECK.size :]
    return bool(_CHECK.unpack(check)[0] == zlib.crc32(body))


def sample_of(values: Sequence[Any], columns: RecordColumns) -> Sample:
    """From an unpacked record. A column that this Headway doesn't know is left out."""
    at, rest = values[3], values[4:]
    machine = _named(columns.machine, rest)
    width, begin = len(columns.gpu), len(columns.machine)
    gpus = [
        GpuReadings(**_readings(columns.gpu, rest[start : start + width]))
        for start in range(begin, begin + width * values[2], width or 1)
    ]
    known = {row.name for row in MACHINE}
    return Sample(at=at, gpus=tuple(gpus), **{name: value for name, value in machine.items() if name in known})


def _readings(columns: Iterable[tuple[str, str]], values: Sequence[Any]) -> dict[str, Any]:
    known = {row.name for row in READINGS}
    return {name: value for name, value in _named(columns, values).items() if name in known}


def _named(columns: Iterable[tuple[str, str]], values: Sequence[Any]) -> dict[str, Any]:
    return {name: decoded(value, code) for (name, code), value in zip(columns, values, strict=False)}


def header_bytes(header: Header) -> bytes:
    text = json.dumps(
        {
            "every_s": header.every_s,
            "began_at": header.began_at,
            "gpus": [asdict(gpu) for gpu in header.gpus],
            "columns": OURS.machine,
            "gpu_columns": OURS.gpu,
        },
        separators=(",", ":"),
    ).encode()
    return (_HEADER_MARK + _HEADER_HEAD.pack(len(text), zlib.crc32(text)) + text) * _HEADER_COPIES


def read_header(data: bytes) -> tuple[Header, RecordColumns, int, bool] | None:
    """The header at the front of a file, its columns, and where the records begin. None: no copy is whole.

    The last value is False if the second copy is broken. It may be longer or shorter than it was, so the place is a
    guess.
    """
    at = 0
    while at >= 0:
        if found := _copy_at(data, at):
            header, columns, length = found
            if at > 0:
                return header, columns, at + length, True
            return header, columns, length * _HEADER_COPIES, _copy_at(data, length) is not None
        at = data.find(_HEADER_MARK, at + 1)
    return None


def _copy_at(data: bytes, at: int) -> tuple[Header, RecordColumns, int] | None:
    begin = at + len(_HEADER_MARK) + _HEADER_HEAD.size
    if not data.startswith(_HEADER_MARK, at) or len(data) < begin:
        return None
    length, check = _HEADER_HEAD.unpack_from(data, at + len(_HEADER_MARK))
    text = data[begin : begin + length]
    if len(text) < length or length > _LARGEST_HEADER or zlib.crc32(text) != check:
        return None
    try:
        header, columns = _header_of(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None
    return header, columns, begin + length - at


def _header_of(told: dict[str, Any]) -> tuple[Header, RecordColumns]:
    gpus = tuple(GpuIdentity(str(g["uuid"]), str(g["model"]), int(g["memory_bytes"])) for g in told["gpus"])
    columns = RecordColumns(
        machine=tuple((str(name), _code(code)) for name, code in told["columns"]),
        gpu=tuple((str(name), _code(code)) for name, code in told["gpu_columns"]),
    )
    every_s, began_at = float(told["every_s"]), float(told["began_at"])
    if not (math.isfinite(every_s) and math.isfinite(began_at) and every_s > 0):
        raise ValueError(told)
    return Header(gpus, every_s, began_at), columns


def _code(code: Any) -> str:
    if code not in (_SHARE, _FRACTION, _WHOLE):
        raise ValueError(code)
    return str(code)
