"""Accounts, sessions and tokens with time under control."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import Conflict, InvalidInput, NotSignedIn, TooMany
from headway.store import Database
from headway.store.migrations import differences
from httpserver.auth.accounts import Accounts
from httpserver.tables import metadata
from tests.support.clock import FakeClock

DAY = 86_400.0
PASSWORD = "correct horse"


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    db = await Database.open(str(tmp_path / "http.db"), room="httpserver")
    yield db
    await db.close()


@pytest.fixture
async def accounts(db: Database, clock: FakeClock) -> Accounts:
    accounts = Accounts(db, clock, uid_from=20_000, uid_to=20_003, session_s=8 * DAY)
    await accounts.load()
    return accounts


async def again(db: Database, clock: FakeClock) -> Accounts:
    """As after a restart."""
    accounts = Accounts(db, clock, uid_from=20_000, uid_to=20_003, session_s=8 * DAY)
    await accounts.load()
    return accounts


async def test_the_tables_are_those_that_the_migrations_build(db: Database):
    import httpserver.app  # noqa: F401  # so that all rooms' tables are known

    assert differences(db._write_engine, "httpserver", metadata) == []


async def test_a_session_lives_as_long_as_it_is_used(accounts: Accounts, clock: FakeClock, db: Database):
    await accounts.create("ann", PASSWORD, by="test")
    session = await accounts.sign_in("ann", PASSWORD, client="c")
    renewed = []
    for _ in range(10):
        clock.tick(2 * DAY)
        known = accounts.who(session.token)
        assert known is not None
        renewed.append(known.renewed_until == clock.now() + 8 * DAY)
    assert all(renewed)
    await db.write(lambda conn: None)  # what was put off is stored with the next write
    assert (await again(db, clock)).who(session.token) is not None
    clock.tick(8 * DAY + 1)
    assert accounts.who(session.token) is None
    assert (await again(db, clock)).who(session.token) is None


async def test_a_session_is_not_renewed_at_every_call(accounts: Accounts, clock: FakeClock):
    await accounts.create("ann", PASSWORD, by="test")
    session = await accounts.sign_in("ann", PASSWORD, client="c")
    clock.tick(3600)
    known = accounts.who(session.token)
    assert known is not None
    assert known.renewed_until is None


async def test_tokens_end_when_they_say_and_tell_when_they_were_used(accounts: Accounts, clock: FakeClock):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    _, secret = await accounts.create_token(ann, "ci", 100.0)
    _, lasting = await accounts.create_token(ann, "cluster", None)
    clock.tick(50)
    assert accounts.who(secret) is not None
    assert {t.name: t.used_at for t in await accounts.tokens(ann)} == {"ci": clock.now(), "cluster": None}
    clock.tick(50)
    assert accounts.who(secret) is None
    clock.tick(1000 * DAY)
    assert accounts.who(lasting) is not None
    assert [t.name for t in await accounts.tokens(ann)] == ["cluster"]


async def test_a_disabled_account_is_out_at_once_with_all_it_holds(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    session = await accounts.sign_in("ann", PASSWORD, client="c")
    _, secret = await accounts.create_token(ann, "t", None)
    await accounts.update("ann", {"enabled": False}, by="admin")
    assert accounts.who(session.token) is None
    assert accounts.who(secret) is None
    with pytest.raises(NotSignedIn, match="disabled"):
        await accounts.sign_in("ann", PASSWORD, client="c")
    await accounts.update("ann", {"enabled": True}, by="admin")
    # Tokens were made to last; sessions are over.
    assert accounts.who(secret) is not None
    assert accounts.who(session.token) is None


async def test_uids_are_given_in_order_and_never_twice(accounts: Accounts):
    uids = [(await accounts.create(name, PASSWORD, by="test"))[0].uid for name in ("a", "b")]
    own, _ = await accounts.create("own", PASSWORD, uid=1005, by="test")
    assert (uids, own.uid, own.gid) == ([20_000, 20_001], 1005, 1005)
    await accounts.create("c", PASSWORD, by="test")
    with pytest.raises(Conflict, match="All uids"):
        await accounts.create("d", PASSWORD, by="test")


async def test_after_too_many_wrong_passwords_one_waits_and_then_may_again(accounts: Accounts, clock: FakeClock):
    await accounts.create("ann", PASSWORD, by="test")
    for _ in range(8):
        with pytest.raises(NotSignedIn):
            await accounts.sign_in("ann", "wrong", client="c")
    with pytest.raises(TooMany) as refused:
        await accounts.sign_in("ann", PASSWORD, client="c")
    await clock.advance(refused.value.extra["retry_after_s"] + 0.1)
    await accounts.sign_in("ann", PASSWORD, client="c")


async def test_the_oldest_sessions_go_when_there_are_too_many(accounts: Accounts, clock: FakeClock):
    await accounts.create("ann", PASSWORD, by="test")
    tokens = []
    for _ in range(103):
        clock.tick(1)
        tokens.append((await accounts.open_session("ann")).token)
    assert [accounts.who(token) is not None for token in tokens] == [False] * 3 + [True] * 100


async def test_a_crash_between_the_file_and_the_account_leaves_no_admin_without_a_password(
    accounts: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "first-admin"

    async def crash(*args: object, **kwargs: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(accounts, "create", crash)
        with pytest.raises(RuntimeError):
            await accounts.make_first_admin(file)
    await accounts.make_first_admin(file)
    name, password = file.read_text().splitlines()
    await accounts.sign_in(name, password, client="c")


@pytest.mark.parametrize("name", ["root", "base", "nobody", "headway"])
async def test_names_that_mean_something_else_are_refused(accounts: Accounts, name: str):
    with pytest.raises(InvalidInput, match=name):
        await accounts.create(name, PASSWORD, by="test")
