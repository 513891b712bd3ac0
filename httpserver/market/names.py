"""Names of images: ``owner/name:tag``, and what people write for them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headway.errors import InvalidInput, NotAllowed
from headway.ids import ACCOUNT_NAME

from ..auth.model import Account

BASE = "base"  # the owner of the images that every user starts from; admins push there
LATEST = "latest"
NAME_CHARACTERS = 64
NAME_PATTERN = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
TAG_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Starts with a digit, so that it is no account's name and an address tells them apart.
_ID = re.compile(rf"1[{_ALPHABET}]{{19}}")
_REF = re.compile(
    rf"(?:(?P<owner>{ACCOUNT_NAME})/)?(?P<name>{NAME_PATTERN})"
    rf"(?::(?P<tag>{TAG_PATTERN}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?"
)
_ENGINES = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_RULE = (
    "small letters and digits, single `.`, `_` or `-` between them, up to 64 characters, then perhaps `:TAG` of "
    "letters, digits, `.`, `_` and `-`"
)


@dataclass(frozen=True, slots=True)
class MarketImageName:
    """An image, and perhaps one of its tags or contents."""

    owner: str
    name: str
    tag: str = ""
    digest: str = ""

    @property
    def image(self) -> str:
        """Without tag and digest."""
        return f"{self.owner}/{self.name}"

    def __str__(self) -> str:
        return shown(self.owner, self.name, self.tag, self.digest)


def shown(owner: str, name: str, tag: str = "", digest: str = "") -> str:
    """``owner/name:tag``, or ``owner/name@digest`` for a content without a tag."""
    if tag:
        return f"{owner}/{name}:{tag}"
    return f"{owner}/{name}@{digest}" if digest else f"{owner}/{name}"


def parse(text: str, own: str) -> MarketImageName | None:
    """What ``text`` may mean in the market; a name without an owner is of the account ``own``. None: nothing."""
    found = _REF.fullmatch(text)
    if found is None or len(found["name"]) > NAME_CHARACTERS:
        return None
    return MarketImageName(found["owner"] or own, found["name"], found["tag"] or "", found["digest"] or "")


def to_push(text: str, account: Account) -> MarketImageName:
    """Where the account wants to push; the tag is ``latest`` if it says none.

    Raises:
        InvalidInput: no name for an image.
        NotAllowed: the owner is somebody else.
    """
    if not text:
        raise InvalidInput(f"Say what the image is called: NAME or NAME:TAG ({_RULE}).")
    wanted = parse(text, account.name)
    if wanted is None or wanted.digest:
        raise InvalidInput(f"`{text[:200]}` can't name an image of the market: write NAME or NAME:TAG ({_RULE}).")
    if wanted.owner == BASE and not account.admin:
        raise NotAllowed("Images of `base` are pushed by admins only; push it under your own name.")
    if wanted.owner not in (BASE, account.name):
        raise NotAllowed(
            f"`{wanted.owner}/…` is not yours to push to: leave the owner out, and it goes to {account.name}/"
            f"{wanted.name}. Sharing lets others use it."
        )
    return MarketImageName(wanted.owner, wanted.name, wanted.tag or LATEST)


def is_tag(text: str) -> bool:
    """Whether ``text`` may be a tag."""
    return re.fullmatch(TAG_PATTERN, text) is not None


def is_id(text: str) -> bool:
    """Whether ``text`` has the form of an image's id."""
    return _ID.fullmatch(text) is not None


def new_id(entropy: bytes) -> str:
    """A fresh id from 12 random bytes."""
    value = int.from_bytes(entropy[:12], "big")
    return "1" + "".join(_ALPHABET[value >> (5 * digit) & 31] for digit in range(19))


def inner_tag(full_name: str) -> str:
    """The tag that an archive for an engine carries; empty where engines have no way to write it. Accounts' names may
    end in `-` or begin with `_`, engines' names may not."""
    name, _, tag = full_name.partition(":")
    if "@" in full_name or not tag:
        return ""
    owner, _, image = name.partition("/")
    return f"{owner}/{image}:{tag}" if _ENGINES.fullmatch(owner) else f"{image}:{tag}"
