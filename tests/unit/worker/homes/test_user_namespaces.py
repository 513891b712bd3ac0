"""A namespace is made once for its maps, and the oldest goes when there are too many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.worker.homes.conftest import child
from worker.homes.id_maps import Extent, IdMaps, share_maps
from worker.homes.user_namespaces import UserNamespaces, new_user_namespace


@pytest.mark.homes
def test_namespaces_are_kept_and_the_oldest_goes() -> None:
    namespaces = UserNamespaces(child(), most=2)

    def ask(number: int) -> int:
        descriptor = namespaces.of(share_maps((number, number), (7, 7)))
        made = os.fstat(descriptor).st_ino
        os.close(descriptor)
        return made

    before = len(os.listdir("/proc/self/fd"))
    first = ask(1)
    second = ask(2)
    assert ask(1) == first != second
    ask(3)  # the second waited longest
    assert ask(1) == first
    assert len(os.listdir("/proc/self/fd")) == before + 2


@pytest.mark.homes
def test_a_child_that_makes_none_is_told_in_words(tmp_path: Path) -> None:
    maps = share_maps((0, 0), (7, 7))
    with pytest.raises(OSError, match="no user namespace: not today"):
        new_user_namespace(("sh", "-c", "echo not today >&2; exit 1"), maps)
    with pytest.raises(OSError, match="Invalid argument"):
        new_user_namespace(child(), IdMaps((Extent(0, 5, 1), Extent(0, 6, 1)), ()))
    with pytest.raises(OSError, match="No such file"):
        new_user_namespace((str(tmp_path / "launcher"),), maps)
