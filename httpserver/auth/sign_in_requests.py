"""Command lines that ask to be let in: somebody who is signed in on the page approves them by a short code.

In memory: after a restart one asks anew.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final, Literal

from headway.errors import InvalidInput, NotFound, TooMany

from .secret import hashed
from .sign_in_limits import FailureLimit, place_of

LIFE_S: Final = 600.0
EVERY_S: Final = 2.0  # how often a command line asks for the decision
_MOST: Final = 2_000
_MOST_OF_PLACE: Final = 20
_SIGNS: Final = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: no words; no sign that looks like a digit

Decision = Literal["waiting", "approved", "denied"]


@dataclass(frozen=True, slots=True)
class SignInRequest:
    """One of them. ``account``: who decided; empty: nobody yet."""

    code: str
    secret: str  # hashed
    address: str
    agent: str
    until_s: float  # monotonic
    decision: Decision = "waiting"
    account: str = ""


class SignInRequests:
    """All that wait, or were decided and not fetched yet."""

    def __init__(self) -> None:
        self._requests: dict[str, SignInRequest] = {}  # by code
        self._codes: dict[str, str] = {}  # by hash
        self._of: Counter[str] = Counter()
        self._wrong = FailureLimit(burst=10, every_s=30)

    def ask(self, address: str, agent: str, now_s: float) -> tuple[SignInRequest, str]:
        """A new one, and the secret by which its command line fetches the decision.

        Raises:
            TooMany: too many wait, of this address or of all.
        """
        for request in list(self._requests.values()):
            if request.until_s > now_s:
                break
            self._drop(request)
        if self._of[place_of(address)] >= _MOST_OF_PLACE or len(self._requests) >= _MOST:
            raise TooMany("Too many command lines wait to be let in: try again in some minutes.")
        secret = secrets.token_urlsafe(32)
        code = "".join(secrets.choice(_SIGNS) for _ in range(8))
        while code in self._requests:
            code = "".join(secrets.choice(_SIGNS) for _ in range(8))
        shown = "".join(sign for sign in agent[:200] if sign.isprintable())
        request = SignInRequest(code, hashed(secret), address, shown, now_s + LIFE_S)
        self._requests[code] = request
        self._codes[request.secret] = code
        self._of[place_of(address)] += 1
        return request, secret

    def look(self, code: str, by: str, now_s: float) -> SignInRequest:
        """The one of this code, as a person typed it.

        Raises:
            TooMany: ``by`` has tried too many that there are not.
            NotFound: there is none that waits.
        """
        wait_s = self._wrong.wait_s(by, now_s)
        if wait_s > 0:
            raise TooMany("Too many wrong codes: try again in a minute.", extra={"retry_after_s": round(wait_s, 1)})
        request = self._requests.get(code.upper().replace("-", "").replace(" ", ""))
        if request is None or request.until_s <= now_s or request.decision != "waiting":
            self._wrong.failed(by, now_s)
            raise NotFound("No command line waits with this code: it has ended, or the code has a slip in it.")
        return request

    def decide(self, code: str, by: str, approve: bool, now_s: float) -> SignInRequest:
        """Lets it in as ``by``, or turns it away. Raises as :meth:`look` does."""
        decided = replace(self.look(code, by, now_s), decision="approved" if approve else "denied", account=by)
        self._requests[decided.code] = decided
        return decided

    def poll(self, secret: str, now_s: float) -> SignInRequest:
        """The decision. One that was made is told once.

        Raises:
            InvalidInput: it ended before anybody decided, or there never was one.
        """
        request = self._requests.get(self._codes.get(hashed(secret), ""))
        if request is None or request.until_s <= now_s:
            raise InvalidInput("Nobody approved this sign-in in time, or it was fetched already: begin anew.")
        if request.decision != "waiting":
            self._drop(request)
        return request

    def _drop(self, request: SignInRequest) -> None:
        self._requests.pop(request.code, None)
        self._codes.pop(request.secret, None)
        place = place_of(request.address)
        self._of[place] -= 1
        if self._of[place] <= 0:
            del self._of[place]


def shown(code: str) -> str:
    """In two halves, as people read it to each other."""
    return f"{code[:4]}-{code[4:]}"
