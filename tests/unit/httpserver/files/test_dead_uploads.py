"""Halves of uploads that a killed server left behind."""

from __future__ import annotations

import os
from pathlib import Path

from httpserver.files.space import PersonalSpace


def test_the_half_of_an_upload_whose_server_died_goes_and_one_under_way_stays(tmp_path: Path):
    """Used to: it stayed in the personal space for ever, and took room."""
    for name, age_s in ((".headway-upload-dead", 700), (".headway-upload-alive", 5), ("mine", 700)):
        path = tmp_path / name
        path.write_bytes(b"x" * 10)
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        entries, more = PersonalSpace(descriptor).list((), "", 100)
    finally:
        os.close(descriptor)
    assert [e.name for e in entries] == [".headway-upload-alive", "mine"]
    assert not more
    assert sorted(p.name for p in tmp_path.iterdir()) == [".headway-upload-alive", "mine"]
