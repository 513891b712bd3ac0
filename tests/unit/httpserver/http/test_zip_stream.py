"""Archives that are written as they are sent: read back by Python and by Info-ZIP's own rules."""

from __future__ import annotations

import io
import os
import random
import struct
import tracemalloc
import zipfile

import pytest

from httpserver.http import zip_stream
from httpserver.http.zip_stream import ZipWriter

UNDECODABLE = b"\xff\xfe.bin".decode("utf-8", "surrogateescape")


def packed(*files: tuple[str, bytes], size: int | None = None) -> bytes:
    whole = ZipWriter()
    out = []
    for name, content in files:
        out.append(whole.begin(name, len(content) if size is None else size, 1_800_000_000.0, 0o640))
        out.extend(whole.write(content[at : at + 100_000]) for at in range(0, len(content), 100_000))
        out.append(whole.end())
    out.extend(whole.finish())
    whole.close()
    return b"".join(out)


def test_any_content_and_any_name_come_back():
    files = [
        ("plain.txt", b"text " * 50_000),
        ("empty", b""),
        ("größe/日本/🎉.bin", random.Random(1).randbytes(300_000)),
        ('line\nbreak "quoted" \\', b"x"),
        ("-rf", b"y"),
    ]
    whole = zipfile.ZipFile(io.BytesIO(packed(*files)))
    assert whole.testzip() is None
    assert [(info.filename, whole.read(info)) for info in whole.infolist()] == files
    assert {info.external_attr >> 16 for info in whole.infolist()} == {0o100640}


def test_bytes_that_are_no_text_stay_as_they_are():
    data = packed((UNDECODABLE, b"x"))
    (info,) = zipfile.ZipFile(io.BytesIO(data)).infolist()
    assert info.flag_bits & 0x800 == 0, "it does not pretend to be UTF-8"
    assert info.filename.encode("cp437") == b"\xff\xfe.bin"


def test_folders_are_kept():
    whole = ZipWriter()
    data = whole.folder("a/empty", 0.0, 0o700) + b"".join(whole.finish())
    (info,) = zipfile.ZipFile(io.BytesIO(data)).infolist()
    assert info.is_dir()
    assert info.external_attr >> 16 == 0o040700


@pytest.mark.parametrize("size", [1, zip_stream.LARGE_BYTES, 1 << 45])
def test_sizes_of_any_width_are_understood(size: int):
    content = b"c" * 70_000
    whole = zipfile.ZipFile(io.BytesIO(packed(("f", content), size=size)))
    assert whole.read("f") == content


def test_offsets_and_counts_beyond_32_bits_are_written_wide():
    whole = ZipWriter()
    whole._offset = 5 << 30
    whole.begin("late", 1, 0.0)
    whole.write(b"x")
    whole.end()
    whole._entries = 70_000
    tail = b"".join(whole.finish())
    assert b"PK\6\6" in tail
    assert b"PK\6\7" in tail
    assert struct.pack("<HHQ", 1, 8, 5 << 30) in tail
    *_, count, _, _, _ = struct.unpack("<4sHHHHLLH", tail[-22:])
    assert count == 0xFFFF


@pytest.mark.slow
def test_70_000_files_are_counted_and_take_no_memory():
    whole = ZipWriter()
    out = io.BytesIO()
    tracemalloc.start()
    for number in range(70_000):
        out.write(whole.folder(f"{number:06d}-{'x' * 30}", 0.0))
    before = tracemalloc.get_traced_memory()[0] - len(out.getbuffer())
    tracemalloc.stop()
    for piece in whole.finish():
        out.write(piece)
    assert before < 4 << 20, f"{before >> 10} KiB are held"
    assert len(zipfile.ZipFile(out).namelist()) == 70_000


@pytest.mark.parametrize("at", [-1e18, 0.0, 1e18, 10_000_000_000.0])
def test_times_that_an_archive_can_not_hold_do_no_harm(at: float):
    whole = ZipWriter()
    data = whole.folder("f", at) + b"".join(whole.finish())
    assert zipfile.ZipFile(io.BytesIO(data)).infolist()[0].date_time[0] >= 1980


def test_a_name_too_long_for_the_format_is_refused_before_a_byte_is_written():
    with pytest.raises(ValueError, match="too long"):
        ZipWriter().begin("/".join(["x" * 250] * 300), 1, 0.0)


def test_what_is_packed_already_is_not_packed_again():
    content = os.urandom(400_000)
    data = packed(("f", content))
    assert len(content) < len(data) < len(content) + 1_000
    assert zipfile.ZipFile(io.BytesIO(data)).read("f") == content
