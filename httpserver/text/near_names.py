"""Suggests existing names for one that does not exist. Pure; may take a tenth of a second."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_CUTOFF = 0.7
_NAMES_COMPARED = 4000
_CHARACTERS_COMPARED = 200
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Hint:
    """``sentence`` is for people. Both are empty where no name is near."""

    sentence: str = ""
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class TaggedImage:
    """An image of the market that somebody may use, with its tags, the latest push first."""

    full_name: str
    tags: Sequence[str]


def image(written: str, names: Iterable[str], own: str = "") -> Hint:
    """The nearest of ``names`` (``name:tag``, the ones to prefer first); those of the owner ``own`` are also meant
    without it. A name that was written without a tag is compared without."""
    word = written.lower()[:_CHARACTERS_COMPARED].partition("@")[0]
    tagless = ":" not in word.rpartition("/")[2]
    known: dict[str, str] = {}
    for name in names:
        if len(known) >= _NAMES_COMPARED:
            break
        text = name.rpartition(":")[0] if tagless else name
        known.setdefault(text, name)
        if own and text.startswith(f"{own}/"):
            known.setdefault(text.removeprefix(f"{own}/"), name)
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=_CUTOFF)
    return _did_you_mean(known[near[0]]) if near else Hint()


def tag(written: str, found: TaggedImage) -> Hint:
    """The tags that there are, of an image whose tag in ``written`` there is not."""
    if not found.tags:
        return Hint()
    near = difflib.get_close_matches(written.rpartition(":")[2][:_CHARACTERS_COMPARED], found.tags, n=1)
    best = near[0] if near else found.tags[0] if len(found.tags) == 1 else ""
    sentence = f"`{found.full_name}` has {_listed('tag', found.tags)} in the image market."
    return Hint(sentence, f"{found.full_name}:{best}" if best else "")


def dataset(written: str, usable: Mapping[str, Sequence[str]]) -> Hint:
    """``usable``: names of datasets and their versions, the newest last."""
    name, _, version = written.lower()[:_CHARACTERS_COMPARED].partition("@")
    if version and usable.get(name):
        newest_first = list(reversed(usable[name]))
        return Hint(f"`{name}` has {_listed('version', newest_first)}.", f"{name}@{newest_first[0]}")
    near = difflib.get_close_matches(name, list(usable)[:_NAMES_COMPARED], n=1, cutoff=_CUTOFF)
    return _did_you_mean(near[0]) if near else Hint()


def word(written: str, known: Iterable[str]) -> str:
    """The nearest of some fixed words, whatever the capitals and hyphens. Empty: none is near."""
    by_lower = {name.lower().replace("-", "_"): name for name in known}
    folded = written.lower()[:_CHARACTERS_COMPARED].replace("-", "_")
    near = difflib.get_close_matches(folded, list(by_lower)[:_NAMES_COMPARED], n=1, cutoff=_CUTOFF)
    return by_lower[near[0]] if near else ""


def _did_you_mean(name: str) -> Hint:
    return Hint(f"Did you mean `{name}`?", name)


def _listed(what: str, names: Sequence[str]) -> str:
    shown = [f"`{word}`" for word in names[:_NAMED]]
    if len(names) == 1:
        return f"only the {what} {shown[0]}"
    last = f"{len(names) - _NAMED} more" if len(names) > _NAMED else shown.pop()
    return f"the {what}s {', '.join(shown)} and {last}"
