"""What the engine's errors mean. The texts are those of Docker Engine 20.10 to 28. Pure."""

from __future__ import annotations

import re
from typing import Protocol

from headway.model.reasons import EndWord

from ..ports import NotEnoughDisk, RuntimeRefused
from .gpu_faults import gpu_fault

_TROUBLE = (
    "containerd",
    "context deadline exceeded",
    "context canceled",
    "transport is closing",
    "daemon is shutting down",
    "server shutdown",
    "removal of container",  # in progress: the next try finds it gone
    "is marked for removal",
)
# What an engine says of a start whose processes it has lost sight of: it was killed while it started them. runc's own
# refusals have the same words for files of an image, and name runc.
_LEFT_OVER = re.compile(r"already in use|already exists|file exists|failed to start shim", re.IGNORECASE)
_NO_DISK = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NO_SOURCE = re.compile(r"bind source path does not exist|bind mount source")
_MOUNT = re.compile(r"error mounting|mount.*(no such file|not a directory|stale|transport endpoint|permission denied)")
_NOT_FOUND = re.compile(
    r"manifest unknown|manifest for .* not found|not found: manifest|repository does not exist|does not exist|"
    r"name unknown|repository name not known|pull access denied|no such image|invalid reference format|"
    r"no matching manifest|not found",
    re.IGNORECASE,
)
_CHANGED = re.compile(r"invalid diffID|invalid tar header|invalid character|invalid image JSON", re.IGNORECASE)
# Of a load: faults of the machine or of the connection, not of the image.
_MACHINE = re.compile(
    r"input/output error|read-only file system|cannot allocate memory|too many open files|too many links|"
    r"resource temporarily unavailable|stale|transport endpoint|structure needs cleaning|device or resource busy|"
    r"mknod.*operation not permitted|permission denied|fork/exec|signal: |unexpected EOF|broken pipe|connection|"
    r"timeout|timed out",
    re.IGNORECASE,
)
_UNAUTHORIZED = re.compile(r"unauthorized|authentication required|no basic auth credentials|denied: ", re.IGNORECASE)
_AWAY = re.compile(
    r"dial tcp|no such host|lookup |timeout|timed out|connection refused|connection reset|network is unreachable|"
    r"tls|x509|EOF|too many requests|toomanyrequests|server misbehaving|bad gateway|service unavailable|"
    r"internal server error|http: server gave",
    re.IGNORECASE,
)
_TOO_DEEP = "max depth exceeded"
# The engine looks its user up in the image's own tables before a start.
_LONG_LINE = "token too long"
# The engine has lost a part of an image that it lists: its store is damaged. Names of an image stand behind `merged/`.
_STORE = re.compile(
    r"(^|: )(layer does not exist|unknown layer|failed to get (layer|digest) |error creating overlay mount )|"
    r"/overlay2/(l/)?[\w-]+(/(diff|link|lower|work|committed))?: no such file|/(imagedb|layerdb)/\S*: no such file"
)


class EngineError(Protocol):
    """An error that the engine answered; docker's ``APIError`` is one."""

    explanation: str | None

    @property
    def status_code(self) -> int | None: ...


def text_of(error: EngineError) -> str:
    """What the engine said, on one line, without the SDK's words."""
    return " ".join(str(error.explanation or error).split())


def is_trouble(text: str) -> bool:
    """Whether the text is of an engine that fails or stops, and not of one that refuses."""
    return any(word in text.lower() for word in _TROUBLE)


def engine_in_trouble(error: EngineError) -> bool:
    """Whether the engine itself fails, so that the same call may work in a moment."""
    if error.status_code is None:
        return True
    text = text_of(error).lower()
    if error.status_code == 409:
        return "removal" in text
    if error.status_code < 500:
        return False
    return error.status_code == 503 or (
        any(word in text for word in _TROUBLE) and "oci runtime" not in text and "runc" not in text
    )


def is_left_over(error: EngineError) -> bool:
    """Whether an earlier start of the same container stands in the way. That is no refusal: the box tells what runs."""
    text = text_of(error)
    return _LEFT_OVER.search(text) is not None and not re.search("oci runtime|runc", text, re.IGNORECASE)


def start_refusal(error: EngineError, *, node: str, image: str, gpus: bool) -> RuntimeRefused:
    """The end of an attempt whose container the engine would not create or start. ``gpus``: it asked for some."""
    text = text_of(error)
    if _TOO_DEEP in text:
        return _too_many_layers(image)
    if error.status_code == 404 and "no such image" in text.lower():
        return RuntimeRefused(
            f"The image {image} was removed from {node} just before the start",
            word=EndWord.IMAGE_PULL_FAILED,
            elsewhere=True,
        )
    if _LONG_LINE in text:
        return RuntimeRefused(
            "A line of the image's /etc/passwd or /etc/group is longer than 64 KiB, and the engine reads them before a "
            "start. Build it with shorter lines",
            word=EndWord.IMAGE_BAD,
        )
    if _NO_SOURCE.search(text):
        return RuntimeRefused(
            f"A folder of the task is missing on {node}: {_tail(text)}",
            word=EndWord.MOUNT_UNAVAILABLE,
            elsewhere=True,
        )
    if _NO_DISK.search(text):
        return RuntimeRefused(
            f"The disk of {node}'s container engine is full", word=EndWord.START_FAILED, elsewhere=True
        )
    if "error setting rlimit" in text:
        return RuntimeRefused(
            f"The container engine of {node} gives no such ulimits: {_tail(text)}",
            word=EndWord.START_FAILED,
            elsewhere=True,
        )
    if gpus and (fault := gpu_fault(text, node)):
        return fault.refusal()
    if _MOUNT.search(text) and "/headway" not in text and not _store_is_damaged(text):
        return RuntimeRefused(
            f"A folder of the task could not be mounted on {node}: {_tail(text)}",
            word=EndWord.MOUNT_UNAVAILABLE,
            elsewhere=True,
        )
    return RuntimeRefused(
        f"The container engine of {node} could not start it: {_tail(text)}", word=EndWord.START_FAILED, elsewhere=True
    )


