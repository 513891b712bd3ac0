"""HeadwayErrors on their way over gRPC: the status says the kind, a trailer carries the rest.

The trailer `headway-problem-bin` holds JSON: slug, message, problems, extra. So the caller raises the same class
with the same facts as the one who found the fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import grpc

from ..errors import (
    DeadlineExceeded,
    HeadwayError,
    Problem,
    TooLarge,
    Unavailable,
    by_slug,
)

PROBLEM_KEY = "headway-problem-bin"
TOKEN_KEY = "x-headway-token"
REQUEST_ID_KEY = "x-request-id"

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# Room for a job file's problems in the trailer; gRPC's own default is 8 KiB.
MAX_METADATA_BYTES = 1024 * 1024
_MAX_PROBLEM_BYTES = 256 * 1024
_MAX_MESSAGE_CHARS = 2_000


# What gRPC's TLS says of a far side that can't prove to be who was asked for. Nothing was sent to it.
_TLS_FAULTS = {
    "Hostname Verification": "shows the certificate of another service: look at its address, and at the node's name.",
    "certificate has expired": "shows a certificate that has ended: run `headway join --renew` on its machine.",
    "certificate is not yet valid": "shows a certificate that begins later: set this machine's clock right.",
    "CERTIFICATE_VERIFY_FAILED": "shows a certificate that this cluster's authority did not sign.",
    "certificate signature failure": "shows a certificate that this cluster's authority did not sign.",
    "WRONG_VERSION_NUMBER": "does not speak TLS: give it `cluster.trust_dir`, too.",
}


class ClusterTokenWrong(HeadwayError):
    """A service of this cluster was called with another cluster's token, or none."""

    code = "UNAUTHENTICATED"
    http_status = 502
    slug = "cluster-token-wrong"
    title = "The services of this cluster don't share one token"


def status_of(error: HeadwayError) -> grpc.StatusCode:
    """The gRPC status of an error's class."""
    return grpc.StatusCode[error.code]


def problem_bytes(error: HeadwayError) -> bytes:
    """The trailer's content. Too many problems are cut, and `extra.more_problems` counts the rest."""
    problems = [problem.to_json() for problem in error.problems]
    extra: dict[str, Any] = dict(error.extra)
    while True:
        body = {"slug": error.slug, "message": error.message, "problems": problems, "extra": extra}
        data = json.dumps(body, ensure_ascii=False, default=str).encode("utf-8", "replace")
        if len(data) <= _MAX_PROBLEM_BYTES or not problems:
            break
        problems = problems[: len(problems) // 2]
        extra["more_problems"] = len(error.problems) - len(problems)
    if len(data) > _MAX_PROBLEM_BYTES:
        body = {"slug": error.slug, "message": error.message[:_MAX_MESSAGE_CHARS], "problems": [], "extra": {}}
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return data


def error_of(data: bytes) -> HeadwayError:
    """The inverse of `problem_bytes`; a slug this version doesn't know gives a plain HeadwayError."""
    try:
        body = json.loads(data)
        problems = [Problem.from_json(item) for item in body.get("problems", ())]
        return by_slug(body["slug"])(body["message"], problems=problems, extra=body.get("extra"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return HeadwayError("A service answered with an error that can't be read.")


def from_rpc_error(error: grpc.aio.AioRpcError, peer: str) -> HeadwayError:
    """What a failed call means to the caller; `peer` names the other side in sentences."""
    for key, value in _pairs(error.trailing_metadata()):
        if key == PROBLEM_KEY and isinstance(value, bytes):
            return error_of(value)
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(f"{peer} did not answer in time.")
    # CANCELLED by the far side is a server that stops in the middle of a stream.
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        for sign, sentence in _TLS_FAULTS.items():
            if sign in details:
                return Unavailable(f"{peer} {sentence}", extra={"details": details[:_MAX_MESSAGE_CHARS]})
        return Unavailable(f"{peer} does not answer.", extra={"details": details[:_MAX_MESSAGE_CHARS]})
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return TooLarge(f"A message to or from {peer} is larger than {MAX_MESSAGE_BYTES >> 20} MiB.")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return HeadwayError(f"{peer} does not know this call: its version differs from this one's. {details}")
    return HeadwayError(f"{peer} failed: {code.name} {details[:_MAX_MESSAGE_CHARS]}")


def _pairs(metadata: Any) -> Iterable[tuple[str, str | bytes]]:
    return metadata if metadata is not None else ()
