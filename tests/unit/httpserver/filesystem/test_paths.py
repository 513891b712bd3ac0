"""Paths of personal spaces, and the system call that never leaves a folder."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import InvalidInput
from httpserver.filesystem import paths, system_calls


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=5))
def test_a_path_of_any_bytes_comes_through_or_is_refused(parts: list[bytes]):
    prefix = "/api/v1/files/"
    raw = prefix.encode() + "/".join(quote(part, safe="") for part in parts).encode() + b"?x=1"
    split = [piece for part in parts for piece in part.split(b"/") if piece not in (b"", b".")]
    try:
        components = paths.from_address(raw, prefix)
    except InvalidInput:
        assert any(piece == b".." or b"\0" in piece for piece in split)
    else:
        assert [os.fsencode(component) for component in components] == split
        for component in components:
            assert unquote_to_bytes(paths.encoded(component)) == os.fsencode(component)
            paths.shown(component).encode()


def test_the_kernel_itself_refuses_to_leave(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "up").symlink_to("..")
    root = os.open(tmp_path / "in", os.O_PATH)
    for path in ("..", "up", "up/in", "/etc", "./../in"):
        with pytest.raises(OSError, match="cross-device"):
            system_calls.open_beneath(root, path, os.O_RDONLY)
    os.close(system_calls.open_beneath(root, "", os.O_RDONLY))
    os.close(root)
