"""One's own account: calls beside :class:`Client`'s own."""

from __future__ import annotations

import base64
from typing import Any

from .http import Client
from .names import path_part


class OwnAccount:
    """Each method may raise :class:`NoService` or :class:`Refused`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def change_password(self, current: str, new: str) -> None:
        """Ends the other sessions; tokens stay. Not tried again: a second try would find its own new password."""
        # The only call here that isn't the same when it comes twice.
        self._client.ask("POST", "/me/password", json={"current": current, "new": new}, repeat=False)

    def tokens(self) -> list[dict[str, Any]]:
        """The long-lived tokens, without their values."""
        return list(self._client.ask("GET", "/tokens").rows("tokens"))

    def make_token(self, name: str, expires_in_s: float | None) -> dict[str, Any]:
        """The token with its value, which is answered only now."""
        wanted = {"name": name, "expires_in_s": expires_in_s}
        made: dict[str, Any] = self._client.ask("POST", "/tokens", json=wanted, repeat=False)
        return made

    def delete_token(self, id: str) -> None:
        self._client.ask("DELETE", f"/tokens/{path_part(id, 'token')}")

    def secrets(self) -> list[dict[str, Any]]:
        """The secrets, without their values."""
        return list(self._client.ask("GET", "/secrets").rows("secrets"))

    def set_secret(self, name: str, value: bytes) -> dict[str, Any]:
        """Stores a value in place of the one before; it is never answered again."""
        body = {"value": base64.b64encode(value).decode(), "encoding": "base64"}
        stored: dict[str, Any] = self._client.ask("PUT", f"/secrets/{path_part(name, 'secret')}", json=body)
        return stored

    def remove_secret(self, name: str) -> None:
        """Tasks that name it and have not started fail at their start."""
        self._client.ask("DELETE", f"/secrets/{path_part(name, 'secret')}")

    def sessions(self) -> list[dict[str, Any]]:
        """The sessions; ``current`` marks the one that asks."""
        return list(self._client.ask("GET", "/sessions").rows("sessions"))

    def end_session(self, id: str) -> None:
        self._client.ask("DELETE", f"/sessions/{path_part(id, 'session')}")

    def end_other_sessions(self) -> int:
        """How many ended."""
        answer = self._client.ask("DELETE", "/sessions")
        return int(answer["ended"]) if answer is not None else 0
