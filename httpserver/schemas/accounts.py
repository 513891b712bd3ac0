"""Accounts, sessions and tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from headway.ids import ACCOUNT_NAME

from .base import ApiRequest, ApiResponse


class User(ApiResponse):
    name: str
    admin: bool
    enabled: bool
    uid: int
    gid: int
    may_use_image_user: bool = Field(description="may run tasks as the image says, root included")
    may_use_high_priority: bool
    created_at: float
    signed_in_at: float | None = Field(None, description="last sign-in with the password")
    quota_bytes: int | None = Field(None, description="of the personal space; 0: no limit, null: as configured")


class ListedUser(User):
    space_used_bytes: int | None = Field(description="of the personal space, as far as it is known; null: not measured")
    space_limit_bytes: int | None = Field(description="what it may hold, as configured or the account's own; null: all")


class UserList(ApiResponse):
    users: list[ListedUser]


class Credentials(ApiRequest):
    username: str = Field(max_length=200)
    password: str = Field(max_length=1000)


class Session(ApiResponse):
    """The token is the same value as the cookie's; send it as ``Authorization: Bearer``."""

    user: User
    token: str
    expires_at: float


class PasswordChange(ApiRequest):
    current: str = Field(max_length=1000)
    new: str = Field(min_length=8, max_length=1000)


# A name is shown in tables and terminals: nothing in it moves what stands around it.
TokenName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$",
        description="what it is for, to tell it apart later",
    ),
]


class TokenCreate(ApiRequest):
    name: TokenName
    expires_in_s: float | None = Field(None, gt=0, le=20 * 366 * 86400, description="null: until deleted")


class Token(ApiResponse):
    id: str
    name: str
    created_at: float
    expires_at: float | None
    used_at: float | None


class TokenCreated(Token):
    token: str = Field(description="shown this once; only its hash is kept")


class TokenList(ApiResponse):
    tokens: list[Token]


UserName = Annotated[
    str,
    Field(
        pattern=f"^{ACCOUNT_NAME}$",
        description="lower-case letters, digits, _ and -, up to 32, starting with a letter or _",
    ),
]


class UserCreate(ApiRequest):
    name: UserName
    password: str | None = Field(None, min_length=8, max_length=1000, description="null: one is made and answered")
    admin: StrictBool = False
    uid: int | None = Field(None, ge=1000, le=2**31 - 2, description="null: the next free one of the configured range")
    gid: int | None = Field(None, ge=1000, le=2**31 - 2, description="null: the same as uid")
    may_use_image_user: StrictBool = False
    may_use_high_priority: StrictBool = False
    quota_bytes: int | None = Field(
        None, ge=0, le=2**62, description="of the personal space; 0: no limit, null: as configured"
    )


class UserCreated(ApiResponse):
    user: User
    password: str | None = Field(None, description="only when it was made here; shown this once")


class UserPatch(ApiRequest):
    """Only what is given changes. A new password or ``enabled: false`` ends all sessions and tokens of the account, and
    what is under way with them. ``enabled: false`` also holds its work, ``enabled: true`` releases what that held."""

    password: str | None = Field(None, min_length=8, max_length=1000)
    admin: StrictBool | None = None
    enabled: StrictBool | None = None
    may_use_image_user: StrictBool | None = None
    may_use_high_priority: StrictBool | None = None
    quota_bytes: int | None = Field(
        None, ge=-1, le=2**62, description="of the personal space; 0: no limit, -1: as configured again"
    )
    keep_tokens: StrictBool = Field(False, description="with a new password or `enabled: false`: tokens stay")
    cancel_jobs: StrictBool = Field(False, description="with `enabled: false`: its live jobs are cancelled")


class AccountSession(ApiResponse):
    id: str
    created_at: float
    expires_at: float | None
    used_at: float | None
    address: str = Field("", description="where it was opened; empty: by an older version")
    agent: str = Field("", description="what the program calls itself that opened it")
    way: str = Field("", description="password · provider · command line · operator")


class AccountSessionList(ApiResponse):
    sessions: list[AccountSession]


class OwnSession(AccountSession):
    current: bool = Field(description="the one that the request came with")


class OwnSessionList(ApiResponse):
    sessions: list[OwnSession]


class PasswordReset(ApiRequest):
    keep_tokens: StrictBool = Field(False, description="its long-lived tokens stay; otherwise they end")


class PasswordMade(ApiResponse):
    password: str = Field(description="shown this once; only its hash is kept")


class Ended(ApiResponse):
    ended: int = Field(description="how many sessions or tokens")


class UserRemoved(ApiResponse):
    name: str
    home: str = Field(description="the folder in the other's space that the files are in now; empty: not handed over")
