"""Who could have no home is refused before a task of theirs fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import Conflict
from headway.mount import MountProbe, prepare_local
from headway.mount_rights import MountRights
from httpserver.auth.model import Account
from httpserver.files.mount_rights import MountRightsWatch
from tests.support.clock import FakeClock


def an_account(name: str, uid: int) -> Account:
    return Account(name, uid, uid, False, True, False, False, 0.0)


class Everybody:
    async def all(self) -> list[Account]:
        return [an_account("ann", 20_001), an_account("bob", 20_002)]


async def test_who_could_have_no_home_is_refused_at_submit(tmp_path: Path, clock: FakeClock) -> None:
    layout = prepare_local(tmp_path / "mount", "lab")
    owners = {"ann": (20_001, 20_001)}
    rights = MountRights("Root is squashed.", gives_no_homes=True, owners=owners)
    watch = MountRightsWatch(layout, MountProbe(layout, "lab"), Everybody(), clock, lambda root, names: rights)  # type: ignore[arg-type]
    try:
        ann, bob = an_account("ann", 20_001), an_account("bob", 20_002)
        watch.require_home(bob)
        assert not await watch.look()
        assert watch.sentence == "Root is squashed."
        watch.require_home(ann)
        with pytest.raises(Conflict, match=r"bob has no personal space .* Root is squashed\. Or an admin makes it"):
            watch.require_home(bob)
    finally:
        watch.close()
