"""What people call GPUs. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\s-]+")


@lru_cache(maxsize=4096)
def is_model(model: str, wanted: str) -> bool:
    """Whether a driver's name for a card, `NVIDIA A100-SXM4-40GB`, is what a person calls `A100`.

    It is if the wanted words are whole words of the name, next to each other and in this order.
    """
    have, want = (_WORD.findall(name.lower()) for name in (model, wanted))
    return bool(want) and any(have[i : i + len(want)] == want for i in range(len(have) - len(want) + 1))