def of_image(error: EngineError, *, image: str) -> RuntimeRefused | None:
    """The refusal of a container that asks for nothing but its image.

    None: the machine is at fault, or nobody knows who is.
    """
    text = text_of(error)
    if _TOO_DEEP in text:
        return _too_many_layers(image)
    known = error.status_code is not None and error.status_code not in (404, 409)
    of_machine = _NO_DISK.search(text) or _MACHINE.search(text) or _store_is_damaged(text)
    if not known or engine_in_trouble(error) or of_machine:
        return None
    return RuntimeRefused(
        f"The engine makes no container of the image. Build it without what is in the way ({_tail(text)})",
        word=EndWord.IMAGE_BAD,
    )


def _store_is_damaged(text: str) -> bool:
    return "/merged/" not in text and _STORE.search(text) is not None


def _too_many_layers(image: str) -> RuntimeRefused:
    return RuntimeRefused(f"The image {image} has more layers than an engine stacks. Squash it", word=EndWord.IMAGE_BAD)


def pull_refusal(text: str, *, node: str, image: str, asks_for: str = "") -> RuntimeRefused:
    """The end of an attempt whose image could not be fetched. ``text`` is what the engine said.

    ``asks_for`` is an account. Then only its permission was asked for, and the image may be here.
    """
    text = " ".join(text.split())
    if _NO_DISK.search(text):
        return NotEnoughDisk(f"Not enough disk on the machine {node} for the image {image}")
    if _TOO_DEEP in text:
        return _too_many_layers(image)
    # First the registry's address, then its answer: `lookup x: no such host` does not mean that the image is missing.
    if _AWAY.search(text) and not re.search(r"manifest unknown|pull access denied", text):
        return RuntimeRefused(
            f"{node} could not ask the registry of the image {image} whether {asks_for} may run it: {_tail(text)}"
            if asks_for
            else f"The image {image} is not on {node}, and its registry could not be reached: {_tail(text)}",
            word=EndWord.IMAGE_PULL_FAILED,
            elsewhere=True,
        )
    if "no matching manifest" in text:
        return RuntimeRefused(
            f"The registry has no variant of {image} for the machine type of {node}", word=EndWord.IMAGE_BAD
        )
    if _NOT_FOUND.search(text):
        return RuntimeRefused(f"No registry knows the image {image}", word=EndWord.IMAGE_NOT_FOUND)
    if _UNAUTHORIZED.search(text):
        return RuntimeRefused(
            f"The registry does not give {image} to {node}: {_tail(text)}", word=EndWord.IMAGE_PULL_FAILED
        )
    return RuntimeRefused(
        f"{node} could not fetch the image {image}: {_tail(text)}", word=EndWord.IMAGE_PULL_FAILED, elsewhere=True
    )


def load_refusal(text: str, *, node: str, image: str) -> RuntimeRefused:
    """The end of an attempt whose market image the engine did not load. ``text`` is what the engine said."""
    text = " ".join(text.split())
    if _NO_DISK.search(text):
        return NotEnoughDisk(f"Not enough disk on the machine {node} for the image {image}")
    if _CHANGED.search(text):
        return RuntimeRefused(
            f"The market's copy of the image {image} differs from what was uploaded. Upload it again ({_tail(text)})",
            word=EndWord.IMAGE_BAD,
        )
    if _MACHINE.search(text):
        return RuntimeRefused(
            f"{node} could not load the image {image}: {_tail(text)}", word=EndWord.IMAGE_PULL_FAILED, elsewhere=True
        )
    return RuntimeRefused(
        f"The container engine of {node} can't unpack the image {image}. Rebuild it and upload it again "
        f"({_tail(text)})",
        word=EndWord.IMAGE_BAD,
    )


def _tail(text: str, limit: int = 300) -> str:
    """The text without the names of the engine's inner parts, and not too long."""
    for prefix in ("OCI runtime create failed: ", "failed to create shim: ", "Error response from daemon: "):
        text = text.replace(prefix, "")
    text = re.sub(r"/\S*/overlay2/\S*/(merged|diff)(?=/)", "", text)  # where the engine has the image
    text = re.sub(r"container_linux\.go:\d+: |process_linux\.go:\d+: |rootfs_linux\.go:\d+: |: unknown$", "", text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
