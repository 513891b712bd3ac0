"""Usage and past runs: calls beside :class:`Client`'s own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO
from urllib.parse import urlencode

from .http import Client

_PAGE = 1_000


class UsageClient:
    """Each method may raise :class:`NoService` or :class:`Refused`. ``begin`` and ``end`` as in ``headway.when``;
    empty: the last 30 days."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def sums(self, *, by: str = "user", begin: str = "", end: str = "", user: str = "", most: int = 100) -> Any:
        """Sums by user, group, day, job or node, ``most`` rows (0: all). ``user``: an account, `me`, or empty for
        everybody's."""
        given = {"by": by, "from": begin, "to": end, "user": user}
        params: dict[str, Any] = {key: value for key, value in given.items() if value}
        answer: dict[str, Any] = {}
        while True:
            offset = len(answer.get("rows", ()))
            page = {"limit": min(most - offset, _PAGE) if most else _PAGE, "offset": offset}
            more = self._client.ask("GET", "/usage", params=params | page)
            answer = more | {"rows": answer.get("rows", []) + more.rows("rows")}
            full = not more.rows("rows") or len(answer["rows"]) >= answer["rows_in_all"]
            if full or (most and len(answer["rows"]) >= most):
                return answer

    def csv(
        self,
        target: BinaryIO,
        *,
        by: str = "user",
        begin: str = "",
        end: str = "",
        user: str = "",
        daily: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Writes all sums as CSV; ``daily``: for each day. Returns its length in bytes.

        Raises:
            NoService: it broke off; what was written is not whole.
        """
        given = {"by": by, "from": begin, "to": end, "user": user, "daily": "true" if daily else "", "format": "csv"}
        query = urlencode({key: value for key, value in given.items() if value})
        return self._client.download(f"/usage?{query}", target, progress)

    def trace(
        self,
        target: BinaryIO,
        *,
        begin: str = "",
        end: str = "",
        user: str = "",
        everybody: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Writes ended runs as CSV that ``headway simulate`` reads; returns its length in bytes. ``user`` empty: one's
        own; others' are for admins.

        Raises:
            NoService: it broke off; what was written is not whole.
        """
        given = {"from": begin, "to": end, "user": user, "all": "true" if everybody else ""}
        query = urlencode({key: value for key, value in given.items() if value})
        return self._client.download(f"/usage/trace{'?' if query else ''}{query}", target, progress)
