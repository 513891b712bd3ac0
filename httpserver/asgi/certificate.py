"""The page's own certificate: refused at the start if it can't be used, and taken anew when its files change.

OpenSSL asks for a context at each new connection. So a renewed certificate counts from the next one, without a restart.
A pair that is not whole, since one file was replaced and the other not yet, is passed over.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path

from headway.errors import ConfigInvalid
from headway.logs import get_logger

log = get_logger(__name__)

_LOOK_S = 1.0

Stamp = tuple[tuple[int, int, int], ...]


class PageCertificate:
    """The pair of ``httpserver.tls_cert`` and ``tls_key``."""

    def __init__(self, cert: str, key: str) -> None:
        self._cert = Path(cert)
        self._key = Path(key)
        self._looked_s = float("-inf")
        self._stamp: Stamp = ()
        self._latest: ssl.SSLContext | None = None

    def open(self) -> ssl.SSLContext:
        """The context to listen with, which follows the files.

        Raises:
            ConfigInvalid: they can't be used; one sentence says why.
        """
        self._stamp = self._stamped()
        self._latest = context = self._loaded()
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        latest = self._fresh()
        if latest is not None:
            connection.context = latest

    def _fresh(self) -> ssl.SSLContext | None:
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return self._latest
        self._looked_s = now_s
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._latest = self._loaded()
                log.info("http.certificate_taken", file=str(self._cert))
            except ConfigInvalid as error:
                log.error("http.certificate_not_taken", reason=str(error))
        return self._latest

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for name, path in (("tls_cert", self._cert), ("tls_key", self._key)):
            try:
                text = path.read_bytes()
            except OSError as error:
                raise ConfigInvalid(f"httpserver.{name} is {path}, which can't be read: {error.strerror}.") from error
            if b"-----BEGIN " not in text:
                raise ConfigInvalid(f"httpserver.{name} is {path}, which is no PEM file.")
        try:
            # An empty password: a key that needs one must not ask at the terminal.
            context.load_cert_chain(self._cert, self._key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise ConfigInvalid(
                    f"httpserver.tls_key is {self._key}, which does not belong to the certificate in {self._cert}."
                ) from error
            raise ConfigInvalid(
                f"httpserver.tls_cert and tls_key can't be used ({error.reason or error}): {self._cert} must hold the "
                f"certificate first and those that signed it after it, and {self._key} its key without a password."
            ) from error
        return context

    def _stamped(self) -> Stamp:
        return _stamp(self._cert), _stamp(self._key)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
