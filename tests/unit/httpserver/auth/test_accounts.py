"""Accounts, sessions and tokens with time under control."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from argon2 import PasswordHasher

from headway.errors import Conflict, InvalidInput, NotAllowed, NotSignedIn, TooMany
from headway.store import Database
from headway.store.migrations import differences
from httpserver import app
from httpserver.auth import operator, passwords
from httpserver.auth.accounts import Accounts
from httpserver.auth.model import Account
from httpserver.tables import metadata
from tests.support.clock import FakeClock

pytestmark = pytest.mark.usefixtures("both_databases")

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


async def test_a_rule_of_an_account_that_nobody_has_is_told_at_the_start(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slip in the name would let the jobs of the account that is meant go by the general rule."""
    for name in ("annabel", "bob"):
        await accounts.create(name, None, admin=True, by="test")
    await accounts.update("bob", {"enabled": False}, by="annabel")
    await accounts.remove("bob", by="annabel")
    told: list[tuple[str, Any]] = []
    log = SimpleNamespace(warning=lambda event, **fields: told.append((event, fields)))
    monkeypatch.setattr(app, "log", log)
    await app._warn_of_unknown(["anabel", "annabel", "bob", "zoe"], accounts)
    assert [(event, fields["account"], fields["meant"]) for event, fields in told] == [
        ("retention.no_such_account", "anabel", "annabel"),
        ("retention.no_such_account", "zoe", None),
    ]


async def again(db: Database, clock: FakeClock) -> Accounts:
    """As after a restart."""
    accounts = Accounts(db, clock, uid_from=20_000, uid_to=20_003, session_s=8 * DAY)
    await accounts.load()
    return accounts


async def token_of(accounts: Accounts, account: Account, name: str, expires_in_s: float | None = None) -> str:
    """The value of a long-lived token, made in a session of its own."""
    asking = (await accounts.open_session(account.name)).token
    _, secret = await accounts.create_token(account, name, expires_in_s, asking=asking)
    return secret


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
    secret = await token_of(accounts, ann, "ci", 100.0)
    lasting = await token_of(accounts, ann, "cluster", None)
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
    secret = await token_of(accounts, ann, "t", None)
    await accounts.update("ann", {"enabled": False}, by="admin")
    assert accounts.who(session.token) is None
    assert accounts.who(secret) is None
    with pytest.raises(NotSignedIn, match="disabled"):
        await accounts.sign_in("ann", PASSWORD, client="c")
    await accounts.update("ann", {"enabled": True}, by="admin")
    # Neither lives again: whoever has them was shut out.
    assert accounts.who(secret) is None
    assert accounts.who(session.token) is None


@pytest.mark.parametrize("change", [{"enabled": False}, {"password": "another good one"}])
async def test_tokens_live_on_only_where_an_admin_says_so(accounts: Accounts, change: dict[str, object]):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    session = await accounts.sign_in("ann", PASSWORD, client="c")
    secret = await token_of(accounts, ann, "t", None)
    await accounts.update("ann", change, by="admin", keep_tokens=True)
    await accounts.update("ann", {"enabled": True}, by="admin")
    assert accounts.who(secret) is not None
    assert accounts.who(session.token) is None
    await accounts.update("ann", change, by="admin")
    await accounts.update("ann", {"enabled": True}, by="admin")
    assert accounts.who(secret) is None


async def test_what_is_under_way_ends_with_its_session_but_for_who_ends_it(accounts: Accounts):
    await accounts.create("ann", PASSWORD, by="test")
    session = await accounts.sign_in("ann", PASSWORD, client="c")
    known = accounts.who(session.token)
    assert known is not None
    ended: list[str] = []
    there = asyncio.Event()

    async def another() -> None:
        with accounts.requests.entered(known.hash, lambda shut_out: ended.append("another")):
            there.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(another())
    await there.wait()
    with accounts.requests.entered(known.hash, lambda shut_out: ended.append("the asking one")):
        await accounts.update("ann", {"enabled": False}, by="ann2")
    assert ended == ["another"]
    waiting.cancel()


async def test_who_is_no_admin_any_more_sees_no_more_with_what_was_begun_as_one(accounts: Accounts):
    for name in ("ann", "bob"):
        await accounts.create(name, PASSWORD, admin=True, by="test")
    known = accounts.who((await accounts.open_session("ann")).token)
    assert known is not None
    ended: list[str] = []
    with accounts.requests.entered(known.hash, lambda shut_out: ended.append("it")):
        await asyncio.create_task(accounts.update("ann", {"admin": False}, by="bob"))
    assert ended == ["it"]


