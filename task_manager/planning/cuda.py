"""What an image requires of the GPU driver, in the language of NVIDIA_REQUIRE_CUDA.

    cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536

Blanks mean "or", commas "and". `cuda` is the newest CUDA version that the driver supports, `driver` the driver's
version. `brand` is the product line of the cards, `arch` their compute capability. NVIDIA's Container Toolkit defines
the language and checks it when a container starts. It knows more than TaskManager, so what is not known here counts as
met: a version, the brand of a card, a newer word. Only what surely fails is kept away.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

_TERM = re.compile(r"(cuda|driver|brand|arch)(>=|<=|!=|==|=|>|<)(.+)")
_NUMBERS = re.compile(r"\d+(\.\d+)*")
_DATA_CENTRE = frozenset({"tesla", "nvidia", "unknown"})
# Brands by words in the driver's name for a card. New drivers say "NVIDIA A100…", older ones "Tesla V100".
_BRANDS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (re.compile(r"\bgeforce\b", re.I), frozenset({"geforce", "geforcertx"})),
    (re.compile(r"\btitan\b", re.I), frozenset({"titan", "titanrtx"})),
    (re.compile(r"\bquadro\b", re.I), frozenset({"quadro", "quadrortx"})),
    (re.compile(r"\brtx\b", re.I), frozenset({"nvidiartx", "quadrortx", "nvidia", "unknown"})),
    (re.compile(r"\b(tesla|grid|[ablptvhg]h?\d{1,3}[a-z]?)\b", re.I), _DATA_CENTRE),
)


@lru_cache(maxsize=4096)
def is_served(require: str, driver: str, cuda: str, models: tuple[str, ...]) -> bool:
    """Whether a node with this driver and cards of these models meets what an image requires.

    An empty string means that the version is not known.
    """
    choices = require.split()
    if not choices:
        return True
    return any(all(_holds(term, driver, cuda, models) for term in choice.split(",") if term) for choice in choices)


def phrase(require: str) -> str:
    """What an image requires, as a phrase for people: `a driver for CUDA 12.4 or newer`."""
    for choice in require.split():
        found = re.fullmatch(r"cuda>=(\d+(?:\.\d+)*)", choice.split(",")[0])
        if found:
            return f"a driver for CUDA {found[1]} or newer"
    return f"a driver with {require}"


def brands(model: str) -> frozenset[str]:
    """The brands that a card of this name may be reported as; empty: not known."""
    return next((found for pattern, found in _BRANDS if pattern.search(model)), frozenset())


def _holds(term: str, driver: str, cuda: str, models: Collection[str]) -> bool:
    found = _TERM.fullmatch(term)
    if found is None:
        return True
    name, operator, value = found.groups()
    if name == "brand":
        return _brand_holds(operator, value, models)
    have = {"cuda": cuda, "driver": driver}.get(name, "")
    return _compare(have, operator, value)


def _brand_holds(operator: str, value: str, models: Collection[str]) -> bool:
    if operator not in ("=", "=="):
        return True
    possible = [brands(model) for model in models]
    return not possible or any(not found or value.lower() in found for found in possible)


def _compare(have: str, operator: str, want: str) -> bool:
    if not _NUMBERS.fullmatch(have) or not _NUMBERS.fullmatch(want):
        return True
    ours, theirs = ([int(part) for part in text.split(".")] for text in (have, want))
    # 470 against 470.57.2: missing parts count as 0, as in NVIDIA's toolkit.
    length = max(len(ours), len(theirs))
    a, b = (tuple(numbers + [0] * (length - len(numbers))) for numbers in (ours, theirs))
    return {
        ">=": a >= b,
        "<=": a <= b,
        ">": a > b,
        "<": a < b,
        "=": a == b,
        "==": a == b,
        "!=": a != b,
    }[operator]
