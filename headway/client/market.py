"""Images, datasets, groups and registries: the market's calls, beside :class:`Client`'s own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO
from urllib.parse import quote

from ..errors import InvalidInput
from .http import Client
from .names import path_part

Progress = Callable[[int], None]


class MarketClient:
    """Each method is one call; every one may raise :class:`NoService` or :class:`Refused`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # --- images

    def images(self, query: str = "", owner: str = "") -> Iterator[dict[str, Any]]:
        """All images that the account may see, page by page."""
        params = {key: value for key, value in (("q", query), ("owner", owner)) if value}
        while True:
            page = self._client.ask("GET", "/images", params={**params, "limit": 200})
            yield from page["images"]
            if not page.get("next_cursor"):
                return
            params["cursor"] = page["next_cursor"]

    def image(self, ref: str) -> dict[str, Any]:
        """All about ``owner/name``, ``owner/name:tag`` or an id."""
        answer: dict[str, Any] = self._client.ask("GET", _image(ref))
        return answer

    def change_image(self, ref: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """``changes``: description, public, shared_with."""
        answer: dict[str, Any] = self._client.ask("PATCH", _image(ref), json=dict(changes))
        return answer

    def tag_image(self, ref: str, tag: str) -> dict[str, Any]:
        """One more name for the content that ``ref`` names."""
        answer: dict[str, Any] = self._client.ask("POST", _image(ref), params={"op": "tag"}, json={"tag": tag})
        return answer

    def delete_image(self, ref: str, *, wait: bool = False) -> dict[str, Any] | None:
        """None when it is gone; with ``wait`` the jobs that its content waits for."""
        answer: dict[str, Any] | None = self._client.ask("DELETE", _image(ref), params={"wait": "true"} if wait else {})
        return answer

    def download_image(self, ref: str, target: BinaryIO, progress: Progress | None = None) -> int:
        """Writes the image as an archive that ``docker load`` takes; returns its length in bytes."""
        name = ref.partition("@")[0].partition(":")[0]
        if "/" not in name:
            # `NAME/archive` would be an image called `archive` of the account NAME.
            full: str = self.image(ref)["full_name"]
            if full.endswith(f"/{name}"):  # else it is an id
                ref = full + ref.removeprefix(name)
        return self._client.download(f"{_image(ref)}/archive", target, progress)

    # --- datasets

    def datasets(self, query: str = "") -> list[dict[str, Any]]:
        """All that the account may see."""
        found: list[dict[str, Any]] = self._client.ask("GET", "/datasets", params={"q": query} if query else {})[
            "datasets"
        ]
        return found

    def dataset(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.ask("GET", _dataset(name))
        return answer

    def publish(self, **fields: Any) -> dict[str, Any]:
        """``name``, ``path`` and perhaps version, description, public, copy; it goes on in the background."""
        wanted = {key: value for key, value in fields.items() if value is not None}
        answer: dict[str, Any] = self._client.ask("POST", "/datasets", json=wanted, repeat=False)
        return answer

    def change_dataset(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """``changes``: description, public, shared_with."""
        answer: dict[str, Any] = self._client.ask("PATCH", _dataset(name), json=dict(changes))
        return answer

    def delete_dataset(self, name: str, version: str = "", *, wait: bool = False) -> dict[str, Any] | None:
        """One version, or all of it."""
        params = {**({"version": version} if version else {}), **({"wait": "true"} if wait else {})}
        answer: dict[str, Any] | None = self._client.ask("DELETE", _dataset(name), params=params)
        return answer

    def checksums(self, name: str, version: str, target: BinaryIO) -> int:
        """Writes the version's checksums as ``sha256sum --check`` reads them."""
        return self._client.download(f"{_dataset(name)}/{path_part(version, 'version')}/checksums", target)

    # --- groups

    def groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.ask("GET", "/groups")["groups"]
        return found

    def create_group(self, name: str, members: list[str]) -> dict[str, Any]:
        answer: dict[str, Any] = self._client.ask(
            "POST", "/groups", json={"name": name, "members": members}, repeat=False
        )
        return answer

    def change_group(self, name: str, *, add: list[str], remove: list[str]) -> dict[str, Any]:
        path = f"/groups/{path_part(name, 'group')}"
        answer: dict[str, Any] = self._client.ask("PATCH", path, json={"add": add, "remove": remove})
        return answer

    def delete_group(self, name: str) -> None:
        self._client.ask("DELETE", f"/groups/{path_part(name, 'group')}")

    # --- registries

    def registries(self) -> list[dict[str, Any]]:
        """Where the account has left credentials; never the passwords."""
        found: list[dict[str, Any]] = self._client.ask("GET", "/registries")["registries"]
        return found

    def registry_login(self, registry: str, username: str, password: str) -> dict[str, Any]:
        """``checked`` says whether the registry could be asked, and takes them."""
        body = {"username": username, "password": password}
        answer: dict[str, Any] = self._client.ask("PUT", _registry(registry), json=body)
        return answer

    def registry_logout(self, registry: str) -> None:
        self._client.ask("DELETE", _registry(registry))


def _image(ref: str) -> str:
    # On its way into an address `..` would be resolved, and another call be made than the one that was meant.
    parts = ref.split("/")
    if any(one in ("", ".", "..") or not one.isprintable() for one in parts):
        raise InvalidInput(f"{ref!r} names no image: write OWNER/NAME or OWNER/NAME:TAG.")
    return "/images/" + "/".join(quote(one, safe=":@") for one in parts)


def _registry(host: str) -> str:
    if host.strip() in ("", ".", "..") or not host.isprintable():
        raise InvalidInput(f"{host!r} is no registry: write its host, such as registry.example.org:5000, or docker.io.")
    return f"/registries/{quote(host, safe='')}"


def _dataset(name: str) -> str:
    return f"/datasets/{path_part(name, 'dataset')}"
