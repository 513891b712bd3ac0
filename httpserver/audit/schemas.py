"""The audit log as the API shows it."""

from __future__ import annotations

from pydantic import Field

from ..schemas import ApiResponse


class AuditEntry(ApiResponse):
    """One change that somebody asked for, or was refused."""

    number: int = Field(description="rises without gaps between stored rows, of which an outcome may be one")
    at: float
    who: str = Field(description="the account; empty: nobody was signed in, or the service itself")
    way: str = Field(description="`session ID`, `token ID`, `password`, `provider`, or `the service itself`")
    address: str = Field(description="from where, behind the proxies that are named in `behind_proxy`")
    word: str = Field(description="what was asked, such as `job.cancel`")
    subject: str = Field(description="on what")
    outcome: str = Field(
        description="done · refused · failed · unknown (the service that owns it, or this one, broke off: it may have "
        "happened) · under_way"
    )
    problem: str = Field(description="the slug of the problem that answered; empty: none did")
    ended_at: float | None = Field(description="when the outcome was known; null: with the line itself, or never")
    request_id: str
    detail: str = Field(description="more facts as JSON; empty: none")


class AuditList(ApiResponse):
    entries: list[AuditEntry] = Field(description="newest first")
    cursor: str = Field(description="send it as `before` for older ones; empty: there are none")


class AuditCheck(ApiResponse):
    """Whether the chain of hashes holds."""

    whole: bool
    rows_held: int = Field(description="how many rows hold, from the oldest on")
    first: int = Field(description="number of the oldest row that is kept")
    last: int = Field(description="number of the newest row, as it was last written")
    head: str = Field(description="its hash: note it elsewhere, and whoever rewrites the whole log shows")
    broken_row: int | None = Field(description="the first row that does not hold")
    sentence: str
