"""The built web page. Browsers keep files with hashed names for ever and ask for the page itself every time.

The documentation lies beside it: /help/NAME.md is its text, and /help/NAME the page that shows it. Any other path is a
view of the page.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.responses import FileResponse, PlainTextResponse, Response

from headway.errors import NotFound

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

    def respond(self, path: str) -> Response:
        """The file at ``path``, or the page for a path that is one of its views.

        Raises:
            NotFound: a path that looks like a file, and there is none.
        """
        found = self._files.get(path)
        if found is not None and found != self._index:
            fresh = "public, max-age=31536000, immutable" if path.startswith("/assets/") else "no-cache"
            kind = _TYPES.get(found.suffix) or mimetypes.guess_type(found.name)[0] or "application/octet-stream"
            return FileResponse(found, media_type=kind, headers={"Cache-Control": fresh})
        if path.startswith(("/assets/", "/api/")) or (path.startswith("/help/") and path.endswith(".md")):
            raise NotFound("There is nothing at this address.")
        if self._index is None:
            return PlainTextResponse(_NOT_BUILT, 200 if path == "/" else 404)
        return FileResponse(self._index, media_type=_TYPES[".html"], headers={"Cache-Control": "no-cache"})
