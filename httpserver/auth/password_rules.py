"""Which passwords are refused, whoever sets them. Pure."""

from __future__ import annotations

import itertools
import string
from functools import lru_cache
from importlib.resources import files

from headway.errors import InvalidInput, Problem

MIN_CHARS = 8
_AROUND = string.digits + string.punctuation + string.whitespace
_SPELLED_OTHERWISE = str.maketrans("0134578@$!", "oieastbasi")
_FEWEST_KINDS = 4  # of characters
_LONGEST_END = 4  # of digits and signs around a word, which guessing programs add by themselves
_LONGEST_ROW_END = 4  # of anything behind 12345678


def check(password: str, account: str, *, pointer: str) -> None:
    """
    Raises:
        InvalidInput: it would be among the first that somebody tries.
    """
    why = refusal(password, account)
    if why:
        sentence = f"{why}: take another password, of several words or random characters."
        raise InvalidInput(sentence, problems=[Problem(pointer, sentence)])


def refusal(password: str, account: str) -> str:
    """Why it is refused, as the beginning of a sentence; empty: it is taken."""
    plain = password.casefold()
    if not plain.strip():
        return "The password is blanks only"
    if len(plain) < MIN_CHARS:
        return f"The password has fewer than {MIN_CHARS} characters"
    if len(set(plain)) < _FEWEST_KINDS:
        return f"The password has fewer than {_FEWEST_KINDS} different characters"
    if _runs_on(plain):
        return "The password is a row of letters or digits"
    if _is_name(plain, account.casefold()):
        return "The password is the account's name"
    if _is_common(plain):
        return "The password is one of those that are tried first"
    return ""


def _is_name(plain: str, account: str) -> bool:
    """The name once or several times, forwards or backwards, with digits and signs around it."""
    for name in (account, account[::-1]):
        rest = plain.replace(name, "")
        if rest != plain and not rest.strip(_AROUND):
            return True
    return False


def _is_common(plain: str) -> bool:
    words = common()
    for text in (plain, plain.translate(_SPELLED_OTHERWISE)):
        core = text.strip(_AROUND)
        if text in words or "".join(text.split()) in words:
            return True
        if core in words and len(text) - len(core) <= _LONGEST_END:
            return True
    core = plain.strip(_AROUND)
    return core.translate(_SPELLED_OTHERWISE) in words and len(plain) - len(core) <= _LONGEST_END


def _runs_on(plain: str) -> bool:
    if len(plain) > MIN_CHARS + _LONGEST_ROW_END:
        return False
    return any(
        {ord(b) - ord(a) for a, b in itertools.pairwise(part)} in ({1}, {-1})
        for part in (plain[:MIN_CHARS], plain[-MIN_CHARS:])
    )


@lru_cache(maxsize=1)
def common() -> frozenset[str]:
    """The words of ``common_passwords.txt``."""
    text = files(__package__).joinpath("common_passwords.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
