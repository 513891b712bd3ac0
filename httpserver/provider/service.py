"""Signs people in whom the provider vouches for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from headway.clock import Clock
from headway.errors import Conflict, HeadwayError, NotFound, NotSignedIn
from headway.logs import get_logger

from ..audit.current import note, of_service
from ..auth.accounts import Accounts
from ..auth.groups import Groups
from ..auth.model import Account, CameFrom, SignedInSession
from ..auth.sign_in_limits import place_of
from ..settings import ProviderSettings
from . import id_token
from .client import ProviderClient
from .flows import Flow, Flows
from .id_token import BadSignature
from .links import Link, Links, add
from .model import Person, group_changes, is_admin, local_path, person
from .refusals import SignInRefused

log = get_logger(__name__)

_BY = "the provider"  # no account can have this name
WAY = "provider"


class ProviderSignIn:
    """See the module."""

    def __init__(
        self, settings: ProviderSettings, accounts: Accounts, groups: Groups, links: Links, clock: Clock
    ) -> None:
        self.settings = settings
        self._client = ProviderClient(settings, clock)
        self._accounts = accounts
        self._groups = groups
        self._links = links
        self._clock = clock
        self._flows = Flows()
        self._making = asyncio.Lock()  # one person's two sign-ins at once must not make two accounts

    async def close(self) -> None:
        await self._client.close()

    async def begin(self, next: str, address: str) -> tuple[str, str]:
        """Where the browser goes, and the secret that it keeps until it comes back.

        Raises:
            SignInRefused: the provider is away, or is not what the configuration says.
        """
        description = await self._client.description()
        flow, secret = self._flows.begin(local_path(next), place_of(address), self._clock.monotonic())
        url = prepare_grant_uri(
            description.authorization,
            client_id=self.settings.client_id,
            response_type="code",
            redirect_uri=self.settings.redirect_uri,
            scope=" ".join(self.settings.scopes),
            state=flow.state,
            nonce=flow.nonce,
            code_challenge=create_s256_code_challenge(flow.verifier),
            code_challenge_method="S256",
        )
        return str(url), secret

    async def finish(self, query: Mapping[str, str], secret: str, came: CameFrom) -> tuple[SignedInSession, str]:
        """The session for whom the provider has sent back, and where to go.

        Raises:
            SignInRefused: it came to nothing; nothing was made.
        """
        note(way=WAY)
        flow = self._flows.take(query.get("state", ""), secret, self._clock.monotonic())
        if flow is None:
            raise SignInRefused("stale", fact="its state is not known, too old, or of another browser")
        await self._check_sender(query)
        if "error" in query:
            raise _of_provider(query["error"])
        code = query.get("code", "")
        if not code:
            raise SignInRefused("odd", fact="the provider sent neither a code nor an error")
        who = await self._person(code, flow)
        account = await self._account(who)
        await self._keep_rights(account, who)
        try:
            return await self._accounts.open_session(account.name, came), flow.next
        except NotSignedIn as error:
            raise SignInRefused("disabled", fact=f"the account {account.name} is disabled") from error

    async def _check_sender(self, query: Mapping[str, str]) -> None:
        """An answer that names another issuer was meant for another provider (RFC 9207)."""
        said = query.get("iss")
        expected = (await self._client.description()).names_issuer
        if said != self.settings.issuer and (said is not None or expected):
            raise SignInRefused("untrusted", fact=f"the answer says that it is of the issuer {str(said)[:200]!r}")

    async def _person(self, code: str, flow: Flow) -> Person:
        answer = await self._client.redeem(code, flow.verifier)
        claims = await self._checked(answer.get("id_token"), flow.nonce)
        if any(name not in claims for name in self.settings.claims):
            more = await self._client.userinfo(answer.get("access_token"))
            if more and more.get("sub") != claims.get("sub"):
                raise SignInRefused("untrusted", fact="the provider tells more of another person (sub)")
            claims = {**more, **claims}
        note(provider_subject=str(claims.get("sub"))[:255])
        return person(claims, self.settings)

    async def _checked(self, token: Any, nonce: str) -> dict[str, Any]:
        offered = (await self._client.description()).algorithms
        for anew in (False, True):
            keys = await self._client.keys(anew=anew)
            try:
                return id_token.checked(
                    token,
                    keys,
                    issuer=self.settings.issuer,
                    client_id=self.settings.client_id,
                    nonce=nonce,
                    now=self._clock.now(),
                    offered=offered,
                )
            except BadSignature:
                if anew:
                    raise
        raise AssertionError("unreachable")

    async def _account(self, who: Person) -> Account:
        async with self._making:
            name = await self._links.account_of(who.issuer, who.subject)
            if name is None:
                name = await self._make(who)
        note(who=name)
        account = self._accounts.get(name)
        if account is None or not account.enabled:
            raise SignInRefused("disabled", fact=f"the account {name} is disabled")
        return account

    async def _make(self, who: Person) -> str:
        about = f"the subject {who.subject!r}"
        # A local account of that name may be somebody else's: it is never taken over by a name.
        if who.name and self._accounts.is_taken(who.name):
            raise SignInRefused("name-taken", fact=f"{about} has the name of the account {who.name}, and no link to it")
        if not self.settings.create_accounts:
            raise SignInRefused("no-account", fact=f"{about} has no account, and create_accounts is false")
        if not who.name:
            raise SignInRefused("no-name", fact=f"{about} has no usable claim `{self.settings.account_claim}`")
        link = Link(who.issuer, who.subject, who.name, self._clock.now(), _BY)
        try:
            with of_service("account.make", f"account {who.name}", self._clock.now(), way=WAY, subject_=who.subject):
                await self._accounts.create(
                    who.name, None, admin=bool(is_admin(self.settings, who.groups)), by=_BY,
                    also=lambda conn: add(conn, link),
                )  # fmt: skip
        except HeadwayError as error:
            raise SignInRefused("failed", fact=f"the account {who.name} was not made: {error.message}") from error
        return who.name

    async def _keep_rights(self, account: Account, who: Person) -> None:
        """Admin rights and groups follow the provider's groups, as far as rules name them."""
        admin = is_admin(self.settings, who.groups)
        if admin is not None and admin != account.admin:
            try:
                with self._line("account.change", f"account {account.name}", admin=admin):
                    await self._accounts.update(account.name, {"admin": admin}, by=_BY)
            except Conflict as error:  # the last admin stays one
                log.warning("provider.admin_kept", name=account.name, reason=error.message)
        if not self.settings.groups:
            return
        join, leave = group_changes(self.settings, who.groups, await self._groups.of(account.name))
        for name, add_, remove in [*((g, [account.name], []) for g in join), *((g, [], [account.name]) for g in leave)]:
            try:
                with self._line("group.change", f"group {name}", add=add_, remove=remove):
                    await self._groups.change(account, name, add=add_, remove=remove)
            except NotFound:
                log.warning("provider.no_such_group", group=name, where="httpserver.oidc.groups")

    def _line(self, word: str, subject: str, **facts: Any) -> Any:
        return of_service(word, subject, self._clock.now(), way=WAY, **facts)


def _of_provider(error: str) -> SignInRefused:
    word = "denied" if error in ("access_denied", "login_required", "interaction_required", "consent_required") else (
        "away" if error in ("server_error", "temporarily_unavailable") else "odd"
    )  # fmt: skip
    return SignInRefused(word, fact=f"the provider sent the error {error[:100]!r}")
