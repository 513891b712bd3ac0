"""Tokens by which machines join, and certificates: calls beside :class:`Client`'s own."""

from __future__ import annotations

from typing import Any

from .http import Client
from .names import path_part


class TrustApi:
    """Each method may raise :class:`NoService` or :class:`Refused`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def invite(self, role: str, name: str, expires_in_s: float) -> dict[str, Any]:
        """A token with its value, which is answered only now. Not tried again: it would make a second one."""
        wanted = {"role": role, "name": name, "expires_in_s": expires_in_s}
        made: dict[str, Any] = self._client.ask("POST", "/invitations", json=wanted, repeat=False)
        return made

    def invitations(self) -> list[dict[str, Any]]:
        """Tokens of the last weeks, the newest first, without their values."""
        return list(self._client.ask("GET", "/invitations").rows("invitations"))

    def delete_invitation(self, id: str) -> None:
        self._client.ask("DELETE", f"/invitations/{path_part(id, 'token')}")

    def certificates(self) -> list[dict[str, Any]]:
        return list(self._client.ask("GET", "/certificates").rows("certificates"))

    def revoke(self, which: str) -> dict[str, Any]:
        """``which``: a serial, a node's name or a manager's role."""
        done: dict[str, Any] = self._client.ask("POST", "/certificates/revoke", json={"which": which})
        return done
