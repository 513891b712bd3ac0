"""Which secrets that a job names its owner lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..text import near_names
from .job_names import JobNames, UnknownName

_HINTED = 20  # so many names are compared with those that there are


class OwnSecret(Protocol):
    """What is known of a secret: ``secrets.store.SecretFacts``."""

    @property
    def name(self) -> str: ...

    @property
    def has_nul(self) -> bool: ...


def unfit_secrets(own: Iterable[OwnSecret], wanted: JobNames) -> list[UnknownName]:
    """Names of no secret of the account, and secrets that can't be what they are wanted as."""
    known = {one.name: one for one in own}
    unknown: list[UnknownName] = []
    for name in wanted.secrets:
        if name not in known:
            near = near_names.word(name, known) if len(unknown) < _HINTED else ""
            hint = f"Did you mean `{near}`?" if near else f"Store it first: headway secrets set {name}."
            unknown.append(UnknownName("secrets", name, f"You have no secret `{name}`. {hint}", suggestion=near))
        elif known[name].has_nul and name in wanted.secret_variables:
            sentence = (
                f"Your secret `{name}` has a NUL byte, which no environment variable can have: give it as a file."
            )
            unknown.append(UnknownName("secrets", name, sentence))
    return unknown
