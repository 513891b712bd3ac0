"""The names in a job that stand for things elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class JobNames:
    """The distinct names in a job."""

    images: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownName:
    """One name that stands for nothing, wherever in the job it stands; ``message`` is a sentence."""

    field: Literal["image", "datasets", "code"]
    word: str
    message: str
    suggestion: str = ""
