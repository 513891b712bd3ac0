"""What each single value of a job file may be.

Each function takes a raw value and gives the checked one, or raises BadValue. Its clause reads on after the name of the
field.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from headway.jobfile.source import Ambiguous, printable, quoted
from headway.model.gpu_shares import UNIT_BYTES
from headway.units import MIB, BadValue, format_size, number_in, parse_cpus, parse_duration, parse_size

MAX_JOB_NAME: Final = 100  # characters
MAX_GPUS: Final = 64
MAX_RETRIES: Final = 20
MAX_GRACE_S: Final = 3_600.0
MIN_MEMORY_BYTES: Final = 6 * MIB  # less starts no container
MAX_COMMAND_BYTES: Final = MIB
# The kernel takes no longer single argument or NAME=VALUE (MAX_ARG_STRLEN), and far more in all would leave no
# room for what Headway itself adds.
MAX_STRING_BYTES: Final = 128 * 1024 - 1
MAX_ENV_BYTES: Final = MIB
MAX_PATH_BYTES: Final = 4_000

TASK_NAME_RULE: Final = "letters (a-z, A-Z), digits, '.', '_' and '-', starting with a letter or digit, up to 63"
_TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # breaks of lines and paragraphs too
_NEVER = re.compile("[\x00\ud800-\udfff]")
# Characters that turn the reading direction of what is around them: fit to make a name look like another.
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_E = TypeVar("_E", bound=StrEnum)
_V = TypeVar("_V")


def kind_of(raw: Any) -> str:
    """What a raw value is, in a user's words."""
    if raw is None:
        return "empty"
    if isinstance(raw, bool):
        return "a true/false value"
    if isinstance(raw, int | float):
        return "a number"
    if isinstance(raw, str):
        return "a text"
    if isinstance(raw, dict):
        return "a mapping"
    return "a list" if isinstance(raw, list | tuple) else "of an unknown type"


def quoting(raw: Any, refusal: Callable[[str], BadValue]) -> BadValue:
    """A refusal that quotes the value. Whoever knows how it was typed can have it said anew of that."""
    bad = refusal(str(raw).lower() if isinstance(raw, bool) else str(raw))
    bad.retold = refusal
    return bad


def text(raw: Any) -> str:
    """Any text that a UTF-8 C string can hold; exact, also where YAML 1.1 would have read something else."""
    if not isinstance(raw, str):
        if isinstance(raw, bool | int | float):
            clause = f"is {kind_of(raw)}, it has to be a text; put it in quotes"
            raise quoting(raw, lambda typed: BadValue(f'{clause}: "{printable(typed, 60)}"'))
        raise BadValue(f"is {kind_of(raw)}, it has to be a text")
    if (not raw.isascii() or "\0" in raw) and (bad := _NEVER.search(raw)):
        raise BadValue(f"has the character U+{ord(bad[0]):04X}, which no program can be given; remove it")
    return raw if type(raw) is str else str(raw)


def job_name(raw: Any) -> str:
    """1 to 100 printable characters of any script."""
    name = text(raw)
    if not name.strip():
        raise BadValue("is empty; write 1 to 100 printable characters")
    if len(name) > MAX_JOB_NAME:
        raise BadValue(f"has {len(name)} characters; {MAX_JOB_NAME} are allowed")
    visible = name.isascii() and name.isprintable()
    if not visible:
        for char in name:
            category = unicodedata.category(char)
            if category in ("Cc", "Zl", "Zp") or char in _BIDI or char in "\ufffe\uffff":
                raise BadValue(f"has the character U+{ord(char):04X}, which can't be printed; remove it")
            visible = visible or (category[0] in "LNPSC" and category != "Cf")
    if not visible:
        raise BadValue("has nothing to see in it; write 1 to 100 printable characters")
    return name


