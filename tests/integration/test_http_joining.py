"""Invitations, joining and certificates over HTTP: who may, and how often."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.errors import Conflict, NotAllowed, NotSignedIn
from headway.rpc.v1 import resource_manager_pb2 as rm
from tests.integration.http_rig import FakeNodes, Rig, a_rig

BODY = {
    "cluster": "lab",
    "token_id": "abcdefghij",
    "csr": "CSR",
    "nonce": "n" * 32,
    "at": 1_800_000_000.25,
    "version": "0.1.0",
    "proof": "p" * 64,
}

ANSWERS: dict[str, Any] = {}


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    def answered(method: str) -> Any:
        async def answer(self: FakeNodes, request: Any, context: Any) -> Any:
            return await ANSWERS[method](request)

        return answer

    # Before the rig starts: a server keeps the methods that it was given.
    for method in ("Invite", "RevokeCertificates", "Enroll"):
        monkeypatch.setattr(FakeNodes, method, answered(method))
    async with a_rig(tmp_path) as made:
        yield made
    ANSWERS.clear()


async def test_tokens_and_certificates_are_for_admins(rig: Rig) -> None:
    asked: list[Any] = []

    async def invite(request: rm.InviteRequest) -> rm.InviteReply:
        asked.append(request)
        made = rm.Invitation(id="abcdefghij", role=request.role, name=request.name, by=request.by, until_at=2.0)
        return rm.InviteReply(invitation=made, token="hw1:…")

    async def revoke(request: rm.RevokeCertificatesRequest) -> Any:
        asked.append(request)
        one = rm.Certificate(serial="af", role="worker", name="n1", revoked_at=3.0, revoked_by=request.by)
        return rm.RevokeCertificatesReply(certificates=[one], cordoned=["n1"])

    ANSWERS["Invite"] = invite
    ANSWERS["RevokeCertificates"] = revoke
    ann, boss, nobody = await rig.client("ann"), await rig.client("boss", admin=True), await rig.client()
    for client, status in ((ann, 403), (nobody, 401)):
        assert (await client.post("/invitations", json={})).status_code == status
        assert (await client.get("/invitations")).status_code == status
        assert (await client.delete("/invitations/abcdefghij")).status_code == status
        assert (await client.get("/certificates")).status_code == status
        assert (await client.post("/certificates/revoke", json={"which": "n1"})).status_code == status
    assert asked == []

    made = (await boss.post("/invitations", json={"name": "n1"})).json()
    assert (made["token"], made["by"], made["expires_at"], made["used_at"]) == ("hw1:…", "boss", 2.0, None)
    assert (asked[0].role, asked[0].for_s) == ("worker", 3_600.0)
    assert (await boss.post("/invitations", json={"role": "job_manager"})).status_code == 201
    await rig.parts.audit._db.write(lambda conn: None)  # what was deferred is on disk
    unnamed, named = (await boss.get("/audit", params={"what": "machine.invite", "outcome": "done"})).json()["entries"]
    assert (named["subject"], unnamed["subject"]) == ("node n1", "any job_manager")
    assert '"invitation": "abcdefghij"' in named["detail"]
    for wrong in ({"role": "resource_manager"}, {"expires_in_s": 1}, {"expires_in_s": 1e9}, {"nmae": "n1"}):
        assert (await boss.post("/invitations", json=wrong)).status_code in (400, 422)
    revoked = (await boss.post("/certificates/revoke", json={"which": "n1"})).json()
    assert (revoked["certificates"][0]["revoked_by"], revoked["cordoned"]) == ("boss", ["n1"])


async def test_a_machine_needs_no_sign_in_and_its_words_go_on_unchanged(rig: Rig) -> None:
    asked: list[rm.EnrollRequest] = []

    async def enroll(request: rm.EnrollRequest) -> rm.EnrollReply:
        asked.append(request)
        return rm.EnrollReply(certificate="C", ca="A", settings="{}", version="0.1.0", proof="q")

    ANSWERS["Enroll"] = enroll
    nobody = await rig.client()
    answer = await nobody.post("/join", json={**BODY, "name": "n1", "look": True})
    assert answer.json() == {"certificate": "C", "ca": "A", "settings": "{}", "version": "0.1.0", "proof": "q"}
    sent = asked[0]
    assert (sent.at, sent.look, sent.renew, sent.name, sent.proof) == (BODY["at"], True, False, "n1", "p" * 64)
    assert (await nobody.post("/join", json={**BODY, "secret": "s"})).status_code in (400, 422)
    assert (await nobody.post("/join", content=b"x" * 200_000)).status_code in (400, 413, 415, 422)


async def test_who_guesses_tokens_soon_has_to_wait_and_who_is_refused_otherwise_does_not(rig: Rig) -> None:
    calls = 0

    async def unknown(request: rm.EnrollRequest) -> rm.EnrollReply:
        nonlocal calls
        calls += 1
        raise NotSignedIn("This cluster knows no such token.")

    async def used(request: rm.EnrollRequest) -> rm.EnrollReply:
        raise Conflict("This token was used already.")

    nobody = await rig.client()
    ANSWERS["Enroll"] = used
    for _ in range(15):
        assert (await nobody.post("/join", json=BODY)).status_code == 409
    ANSWERS["Enroll"] = unknown
    answers = [await nobody.post("/join", json=BODY) for _ in range(15)]
    assert [one.status_code for one in answers][:8] == [401] * 8
    assert answers[-1].status_code == 429
    assert float(answers[-1].headers["retry-after"]) >= 1
    assert calls < 15
    # Another machine, with another token, is not held up.
    assert (await nobody.post("/join", json={**BODY, "token_id": "otherother"})).status_code == 401


async def test_strangers_who_try_to_join_all_day_leave_few_lines_and_who_joins_leaves_one(rig: Rig) -> None:
    async def refused(request: rm.EnrollRequest) -> rm.EnrollReply:
        raise NotAllowed("The token is one of another cluster.")

    async def joined(request: rm.EnrollRequest) -> rm.EnrollReply:
        return rm.EnrollReply(certificate="C", ca="A", settings="{}", version="0.1.0", proof="q")

    nobody, boss = await rig.client(), await rig.client("boss", admin=True)

    async def lines() -> list[dict[str, Any]]:
        await rig.parts.audit._db.write(lambda conn: None)  # what was deferred is on disk
        answer = await boss.get("/audit", params={"what": "machine.join", "limit": 1_000})
        found: list[dict[str, Any]] = answer.json()["entries"]
        return found

    ANSWERS["Enroll"] = joined
    assert (await nobody.post("/join", json={**BODY, "look": True})).status_code == 200
    assert await lines() == [], "a look changes nothing"
    ANSWERS["Enroll"] = refused
    for number in range(60):
        assert (await nobody.post("/join", json={**BODY, "token_id": f"other{number}"})).status_code == 403
    assert 0 < len(await lines()) < 40
    ANSWERS["Enroll"] = joined
    assert (await nobody.post("/join", json={**BODY, "name": "n7"})).status_code == 200
    newest = (await lines())[0]
    assert (newest["subject"], newest["outcome"]) == ("invitation abcdefghij", "done")
    assert '"name": "n7"' in newest["detail"]