async def test_a_request_ends_with_its_tokens_time(accounts: Accounts, clock: FakeClock):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    secret = await token_of(accounts, ann, "ci", 100.0)
    known = accounts.who(secret)
    assert known is not None
    ended: list[str] = []
    looking = asyncio.create_task(accounts.run())

    async def reading() -> None:
        with accounts.requests.entered(known.hash, lambda shut_out: ended.append("it")):
            await asyncio.Event().wait()

    read = asyncio.create_task(reading())
    await clock.advance(60)
    assert not ended
    await clock.advance(60)
    assert ended[:1] == ["it"]
    for task in (looking, read):
        task.cancel()


async def test_the_right_password_counts_where_its_account_is_known_whatever_others_try_there(
    accounts: Accounts, db: Database, clock: FakeClock
):
    """Through ``ssh -L`` everybody comes from this machine, so one guesser shut out the admin too."""
    await accounts.create("ann", PASSWORD, by="test")
    await accounts.sign_in("ann", PASSWORD, client="127.0.0.1")
    accounts = await again(db, clock)
    for _ in range(12):
        with pytest.raises((NotSignedIn, TooMany)):
            await accounts.sign_in("ann", "wrong", client="127.0.0.1")
    await accounts.sign_in("ann", PASSWORD, client="127.0.0.1")
    # Elsewhere nobody is known by that.
    for _ in range(8):
        with pytest.raises(NotSignedIn):
            await accounts.sign_in("ann", "wrong", client="192.0.2.7")
    with pytest.raises(TooMany):
        await accounts.sign_in("ann", PASSWORD, client="192.0.2.7")


async def test_guesses_for_many_names_on_this_machine_shut_nobody_out(accounts: Accounts):
    await accounts.create("ann", PASSWORD, by="test")
    for number in range(40):
        with pytest.raises(NotSignedIn):
            await accounts.sign_in(f"name{number}", "wrong", client="127.0.0.1")
    await accounts.sign_in("ann", PASSWORD, client="127.0.0.1")


@pytest.mark.parametrize("password", ["12345678", "password", "        ", "ann", "ann2026!", "P@ssw0rd1", "aaaaaaaa"])
async def test_passwords_that_are_tried_first_are_refused(accounts: Accounts, password: str):
    with pytest.raises(InvalidInput, match="The password"):
        await accounts.create("ann", password, by="test")
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    with pytest.raises(InvalidInput, match="The password"):
        await accounts.update("ann", {"password": password}, by="admin")
    with pytest.raises(InvalidInput, match="The password"):
        await accounts.change_password(ann, PASSWORD, password, keep_token="")
    await accounts.sign_in("ann", PASSWORD, client="c")


@pytest.mark.parametrize("ids", [{"uid": 1000}, {"gid": 1000}, {"uid": 65_534}, {"gid": 65_534}, {"uid": 65_535}])
async def test_ids_of_the_machines_are_refused(accounts: Accounts, ids: dict[str, int]):
    with pytest.raises(InvalidInput, match=r"nobody|account_uid_min"):
        await accounts.create("ann", PASSWORD, by="test", **ids)


async def test_ids_of_others_are_refused(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, uid=30_000, gid=30_001, by="test")
    for ids in ({"uid": ann.uid}, {"uid": ann.gid}, {"gid": ann.gid}, {"gid": ann.uid}):
        with pytest.raises(Conflict, match="belongs to another account"):
            await accounts.create("bob", PASSWORD, by="test", **ids)


async def test_a_removed_account_is_gone_and_its_name_and_uid_are_not_given_again(
    accounts: Accounts, db: Database, clock: FakeClock
):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    await accounts.sign_in("ann", PASSWORD, client="c")
    secret = await token_of(accounts, ann, "t", None)
    with pytest.raises(Conflict, match="disable it first"):
        await accounts.remove("ann", by="admin")
    await accounts.update("ann", {"enabled": False}, by="admin", keep_tokens=True)
    await accounts.remove("ann", by="admin")
    for now in (accounts, await again(db, clock)):
        assert now.get("ann") is None
        assert now.who(secret) is None
        assert [a.name for a in await now.all_and_removed()] == ["ann"]
        with pytest.raises(NotSignedIn, match="wrong"):
            await now.sign_in("ann", PASSWORD, client="c")
        with pytest.raises(Conflict, match="There was an account"):
            await now.create("ann", PASSWORD, by="test")
        with pytest.raises(Conflict, match="belongs to another"):
            await now.create("bea", PASSWORD, uid=ann.uid, by="test")
    bob, _ = await accounts.create("bob", PASSWORD, by="test")
    assert bob.uid == ann.uid + 1


