"""When a Worker has to be taken before it tells of attempts, or touches them."""

from __future__ import annotations

import pytest

from headway.errors import ConfigInvalid
from worker.node.place import Arrival, FolderPlace, arrival

HERE = FolderPlace("n1", "boot-1", "10.0.0.1:7004")


def test_where_it_was_before_it_waits_for_nobody() -> None:
    assert arrival(HERE.to_text(), HERE, has_attempts=True) == Arrival(False, False)


@pytest.mark.parametrize(
    "before", [FolderPlace("n1", "boot-0", HERE.address), FolderPlace("n1", "boot-1", "10.0.0.9:7004")]
)
@pytest.mark.parametrize("has_attempts", [False, True])
def test_after_a_reboot_or_at_another_address_it_waits_until_it_was_taken(
    before: FolderPlace, has_attempts: bool
) -> None:
    assert arrival(before.to_text(), HERE, has_attempts=has_attempts) == Arrival(True, has_attempts)


def test_a_new_folder_waits_and_one_of_an_older_version_with_attempts_does_not() -> None:
    assert arrival("", HERE, has_attempts=False) == Arrival(True, False)
    assert arrival("", HERE, has_attempts=True) == Arrival(False, False)


def test_under_another_name_it_does_not_start_with_attempts_of_the_old_one() -> None:
    before = FolderPlace("old name", "boot-1", HERE.address)
    with pytest.raises(ConfigInvalid, match="attempts of the node old name"):
        arrival(before.to_text(), HERE, has_attempts=True)
    assert arrival(before.to_text(), HERE, has_attempts=False) == Arrival(True, False)
