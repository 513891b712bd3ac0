"""A service's certificate on this machine."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from ..errors import ConfigInvalid
from ..model.findings import Check, ok, problem, warning
from ..trust.authority import Authority, authority_paths, issued
from ..trust.files import TrustFiles
from ..trust.identity import Role
from ..trust.revoked import read_serials

_SOON_S = 5 * 86_400.0
_DAY_S = 86_400.0
_PAGE_SOON_DAYS = 14
_START = "Start ResourceManager on this machine: it makes a new one within a minute."
_RENEW = "Make a token with `headway nodes invite`, and run `headway join … --renew` here."


def certificate(trust_dir: str, role: Role, now: float, cluster: str = "") -> Check:
    """``now`` is epoch seconds. ``cluster``: whose it has to be, where that is known."""
    name, files = f"certificate of {role}", TrustFiles(Path(trust_dir))
    try:
        found = issued(files.certificate(role).read_bytes())
        mode = files.key(role).stat().st_mode & 0o777
    except OSError as error:
        return problem(name, f"{error.filename} can't be read: {error.strerror}.", _RENEW)
    except ValueError as error:
        return problem(name, f"{files.certificate(role)} can't be used: {error}.", _RENEW)
    if found.identity.role is not role:
        return problem(name, f"{files.certificate(role)} is for {found.identity}.", _RENEW)
    if cluster and found.identity.cluster != cluster:
        whose = f"It is of the cluster {found.identity.cluster!r}, and headway.toml here says {cluster!r}."
        return problem(name, whose, "Set `cluster.name` right, or bring this machine into its cluster anew.")
    if _is_revoked(files, found.serial):
        return problem(name, "It was revoked: the other services refuse it.", _RENEW)
    if mode & 0o077:
        return problem(
            name, f"{files.key(role)} can be read by others (mode {mode:o}).", f"`chmod 600 {files.key(role)}`"
        )
    days = (found.until_at - now) / _DAY_S
    if days <= 0:
        return problem(name, f"It expired {-days:.0f} days ago.", _START if files.authority.exists() else _RENEW)
    if found.from_at > now:
        return problem(name, "It is not good yet: this machine's clock is behind.", "Set the clock.")
    if found.until_at - now < _SOON_S:
        return warning(name, f"It is good for {days:.0f} days and was not renewed.", "Look at the log of the service.")
    return ok(name, f"{found.identity.uri}, good for {days:.0f} days.")


def _is_revoked(files: TrustFiles, serial: str) -> bool:
    try:
        return int(serial, 16) in read_serials(files.revoked.read_bytes())
    except (OSError, ValueError):
        return False


def page(path: str, now: float) -> Check:
    """The certificate that browsers see. ``path``: a PEM file, ``now``: epoch seconds."""
    name = "certificate of the page"
    renew = f"Put a new certificate into {path}: the page takes it without a restart (docs/operations/page-tls.md)."
    try:
        until_at = x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc.timestamp()
    except OSError as error:
        return problem(name, f"{path} can't be read: {error.strerror}.", "Set `httpserver.tls_cert` right.")
    except ValueError as error:
        return problem(name, f"{path} is no certificate: {error}.", renew)
    days = (until_at - now) / _DAY_S
    if days <= 0:
        return problem(name, f"It expired {-days:.0f} days ago: browsers refuse the page.", renew)
    if days < _PAGE_SOON_DAYS:
        return warning(name, f"It is good for {days:.0f} days.", renew)
    return ok(name, f"It is good for {days:.0f} days.")


def authority(trust_dir: str) -> Check:
    """The key that signs, on ResourceManager's machine: without it no certificate is renewed."""
    name, files = "authority", TrustFiles(Path(trust_dir))
    take_back = f"Take {files.authority} back from your copy of it (docs/operations/several-machines.md)."
    try:
        Authority.read(files)
        key, _ = authority_paths(files)
        mode = key.stat().st_mode & 0o777
    except ConfigInvalid as error:
        return problem(name, error.message, take_back)
    if mode & 0o077:
        return problem(name, f"{key} can be read by others (mode {mode:o}).", f"`chmod 600 {key}`")
    return ok(name, f"{files.authority} can sign. Keep a copy of it in a safe place.")
