"""Asks a registry which image a name means (Docker Registry HTTP API v2, OCI distribution)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from headway.logs import get_logger

from . import manifests
from .failure import FailureKind, RegistryFailure
from .hosts import RegistryHosts
from .manifests import ImageFacts, ImageIndex, ImageManifest, UnreadableManifest
from .names import DIGEST, ImageName, api_host

log = get_logger(__name__)

if TYPE_CHECKING:
    from .host_client import RegistryHttp, RegistryResponse

_MIB = 1 << 20
_MANIFEST_BYTES = 4 * _MIB
_CONFIG_BYTES = 4 * _MIB
_TOKEN_BYTES = _MIB // 4
_PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"([^"\\]*)"|([^\s,"]+))')
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Login:
    """An account's credentials for one registry."""

    username: str
    password: str = field(repr=False)

    def basic(self) -> str:
        """As the header says it."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def _opened(hosts: RegistryHosts, registry: str) -> RegistryHttp:
    # Late: many installations never ask a registry, and its HTTP client takes five megabytes.
    from .host_client import RegistryHttp

    return RegistryHttp(hosts, registry)


class RegistryClient:
    """See the module. Questions are independent of each other."""

    def __init__(self, hosts: RegistryHosts) -> None:
        self._hosts = hosts
        self._facts: dict[str, ImageFacts] = {}

    async def digest(self, name: ImageName, login: Login | None) -> str:
        """The digest that the name has now; one that was written is only looked for.

        Raises:
            RegistryFailure: nobody can say, or there is no such image.
        """
        async with _opened(self._hosts, name.registry) as web:
            return await _Talk(web, self._hosts, name, login).digest()

    async def facts(self, name: ImageName, login: Login | None, architectures: Sequence[str]) -> ImageFacts:
        """What there is to know of the image with that digest; ``architectures`` are those of the nodes.

        Raises:
            RegistryFailure: nobody can say.
        """
        known = self._facts.get(name.digest)
        if known is not None:
            return known
        async with _opened(self._hosts, name.registry) as web:
            facts = await _Talk(web, self._hosts, name, login).facts(architectures)
        if len(self._facts) >= _MOST_FACTS:
            self._facts.pop(next(iter(self._facts)))
        self._facts[name.digest] = facts
        return facts

    async def check(self, registry: str, login: Login) -> None:
        """Whether the registry takes these credentials.

        Raises:
            RegistryFailure: it does not (WRONG_LOGIN), or nobody can say.
        """
        async with _opened(self._hosts, registry) as web:
            await _Talk(web, self._hosts, ImageName(registry, "", ""), login).check()


_MOST_FACTS = 2000


class _Talk:
    """One question to one registry, with what has been proved so far."""

    def __init__(self, web: RegistryHttp, hosts: RegistryHosts, name: ImageName, login: Login | None) -> None:
        hosts.permit(name.registry)
        self._web = web
        self._hosts = hosts
        self._name = name
        self._login = login
        self._authorization = ""
        host = api_host(name.registry)
        self._plain = hosts.plain(host)
        self._base = f"{'http' if self._plain else 'https'}://{host}/v2/"

    async def digest(self) -> str:
        name = self._name
        path = f"{name.repository}/manifests/{name.reference}"
        answer = await self._ask("HEAD", path, limit=0)
        digest: str = answer.headers.get("docker-content-digest", "")
        if answer.status == 200 and DIGEST.fullmatch(digest) and digest == (name.digest or digest):
            return digest
        if answer.status == 404:
            raise self._absent()
        if answer.status != 200 and answer.status not in (400, 405, 501):
            raise self._status(answer)
        # It does not say: its manifest's own hash does.
        answer = self._good(await self._ask("GET", path, limit=_MANIFEST_BYTES))
        found = manifests.digest_of(answer.body)
        if name.digest and found != name.digest:
            raise self._strange("answers something else than the image with that digest")
        try:
            manifests.read(answer.body)
        except UnreadableManifest as error:
            raise self._strange(str(error)) from error
        return found

    async def facts(self, architectures: Sequence[str]) -> ImageFacts:
        try:
            document = manifests.read(await self._manifest(self._name.digest))
            if isinstance(document, ImageManifest):
                return await self._config(document)
            part = manifests.part_to_read(document, architectures)
            return manifests.of_index(document, await self._of_part(part.digest) if part else None)
        except UnreadableManifest as error:
            raise self._strange(str(error)) from error

    async def check(self) -> None:
        answer = await self._ask("GET", "", limit=_MIB)
        if answer.status in (401, 403):
            raise self._wrong_login()
        self._good(answer)

    async def _of_part(self, digest: str) -> ImageFacts | None:
        document = manifests.read(await self._manifest(digest))
        return None if isinstance(document, ImageIndex) else await self._config(document)

    async def _manifest(self, digest: str) -> bytes:
        return await self._content("manifests", digest, _MANIFEST_BYTES)

    async def _config(self, manifest: ImageManifest) -> ImageFacts:
        if manifest.config_bytes > _CONFIG_BYTES:
            return ImageFacts()
        return manifests.read_config(await self._content("blobs", manifest.config_digest, _CONFIG_BYTES))

    async def _content(self, kind: str, digest: str, limit: int) -> bytes:
        answer = self._good(await self._ask("GET", f"{self._name.repository}/{kind}/{digest}", limit=limit))
        if manifests.digest_of(answer.body) != digest:
            raise self._strange("answers something else than what was asked for")
        return answer.body

    # -- being let in ---------------------------------------------------------------------------

    async def _ask(self, method: str, path: str, *, limit: int) -> RegistryResponse:
        for again in (True, False):
            answer = await self._web.ask(
                method,
                self._base + path,
                headers={"Accept": manifests.ACCEPT if "/manifests/" in path else "*/*"},
                authorization=self._authorization,
                limit=max(limit, _MIB if method != "HEAD" else 0),
            )
            if answer.status != 401 or not again or self._authorization:
                return answer
            self._authorization = await self._authorize(answer)
            if not self._authorization:
                return answer
        raise AssertionError

    async def _authorize(self, answer: RegistryResponse) -> str:
        challenges = answer.headers.get_list("www-authenticate")
        for challenge in challenges:
            scheme, _, rest = challenge.strip().partition(" ")
            if scheme.lower() == "bearer":
                return await self._token({key.lower(): a or b for key, a, b in _PARAMETER.findall(rest)})
        if self._login and any(challenge.strip().lower().startswith("basic") for challenge in challenges):
            return self._login.basic()
        return ""

    async def _token(self, asked: dict[str, str]) -> str:
        realm = urlsplit(asked.get("realm", ""))
        good = realm.scheme == "https" or (realm.scheme == "http" and self._plain)
        if not good or not realm.hostname or realm.username is not None:
            raise self._strange("names no usable address to sign in")
        query = {"service": asked.get("service", "")}
        if self._name.repository:
            query["scope"] = f"repository:{self._name.repository}:pull"
        url = f"{realm.scheme}://{realm.netloc}{realm.path}?{'&'.join(filter(None, (realm.query, urlencode(query))))}"
        answer = await self._web.ask(
            "GET",
            url,
            headers={"Accept": "application/json"},
            authorization=self._login.basic() if self._login else "",
            limit=_TOKEN_BYTES,
        )
        if answer.status in (400, 401, 403):
            raise self._wrong_login() if self._login else self._denied()
        try:
            document = json.loads(self._good(answer).body)
            token = document.get("token") or document.get("access_token")
        except (ValueError, RecursionError, AttributeError):
            token = None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise self._strange("gives no usable token")
        return f"Bearer {token}"

    # -- what went wrong ------------------------------------------------------------------------

    def _good(self, answer: RegistryResponse) -> RegistryResponse:
        if answer.status != 200:
            raise self._status(answer)
        return answer

    def _status(self, answer: RegistryResponse) -> RegistryFailure:
        registry = self._name.registry
        if answer.status == 404:
            return self._absent()
        if answer.status in (401, 403):
            # A proof by password is only judged here, where one by token was judged when it was fetched.
            by_password = self._authorization.startswith("Basic ")
            return self._wrong_login() if by_password and answer.status == 401 else self._denied()
        if answer.status == 429:
            return RegistryFailure(FailureKind.LIMITED, f"The registry {registry} has been asked too often for now.")
        if answer.status >= 500:
            return RegistryFailure(
                FailureKind.UNREACHABLE, f"The registry {registry} has an error now: it answers with {answer.status}."
            )
        return self._strange(f"answers with {answer.status}, which is not understood")

    def _absent(self) -> RegistryFailure:
        return RegistryFailure(FailureKind.ABSENT, f"The registry {self._name.registry} has no such image.")

    def _denied(self) -> RegistryFailure:
        registry = self._name.registry
        if self._login:
            return RegistryFailure(
                FailureKind.DENIED,
                f"The registry {registry} has no such image, or does not show it to its user {self._login.username}.",
            )
        return RegistryFailure(
            FailureKind.DENIED,
            f"The registry {registry} has no such image, or shows it only to those who sign in: "
            f"`headway registry login {registry}` stores your user name and password for it.",
        )

    def _wrong_login(self) -> RegistryFailure:
        who = self._login.username if self._login else ""
        return RegistryFailure(
            FailureKind.WRONG_LOGIN,
            f"The registry {self._name.registry} does not take the user name {who} with the password stored for it: "
            f"store them again (`headway registry login {self._name.registry}`).",
        )

    def _strange(self, what: str) -> RegistryFailure:
        return RegistryFailure(FailureKind.STRANGE, f"The registry {self._name.registry} {what}.")
