"""Which server, and as whom: environment first, then the file that ``headway login`` writes."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import ConfigInvalid

DEFAULT_URL = "http://127.0.0.1:8080"
URL_VARIABLE = "HEADWAY_URL"
TOKEN_VARIABLE = "HEADWAY_TOKEN"
# As it stands in front of a token where somebody copied a whole header.
_HEADER = re.compile(r"(?:authorization:\s*)?bearer(?:\s+|$)", re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+")


def profile_path(environ: Mapping[str, str] | None = None) -> Path:
    """``$XDG_CONFIG_HOME/headway/client.toml``, else under ``~/.config``."""
    env = os.environ if environ is None else environ
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "headway" / "client.toml"


def from_environment(variable: str, environ: Mapping[str, str] | None = None) -> str:
    """What the variable says, without the blanks and line ends around it; empty: it says nothing."""
    return (os.environ if environ is None else environ).get(variable, "").strip()


def checked_token(token: str, source: str) -> str:
    """The token as it goes into a header, without blanks around it and without `Bearer` before it.

    Raises:
        ConfigInvalid: what ``source`` names can't be one.
    """
    bare = _HEADER.sub("", token.strip(), count=1).strip()
    if not bare and not token.strip():
        return ""
    if _TOKEN.fullmatch(bare) is None:
        advice = "Unset it, or set" if source == TOKEN_VARIABLE else "Run `headway login` anew, or write"
        raise ConfigInvalid(
            f"{source} can't be a token: a token is one word of ASCII characters. {advice} one that "
            "`headway tokens add NAME` made."
        )
    return bare


@dataclass(frozen=True, slots=True)
class Profile:
    """Address and token of one server; an empty token means not signed in. ``source``: where the token is from."""

    url: str = DEFAULT_URL
    token: str = ""
    user: str = ""
    source: str = field(default="The token", compare=False)

    @classmethod
    def stored(cls, environ: Mapping[str, str] | None = None) -> Profile:
        """What ``headway login`` has left, whatever the environment says.

        Raises:
            ConfigInvalid: the file is not TOML.
        """
        path = profile_path(environ)
        found: dict[str, object] = {}
        if path.exists():
            try:
                found = tomllib.loads(path.read_text("utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ConfigInvalid(
                    f"{path} is not valid TOML ({error}): mend it, or run `headway login` anew."
                ) from error
        url = str(found.get("url", DEFAULT_URL)).strip().rstrip("/")
        token, user = str(found.get("token", "")).strip(), str(found.get("user", ""))
        return cls(url=url, token=token, user=user, source=f"`token` in {path}")

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Profile:
        """``HEADWAY_URL`` and ``HEADWAY_TOKEN`` win over the file, each by itself.

        A token of the file is not sent to another address than the file's own.

        Raises:
            ConfigInvalid: the file is not TOML.
        """
        stored = cls.stored(environ)
        url = from_environment(URL_VARIABLE, environ).rstrip("/") or stored.url
        if token := from_environment(TOKEN_VARIABLE, environ):
            return replace(stored, url=url, token=token, source=TOKEN_VARIABLE)
        return replace(stored, url=url, token=stored.token if url == stored.url else "")

    def save(self, path: Path | None = None) -> Path:
        """Writes the file, readable by its owner alone, in one step."""
        path = path or profile_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        # JSON strings are TOML basic strings.
        text = "".join(f"{key} = {json.dumps(getattr(self, key))}\n" for key in ("url", "token", "user"))
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
        return path
