"""What an account may see and end of its own sessions."""

from __future__ import annotations

from headway.logs import get_logger

from .model import StoredToken
from .secret import hashed
from .tokens import Tokens

log = get_logger(__name__)


class OwnSessions:
    """``secret``: what the request came with, a session or a long-lived token."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def of(self, account: str, secret: str) -> list[tuple[StoredToken, bool]]:
        """The sessions, oldest first, and whether each is the one that asks."""
        asking = self._tokens.find(secret)
        current = asking.id if asking is not None and asking.session else ""
        return [(one, one.id == current) for one in self._tokens.of(account, "session")]

    async def end(self, account: str, id: str) -> int:
        """Ends one; how many. One that isn't there, or is another's, is fine."""
        return self._told(account, id, await self._tokens.end(account, "session", id, shut_out=True))

    async def end_others(self, account: str, secret: str) -> int:
        """Ends all but the one that asks; how many."""
        ended = await self._tokens.end(account, "session", but=hashed(secret), shut_out=True)
        return self._told(account, None, ended)

    def _told(self, account: str, id: str | None, ended: int) -> int:
        log.info("account.ended", name=account, kind="session", id=id, ended=ended, by=account)
        return ended
