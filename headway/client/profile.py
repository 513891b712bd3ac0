"""Which server, and as whom: environment first, then the file that ``headway login`` writes."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigInvalid

DEFAULT_URL = "http://127.0.0.1:8080"


def profile_path(environ: Mapping[str, str] | None = None) -> Path:
    """``$XDG_CONFIG_HOME/headway/client.toml``, else under ``~/.config``."""
    env = os.environ if environ is None else environ
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "headway" / "client.toml"


@dataclass(frozen=True, slots=True)
class Profile:
    """Address and token of one server; an empty token means not signed in."""

    url: str = DEFAULT_URL
    token: str = ""
    user: str = ""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Profile:
        """``HEADWAY_URL`` and ``HEADWAY_TOKEN`` win over the file, each by itself.

        A token of the file is not sent to another address than the file's own.

        Raises:
            ConfigInvalid: the file is not TOML.
        """
        env = os.environ if environ is None else environ
        path = profile_path(env)
        stored: dict[str, object] = {}
        if path.exists():
            try:
                stored = tomllib.loads(path.read_text("utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ConfigInvalid(
                    f"{path} is not valid TOML ({error}): mend it, or run `headway login` anew."
                ) from error
        file_url = str(stored.get("url", DEFAULT_URL)).rstrip("/")
        url = (env.get("HEADWAY_URL") or file_url).rstrip("/")
        token = env.get("HEADWAY_TOKEN") or (str(stored.get("token", "")) if url == file_url else "")
        return cls(url=url, token=token, user=str(stored.get("user", "")))

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
