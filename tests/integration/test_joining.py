"""Tokens and certificates in ResourceManager, with a real database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import Conflict, HeadwayError, InvalidInput, NotAllowed, NotFound, NotSignedIn, TooMany
from headway.store import Database
from headway.trust.authority import check_issued, issued, make_csr, make_key
from headway.trust.files import TrustFiles
from headway.trust.identity import Identity, Role
from headway.trust.joining import JoinAnswer
from resource_manager import enrolment, trust_store
from resource_manager.issuing import AuthoritySettings, Issuer
from tests.support.authorities import Machine, make_trust
from tests.support.clock import FakeClock

HOUR = 3_600.0
DAY = 86_400.0
SHARED = {"cluster.mount": "/mnt/lab", "peers.resource_manager": "10.0.0.1:7003"}


class Desk:
    """An Issuer with its database, and a record of what it cordoned."""

    def __init__(self, database: str, trust: Path, clock: FakeClock) -> None:
        self.database, self.trust, self.clock = database, trust, clock
        self.cordoned: list[str] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Issuer]:
        db = await Database.open(self.database, room="resource_manager")
        settings = AuthoritySettings("lab", self.trust, SHARED)
        issuer = Issuer(db, self.clock, settings, cordon=self._cordon, version="0.1.0")
        try:
            await issuer.load()
            yield issuer
        finally:
            await db.close()

    async def _cordon(self, name: str, note: str, by: str) -> bool:
        self.cordoned.append(name)
        return name != "not-registered"

    async def token(self, issuer: Issuer, name: str = "", for_s: float = HOUR, role: str = "worker") -> str:
        _, token = await issuer.invite(role, name, for_s, "ann")
        return token.text

    def revoked(self) -> list[str]:
        found: list[str] = json.loads((self.trust / "revoked.json").read_text())
        return found


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock) -> Desk:
    make_trust(tmp_path / "trust", clock.now())
    return Desk(str(tmp_path / "nodes.db"), tmp_path / "trust", clock)


async def everything(issuer: Issuer) -> tuple[object, object]:
    return await issuer.invitations(), await issuer.certificates()


async def test_a_machine_joins_and_a_second_one_by_the_same_token_does_not(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        text = await desk.token(issuer)
        machine = Machine(text, at=clock.now())
        answer, proof = await issuer.enroll(*machine.asks())
        assert proof == answer.proof(machine.token.key, machine.request)
        found = check_issued(answer.certificate.encode(), answer.ca.encode(), machine.key, machine.token.fingerprint)
        assert found.identity == Identity("lab", Role.WORKER, "by-its-host")
        told = json.loads(answer.settings)
        assert (told["role"], told["name"], told["settings"]) == ("worker", "by-its-host", SHARED)

        before = await everything(issuer)
        with pytest.raises(Conflict, match="was used already"):
            await issuer.enroll(*Machine(text, at=clock.now(), name="other").asks())
        assert await everything(issuer) == before


async def test_a_lost_answer_is_given_again_also_after_a_restart_and_after_the_tokens_time(
    desk: Desk, clock: FakeClock
) -> None:
    async with desk.open() as issuer:
        machine = Machine(await desk.token(issuer), at=clock.now())
        first, _ = await issuer.enroll(*machine.asks())
    await clock.advance(2 * HOUR)
    async with desk.open() as issuer:
        looked, _ = await issuer.enroll(*machine.asks(at=clock.now(), look=True))
        again, _ = await issuer.enroll(*machine.asks(at=clock.now(), nonce="another-one-of-it"))
        assert (looked.certificate, again.certificate) == ("", first.certificate)
        assert len([one for one in await issuer.certificates() if one.origin == "join"]) == 1


async def test_a_look_changes_nothing(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        machine = Machine(await desk.token(issuer), at=clock.now())
        before = await everything(issuer)
        answer, _ = await issuer.enroll(*machine.asks(look=True))
        assert answer.certificate == ""
        assert await everything(issuer) == before


async def test_what_is_refused_changes_nothing(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        text = await desk.token(issuer, name="n1")
        machine = Machine(text, at=clock.now())
        form, cluster, token_id, secret, fingerprint = text.split(":")
        forger = Machine(":".join((form, cluster, token_id, "A" * 43, fingerprint)), at=clock.now())
        unknown = Machine(":".join((form, cluster, "zzzzzzzzzz", secret, fingerprint)), at=clock.now())
        before = await everything(issuer)
        refusals: list[tuple[object, type[HeadwayError], str]] = [
            (forger.asks(), NotSignedIn, "knows no such token"),
            (unknown.asks(), NotSignedIn, "knows no such token"),
            (machine.asks(token_id="a\0"), NotSignedIn, "knows no such token"),
            (machine.asks(at=float("nan")), NotAllowed, "clock"),
            (machine.asks(cluster="elsewhere"), NotAllowed, "of the cluster 'elsewhere'"),
            (machine.asks(at=clock.now() - 61), NotAllowed, "61 s behind"),
            (machine.asks(at=clock.now() + 4_000), NotAllowed, "4000 s ahead"),
            (machine.asks(version="0.3.0"), NotAllowed, "too far apart"),
            (machine.asks(name="n2"), NotAllowed, "for the node 'n1' alone"),
            (machine.asks(csr="nonsense"), InvalidInput, "can't be read"),
            # Somebody in between put another key into the request.
            ((replace(machine.request, csr=make_csr(make_key()).decode()), machine.asks()[1]), NotSignedIn, "no such"),
            ((replace(machine.request, look=True), machine.asks()[1]), NotSignedIn, "no such"),
        ]
        for (request, proof), kind, words in refusals:  # type: ignore[misc]
            with pytest.raises(kind, match=words):
                await issuer.enroll(request, proof)
            assert await everything(issuer) == before, words
        await clock.advance(HOUR)
        with pytest.raises(NotAllowed, match="expired on"):
            await issuer.enroll(*machine.asks(at=clock.now()))
        assert await everything(issuer) == before


async def test_an_error_or_a_kill_within_the_transaction_leaves_the_token_unused(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk.open() as issuer:
        machine = Machine(await desk.token(issuer), at=clock.now())
        before = await everything(issuer)
        with monkeypatch.context() as patched:

            def killed(*_: object) -> None:
                raise RuntimeError("killed")

            patched.setattr(trust_store, "mark_used", killed)
            with pytest.raises(RuntimeError):
                await issuer.enroll(*machine.asks())
        assert await everything(issuer) == before
        answer, _ = await issuer.enroll(*machine.asks())
        assert answer.certificate


async def test_of_two_machines_with_one_token_at_once_one_joins(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        text = await desk.token(issuer)
        asked = [Machine(text, at=clock.now(), name=f"n{number}").asks() for number in range(6)]
        results = await asyncio.gather(*(issuer.enroll(*one) for one in asked), return_exceptions=True)
        assert len([one for one in results if isinstance(one, tuple)]) == 1
        assert len([one for one in results if isinstance(one, Conflict)]) == 5
        assert len([one for one in await issuer.certificates() if one.origin == "join"]) == 1


async def test_two_machines_are_never_one_node_unless_a_token_names_it(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        await issuer.enroll(*Machine(await desk.token(issuer), at=clock.now(), name="n1").asks())
        with pytest.raises(Conflict, match="There is a worker n1"):
            await issuer.enroll(*Machine(await desk.token(issuer), at=clock.now(), name="n1").asks())
        with pytest.raises(Conflict, match="There is a worker n1"):
            await issuer.enroll(*Machine(await desk.token(issuer, name="n1"), at=clock.now()).asks())
        with pytest.raises(NotAllowed, match="--name n1"):
            await issuer.enroll(*Machine(await desk.token(issuer), at=clock.now(), name="n1").asks(renew=True))
        renewed, _ = await issuer.enroll(*Machine(await desk.token(issuer, name="n1"), at=clock.now()).asks(renew=True))
        assert renewed.certificate
        # Once all of its certificates have expired, the name is free.
        await clock.advance(31 * DAY)
        free, _ = await issuer.enroll(*Machine(await desk.token(issuer), at=clock.now(), name="n1").asks())
        assert free.certificate


async def test_revoked_certificates_are_written_down_and_their_nodes_cordoned(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        assert desk.revoked() == []
        text = await desk.token(issuer)
        machine = Machine(text, at=clock.now(), name="n1")
        answer, _ = await issuer.enroll(*machine.asks())
        for nothing in ("n2", "a\0"):
            with pytest.raises(NotFound):
                await issuer.revoke(nothing, "ann")
        with pytest.raises(Conflict, match="keeps the list"):
            await issuer.revoke("resource_manager", "ann")
        revoked, cordoned = await issuer.revoke("n1", "ann")
        assert ([one.name for one in revoked], cordoned, desk.cordoned) == (["n1"], ["n1"], ["n1"])
        assert desk.revoked() == [revoked[0].serial]
        with pytest.raises(NotAllowed, match="was revoked by ann"):
            await issuer.enroll(*machine.asks())
        at = revoked[0].revoked_at
        await clock.advance(60)
        again, _ = await issuer.revoke(revoked[0].serial.upper(), "bob")
        assert [(one.revoked_at, one.revoked_by) for one in again] == [(at, "ann")]
        assert answer.certificate == again[0].pem
        back, _ = await issuer.enroll(*Machine(await desk.token(issuer), at=clock.now(), name="n1").asks())
        assert back.certificate
    # Between commit and file it was killed: the next start writes the file.
    TrustFiles(desk.trust).revoked.write_text("[]")
    async with desk.open():
        assert desk.revoked() == [revoked[0].serial]
    # With its database lost, what was revoked stays so.
    lost = Desk(str(desk.trust.parent / "new.db"), desk.trust, clock)
    async with lost.open():
        assert lost.revoked() == [revoked[0].serial]
    await clock.advance(31 * DAY)
    async with desk.open():
        assert desk.revoked() == []


async def test_init_and_renewals_are_kept_too(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        managers = {one.role for one in await issuer.certificates() if one.origin == "init"}
        assert managers == set(Role) - {Role.WORKER}
    async with desk.open() as issuer:
        assert len(await issuer.certificates()) == 4
        key = make_key()
        pem = await issuer.renew(make_csr(key), Identity("lab", Role.TASK_MANAGER))
        kept = [one for one in await issuer.certificates() if one.origin == "renew"]
        assert [(one.role, one.pem) for one in kept] == [(Role.TASK_MANAGER, pem.decode())]


async def test_what_was_revoked_meanwhile_is_not_renewed_and_nobody_renews_all_day(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door lets a call in whose certificate is revoked an instant later."""
    thief = Identity("lab", Role.WORKER, "n1")
    async with desk.open() as issuer:
        machine = Machine(await desk.token(issuer, name="n1"), at=clock.now())
        answer, _ = await issuer.enroll(*machine.asks())
        shown = int(issued(answer.certificate.encode()).serial, 16)
        csr = make_csr(make_key())
        monkeypatch.setattr(enrolment, "MOST_RENEWALS", 2)
        for _ in range(2):
            await issuer.renew(csr, thief, shown=shown)
        with pytest.raises(TooMany, match="worker n1 has renewed its certificate 2 times within an hour"):
            await issuer.renew(csr, thief, shown=shown)
        await clock.advance(HOUR + 1)
        await issuer.renew(csr, thief, shown=shown)

        monkeypatch.setattr(enrolment, "MOST_RENEWALS", 1_000)
        renewals = [asyncio.create_task(issuer.renew(csr, thief, shown=shown)) for _ in range(5)]
        revoking = asyncio.create_task(issuer.revoke("n1", "ann"))
        renewals += [asyncio.create_task(issuer.renew(csr, thief, shown=shown)) for _ in range(5)]
        await revoking
        await asyncio.gather(*renewals, return_exceptions=True)
        with pytest.raises(NotAllowed, match="was revoked, so it is not renewed"):
            await issuer.renew(csr, thief, shown=shown)
        assert all(one.revoked_at is not None for one in await issuer.certificates() if one.name == "n1")


