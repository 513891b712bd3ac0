"""What people call GPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_WORD = re.compile(r"[^\s-]+")
_MIG = "mig"


@lru_cache(maxsize=4096)
def is_model(model: str, wanted: str) -> bool:
    """Whether a driver's name for a card, `NVIDIA A100-SXM4-40GB`, is what a person calls `A100`.

    It is if the wanted words are whole words of the name, next to each other and in this order. A MIG slice is no
    `A100`, but a `MIG`, a `1g.5gb` and an `A100 MIG 1g.5gb`.
    """
    have, want = (_WORD.findall(name.lower()) for name in (model, wanted))
    if _MIG not in have:
        return _has_words(have, want)
    at = have.index(_MIG)
    if _MIG not in want[1:]:
        return _has_words(have[at:], want)
    card, part = want[: want.index(_MIG)], want[want.index(_MIG) :]
    return _has_words(have[:at], card) and _has_words(have[at:], part)


@lru_cache(maxsize=4096)
def is_slice(model: str) -> bool:
    """Whether it is a MIG slice of a card: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`."""
    return _MIG in _WORD.findall(model.lower())


def _has_words(have: Sequence[str], want: Sequence[str]) -> bool:
    return bool(want) and any(have[i : i + len(want)] == want for i in range(len(have) - len(want) + 1))
