"""Groups of accounts, and what is shared with accounts and groups."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headway.ids import ACCOUNT_NAME

from .base import ApiRequest, ApiResponse

DESCRIPTION_CHARACTERS = 20_000
SHARES_AT_MOST = 1_000

GroupName = Annotated[
    str,
    Field(
        pattern=f"^{ACCOUNT_NAME}$",
        description="lower-case letters, digits, _ and -, up to 32, starting with a letter or _",
    ),
]


class SharedWith(ApiResponse):
    """Who else sees it. To those who may not change the image only their own names are shown here."""

    users: list[str]
    groups: list[str]


class UsedBy(ApiResponse):
    """An account whose jobs used it."""

    account: str
    jobs: int
    last_used_at: float


class ShareChange(ApiRequest):
    """Replaces who it is shared with."""

    users: list[str] = Field(default_factory=list, max_length=SHARES_AT_MOST)
    groups: list[str] = Field(default_factory=list, max_length=SHARES_AT_MOST)


class Group(ApiResponse):
    name: str
    members: list[str]
    created_at: float


class GroupList(ApiResponse):
    groups: list[Group]


class GroupCreate(ApiRequest):
    name: GroupName
    members: list[str] = Field(default_factory=list, max_length=10_000)


class GroupPatch(ApiRequest):
    """Who is in it twice, or not in it anyway, is fine."""

    add: list[str] = Field(default_factory=list, max_length=10_000)
    remove: list[str] = Field(default_factory=list, max_length=10_000)
