"""The secrets of one attempt: fetched anew at each start, checked, and handed to the runtime. Nothing stores them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId
from headway.jobfile.spec import SecretUse
from headway.model.reasons import EndWord
from headway.units import format_duration

from ..ports import RuntimeRefused


@dataclass(frozen=True, slots=True)
class FetchedSecrets:
    """What HttpServer answered: values by name, and names that the owner has no secret of."""

    values: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    missing: tuple[str, ...] = ()


class SecretSource(Protocol):
    """Where values come from: ``peers.HttpServerClient``."""

    async def secrets(self, attempt: AttemptId, names: Sequence[str]) -> FetchedSecrets:
        """The values of these as they are now. Raises a HeadwayError: Unavailable may pass."""
        ...


class NoSecrets:
    """For a Worker that nobody gives secrets."""

    async def secrets(self, attempt: AttemptId, names: Sequence[str]) -> FetchedSecrets:
        raise Unavailable("This worker has no service to ask.")


def values_for(uses: Sequence[SecretUse], found: FetchedSecrets) -> tuple[bytes, ...]:
    """One value for each use, in its order.

    Raises:
        RuntimeRefused: SECRET_MISSING, with what lacks.
    """
    lacking = list(dict.fromkeys(use.name for use in uses if use.name not in found.values))
    if lacking:
        named = ", ".join(f"`{name}`" for name in lacking[:5]) + (" and others" if len(lacking) > 5 else "")
        what = "has no secret" if len(lacking) == 1 else "has no secrets"
        raise RuntimeRefused(f"Its owner {what} {named} any more.", word=EndWord.SECRET_MISSING)
    for use in uses:
        if use.env and b"\0" in found.values[use.name]:
            raise RuntimeRefused(
                f"The secret `{use.name}` has a NUL byte, which no environment variable can have: give it as a file.",
                word=EndWord.SECRET_MISSING,
            )
    return tuple(found.values[use.name] for use in uses)


async def fetch(
    source: SecretSource,
    attempt: AttemptId,
    uses: Sequence[SecretUse],
    clock: Clock,
    *,
    limit_s: float,
    on_wait: Callable[[str], None],
) -> tuple[bytes, ...]:
    """One value for each use. HttpServer may be away for a while: ``on_wait`` is told why, once.

    Raises:
        RuntimeRefused: SECRET_MISSING, or START_FAILED past ``limit_s`` (seconds) or where the answer is no.
    """
    names = list(dict.fromkeys(use.name for use in uses))
    until, pauses, told = clock.monotonic() + limit_s, Backoff(0.2, 5.0), False
    while True:
        try:
            return values_for(uses, await source.secrets(attempt, names))
        except RuntimeRefused:
            raise
        except Unavailable as error:
            if clock.monotonic() >= until:
                text = f"Its secrets could not be fetched within {format_duration(limit_s)}: {error.message}"
                raise RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True) from error
            if not told:
                told = True
                on_wait(error.message)
        except HeadwayError as error:
            text = f"Its secrets were not given to this machine: {error.message}"
            raise RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True) from error
        await clock.sleep(pauses.next_s())
