"""The settings of headway.toml that this service uses, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

# Whose passwords open sessions: everybody's, those of admins alone, nobody's.
PasswordsMode = Literal["on", "admins", "off"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The section ``httpserver.oidc``. ``groups``: their group to ours. Empty collections: no such rule."""

    issuer: str
    client_id: str
    client_secret: str  # empty: a public client
    redirect_uri: str
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    button: str = "Sign in with your organization"
    account_claim: str = "preferred_username"
    groups_claim: str = "groups"
    allowed_domains: frozenset[str] = frozenset()
    allowed_groups: frozenset[str] = frozenset()
    admin_groups: frozenset[str] = frozenset()
    groups: Mapping[str, str] | None = None
    create_accounts: bool = True

    @property
    def needs_groups(self) -> bool:
        return bool(self.allowed_groups or self.admin_groups or self.groups)

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that this configuration looks at."""
        names = [self.account_claim]
        names += ["email", "email_verified"] if self.allowed_domains else []
        names += [self.groups_claim] if self.needs_groups else []
        return tuple(names)


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes, durations in seconds."""

    mount: Path  # the shared mount's root
    static: Path = Path(__file__).resolve().parent / "static"  # the built page
    docs: Path = Path(__file__).resolve().parent / "docs"  # Markdown, shown by the page below /help
    session_s: float = 7 * 86400.0
    max_body_bytes: int = MIB  # of ordinary calls
    max_job_bytes: int = 8 * MIB  # of a job file
    max_file_bytes: int | None = None  # of one upload; None: what the disk holds
    # Host names under which the service may be called; empty: any. Filled on a loopback bind, where a foreign
    # name means a page elsewhere that had its name point here (DNS rebinding).
    hosts: frozenset[str] = frozenset()
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()  # whose X-Forwarded-… headers count
    where: str = "this machine"  # for the message to somebody who calls it under another name
    secure: bool = False  # this process itself speaks TLS
    secret_key_file: Path = Path("/nonexistent/registry-key")  # that passwords of registries are encrypted with
    ask_registries: bool = True
    registries: frozenset[str] = frozenset()  # the only ones that are asked; empty: any
    insecure_registries: frozenset[str] = frozenset()  # that speak plain http
    default_quota_bytes: int = 0  # of a personal space; 0: none
    image_quota_bytes: int = 0  # of images that one account pushed, unpacked; 0: no limit
    space_max_files: int = 0  # 0: no limit
    space_measure_s: float = 300.0
    trash_keep_s: float = 3 * 86400.0
    upload_expires_s: float = 86400.0  # of resumable uploads that nobody goes on with
    upload_max_bytes: int = 0  # 0: what the disk holds
    dataset_max_files: int = 1_000_000
    code_max_bytes: int = 1 << 30  # of one snapshot
    code_max_files: int = 100_000
    code_keep_s: float = 30 * 86400.0
    event_days: int = 30
    audit_days: int = 365
    passwords: PasswordsMode = "on"
    provider: ProviderSettings | None = None  # of sign-ins


LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
