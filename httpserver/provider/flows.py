"""Sign-ins that have gone to the provider and not come back yet. In memory: after a restart one begins anew."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass

from ..auth.secret import hashed

LIFE_S = 600.0
_MOST = 10_000
_MOST_OF_PLACE = 100


@dataclass(frozen=True, slots=True)
class Flow:
    """One of them. ``browser``: the hash of what the browser holds, so that no other's answer counts here."""

    state: str
    nonce: str
    verifier: str
    browser: str
    next: str
    place: str
    until_s: float  # monotonic


class Flows:
    """Each is taken once. The oldest of an address, and of all, go when there are too many."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}
        self._of: Counter[str] = Counter()

    def begin(self, next: str, place: str, now_s: float) -> tuple[Flow, str]:
        """A new one, and the secret for the browser."""
        secret = secrets.token_urlsafe(32)
        flow = Flow(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            browser=hashed(secret),
            next=next,
            place=place,
            until_s=now_s + LIFE_S,
        )
        self._forget(now_s, place)
        self._flows[flow.state] = flow
        self._of[place] += 1
        return flow, secret

    def take(self, state: str, secret: str, now_s: float) -> Flow | None:
        """The one of this state, if it is this browser's and not too old. It is gone either way."""
        flow = self._flows.get(state)
        if flow is None or not secrets.compare_digest(flow.browser, hashed(secret)):
            # A stranger who has seen the state must not be able to spend it.
            return None
        self._drop(flow)
        return flow if flow.until_s > now_s else None

    def _forget(self, now_s: float, place: str) -> None:
        for flow in list(self._flows.values()):
            if flow.until_s > now_s:
                break
            self._drop(flow)
        if self._of[place] >= _MOST_OF_PLACE:
            self._drop(next(flow for flow in self._flows.values() if flow.place == place))
        if len(self._flows) >= _MOST:
            self._drop(next(iter(self._flows.values())))

    def _drop(self, flow: Flow) -> None:
        del self._flows[flow.state]
        self._of[flow.place] -= 1
        if not self._of[flow.place]:
            del self._of[flow.place]
