"""The built web page. Browsers keep files with hashed names for ever and ask whether the page itself is still the same.

The documentation lies beside it: /help/NAME.md is its text, and /help/NAME the page that shows it. Any other path is a
view of the page, unless it begins with the name of a file. Text goes out packed where the client takes it.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from headway.errors import NotFound

from ..http.encodings import packed, takes_gzip

# Not the machine's table: a stray entry there must not turn a script into text.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".ico": "image/x-icon",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}

_NOT_BUILT = """Headway runs, but its web page was not built into this installation.

It is built when the package is installed (pip install . ./server in a checkout, or from a wheel).
Until then the command line does everything: headway --help
"""


# Packed images would only become larger; of less than this a packet is not filled.
_PACKED_TYPES = ("text/", "application/json", "application/manifest", "image/svg")
_LEAST_BYTES = 1000


@dataclass(frozen=True, slots=True)
class _Content:
    plain: bytes
    small: bytes | None  # packed, where that is worth it
    tag: str


@lru_cache(maxsize=256)
def _content(path: Path, kind: str) -> _Content:
    """Read once: a page is a few files, and an upgrade under a process that runs never mixes two of them."""
    plain = path.read_bytes()
    small = packed(plain, 9) if kind.startswith(_PACKED_TYPES) and len(plain) >= _LEAST_BYTES else None
    worth = small is not None and len(small) < len(plain)
    return _Content(plain, small if worth else None, hashlib.sha256(plain).hexdigest()[:32])


class StaticPage:
    """Serves ``folder``, and the Markdown files of ``docs`` below /help.

    All files are known from the start, so no path of a request ever touches the disk.
    """

    def __init__(self, folder: Path, docs: Path) -> None:
        self._files = {
            "/" + path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()
        }
        self._index = self._files.get("/index.html")
        # The folder is a link in a checkout, so its own name is resolved first.
        docs = docs.resolve()
        self._files |= {
            "/help/" + path.relative_to(docs).as_posix(): path for path in sorted(docs.rglob("*.md")) if path.is_file()
        }

    def respond(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        """The file at ``path``, or the page for a path that is one of its views.

        Raises:
            NotFound: a path that looks like a file, and there is none.
        """
        found = self._files.get(path)
        if found is not None and found != self._index:
            fresh = "public, max-age=31536000, immutable" if path.startswith("/assets/") else "no-cache"
            return _answer(found, fresh, headers or {})
        # No view begins with a name that has a dot, as files have.
        is_file = path.startswith(("/assets/", "/api/")) or "." in path.lstrip("/").partition("/")[0]
        if is_file or (path.startswith("/help/") and path.endswith(".md")):
            raise NotFound("There is nothing at this address.")
        if self._index is None:
            return PlainTextResponse(_NOT_BUILT, 200 if path == "/" else 404)
        return _answer(self._index, "no-cache", headers or {})


def _answer(path: Path, fresh: str, asked: Mapping[str, str]) -> Response:
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    content = _content(path, kind)
    small = content.small if takes_gzip(asked.get("accept-encoding", "")) else None
    # Each form has a tag of its own: a cache must not take one for the other.
    tag = f'"{content.tag}{"" if small is None else "-gzip"}"'
    headers = {"Cache-Control": fresh, "ETag": tag}
    if content.small is not None:
        headers["Vary"] = "Accept-Encoding"
    known = [item.strip().removeprefix("W/") for item in asked.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if small is not None:
        headers["Content-Encoding"] = "gzip"
    return Response(content.plain if small is None else small, media_type=kind, headers=headers)
