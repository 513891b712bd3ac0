"""What the provider says of a person, and what that means here. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headway.ids import ACCOUNT_NAME

from ..settings import ProviderSettings
from .refusals import SignInRefused

_NAME: Final = re.compile(ACCOUNT_NAME)
_MOST_NEXT: Final = 2_000
_MOST_SUBJECT: Final = 255


@dataclass(frozen=True, slots=True)
class Person:
    """Who signs in, as far as the provider says. ``name``: empty where it tells none that can be an account's."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str]


def person(claims: Mapping[str, Any], settings: ProviderSettings) -> Person:
    """Who these checked claims are about.

    Raises:
        SignInRefused: the configuration does not let this person in.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_SUBJECT:
        raise SignInRefused("odd", fact="the claim `sub` is missing or too long")
    groups = _texts(claims.get(settings.groups_claim)) if settings.needs_groups else frozenset()
    if settings.allowed_domains and _domain(claims) not in settings.allowed_domains:
        raise SignInRefused("not-allowed", fact=f"`{subject}` has no confirmed address of an allowed domain")
    if settings.allowed_groups and not groups & settings.allowed_groups:
        raise SignInRefused("not-allowed", fact=f"`{subject}` is in no allowed group")
    return Person(settings.issuer, subject, account_name(claims.get(settings.account_claim)), groups)


def account_name(claim: Any) -> str:
    """The account's name that a claim tells: what stands before an @, in small letters; empty: it tells none."""
    if not isinstance(claim, str):
        return ""
    name = claim.partition("@")[0].strip().lower()
    return name if _NAME.fullmatch(name) else ""


def _domain(claims: Mapping[str, Any]) -> str:
    """Of an address that the provider has confirmed."""
    address = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(address, str):
        return ""
    return address.rpartition("@")[2].strip().lower()


def _texts(value: Any) -> frozenset[str]:
    values = value if isinstance(value, list) else [value]
    return frozenset(one for one in values if isinstance(one, str))


def group_changes(
    settings: ProviderSettings, theirs: Collection[str], mine: Collection[str]
) -> tuple[list[str], list[str]]:
    """Which groups of Headway a person comes into and leaves. Groups that no rule names stay as they are."""
    rules = settings.groups or {}
    ruled = frozenset(rules.values())
    wanted = frozenset(ours for their, ours in rules.items() if their in theirs)
    return sorted(wanted - frozenset(mine)), sorted((ruled - wanted) & frozenset(mine))


def is_admin(settings: ProviderSettings, theirs: Collection[str]) -> bool | None:
    """Whether a person is an admin by the provider's groups; None: no rule says so."""
    return bool(settings.admin_groups & frozenset(theirs)) if settings.admin_groups else None


def local_path(wish: str) -> str:
    """Where to go after the sign-in: a place of this very page, else its first one."""
    local = wish.startswith("/") and not wish.startswith(("//", "/\\", "/api/")) and len(wish) <= _MOST_NEXT
    return wish if local and wish.isascii() and wish.isprintable() and "\\" not in wish else "/"