def task_name(raw: Any) -> str:
    """Fit for a folder, a URL and a host name's part."""
    name = text(raw)
    if _TASK_NAME.fullmatch(name):
        return name
    if not name:
        raise BadValue(f"is empty; allowed are {TASK_NAME_RULE}")
    if len(name) > 63 and _TASK_NAME.fullmatch(name[:63]):
        raise BadValue(f"has {len(name)} characters; 63 are allowed")
    nearest = _as_task_name(name)
    hint = f"; for instance {nearest}" if nearest else ""
    raise BadValue(f"{quoted(name)} is not allowed: {TASK_NAME_RULE}{hint}", suggestion=nearest)


def _as_task_name(name: str) -> str | None:
    folded = unicodedata.normalize("NFKD", name[:200]).encode("ascii", "ignore").decode()
    folded = re.sub(r"[^A-Za-z0-9._-]+", "-", folded).strip("-._")[:63]
    return folded or None


_DATASET_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


def dataset_name(raw: Any) -> str:
    """``mnist``, or ``mnist@2`` for exactly that version."""
    reference = text(raw)
    name, at, version = reference.partition("@")
    if not _TASK_NAME.fullmatch(name):
        raise BadValue(f"{quoted(reference)} is not a dataset's name: {TASK_NAME_RULE}")
    if at and not _DATASET_VERSION.fullmatch(version):
        raise BadValue(
            f"{quoted(reference)} has no valid version after '@': letters, digits, '.', '_' and '-', starting with a "
            "letter or digit, up to 32"
        )
    return reference


def code(raw: Any) -> str:
    """The digest of a snapshot of code."""
    digest = text(raw)
    if not _DIGEST.fullmatch(digest):
        raise BadValue(
            f"{quoted(digest)} is not the digest of a snapshot: sha256: and 64 hex digits, as `headway submit --code "
            "DIR` makes and shows it"
        )
    return digest


# --- images --------------------------------------------------------------------------------------------

_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]{1,5})?"
)
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE_FORM: Final = "NAME, NAME:TAG, GROUP/NAME:TAG, HOST:PORT/NAME:TAG or NAME@sha256:DIGEST"


def image(raw: Any) -> str:
    """A reference as Docker reads it: [host[:port]/]path[:tag][@digest]."""
    return _image(text(raw))


@lru_cache(maxsize=1024)
def _image(name: str) -> str:
    if not name.strip():
        raise BadValue(f"is empty; write {_IMAGE_FORM}")
    if len(name) > 500:
        raise BadValue(f"has {len(name)} characters; 500 are allowed")
    if re.search(r"\s", name):
        raise BadValue(f"{quoted(name)} has a space in it; write {_IMAGE_FORM}", suggestion="".join(name.split()))
    if "://" in name:
        raise BadValue(f"{quoted(name)} is a URL; write {_IMAGE_FORM}", suggestion=name.split("://", 1)[1] or None)
    rest, at, digest = name.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise BadValue(f"{quoted(name)} has no valid digest after '@'; it is sha256: and 64 hex digits")
    host, slash, path = rest.partition("/")
    if not (slash and (host == "localhost" or "." in host or ":" in host)):
        host, path = "", rest
    elif not _DOMAIN.fullmatch(host):
        raise BadValue(f"{quoted(name)} has no valid host before the first '/'; write {_IMAGE_FORM}")
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise BadValue(
            f"{quoted(name)} has no valid tag after ':'; a tag has letters, digits, '_', '.' and '-', up to 128"
        )
    if not all(_COMPONENT.fullmatch(part) for part in path.split("/")):
        if path != path.lower() and all(_COMPONENT.fullmatch(part) for part in path.lower().split("/")):
            lower = (f"{host}/" if host else "") + path.lower() + colon + tag + at + digest
            raise BadValue(f"{quoted(name)} has capital letters; did you mean {lower}?", suggestion=lower)
        raise BadValue(f"{quoted(name)} is not an image's name; write {_IMAGE_FORM}")
    return name


