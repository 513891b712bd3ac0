"""Lines of the audit log: each hangs on the one before, and each route that changes something has its word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from httpserver.asgi.application import routes
from httpserver.audit import words
from httpserver.audit.flood import FloodGate
from httpserver.audit.model import NO_HASH, AuditRow, first_break, hash_of, outcome_of

CHANGES = {"POST", "PUT", "PATCH", "DELETE"}
# They change something although a browser asks for them as it does for a page.
CHANGES_BY_GET = {("GET", "/session/provider/callback")}


def a_row(number: int, **fields: object) -> AuditRow:
    row = AuditRow(number, 1.0, 2.0, "r", "ann", "session 1", "10.0.0.1", "job.cancel", "job 7", "done", "", "", 0)
    return replace(row, **fields)


def chained(*rows: AuditRow) -> list[tuple[AuditRow, str]]:
    hashes = [NO_HASH]
    for row in rows:
        hashes.append(hash_of(row, hashes[-1]))
    return list(zip(rows, hashes[1:], strict=True))


def test_every_route_that_changes_something_stands_in_the_table_and_nothing_else_does() -> None:
    document = routes(None).openapi()["paths"]
    there = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in document.items()
        for method in operations
        if method.upper() in CHANGES and path.startswith("/api/v1")
    }
    assert there | CHANGES_BY_GET == words.routes()


def test_the_table_is_asked_by_the_path_that_the_router_knows() -> None:
    """`{path:path}` of the router is `{path}` of the document."""
    for method, path in (
        ("PUT", "/files/{path:path}"),
        ("DELETE", "/images/{ref:path}"),
        ("PUT", "/registries/{host:path}"),
    ):
        assert isinstance(words.of_route(method, path), words.AuditedRoute)
    assert words.of_route("GET", "/files/{path:path}") is None


def test_what_is_exempt_says_why() -> None:
    exempt = [entry for pair in words.routes() if isinstance(entry := words.of_route(*pair), words.Exempt)]
    assert exempt
    assert all(len(entry.reason) > 20 for entry in exempt)


@pytest.mark.parametrize("field", ["who", "address", "word", "subject", "outcome", "problem", "detail", "at", "ends"])
def test_a_row_that_was_changed_shows(field: str) -> None:
    rows = chained(*(a_row(number) for number in (1, 2, 3)))
    value = 9 if field in ("at", "ends") else "x"
    rows[1] = (replace(rows[1][0], **{field: value}), rows[1][1])
    number, hash, broken = first_break(rows, 0, NO_HASH)
    assert (number, hash) == (1, rows[0][1])
    assert broken is not None
    assert broken.number == 2
    assert broken.sentence.startswith("Line 2 is not as it was written")


def test_a_row_that_was_removed_shows_and_so_does_one_that_was_written_anew() -> None:
    rows = chained(*(a_row(number) for number in (1, 2, 3, 4)))
    assert first_break(rows, 0, NO_HASH) == (4, rows[-1][1], None)
    broken = first_break([rows[0], *rows[2:]], 0, NO_HASH)[2]
    assert broken is not None
    assert broken.sentence.startswith("Line 2 is missing")
    broken = first_break([rows[0], rows[3]], 0, NO_HASH)[2]
    assert broken is not None
    assert broken.sentence.startswith("The lines 2 to 3 are missing")
    # With a hash that fits it: then the one behind it does not.
    forged = replace(rows[1][0], who="eve")
    rows[1] = (forged, hash_of(forged, rows[0][1]))
    broken = first_break(rows, 0, NO_HASH)[2]
    assert broken is not None
    assert broken.number == 3


def test_what_an_answer_says_of_the_change() -> None:
    assert [outcome_of(status, "", outside=True) for status in (200, 202, 303, 404, 429, 500, 503, 504, 0)] == [
        "done", "done", "done", "refused", "refused", "failed", "unknown", "unknown", "unknown",
    ]  # fmt: skip
    assert outcome_of(503, "unavailable", outside=False) == "failed"


def test_what_others_chose_stays_one_line_of_some_length() -> None:
    assert words.shortened("a\nb\u202ec") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"
    assert len(words.shortened("x" * 5_000)) == words.SUBJECT_CHARACTERS
    entry = words.of_route("POST", "/jobs/{job}/tasks/{task}/extend")
    assert isinstance(entry, words.AuditedRoute)
    assert words.subject_of(entry, {"job": "j{0}", "task": "{job}"}) == "task {job} of job j{0}"


def test_who_tries_passwords_all_day_leaves_some_lines_and_a_count() -> None:
    gate = FloodGate()
    first = [gate.admit("10.0.0.9", 0.0) for _ in range(1_000)]
    assert first[:20] == [0] * 20
    assert first[20:] == [None] * 980
    assert gate.admit("10.0.0.8", 0.0) == 0  # another one's lines are kept
    assert gate.admit("10.0.0.9", 10.0) == 980
    assert gate.admit("10.0.0.9", 10.0) is None
    kept = sum(gate.admit(f"10.1.{n // 250}.{n % 250}", 10.0) is not None for n in range(3_000))
    assert kept < 200
