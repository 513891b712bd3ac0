"""Machines that are emptied, over HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.rpc.v1 import resource_manager_pb2 as rm
from tests.integration.http_rig import Rig, a_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as made:
        await made.account("boss", admin=True)
        await made.account("ada")
        yield made


async def test_a_drain_has_a_deadline_and_tells_what_it_changed(rig: Rig) -> None:
    rig.nodes.put("node-1", live_attempts=2)
    admin = await rig.client("boss")
    answer = await admin.post("/nodes/node-1/drain", json={"note": "disk", "within_s": 3600, "return_when_back": True})
    assert answer.status_code == 200, answer.text
    asked = [one for one in rig.nodes.asked if isinstance(one, rm.SetAdmissionRequest)][-1]
    assert (asked.note, asked.by, asked.return_when_back, asked.HasField("return_at")) == ("disk", "boss", True, False)
    assert abs(asked.until_at - time.time() - 3600) < 600
    assert answer.json()["changed"] == "It was CORDONED."
    assert answer.json()["drain"]["until_at"] == asked.until_at
    both = await admin.post("/nodes/node-1/drain", json={"within_s": 3600, "until_at": 5e9})
    assert both.status_code == 400
    assert "/until_at" in both.text
    assert (await admin.post("/nodes/node-1/drain", json={"within_s": -1})).status_code == 400


async def test_only_admins_empty_replace_and_preview(rig: Rig) -> None:
    rig.nodes.put("node-1")
    user = await rig.client("ada")
    for call in (
        user.post("/nodes/node-1/drain", json={"within_s": 60}),
        user.post("/nodes/node-1/replace"),
        user.get("/nodes/node-1/drain"),
    ):
        assert (await call).status_code == 403
    assert rig.nodes.asked == []
    admin = await rig.client("boss")
    assert (await admin.post("/nodes/node-1/replace")).status_code == 204
    preview = (await admin.get("/nodes/node-1/drain")).json()
    assert (preview["total_stranded"], preview["stranded"][0]["owner"]) == (1, "ada")