async def test_nothing_by_which_a_token_could_be_forged_anew_is_kept(desk: Desk, clock: FakeClock) -> None:
    async with desk.open() as issuer:
        text = await desk.token(issuer)
    secret = text.split(":")[3]
    kept = [path.read_bytes() for path in desk.trust.parent.glob("nodes.db*")]
    assert kept
    assert not any(secret.encode() in one for one in kept)


@pytest.mark.parametrize(
    ("role", "name", "for_s"),
    [
        ("root", "", HOUR),
        ("resource_manager", "", HOUR),
        ("http_server", "", HOUR),
        ("task_manager", "n1", HOUR),
        ("worker", "N1/..", HOUR),
        ("worker", "", 1.0),
        ("worker", "", 30 * DAY),
        ("worker", "", float("nan")),
    ],
)
async def test_invitations_that_make_no_sense_are_refused(desk: Desk, role: str, name: str, for_s: float) -> None:
    async with desk.open() as issuer:
        with pytest.raises(InvalidInput):
            await issuer.invite(role, name, for_s, "ann")
        assert await issuer.invitations() == []


async def test_deleted_and_very_many_tokens(desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrolment, "MOST_OPEN", 2)
    async with desk.open() as issuer:
        text = await desk.token(issuer)
        await desk.token(issuer)
        with pytest.raises(TooMany):
            await desk.token(issuer)
        machine = Machine(text, at=clock.now())
        await issuer.delete_invitation(machine.token.id)
        await issuer.delete_invitation(machine.token.id)
        with pytest.raises(NotSignedIn):
            await issuer.enroll(*machine.asks())
        await desk.token(issuer)


async def test_without_an_authority_one_sentence_says_so(desk: Desk, clock: FakeClock) -> None:
    db = await Database.open(desk.database, room="resource_manager")
    try:
        issuer = Issuer(db, clock, None, cordon=desk._cordon)
        await issuer.load()
        with pytest.raises(Conflict, match="headway init"):
            await issuer.invite("worker", "", HOUR, "ann")
        with pytest.raises(Conflict, match="headway init"):
            await issuer.revoke("n1", "ann")
    finally:
        await db.close()


@pytest.mark.postgres
async def test_the_same_on_postgresql(desk: Desk, clock: FakeClock, postgres_url: str) -> None:
    desk.database = postgres_url
    async with desk.open() as issuer:
        text = await desk.token(issuer)
        machine = Machine(text, at=clock.now(), name="n1")
        first, _ = await issuer.enroll(*machine.asks())
        again, _ = await issuer.enroll(*machine.asks())
        assert first.certificate == again.certificate
        with pytest.raises(Conflict):
            await issuer.enroll(*Machine(text, at=clock.now(), name="n2").asks())
        revoked, _ = await issuer.revoke("n1", "ann")
        assert desk.revoked() == [revoked[0].serial]
    assert isinstance(first, JoinAnswer)
