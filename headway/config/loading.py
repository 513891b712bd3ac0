"""Reads settings from file, environment and command line, and remembers where each came from."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import ConfigInvalid, Problem
from . import checks
from .sections import HeadwayConfig

_PREFIX = "HEADWAY_"
_HEADER = re.compile(r"\s*\[\s*([A-Za-z0-9_.\-\s\"']+?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\-\"']+)\s*=")
_PATHS = frozenset({"cluster.token_file", "cluster.trust_dir", "cluster.mount", "cluster.state_dir"})
_PATHS |= {"worker.folder", "log.file"}
_PATHS |= {f"httpserver.{key}" for key in ("tls_cert", "tls_key", "first_admin_file", "secret_key_file")}


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A checked configuration. `sources` maps each key to "default", "FILE:LINE", the variable's or option's name."""

    config: HeadwayConfig
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Setting:
    value: Any
    source: str


def load(
    path: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, _Setting | Any] | None = None,
    *,
    text: str | None = None,
) -> LoadedConfig:
    """Loads and checks everything.

    `path` None means: defaults and environment only. `env` is `os.environ` unless given. `overrides` maps
    keys such as "httpserver.port" to values and wins over all. Relative paths in the file count from its folder.
    `text` is taken for the file's content, where the file is yet to be written.

    Raises:
        ConfigInvalid: with every problem, each one sentence that names file or variable and key.
    """
    settings: dict[str, _Setting] = {}
    found: list[tuple[str, Problem]] = []
    if path is not None:
        settings |= _from_file(Path(path), text)
    settings |= _from_environment(os.environ if env is None else env)
    for key, value in (overrides or {}).items():
        settings[key] = _Setting(value, "command line")
    tree = _tree(settings, found)
    config = _validated(tree, settings, found)
    if config is not None:
        config = _with_token(config, settings, found)
    if config is None or found:
        raise _invalid(found)
    whole, derived_sources = checks.derived(config)
    found += [(_source(settings, p.pointer) or _place(path), p) for p in checks.problems(whole)]
    if found:
        raise _invalid(found)
    sources = {key: "default" for key, _ in flattened(whole)} | derived_sources
    sources |= {key: setting.source for key, setting in settings.items()}
    if whole.cluster.token and "cluster.token" not in settings:
        sources["cluster.token"] = "from cluster.token_file"
    return LoadedConfig(whole, sources)


def default_path() -> Path:
    """HEADWAY_CONFIG, else /etc/headway/headway.toml, else the file of `headway up` if only that is there."""
    if named := os.environ.get("HEADWAY_CONFIG"):
        return Path(named)
    installed = Path("/etc/headway/headway.toml")
    of_up = default_state() / "headway.toml"
    return of_up if of_up.exists() and not installed.exists() else installed


def default_state() -> Path:
    """The state folder of `headway up`: $XDG_STATE_HOME/headway, else under ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "headway"


def flattened(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All (key, value) pairs of a configuration, keys dotted."""
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _from_file(path: Path, text: str | None) -> dict[str, _Setting]:
    try:
        text = path.read_text("utf-8-sig") if text is None else text
    except OSError as error:
        raise ConfigInvalid(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path} is not UTF-8 text.") from error
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path} is not valid TOML: {error}.") from error
    lines = _lines(text)
    settings: dict[str, _Setting] = {}
    for key, value in _leaves(tree, HeadwayConfig):
        if key in _PATHS and isinstance(value, str) and value:
            value = os.path.normpath(path.absolute().parent / Path(value).expanduser())
        at = _nearest_line(lines, key)
        settings[key] = _Setting(value, f"{path}:{at}" if at else str(path))
    return settings


def _from_environment(env: Mapping[str, str]) -> dict[str, _Setting]:
    settings = {}
    for name in sorted(env):
        # HEADWAY_URL, HEADWAY_TOKEN and the like belong to the client; settings have a double underscore.
        if name.startswith(_PREFIX) and "__" in name:
            key = ".".join(part.lower() for part in name[len(_PREFIX) :].split("__"))
            settings[key] = _Setting(_as_toml(env[name], _annotation(key)), name)
    return settings


def _as_toml(text: str, annotation: Any) -> Any:
    """Lists and tables of a variable are TOML; a list may also be words with commas between."""
    wants = str(annotation)
    if "tuple" not in wants and "dict" not in wants:
        return text
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        value = text
    if "tuple" in wants and not isinstance(value, list):
        return [word.strip() for word in text.split(",") if word.strip()]
    return value


