"""An upload as the API shows it. Pure."""

from __future__ import annotations

from ..filesystem.paths import shown
from . import schemas as s
from .live_upload import LiveUpload


def shown_upload(upload: LiveUpload, offset: int, expires_at: float) -> s.Upload:
    """``offset``: where its stored bytes end."""
    record, problem = upload.record, upload.record.problem
    state = s.UploadState(upload.shown_state)
    progress = None
    if state is s.UploadState.RECEIVING and record.length:
        progress = offset / record.length
    elif state is s.UploadState.CHECKING and upload.watch is not None:
        progress = upload.watch.progress
    return s.Upload(
        id=record.id,
        kind=record.kind,
        length=record.length,
        offset=offset,
        state=state,
        progress=progress,
        problem=None if problem is None else s.UploadProblem(slug=problem.slug, detail=problem.detail),
        choices=[shown(choice) for choice in record.choices],
        result=None if record.result is None else dict(record.result),
        metadata={key: shown(value) for key, value in record.metadata.items()},
        created_at=record.created_at,
        expires_at=expires_at,
    )
