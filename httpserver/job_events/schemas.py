"""Job events as the API shows them."""

from __future__ import annotations

from pydantic import Field

from headway.model.job_events import JobEventWord

from ..schemas import ApiResponse, Reason


class JobEvent(ApiResponse):
    """A past fact of a job or of one task of it."""

    cursor: str = Field(description="send it as `after` (or Last-Event-ID) to go on behind this event")
    kind: str = Field(description=" · ".join(JobEventWord))
    at: float
    job_id: str = Field("", description="empty: of no job (`gap`)")
    owner: str = ""
    job_name: str = Field("", description="where it is about the job as a whole")
    task: str = Field("", description="empty: the job as a whole")
    generation: int = Field(0, description="counts the manual retries of the task, from 1")
    attempt: int = Field(0, description="its last attempt; 0: there was none")
    state: str = Field("", description="that the job or task has then")
    reason: Reason | None = None
    by: str = Field("", description="who asked for it")
    tasks: int = Field(0, description="how many it concerns; of a gap: how many events are missing, 0: not known")
    sentence: str = Field("", description="what a `task_warned` says")


class JobEventList(ApiResponse):
    events: list[JobEvent] = Field(description="oldest first")
    cursor: str = Field(description="send it as `after` to go on")
    more: bool = Field(description="whether there is more behind it already")
