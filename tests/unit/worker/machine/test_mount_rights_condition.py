"""What the Worker may not do on the shared mount is a condition of its node."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.mount import prepare_local
from headway.mount_rights import MountRights
from tests.support.clock import FakeClock
from worker.machine.conditions import Conditions
from worker.machine.mount import MountWatch


async def test_it_is_a_condition_of_the_node_that_ends(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = prepare_local(tmp_path / "mount", "lab")
    found = [MountRights("refused", blocks_work=True)]
    monkeypatch.setattr("worker.machine.mount.look_at_rights", lambda root: found[-1])
    conditions = Conditions(clock)

    def on_change() -> None:
        conditions.set("mount_rights", watch.rights.sentence, blocks_work=watch.rights.blocks_work)

    watch = MountWatch(layout, "lab", clock, on_change)
    try:
        await watch.look()
        assert conditions.blocking() is not None
        found.append(MountRights("refused"))
        await watch.look()
        assert conditions.blocking() is not None, "not at every look"
        clock.tick(31)
        await watch.look()
        assert [(one.word, one.blocks_work) for one in conditions.now] == [("mount_rights", False)]
        found.append(MountRights())
        clock.tick(31)
        await watch.look()
        assert conditions.now == []
    finally:
        watch.close()
