"""Tells the hook: a command that gets the message on stdin, or a webhook that gets it as a signed POST."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from headway.errors import Unavailable

_MOST_SAID = 400


class CommandHook:
    """Runs a command for each message, without a shell. What it prints is only shown if it fails."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._command = list(command)
        self._timeout_s = timeout_s

    async def tell(self, message: Mapping[str, object]) -> None:
        """Run it.

        Raises:
            Unavailable: it can't be started, took too long, or ended with another code than 0.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{self._command[0]} could not be started: {error.strerror}.") from error
        try:
            said, _ = await asyncio.wait_for(process.communicate(json.dumps(message).encode()), self._timeout_s)
        except TimeoutError:
            raise Unavailable(
                f"{self._command[0]} had not ended after {self._timeout_s:g} s, and was killed."
            ) from None
        finally:
            if process.returncode is None:
                # With all that it has started and that is still of its group.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            told = said[-_MOST_SAID:].decode(errors="replace").strip()
            raise Unavailable(f"{self._command[0]} ended with code {process.returncode}: {told or 'it said nothing'}")


class WebhookHook:
    """Sends each message to a URL. Redirects are not followed and proxies not used, so that it goes nowhere else."""

    def __init__(self, url: str, secret_file: str, timeout_s: float) -> None:
        self._url = url
        self._secret_file = secret_file
        self._timeout_s = timeout_s

    async def tell(self, message: Mapping[str, object]) -> None:
        """Send it.

        Raises:
            Unavailable: nobody answers in time, the answer is no success, or there is no key to sign with.
        """
        body = json.dumps(message).encode()
        headers = {"Content-Type": "application/json"}
        if self._secret_file:
            headers["X-Headway-Signature"] = signature(await asyncio.to_thread(_secret, self._secret_file), body)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=self._timeout_s) as http,
                http.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                code = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            what = str(error) or type(error).__name__
            raise Unavailable(f"The webhook {self._url} did not answer: {what}.") from error
        if not 200 <= code < 300:
            raise Unavailable(f"The webhook {self._url} answered with status {code}.")


def signature(secret: bytes, body: bytes) -> str:
    """What proves that a message is Headway's: HMAC with SHA-256 over its bytes. The message holds its time."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def _secret(path: str) -> bytes:
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise Unavailable(f"The key of the webhook, {path}, can't be read: {error.strerror}.") from error
    if not secret:
        raise Unavailable(f"The key of the webhook, {path}, is empty.")
    return secret