# --- commands and paths --------------------------------------------------------------------------------


def script(raw: str) -> str:
    """A command given as text, kept to the last character."""
    content = text(raw)
    if not content.strip():
        raise BadValue("is empty; write what the task has to run")
    if (size := len(content.encode())) > MAX_COMMAND_BYTES:
        raise BadValue(f"has {format_size(size)}, more than 1MiB; put the script in a file of the personal space")
    return content


def argument(raw: Any) -> str:
    """One word of a command given as a list."""
    word = text(raw)
    if len(word) > MAX_STRING_BYTES // 4 and len(word.encode()) > MAX_STRING_BYTES:
        raise BadValue("is longer than 128 KiB, more than Linux can pass to a program; put it in a file")
    return word


def working_dir(raw: Any) -> str:
    """An absolute path inside the container."""
    path = _path(raw)
    if not path.startswith("/"):
        near = f"/root/nfs/{path.removeprefix('./').removeprefix('~/')}" if path.strip("./~") else "/root/nfs"
        raise BadValue(f"{quoted(path)} is not absolute; did you mean {near}?", suggestion=near)
    return path


def output_path(raw: Any) -> str:
    """A path in the personal space, normalised: no '.', no doubled or final '/'."""
    path = _path(raw)
    if path.startswith(("/", "~")):
        near = re.sub(r"^(?:/root/nfs/|~/|/|~)", "", path).strip("/") or None
        hint = f"; write {near}" if near else ""
        raise BadValue(f"{quoted(path)} has to be relative: it starts in the personal space{hint}", suggestion=near)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadValue(f"{quoted(path)} has '..' in it; it has to stay inside the personal space")
    if not parts:
        raise BadValue(f"{quoted(path)} names no folder; write for instance results/digits")
    if any(len(part.encode()) > 255 for part in parts):
        raise BadValue("has a part longer than 255 bytes")
    return "/".join(parts)


def _path(raw: Any) -> str:
    path = text(raw)
    if not path.strip():
        raise BadValue("is empty; write a path or remove the line")
    if bad := _CONTROL.search(path):
        raise BadValue(f"has the control character U+{ord(bad[0]):04X} in it; remove it")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise BadValue(f"is longer than {MAX_PATH_BYTES} bytes")
    return path


# --- environment ---------------------------------------------------------------------------------------

_ENV_NAME_BAD = re.compile(r"[=\s\x00-\x1f\x7f\ud800-\udfff]")


def env_name(name: str) -> str:
    """As Docker takes it: anything without '=', white space and control characters; HEADWAY_ is Headway's
    own."""
    if not name:
        raise BadValue("has an empty name")
    if _ENV_NAME_BAD.search(name) or len(name.encode()) > 255:
        raise BadValue(f"{quoted(name)} is not a name: no '=', white space or control characters, up to 255 bytes")
    if name.startswith("HEADWAY_") and not name.startswith("HEADWAY_SCRIPTED_"):
        raise BadValue(f"{quoted(name)}: names that start with HEADWAY_ are set by Headway; choose another name")
    return name


# --- numbers and words ---------------------------------------------------------------------------------


