"""Of what form each value of a config must be, as engines read it: one that is of another is refused by them whole.

Names and kinds as in Docker Engine 20.10's image and container configs; what isn't named here may be anything.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from . import documents
from .documents import JsonObject, wrong

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")
_INT64 = range(-(1 << 63), 1 << 63)

Check = Callable[[Any, str, str], Any]


def _flag(value: Any, what: str, key: str) -> Any:
    return _kept(value, isinstance(value, bool), what, key, "true or false")


def _number(value: Any, what: str, key: str) -> Any:
    return _kept(value, type(value) is int and value in _INT64, what, key, "a whole number")


def _time(value: Any, what: str, key: str) -> Any:
    return _kept(value, isinstance(value, str) and moment(value) is not None, what, key, "a time as RFC 3339 has it")


def _words(value: Any, what: str, key: str) -> Any:
    # Engines take a text for a list of one.
    return (value,) if isinstance(value, str) else documents.texts(value, what, key)


def _labels(value: Any, what: str, key: str) -> Any:
    return JsonObject(
        {name: documents.text(one, what, f"{key}.{name}") for name, one in _map(value, what, key).items()}
    )


def _names(value: Any, what: str, key: str) -> Any:
    """Ports and volumes: objects whose keys count."""
    for name, one in _map(value, what, key).items():
        if one is not None:
            _object(one, what, f"{key}.{name}")
    return value


def _of(form: Mapping[str, Check]) -> Check:
    # Go takes keys for each other that differ in case only.
    known = {name.casefold(): name for name in form}

    def check(value: Any, what: str, key: str) -> JsonObject:
        prefix = f"{key}." if key else ""
        read = JsonObject()
        for name, one in _object(value, what, key).items():
            meant = known.get(name.casefold(), name)
            if one is not None and meant in form:
                one = form[meant](one, what, f"{prefix}{name}")
            read[meant] = one
        return read

    return check


def _settings(value: Any, what: str, key: str) -> JsonObject:
    """What people know by these names alone."""
    read: JsonObject = _CONTAINER(_object(value, what, key), what, "")
    return read


def _each(check: Check) -> Check:
    def of_all(value: Any, what: str, key: str) -> list[Any]:
        if not isinstance(value, list):
            raise wrong(what, key, "a list")
        return [one if one is None else check(one, what, f"{key}[{index}]") for index, one in enumerate(value)]

    return of_all


def _object(value: Any, what: str, key: str) -> JsonObject:
    return documents.obj(value, what, key)


def _map(value: Any, what: str, key: str) -> JsonObject:
    """An object whose keys are not Headway's: engines tell them apart by case."""
    if not isinstance(value, JsonObject):
        raise wrong(what, key, "an object")
    return value


def _kept(value: Any, right: bool, what: str, key: str, want: str) -> Any:
    if not right:
        raise wrong(what, key, want)
    return value


_text: Final = documents.text
_texts: Final = documents.texts
_CONTAINER = _of(
    {
        **dict.fromkeys(("Hostname", "Domainname", "User", "Image", "WorkingDir", "MacAddress", "StopSignal"), _text),
        **dict.fromkeys(
            ("AttachStdin", "AttachStdout", "AttachStderr", "Tty", "OpenStdin", "StdinOnce", "ArgsEscaped"), _flag
        ),
        "NetworkDisabled": _flag,
        "Env": _texts,
        "OnBuild": _texts,
        "Cmd": _words,
        "Entrypoint": _words,
        "Shell": _words,
        "Labels": _labels,
        "ExposedPorts": _names,
        "Volumes": _names,
        "StopTimeout": _number,
        "Healthcheck": _of(
            {
                "Test": _texts,
                **dict.fromkeys(("Interval", "Timeout", "StartPeriod", "StartInterval", "Retries"), _number),
            }
        ),
    }
)
_STEP = _of(
    {"created": _time, "author": _text, "created_by": _text, "comment": _text, "empty_layer": _flag},
)
_IMAGE = _of(
    {
        **dict.fromkeys(
            (
                "id",
                "parent",
                "comment",
                "container",
                "docker_version",
                "author",
                "architecture",
                "variant",
                "os",
                "os.version",
            ),
            _text,
        ),
        "created": _time,
        "os.features": _texts,
        "Size": _number,
        "config": _settings,
        "container_config": _CONTAINER,
        "history": _each(_STEP),
        "rootfs": _of({"type": _text, "diff_ids": _texts}),
    }
)


def checked(content: bytes, what: str) -> JsonObject:
    """A config's document with its keys as they are written here.

    Raises:
        ArchiveRefused: it is no JSON, or a value is of another form; the message names its key.
    """
    read: JsonObject = _IMAGE(documents.parse(content, what), what, "")
    return read


def moment(text: str) -> float | None:
    """Seconds since the epoch, None: engines read no time in it."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
    except ValueError:
        return None
    try:
        return found.timestamp() + float(f"0.{match[2] or 0}")
    except (OverflowError, ValueError):  # at the ends of the calendar
        return 0.0
