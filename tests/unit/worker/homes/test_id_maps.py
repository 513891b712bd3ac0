"""Which owner is shown as which."""

from __future__ import annotations

from itertools import combinations

import pytest

from worker.homes.id_maps import Extent, IdMaps, image_maps, render, share_maps

_LAST = 2**32 - 2


@pytest.mark.parametrize("owner", [0, 1, 1000, _LAST])
@pytest.mark.parametrize("task", [0, 1, 1000, 100_001, _LAST])
def test_each_group_is_shown_as_one_and_no_two_as_the_same(owner: int, task: int) -> None:
    maps = image_maps((owner, owner), (task, task))
    for side in (0, 1):
        spans = sorted((one[side], one[side] + one.size) for one in maps.gids)
        assert all(first[1] <= second[0] for first, second in combinations(spans, 2))
        assert sum(one.size for one in maps.gids) == 2**32 - 1
    assert _shown(maps.uids, owner) == task
    assert _shown(maps.gids, owner) == task


def test_files_of_other_users_are_nobodys() -> None:
    maps = image_maps((0, 0), (1000, 1000))
    assert maps.uids == (Extent(0, 1000, 1),)
    assert _shown(maps.uids, 1000) is None
    assert _shown(maps.gids, 50) == 50


def test_who_is_the_owner_already_sees_all_as_it_is() -> None:
    assert image_maps((0, 0), (0, 0)).changes_nothing
    assert image_maps((0, 0), (0, 7)).uids == (Extent(0, 0, _LAST + 1),)


def test_in_a_share_nothing_can_be_given_to_others() -> None:
    maps = share_maps((20_001, 20_002), (1000, 0))
    assert maps == IdMaps((Extent(20_001, 1000, 1),), (Extent(20_002, 0, 1),))
    assert render(maps.uids) == "20001 1000 1\n"


def _shown(extents: tuple[Extent, ...], number: int) -> int | None:
    for one in extents:
        if one.disk <= number < one.disk + one.size:
            return one.shown + number - one.disk
    return None
