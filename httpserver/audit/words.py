"""What each route that changes something is called in the audit log, and who owns that change. Pure.

A route that changes something stands in exactly one of the two tables: a test goes over all routes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

# own: the change is one transaction here, and its line joins it.
# outside: others own it (services, files): a line comes before, and its outcome after.
# late: as outside, but the route itself says when the line has to be there (`AuditLog.begin`).
Owner = Literal["own", "outside", "late"]


@dataclass(frozen=True, slots=True)
class AuditedRoute:
    """``subject``: on what, with the parameters of the path in braces; empty: the route notes it."""

    word: str
    subject: str = ""
    owner: Owner = "outside"


@dataclass(frozen=True, slots=True)
class Exempt:
    """A route that needs no line, and why."""

    reason: str


_READS = "It only asks; its question is too long for an address."

_TABLE: Final[dict[tuple[str, str], AuditedRoute | Exempt]] = {
    # signing in
    ("POST", "/session"): AuditedRoute("session.sign_in", owner="own"),
    ("GET", "/session/provider/callback"): AuditedRoute("session.sign_in", owner="own"),
    ("POST", "/session/requests"): Exempt("It only asks to be let in; whoever approves it leaves a line."),
    ("POST", "/session/requests/poll"): AuditedRoute("session.sign_in", owner="own"),
    ("POST", "/session/requests/{code}"): AuditedRoute("session.approve", owner="own"),
    ("DELETE", "/session"): AuditedRoute("session.sign_out", owner="own"),
    ("DELETE", "/sessions"): AuditedRoute("session.end", "own other sessions", "own"),
    ("DELETE", "/sessions/{id}"): AuditedRoute("session.end", "session {id}", "own"),
    ("POST", "/me/password"): AuditedRoute("account.password", "own account", "own"),
    ("POST", "/tokens"): AuditedRoute("token.make", owner="own"),
    ("DELETE", "/tokens/{id}"): AuditedRoute("token.end", "token {id}", "own"),
    # accounts and groups
    ("POST", "/users"): AuditedRoute("account.make", owner="own"),
    ("PATCH", "/users/{name}"): AuditedRoute("account.change", "account {name}"),
    ("POST", "/users/{name}/password"): AuditedRoute("account.password", "account {name}", "own"),
    ("DELETE", "/users/{name}"): AuditedRoute("account.remove", "account {name}"),
    ("DELETE", "/users/{name}/sessions"): AuditedRoute("session.end", "all sessions of account {name}", "own"),
    ("DELETE", "/users/{name}/tokens"): AuditedRoute("token.end", "all tokens of account {name}", "own"),
    ("DELETE", "/users/{name}/sessions/{id}"): AuditedRoute("session.end", "session {id} of account {name}", "own"),
    ("DELETE", "/users/{name}/tokens/{id}"): AuditedRoute("token.end", "token {id} of account {name}", "own"),
    ("POST", "/users/{name}/links"): AuditedRoute("account.link", "account {name}", "own"),
    ("DELETE", "/users/{name}/links"): AuditedRoute("account.unlink", "account {name}", "own"),
    ("POST", "/groups"): AuditedRoute("group.make", owner="own"),
    ("PATCH", "/groups/{name}"): AuditedRoute("group.change", "group {name}", "own"),
    ("DELETE", "/groups/{name}"): AuditedRoute("group.delete", "group {name}", "own"),
    # jobs
    ("POST", "/jobs"): AuditedRoute("job.submit", owner="late"),
    ("POST", "/jobs/{job}/cancel"): AuditedRoute("job.cancel", "job {job}"),
    ("POST", "/jobs/{job}/retry"): AuditedRoute("job.retry", "job {job}"),
    ("POST", "/jobs/{job}/hold"): AuditedRoute("job.hold", "job {job}"),
    ("POST", "/jobs/{job}/release"): AuditedRoute("job.release", "job {job}"),
    ("POST", "/jobs/{job}/pin"): AuditedRoute("job.pin", "job {job}"),
    ("POST", "/jobs/{job}/unpin"): AuditedRoute("job.unpin", "job {job}"),
    ("DELETE", "/jobs/{job}"): AuditedRoute("job.delete", "job {job}"),
    ("POST", "/jobs/prune"): AuditedRoute("job.prune", "old jobs", "late"),
    ("POST", "/jobs/{job}/tasks/{task}/cancel"): AuditedRoute("job.cancel", "task {task} of job {job}"),
    ("POST", "/jobs/{job}/tasks/{task}/retry"): AuditedRoute("job.retry", "task {task} of job {job}"),
    ("POST", "/jobs/{job}/tasks/{task}/hold"): AuditedRoute("job.hold", "task {task} of job {job}"),
    ("POST", "/jobs/{job}/tasks/{task}/release"): AuditedRoute("job.release", "task {task} of job {job}"),
    ("POST", "/jobs/{job}/tasks/{task}/extend"): AuditedRoute("job.extend", "task {task} of job {job}"),
    ("POST", "/gpu-holds"): AuditedRoute("job.hold_gpus"),
    # the cluster
    ("PATCH", "/queue"): AuditedRoute("queue.scheduling", "the queue"),
    ("POST", "/nodes/{id}/cordon"): AuditedRoute("node.cordon", "node {id}"),
    ("POST", "/nodes/{id}/uncordon"): AuditedRoute("node.uncordon", "node {id}"),
    ("POST", "/nodes/{id}/drain"): AuditedRoute("node.drain", "node {id}"),
    ("POST", "/nodes/{id}/lost"): AuditedRoute("node.lost", "node {id}"),
    ("DELETE", "/nodes/{id}"): AuditedRoute("node.forget", "node {id}"),
    ("POST", "/nodes/{id}/replace"): AuditedRoute("node.replace", "node {id}"),
    ("POST", "/nodes/{id}/gpus/{uuid}/return"): AuditedRoute("node.return_gpu", "GPU {uuid} of node {id}"),
    # files, images, datasets, code
    ("PUT", "/files/{path}"): AuditedRoute("file.put", "file {path}"),
    ("POST", "/files/{path}"): AuditedRoute("file.change", "file {path}"),
    ("DELETE", "/files/{path}"): AuditedRoute("file.delete", "file {path}"),
    ("POST", "/trash/{id}/restore"): AuditedRoute("file.restore", "file {id} in the trash"),
    ("DELETE", "/trash/{id}"): AuditedRoute("file.forget", "file {id} in the trash"),
    ("DELETE", "/trash"): AuditedRoute("file.forget", "the whole trash"),
    ("POST", "/uploads/{kind}"): AuditedRoute("upload.begin", "an upload of the kind {kind}"),
    ("DELETE", "/uploads/{kind}/{upload_id}"): AuditedRoute("upload.drop", "upload {upload_id} of the kind {kind}"),
    ("POST", "/uploads/{kind}/{upload_id}"): AuditedRoute("upload.finish", "upload {upload_id} of the kind {kind}"),
    ("PATCH", "/uploads/{kind}/{upload_id}"): Exempt("It is a piece of an upload, whose begin has its line."),
    ("PATCH", "/images/{ref}"): AuditedRoute("image.change", "image {ref}", "own"),
    ("POST", "/images/{ref}"): AuditedRoute("image.tag", "image {ref}", "own"),
    ("DELETE", "/images/{ref}"): AuditedRoute("image.delete", "image {ref}"),
    ("POST", "/datasets"): AuditedRoute("dataset.publish"),
    ("PATCH", "/datasets/{name}"): AuditedRoute("dataset.change", "dataset {name}", "own"),
    ("DELETE", "/datasets/{name}"): AuditedRoute("dataset.delete", "dataset {name}"),
    ("POST", "/code"): AuditedRoute("code.offer"),
    ("PUT", "/code/blobs"): Exempt("It is a piece of a snapshot of code, whose offer has its line."),
    ("PUT", "/registries/{host}"): AuditedRoute("registry.set", "credentials for {host}", "own"),
    ("DELETE", "/registries/{host}"): AuditedRoute("registry.forget", "credentials for {host}", "own"),
    ("PUT", "/secrets/{name}"): AuditedRoute("secret.set", "secret {name}", "own"),
    ("DELETE", "/secrets/{name}"): AuditedRoute("secret.remove", "secret {name}", "own"),
    # machines that join
    ("POST", "/invitations"): AuditedRoute("machine.invite"),
    ("DELETE", "/invitations/{id}"): AuditedRoute("machine.uninvite", "invitation {id}"),
    ("POST", "/join"): AuditedRoute("machine.join", owner="late"),
    ("POST", "/certificates/revoke"): AuditedRoute("certificate.revoke"),
    # questions
    ("POST", "/queue/preview"): Exempt(_READS),
    ("POST", "/logs/follow"): Exempt(_READS),
}  # fmt: skip

SUBJECT_CHARACTERS: Final = 300


def of_route(method: str, path: str) -> AuditedRoute | Exempt | None:
    """The entry of a route as it was declared below /api/v1; None: there is none."""
    return _TABLE.get((method, path.replace(":path}", "}")))


def routes() -> frozenset[tuple[str, str]]:
    """All routes of the table: method, and path below /api/v1."""
    return frozenset(_TABLE)


def words() -> list[str]:
    """All words, in order."""
    return sorted({entry.word for entry in _TABLE.values() if isinstance(entry, AuditedRoute)} | set(OF_SERVICE))


# Changes that no request asks for.
OF_SERVICE: Final = ("account.first_admin", "account.operator_reset")


def subject_of(route: AuditedRoute, parameters: dict[str, object]) -> str:
    """On what, with the values of the path."""
    return shortened(route.subject.format_map({name: str(value) for name, value in parameters.items()}))


def shortened(text: str) -> str:
    """At most so much of a text that others chose as one line holds, without signs that move what stands around it."""
    shown = "".join(
        sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text[: SUBJECT_CHARACTERS + 1]
    )
    return shown if len(shown) <= SUBJECT_CHARACTERS else shown[: SUBJECT_CHARACTERS - 1] + "…"
