"""Structured logging on top of the standard library.

One line per state change: a stable dotted event, facts as fields, ids bound once through contextvars.

    log = get_logger(__name__)

    with bound(job=job_id):                       # every line in here carries job=...
        log.info("job.accepted", tasks=len(tasks))
        log.warning("mount.full", free_bytes=free)
        log.error("worker.lost", node=node_id, exc=error)   # exc adds the traceback

Programs call `setup` once; libraries and tests need not. Values of fields that look like credentials or
environments never reach a line, whoever passes them.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import IO, Any, Literal

Format = Literal["auto", "json", "text"]

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_ROOT = "headway"
_HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"(?:^|[_.\-])(?:token|password|passwd|passphrase|secret|secrets|authorization|cookie|credential|credentials|"
    r"api_?key|private_?key)s?(?:$|[_.\-])",
    re.IGNORECASE,
)
_ENVIRONMENT_NAMES = frozenset({"env", "environ", "environment"})
_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
# Long enough for any id, sentence or list of a few ids; a runaway value must not fill the disk.
_MAX_VALUE_CHARS = 4_000

_NOTHING: Mapping[str, object] = MappingProxyType({})
_bound: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("headway_log_fields", default=_NOTHING)


class Log:
    """Writes events of one module. Get it with `get_logger`; calls below the level cost one comparison."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        """Detail for someone who is looking for a fault."""
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """One step of the story of a job, node or service."""
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Something is not as it should be and Headway copes by itself."""
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """A person has to look. `exc=error` adds its traceback."""
        self._emit(logging.ERROR, event, fields)

    def enabled(self, level: Literal["debug", "info", "warning", "error"]) -> bool:
        """True when a line of that level would be written; for fields that are costly to make."""
        return self._logger.isEnabledFor(_LEVELS[level])

    def _emit(self, level: int, event: str, fields: dict[str, object]) -> None:
        logger = self._logger
        if not logger.isEnabledFor(level):
            return
        exc = fields.pop("exc", None)
        context = _bound.get()
        # makeRecord without findCaller: the event name says where a line comes from, and walking frames
        # costs more than all the rest of a line.
        record = logger.makeRecord(logger.name, level, "", 0, event, (), None)
        record.fields = {**context, **fields} if context else fields
        record.exc = exc if isinstance(exc, BaseException) else None
        logger.handle(record)


def get_logger(name: str) -> Log:
    """The log of a module: `log = get_logger(__name__)`."""
    return Log(logging.getLogger(name if name.split(".")[0] == _ROOT else f"{_ROOT}.{name}"))


@contextlib.contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Adds fields to every line written inside, also in tasks started inside. Nests."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def setup(
    *,
    service: str = "",
    level: str = "info",
    fmt: Format = "auto",
    stream: IO[str] | None = None,
    file: str = "",
    max_bytes: int = 10_000_000,
) -> None:
    """Sends all lines to `stream` (stderr by default): text on a terminal, else JSON. Safe to call again.

    With `file` they go there instead; past `max_bytes` it becomes FILE.1, and so on up to three old ones. Other
    libraries' warnings come the same way, so that one file tells the whole story.

    Raises:
        OSError: the file can't be opened.
    """
    handler: logging.Handler
    terminal = False
    if file:
        from logging.handlers import RotatingFileHandler

        handler = RotatingFileHandler(file, maxBytes=max_bytes, backupCount=3, encoding="utf-8")
    else:
        out = stream if stream is not None else sys.stderr
        terminal = out.isatty()
        handler = logging.StreamHandler(out)
    if fmt == "auto":
        fmt = "text" if terminal else "json"
    handler.setFormatter(JsonFormatter(service) if fmt == "json" else TextFormatter(terminal=terminal))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_ROOT).setLevel(_LEVELS[level.lower()])
    logging.captureWarnings(True)
    # Nobody reads these, and each record would pay for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # A full disk or closed pipe under the log must not take the service down with it.
    logging.raiseExceptions = False


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at (UTC, milliseconds), level, service, event, then the fields."""

    def __init__(self, service: str = "") -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Renders one record."""
        line: dict[str, object] = {"at": _utc(record.created), "level": record.levelname.lower()}
        if self._service:
            line["service"] = self._service
        line["event"] = record.getMessage()
        if not record.name.startswith(_ROOT):
            line["logger"] = record.name
        for name, value in _fields(record).items():
            line[name if name not in line else f"{name}_"] = _plain(name, value)
        trace = _traceback(record)
        if trace:
            line["traceback"] = trace
        return _json(line)


class TextFormatter(logging.Formatter):
    """`12:00:01.250 info    job.accepted job=... tasks=3`, for people; local time, in files with the date."""

    _COLOURS: Mapping[int, str] = {
        logging.DEBUG: "\x1b[2m",
        logging.WARNING: "\x1b[33m",
        logging.ERROR: "\x1b[31m",
        logging.CRITICAL: "\x1b[31m",
    }

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def format(self, record: logging.LogRecord) -> str:
        """Renders one record; control characters in values are shown escaped."""
        at = _local("%H:%M:%S" if self._terminal else "%Y-%m-%d %H:%M:%S", int(record.created))
        parts = [f"{at}.{int(record.msecs):03d} {record.levelname.lower():<7} {_quoted(record.getMessage())}"]
        for name, value in _fields(record).items():
            plain = _plain(name, value)
            text = _quoted(plain) if isinstance(plain, str) else _json(plain)
            parts.append(f"{name}={text}")
        line = " ".join(parts)
        tint = self._COLOURS.get(record.levelno, "") if self._terminal else ""
        if tint:
            line = f"{tint}{line}\x1b[0m"
        trace = _traceback(record)
        return f"{line}\n{trace}" if trace else line


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


# A burst writes thousands of lines a second: what is the same in most of them is worked out once.
_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@lru_cache(maxsize=8)
def _local(pattern: str, seconds: int) -> str:
    return time.strftime(pattern, time.localtime(seconds))


@lru_cache(maxsize=8)
def _utc_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _utc(at: float) -> str:
    seconds, millis = divmod(int(at * 1000), 1000)
    return f"{_utc_second(seconds)}.{millis:03d}Z"


def _traceback(record: logging.LogRecord) -> str:
    exc = getattr(record, "exc", None)
    if exc is None and record.exc_info:
        exc = record.exc_info[1]
    if exc is None:
        return ""
    return "".join(traceback.format_exception(exc)).rstrip("\n")


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    escaped = json.dumps(text, ensure_ascii=False)
    # Direction overrides and odd line ends would let a job's name rewrite the line it stands in.
    return re.sub(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", lambda m: f"\\u{ord(m[0]):04x}", escaped)


def _plain(name: str, value: object) -> Any:
    """The value as JSON knows it, with secrets taken out."""
    if _is_secret(name) and not isinstance(value, (bool, int, float, type(None))):
        return _HIDDEN
    if isinstance(value, str):
        return value if len(value) <= _MAX_VALUE_CHARS else f"{value[:_MAX_VALUE_CHARS]}…"
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        return value.name if isinstance(value, Enum) else value
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        if name.lower() in _ENVIRONMENT_NAMES:
            return {str(key): _HIDDEN for key in value}
        return {str(key): _plain(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        if name.lower() in _ENVIRONMENT_NAMES:
            return _HIDDEN
        return [_plain(name, item) for item in value]
    text = str(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"
