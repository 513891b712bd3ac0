"""A service's certificate on this machine."""

from __future__ import annotations

from pathlib import Path

from ..trust.authority import issued
from ..trust.files import TrustFiles
from ..trust.identity import Role
from .model import Check, ok, problem, warning

_SOON_S = 5 * 86_400.0
_DAY_S = 86_400.0
_START = "Start ResourceManager on this machine: it makes a new one within a minute."
_RENEW = "Make a token with `headway nodes invite`, and run `headway join … --renew` here."


def certificate(trust_dir: str, role: Role, now: float) -> Check:
    """``now`` is epoch seconds."""
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
