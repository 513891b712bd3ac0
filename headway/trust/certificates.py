"""What one process shows others, and how it knows those who call. One for each process, made at its start.

Files that change are taken without a restart: within a second, and only when they are whole. gRPC asks from threads of
its own, so everything here may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..clock import Clock, SystemClock
from ..errors import ConfigInvalid
from ..logs import get_logger
from . import pairs
from .caller import Caller, CallerRefused
from .callers import why_refused
from .files import TrustFiles
from .identity import Identity
from .pairs import Pair
from .revoked import read_serials

log = get_logger(__name__)

_LOOK_S = 1.0
_MOST_KNOWN = 4_096  # certificates of callers that are kept read

Stamp = tuple[tuple[int, int, int], ...]


class Certificates:
    """The certificate of ``identity`` and the list of those that count no more.

    Raises:
        ConfigInvalid: the files are missing or wrong.
    """

    def __init__(self, files: TrustFiles, identity: Identity, clock: Clock | None = None) -> None:
        self.files = files
        self.identity = identity
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[Caller, float, float]] = {}
        self._looked_s = self._clock.monotonic()
        self._pair_stamp = self._stamp_of_pair()
        self._pair = pairs.read(files, identity)
        self._generation = 1
        self._revoked_stamp: Stamp = ()
        self._in_file: frozenset[int] = frozenset()
        self._told: frozenset[int] = frozenset()
        if not self._read_revoked():
            raise ConfigInvalid(
                f"cluster.trust_dir has {files.revoked}, which is no JSON list of serial numbers as hex texts: "
                "remove it, and ResourceManager's list takes its place."
            )

    def pair(self) -> tuple[int, Pair]:
        """What to show now, and a number that rises with each change."""
        with self._lock:
            self._look()
            return self._generation, self._pair

    def revoked(self) -> frozenset[int]:
        """Serial numbers that count no more."""
        with self._lock:
            self._look()
            return self._in_file | self._told

    def is_revoked(self, serial: int) -> bool:
        """Whether this one counts no more."""
        with self._lock:
            self._look()
            return serial in self._in_file or serial in self._told

    def tell_revoked(self, serials: frozenset[int]) -> None:
        """Takes ResourceManager's list. It counts also where the file can't be written."""
        with self._lock:
            self._told = serials

    def look_now(self) -> None:
        """Reads files that were changed by this process."""
        with self._lock:
            self._looked_s = float("-inf")
            self._look()

    def admit(self, shown: Mapping[str, Sequence[bytes]], method: str, service: str) -> Caller:
        """Who calls, by gRPC's auth context. ``method`` is SERVICE/METHOD, ``service`` is for the sentence.

        Raises:
            CallerRefused: the certificate is none, has ended, counts no more, or does not allow this call.
        """
        found = self._caller(shown)
        now = self._clock.now()
        if found is None:
            raise CallerRefused(f"{service} was called with a certificate that names no service of a cluster.")
        caller, begins_at, ends_at = found
        self.require_not_revoked(caller)
        if not begins_at <= now < ends_at:
            raise CallerRefused(
                f"The certificate of {caller.identity} is not valid at this time: renew it with `headway join "
                "--renew`, or set the machines' clocks right."
            )
        sentence = why_refused(caller.identity, method, cluster=self.identity.cluster)
        if sentence:
            raise CallerRefused(sentence)
        return caller

    def require_not_revoked(self, caller: Caller) -> None:
        """Passes while the caller's certificate counts.

        Raises:
            CallerRefused: it was revoked.
        """
        if self.is_revoked(caller.serial):
            raise CallerRefused(
                f"The certificate of {caller.identity} was revoked (serial {caller.serial:x}): an administrator has to "
                "let that machine join again."
            )

    def _caller(self, shown: Mapping[str, Sequence[bytes]]) -> tuple[Caller, float, float] | None:
        pem = next(iter(shown.get("x509_pem_cert", ())), b"")
        known = self._known.get(pem)
        if known is None:
            try:
                cert = pairs.certificates_in(pem)[0]
            except ValueError:
                return None
            identity = pairs.identity_in(cert)
            if identity is None:
                return None
            span = cert.not_valid_before_utc.timestamp(), cert.not_valid_after_utc.timestamp()
            known = (Caller(identity, cert.serial_number), *span)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[pem] = known
        return known

    def _look(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        stamp = self._stamp_of_pair()
        if stamp != self._pair_stamp:
            try:
                pair = pairs.read(self.files, self.identity)
            except (ConfigInvalid, OSError) as error:
                # Between two renames, or a slip: what was good stays.
                log.warning("certificate.not_taken", reason=str(error))
            else:
                if pair != self._pair:
                    self._pair = pair
                    self._generation += 1
                    log.info("certificate.taken", serial=f"{pair.serial:x}", ends_at=pair.ends_at)
            self._pair_stamp = stamp
        self._read_revoked()

    def _read_revoked(self) -> bool:
        """False: the file has changed and can't be read; the list from before counts on."""
        stamp = _stamp(self.files.revoked)
        if (stamp,) == self._revoked_stamp:
            return True
        self._revoked_stamp = (stamp,)
        try:
            self._in_file = read_serials(self.files.revoked.read_bytes())
        except FileNotFoundError:
            self._in_file = frozenset()
        except (OSError, ValueError) as error:
            log.error("certificate.revoked_list_unreadable", file=str(self.files.revoked), reason=str(error))
            return False
        return True

    def _stamp_of_pair(self) -> Stamp:
        role = self.identity.role
        return tuple(_stamp(path) for path in (self.files.ca, self.files.certificate(role), self.files.key(role)))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
