"""Accounts and tokens as the HTTP API and the other services see them. Pure."""

from __future__ import annotations

from headway.rpc.v1 import common_pb2 as common

from .. import schemas as s
from .model import Account, StoredToken


def user(account: Account) -> s.User:
    return s.User(
        name=account.name,
        admin=account.admin,
        enabled=account.enabled,
        uid=account.uid,
        gid=account.gid,
        may_use_image_user=account.may_use_image_user,
        may_use_high_priority=account.may_use_high_priority,
        created_at=account.created_at,
        signed_in_at=account.signed_in_at,
        quota_bytes=account.quota_bytes,
    )


def token(stored: StoredToken) -> s.Token:
    return s.Token(
        id=stored.id,
        name=stored.name,
        created_at=stored.created_at,
        expires_at=stored.expires_at,
        used_at=stored.used_at,
    )


def session(stored: StoredToken) -> s.AccountSession:
    return s.AccountSession(
        id=stored.id,
        created_at=stored.created_at,
        expires_at=stored.expires_at,
        used_at=stored.used_at,
        address=stored.came.address,
        agent=stored.came.agent,
        way=stored.came.way,
    )


def own_session(stored: StoredToken, current: bool) -> s.OwnSession:
    return s.OwnSession(**session(stored).model_dump(), current=current)


def account_to_pb(account: Account) -> common.Account:
    """As JobManager keeps it with a job."""
    return common.Account(
        name=account.name,
        uid=account.uid,
        gid=account.gid,
        admin=account.admin,
        may_use_image_user=account.may_use_image_user,
        may_use_high_priority=account.may_use_high_priority,
    )