def _with_unit(parse: Callable[[str], _V], raw: Any, wanted: str) -> _V:
    """Reads a text of a number and its unit. A number alone is refused as its text would be."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise BadValue(f"is {kind_of(raw)}; write {wanted}")
    if isinstance(raw, str):
        return parse(raw)

    def refusal(typed: str) -> BadValue:
        try:
            parse(typed)
        except BadValue as bad:
            return bad
        return BadValue(f"{quoted(typed)} has no unit; write {wanted}")

    raise quoting(raw, refusal)


def duration(raw: Any) -> float:
    return _with_unit(parse_duration, raw, "a duration such as 90s, 15m or 1h30m")


def grace(raw: Any) -> float:
    seconds = duration(raw)
    if seconds > MAX_GRACE_S:
        raise BadValue(f"{quoted(str(raw))} is more than 1h", suggestion="1h")
    return seconds


def size(raw: Any) -> int:
    return _with_unit(parse_size, raw, "a size such as 512MiB or 8GiB")


def memory(raw: Any) -> int:
    size_bytes = size(raw)
    if size_bytes < MIN_MEMORY_BYTES:
        raise BadValue(f"{quoted(str(raw))} is less than 6MiB, in which no container starts", suggestion="6MiB")
    return size_bytes


def gpu_share(raw: Any) -> int:
    size_bytes = size(raw)
    if size_bytes < UNIT_BYTES:
        least = format_size(UNIT_BYTES)
        raise BadValue(f"{quoted(str(raw))} is less than {least}, the smallest share of a GPU", suggestion=least)
    return size_bytes


def _number(raw: Any, wanted: str) -> int | float:
    """A number as such: no text, whatever it looks like."""
    if isinstance(raw, str):
        if isinstance(raw, Ambiguous):
            raise BadValue(f"{quoted(raw)} is not the same number to all YAML readers; write {wanted}")
        if number := number_in(raw.strip()):
            raise BadValue(f"{quoted(raw)} is a text; write the number {number} without quotes", suggestion=number)
        raise BadValue(f"{quoted(raw)} is not a number; write {wanted}")
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise BadValue(f"is {kind_of(raw)}; write {wanted}")
    return raw


def cpus(raw: Any) -> int:
    if isinstance(raw, str) and raw.endswith("m"):
        parse_cpus(raw)  # 500m, which has advice of its own
    number = _number(raw, "a number such as 2 or 0.5")
    try:
        return parse_cpus(number)
    except BadValue as bad:
        clause = bad.message.removeprefix(f"{number} ")
        raise quoting(raw, lambda typed: BadValue(f"{quoted(typed)} {clause}")) from None


def whole(most: int, least: int = 0) -> Callable[[Any], int]:
    """A check for a whole number."""
    return lambda raw: _whole(raw, most, least)


def version(raw: Any) -> int:
    if isinstance(raw, bool) or raw != 1:
        raise quoting(
            raw,
            lambda typed: BadValue(f"{quoted(typed)} is not known; write version: 1", suggestion="1", allowed=("1",)),
        )
    return 1


def _whole(raw: Any, most: int, least: int = 0) -> int:
    wanted = f"a whole number from {least} to {most}"
    number = _number(raw, wanted)
    if not math.isfinite(number) or number != int(number):
        raise quoting(raw, lambda typed: BadValue(f"{quoted(typed)} is not a whole number; write {wanted}"))
    if not least <= number <= most:
        clause = "is negative" if number < 0 else "is too few" if number < least else "is too many"
        raise quoting(raw, lambda typed: BadValue(f"{printable(typed, 60)} {clause}; write {wanted}"))
    return int(number)


def gpu_model(raw: Any) -> str:
    model = text(raw)
    if not model.strip() or len(model) > 100 or not model.isprintable():
        raise BadValue(f"{quoted(model)} is not a GPU model; write for instance A100")
    return model


def choice(kind: type[_E]) -> Callable[[Any], _E]:
    """A check for one of the words of an enum."""
    words = tuple(member.value for member in kind)
    by_word = {member.value: member for member in kind}

    def check(raw: Any) -> _E:
        if isinstance(raw, str) and raw in by_word:
            return by_word[raw]
        what = quoted(raw) if isinstance(raw, str) else f"is {kind_of(raw)};"
        near = next((word for word in words if isinstance(raw, str) and word == raw.strip().lower()), None)
        hint = f"did you mean {near}?" if near else f"write {' or '.join(words)}"
        joiner = " is not known; " if isinstance(raw, str) else " "
        raise BadValue(f"{what}{joiner}{hint}", suggestion=near, allowed=words)

    return check
