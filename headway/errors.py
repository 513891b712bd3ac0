"""One family of errors.

Each class fixes its gRPC status, its HTTP status and its slug once; an interceptor and one HTTP handler translate.
The message is one clear sentence for a person: what is wrong, where, what to do. Nobody else writes
``context.abort`` or ``HTTPException``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of an input, at its place.

    ``pointer`` is a JSON pointer into the document. ``line`` and ``column`` count from 1; they are None where the
    document had no text form. ``word`` is the offending word, ``allowed`` what may stand there, ``suggestion`` the
    nearest known name.
    """

    pointer: str
    message: str
    line: int | None = None
    column: int | None = None
    word: str = ""
    allowed: tuple[str, ...] = ()
    suggestion: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry in the ``errors`` list of a problem+json answer."""
        return {**asdict(self), "allowed": list(self.allowed)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Problem:
        """The inverse of :meth:`to_json`; unknown keys of a newer peer are dropped."""
        known = {k: data[k] for k in cls.__slots__ if k in data}
        known["allowed"] = tuple(known.get("allowed") or ())
        return cls(**known)


class HeadwayError(Exception):
    """Something a person can act on. Subclasses fix code, status and slug."""

    code: ClassVar[str] = "INTERNAL"  # name of a grpc.StatusCode
    http_status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something inside Headway failed"

    def __init__(
        self, message: str = "", *, problems: Sequence[Problem] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message or self.title)
        self.problems = tuple(problems)
        self.extra = dict(extra or {})

    @property
    def message(self) -> str:
        return str(self)


class InvalidInput(HeadwayError):
    """The request itself is wrong; sending it again won't help."""

    code = "INVALID_ARGUMENT"
    http_status = 400
    slug = "invalid-input"
    title = "The request is not valid"


class JobFileInvalid(InvalidInput):
    """A job file with problems; all of them are in ``problems``."""

    http_status = 422
    slug = "job-file-invalid"
    title = "The job file has problems"


class Unsatisfiable(InvalidInput):
    """No machine of the cluster could ever run this, or its limits rule it out."""

    http_status = 422
    slug = "unsatisfiable"
    title = "This could never run here"


class NotSignedIn(HeadwayError):
    """No valid session or token came with the request."""

    code = "UNAUTHENTICATED"
    http_status = 401
    slug = "not-signed-in"
    title = "Sign in first"


class NotAllowed(HeadwayError):
    """Signed in, but this is not theirs to do."""

    code = "PERMISSION_DENIED"
    http_status = 403
    slug = "not-allowed"
    title = "You may not do that"


class NotFound(HeadwayError):
    """No such thing, or not visible to the one who asks."""

    code = "NOT_FOUND"
    http_status = 404
    slug = "not-found"
    title = "There is no such thing"


class Conflict(HeadwayError):
    """The thing exists already, or is in a state that rules the request out."""

    code = "ALREADY_EXISTS"
    http_status = 409
    slug = "conflict"
    title = "This conflicts with what is there"


class IdempotencyMismatch(Conflict):
    """The same request id came with other content."""

    slug = "idempotency-mismatch"
    title = "This request id was used for something else"


class TooLarge(HeadwayError):
    """A body or an answer beyond its limit."""

    code = "INVALID_ARGUMENT"
    http_status = 413
    slug = "too-large"
    title = "That is too large"


class RangeInvalid(HeadwayError):
    """A byte range outside the content."""

    code = "OUT_OF_RANGE"
    http_status = 416
    slug = "range-invalid"
    title = "That range is outside the content"


class TooMany(HeadwayError):
    """A limit of rate or number is reached; later may work."""

    code = "RESOURCE_EXHAUSTED"
    http_status = 429
    slug = "too-many"
    title = "Too many at once"


class TooManyWaiting(TooMany):
    """An account has, or would have, more waiting tasks than it may; nothing was stored."""

    slug = "too-many-waiting"
    title = "One account may have only so many waiting tasks"


class StoreFull(HeadwayError):
    """The disk under a database or a folder is full; nothing was stored."""

    code = "RESOURCE_EXHAUSTED"
    http_status = 507
    slug = "disk-full"
    title = "The disk is full; nothing was stored"


class Unavailable(HeadwayError):
    """A service or a part of it can't answer now; the same call may work later."""

    code = "UNAVAILABLE"
    http_status = 503
    slug = "unavailable"
    title = "A part of Headway does not answer now; try again soon"


class StoreUnavailable(Unavailable):
    """The database does not answer."""

    slug = "store-unavailable"
    title = "The database does not answer"


class MountUnavailable(Unavailable):
    """The shared mount is missing, stale or read-only."""

    slug = "mount-unavailable"
    title = "The shared folder is not available"


class Stopping(Unavailable):
    """The service is stopping and takes no new work."""

    slug = "stopping"
    title = "The service is stopping"


class DeadlineExceeded(Unavailable):
    """A call took longer than its deadline."""

    code = "DEADLINE_EXCEEDED"
    http_status = 504
    slug = "deadline-exceeded"
    title = "The answer took too long"


class PromisesMove(Conflict):
    """More time for a task would let others start later than they were promised."""

    slug = "promises-move"
    title = "Others were promised this time"


class KeptForShortTasks(Conflict):
    """More time would make a task long, and long tasks together hold as many GPUs as they may."""

    slug = "kept-for-short-tasks"
    title = "The rest is kept for short tasks"


class LaunchRefused(HeadwayError):
    """A worker does not take this attempt now; an ordinary result, the task stays queued."""

    code = "FAILED_PRECONDITION"
    http_status = 409
    slug = "launch-refused"
    title = "The worker refused the launch"


class Fenced(HeadwayError):
    """The caller acts for an attempt or incarnation that is no longer current."""

    code = "ABORTED"
    http_status = 409
    slug = "fenced"
    title = "Superseded: a newer attempt, or a later start, is current"


class ConfigInvalid(InvalidInput):
    """headway.toml or the environment holds something that can't be."""

    slug = "config-invalid"
    title = "The configuration is not valid"


class PortTaken(ConfigInvalid):
    """Another program listens where a service should."""

    slug = "port-taken"
    title = "The port is taken"


def _family(root: type[HeadwayError]) -> dict[str, type[HeadwayError]]:
    out: dict[str, type[HeadwayError]] = {}
    for sub in root.__subclasses__():
        out.update(_family(sub))
    # A class that inherits its slug stands for itself only, never for what arrives under that slug.
    if "slug" in vars(root):
        out[root.slug] = root
    return out


def by_slug(slug: str) -> type[HeadwayError]:
    """The class of a slug; HeadwayError itself for one this version doesn't know."""
    return _family(HeadwayError).get(slug, HeadwayError)
