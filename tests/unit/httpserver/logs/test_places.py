"""Logs that are followed at once have a limit."""

from __future__ import annotations

import pytest

from headway.errors import TooMany
from httpserver.logs.places import FollowPlaces


def test_an_account_and_all_accounts_together_have_a_limit() -> None:
    places = FollowPlaces(per_account=4, per_server=6)
    with places.taken("ann", 3):
        with pytest.raises(TooMany, match="may follow 4") as own, places.taken("ann", 2):
            pass
        assert own.value.extra["retry_after_s"]
        with places.taken("ann", 1), places.taken("bob", 2), pytest.raises(TooMany, match="now"), places.taken("cy", 1):
            pass
        with places.taken("bob", 3):
            pass
    # However it ended, the places are free again.
    with pytest.raises(ValueError, match="broke"), places.taken("ann", 4):
        raise ValueError("broke")
    with places.taken("ann", 4):
        pass