async def test_an_admin_sees_and_ends_sessions_and_tokens_of_others(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    sessions = [(await accounts.open_session("ann")).token for _ in range(2)]
    _, secret = await accounts.create_token(ann, "t", None, asking=sessions[0])
    first, second = accounts.of_account("ann", "session")
    assert await accounts.end_of_account("ann", "session", first.id, by="admin") == 1
    assert [accounts.who(one) is not None for one in sessions].count(True) == 1
    assert await accounts.end_of_account("ann", "token", second.id, by="admin") == 0
    assert await accounts.end_of_account("ann", "token", None, by="admin") == 1
    assert accounts.who(secret) is None


async def test_uids_are_given_in_order_and_never_twice(accounts: Accounts):
    uids = [(await accounts.create(name, PASSWORD, by="test"))[0].uid for name in ("a", "b")]
    own, _ = await accounts.create("own", PASSWORD, uid=30_005, by="test")
    assert (uids, own.uid, own.gid) == ([20_000, 20_001], 30_005, 30_005)
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


async def test_the_machines_operator_gets_back_in_after_the_last_password_was_lost(
    accounts: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, wish = tmp_path / "first-admin", tmp_path / "first-admin.reset"
    await accounts.make_first_admin(file)
    await operator.reset_wished(accounts, file)  # nothing is wished
    first = file.read_text()
    await accounts.create("ann", PASSWORD, admin=True, by="test")
    held = (await accounts.open_session("ann")).token
    await accounts.update("ann", {"enabled": False}, by="test")
    wish.write_text("zoe\n")
    await operator.reset_wished(accounts, file)
    assert (file.read_text(), wish.exists()) == (first, False)

    async def crash(*args: object, **kwargs: object) -> None:
        raise RuntimeError("killed here")

    wish.write_text("ann\n")
    with monkeypatch.context() as patch:
        patch.setattr(accounts, "update", crash)
        with pytest.raises(RuntimeError):
            await operator.reset_wished(accounts, file)
    assert wish.exists()
    await operator.reset_wished(accounts, file)
    assert not wish.exists()
    assert file.stat().st_mode & 0o777 == 0o600
    name, password = file.read_text().splitlines()
    assert name == "ann"
    await accounts.sign_in(name, password, client="c")
    assert accounts.who(held) is None


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


@pytest.mark.parametrize("change", [{"password": "a new good one"}, {"enabled": False}])
async def test_sign_ins_that_wait_with_the_old_password_open_nothing_after_a_change(
    accounts: Accounts, change: dict[str, object]
):
    await accounts.create("ann", PASSWORD, by="test")
    await accounts.sign_in("ann", PASSWORD, client="c")
    waiting = [asyncio.create_task(accounts.sign_in("ann", PASSWORD, client="c")) for _ in range(6)]
    await asyncio.sleep(0)
    await accounts.update("ann", change, by="admin")
    for answer in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(answer, NotSignedIn) or accounts.who(answer.token) is None
    assert accounts.of_account("ann", "session") == []


async def test_ones_own_change_of_password_does_not_undo_an_admins(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    session = await accounts.sign_in("ann", PASSWORD, client="c")
    own = asyncio.create_task(accounts.change_password(ann, PASSWORD, "a thief's own one", keep_token=session.token))
    await asyncio.sleep(0)
    await accounts.update("ann", {"password": "an admin's good one"}, by="admin")
    with pytest.raises(NotSignedIn, match="changed meanwhile"):
        await own
    await accounts.sign_in("ann", "an admin's good one", client="c")
    with pytest.raises(NotSignedIn):
        await accounts.sign_in("ann", "a thief's own one", client="c")


async def test_a_token_that_waits_for_its_turn_is_not_made_once_its_session_is_over(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    session = (await accounts.open_session("ann")).token
    changing = asyncio.create_task(accounts.update("ann", {"enabled": False}, by="admin"))
    await asyncio.sleep(0)  # now it holds the lock
    with pytest.raises(NotSignedIn):
        await accounts.create_token(ann, "t", None, asking=session)
    await changing
    assert accounts.of_account("ann", "token") == []


async def test_tokens_made_at_once_are_not_more_than_allowed(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    session = (await accounts.open_session("ann")).token
    wishes = [accounts.create_token(ann, f"t{number}", None, asking=session) for number in range(103)]
    answers = await asyncio.gather(*wishes, return_exceptions=True)
    assert [isinstance(answer, TooMany) for answer in answers].count(True) == 3
    assert len(await accounts.tokens(ann)) == 100


async def test_all_sessions_end_with_one_that_is_being_opened(accounts: Accounts):
    await accounts.create("ann", PASSWORD, by="test")
    opening = asyncio.create_task(accounts.open_session("ann"))
    await asyncio.sleep(0)
    assert await accounts.end_of_account("ann", "session", None, by="admin") == 1
    assert accounts.who((await opening).token) is None


@pytest.mark.parametrize("wish", ["create", "update", "remove"])
@pytest.mark.parametrize("change", [{"enabled": False}, {"admin": False}])
async def test_who_stops_being_admin_meanwhile_changes_nothing_more(
    accounts: Accounts, wish: str, change: dict[str, object]
):
    for name in ("boss", "mallory"):
        await accounts.create(name, PASSWORD, admin=True, by="first start")
    await accounts.create("ann", PASSWORD, by="boss")
    await accounts.update("ann", {"enabled": False}, by="boss")
    changing = asyncio.create_task(accounts.update("mallory", change, by="boss"))
    await asyncio.sleep(0)  # now it holds the lock

    async def wished() -> None:
        match wish:
            case "create":
                await accounts.create("mallory2", PASSWORD, admin=True, uid=30_000, by="mallory")
            case "update":
                await accounts.update("ann", {"enabled": True}, by="mallory")
            case _:
                await accounts.remove("ann", by="mallory")

    with pytest.raises(NotAllowed):
        await wished()
    await changing
    ann = accounts.get("ann")
    assert ann is not None
    assert not ann.enabled
    assert accounts.get("mallory2") is None


async def test_made_up_names_of_one_place_wait_as_one(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch, shipped_hasher: PasswordHasher
):
    """Each name had a turn of its own, so that a thousand of them kept everybody else waiting for a minute."""
    monkeypatch.setattr(passwords, "_hasher", shipped_hasher)  # the order of checks shows only where each takes time
    await accounts.create("ann", PASSWORD, by="test")
    await accounts.sign_in("ann", PASSWORD, client="127.0.0.1")
    guesses = [asyncio.create_task(accounts.sign_in(f"n{n}", "wrong", client="127.0.0.1")) for n in range(40)]
    await asyncio.sleep(0)
    await accounts.sign_in("ann", PASSWORD, client="127.0.0.1")
    assert sum(guess.done() for guess in guesses) < 10
    for guess in guesses:
        guess.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)


async def wrong_changes(accounts: Accounts, account: Account) -> None:
    for _ in range(8):
        with pytest.raises(InvalidInput, match="current password is wrong"):
            await accounts.change_password(account, "wrong", "a new good one", keep_token="")
    with pytest.raises(TooMany, match=r"try again in \d+ seconds?\.") as refused:
        await accounts.change_password(account, PASSWORD, "a new good one", keep_token="")
    assert f" {math.ceil(refused.value.extra['retry_after_s'])} second" in refused.value.message


async def test_the_same_password_again_is_no_change(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    other = (await accounts.open_session("ann")).token
    with pytest.raises(InvalidInput, match="same as before") as refused:
        await accounts.change_password(ann, PASSWORD, PASSWORD, keep_token="")
    assert [problem.pointer for problem in refused.value.problems] == ["/new"]
    assert accounts.who(other) is not None
    with pytest.raises(InvalidInput, match="current password is wrong"):  # it says nothing to who doesn't know it
        await accounts.change_password(ann, "a wrong good one", "a wrong good one", keep_token="")


async def test_a_token_that_ends_makes_none_that_outlives_it(accounts: Accounts, clock: FakeClock):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    week, ever = [await token_of(accounts, ann, name, life) for name, life in (("week", 7 * DAY), ("ever", None))]
    await clock.advance(DAY)
    for life in (None, 6 * DAY + 1, 365 * DAY):
        with pytest.raises(InvalidInput, match="The token that asks ends in 6d, and can't make one") as refused:
            await accounts.create_token(ann, "more", life, asking=week)
        assert [problem.pointer for problem in refused.value.problems] == ["/expires_in_s"]
    await accounts.create_token(ann, "shorter", 6 * DAY, asking=week)
    await accounts.create_token(ann, "long", None, asking=ever)
    await accounts.create_token(ann, "by hand", None, asking=(await accounts.open_session("ann")).token)
    assert {one.name for one in await accounts.tokens(ann)} == {"week", "ever", "shorter", "long", "by hand"}


async def test_wrong_changes_of_some_accounts_keep_no_other_from_a_new_password(db: Database, clock: FakeClock):
    accounts = Accounts(db, clock)
    await accounts.load()
    for name in ("bea", "cem", "dan", "eli"):
        account, _ = await accounts.create(name, PASSWORD, by="test")
        await wrong_changes(accounts, account)
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    await accounts.change_password(ann, PASSWORD, "a new good one", keep_token="")
    await accounts.sign_in("ann", "a new good one", client="c")


async def test_strangers_guesses_at_a_name_do_not_keep_its_owner_from_a_new_password(accounts: Accounts):
    ann, _ = await accounts.create("ann", PASSWORD, by="test")
    session = (await accounts.open_session("ann")).token
    for number in range(101):
        accounts._limits.failed("ann", f"192.0.2.{number}", 1_000.0)
    with pytest.raises(TooMany):
        await accounts.sign_in("ann", PASSWORD, client="192.0.2.200")
    await accounts.change_password(ann, PASSWORD, "a new good one", keep_token=session)
    assert accounts.who(session) is not None
