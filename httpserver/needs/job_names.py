"""The names of images, datasets, code and secrets in a job. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class JobNames:
    """The distinct names in a job."""

    images: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    secret_variables: tuple[str, ...] = ()  # those of them that are wanted as environment variables


@dataclass(frozen=True, slots=True)
class UnknownName:
    """One name that means nothing, wherever in the job it stands. ``message`` is a sentence."""

    field: Literal["image", "datasets", "code", "secrets"]
    word: str
    message: str
    suggestion: str = ""