def _tree(settings: dict[str, _Setting], found: list[tuple[str, Problem]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, setting in settings.items():
        known = _known_keys()
        if key not in known:
            found.append((setting.source, Problem(key, _unknown(key, known))))
            continue
        *sections, leaf = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[leaf] = list(setting.value) if isinstance(setting.value, tuple) else setting.value
    return tree


def _validated(
    tree: dict[str, Any], settings: dict[str, _Setting], found: list[tuple[str, Problem]]
) -> HeadwayConfig | None:
    try:
        return HeadwayConfig.model_validate(tree)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            key = ".".join(str(part) for part in item["loc"])
            while key and key not in settings:
                key = key.rpartition(".")[0]
            setting = settings.get(key, _Setting(None, ""))
            place, value = _inside(key, setting.value, item["loc"])
            found.append((setting.source, Problem(place, _clause(dict(item), key, value))))
        return None


def _inside(key: str, value: Any, loc: Sequence[int | str]) -> tuple[str, Any]:
    """Where in a table the fault lies, and what stands there."""
    for part in loc[key.count(".") + 1 :]:
        if not isinstance(value, dict) or part not in value:
            break
        key, value = f"{key}.{part}", value[part]
    return key, value


def _with_token(
    config: HeadwayConfig, settings: dict[str, _Setting], found: list[tuple[str, Problem]]
) -> HeadwayConfig:
    file = config.cluster.token_file
    if config.cluster.token or not file:
        return config
    try:
        token = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        found.append(
            (settings["cluster.token_file"].source, Problem("cluster.token_file", f"{file} can't be read: {why}"))
        )
        return config
    return config.model_copy(update={"cluster": config.cluster.model_copy(update={"token": token})})


def _clause(item: dict[str, Any], key: str, value: Any) -> str:
    shown = "" if key in ("cluster.token",) else f", and not {value!r}"
    context = item.get("ctx") or {}
    match item["type"]:
        case "value_error":
            text = str(context.get("error", item["msg"]))
            return text if text.startswith(("must", "is ")) else f"can't be taken: {text}"
        case "literal_error":
            near = difflib.get_close_matches(str(value), re.findall(r"'([^']+)'", context["expected"]), 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            return f"must be one of {context['expected']}{shown}{hint}"
        case "finite_number":
            return f"must be a finite number{shown}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}{shown}"
        case "greater_than":
            return f"must be above {context['gt']:g}{shown}"
        case "less_than_equal":
            return f"must be at most {context['le']:.12g}{shown}"
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}{shown}"
        case "extra_forbidden":
            return "is not known"
        case "model_type":
            return f"must be a table{shown}"
        case "string_too_short":
            return "must not be empty"
        case kind if kind.startswith("int"):
            return f"must be a whole number{shown}"
        case kind if kind.startswith("float"):
            return f"must be a number{shown}"
        case kind if kind.startswith("bool"):
            return f"must be true or false{shown}"
        case kind if kind.startswith("string"):
            return f"must be a text{shown}"
        case kind if kind.startswith(("tuple", "list")):
            return f"must be a list{shown}"
    return f"can't be taken: {item['msg']}"


def _unknown(key: str, known: frozenset[str]) -> str:
    section, _, leaf = key.rpartition(".")
    sections = {name.rpartition(".")[0] for name in known}
    elsewhere = sorted(name for name in known if name.rpartition(".")[2] == leaf)[:3]
    if not section and elsewhere:
        return f"is no section; did you mean {' or '.join(elsewhere)}?"
    if section not in sections:
        near = difflib.get_close_matches(section or leaf, sorted(sections - {""}), 1)
        hint = f"; did you mean [{near[0]}]?" if near else f"; there are {', '.join(sorted(sections))}"
        return f"is in an unknown section{hint}" if section else f"is no section{hint}"
    if elsewhere:
        return f"is not known here; did you mean {' or '.join(elsewhere)}?"
    here = [name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == section]
    near = difflib.get_close_matches(leaf, sorted(here), 1, cutoff=0.5)
    return (
        f"is not known; did you mean {near[0]}?" if near else f"is not known; [{section}] has {', '.join(sorted(here))}"
    )


def _invalid(found: list[tuple[str, Problem]]) -> ConfigInvalid:
    sentences = []
    for source, problem in found:
        section, _, leaf = problem.pointer.rpartition(".")
        where = f"{source}: " if source else ""
        name = f"[{section}] {leaf}" if section else leaf
        end = "" if problem.message.endswith("?") else "."
        sentences.append(f"{where}{name} {problem.message}{end}")
    return ConfigInvalid("\n".join(sentences))


def _known_keys() -> frozenset[str]:
    global _known
    if not _known:
        _known = frozenset(key for key, _ in flattened(HeadwayConfig()))
    return _known


_known: frozenset[str] = frozenset()


def _annotation(key: str) -> Any:
    model: Any = HeadwayConfig
    *sections, leaf = key.split(".")
    for section in sections:
        field = model.model_fields.get(section)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return None
        model = field.annotation
    field = model.model_fields.get(leaf)
    return field.annotation if field is not None else None


def _leaves(tree: Mapping[str, Any], model: type[BaseModel] | None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        field = model.model_fields.get(name) if model is not None else None
        inner = field.annotation if field is not None else None
        inner_model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None
        # A table is walked into where the model has one or knows nothing; else it is a value.
        if isinstance(value, dict) and value and (inner_model is not None or field is None):
            yield from _leaves(value, inner_model, f"{prefix}{name}.")
        elif not (isinstance(value, dict) and inner_model is not None):
            yield f"{prefix}{name}", value


def _lines(text: str) -> dict[str, int]:
    """Line of each key and section, as far as a glance at each line tells."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _bare(header[1])
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{section}.{_bare(key[1])}".lstrip("."), number)
    return lines


def _nearest_line(lines: Mapping[str, int], key: str) -> int:
    while key:
        if key in lines:
            return lines[key]
        key = key.rpartition(".")[0]
    return 0


def _bare(key: str) -> str:
    return re.sub(r"[\s\"']", "", key)


def _source(settings: Mapping[str, _Setting], key: str) -> str:
    setting = settings.get(key)
    return setting.source if setting is not None else ""


def _place(path: Path | str | None) -> str:
    return str(path) if path is not None else ""
