"""GPUs for a person's own process on a machine."""

from __future__ import annotations

from fastapi import APIRouter

from ..audit.current import note
from ..schemas.gpu_holds import GpuHold, GpuHoldRequest
from .common import SignedIn, TheParts

router = APIRouter(tags=["jobs"])


@router.post("/gpu-holds", status_code=201)
async def hold_gpus(wanted: GpuHoldRequest, account: SignedIn, parts: TheParts) -> GpuHold:
    """Queues for GPUs of one machine, as a job of one task. Its worker gives them to the process there that shows the
    secret of `key_hash` (`headway gpu run`). Cancelling the job withdraws the request, or ends the process."""
    made = await parts.gpu_holds.ask(account, wanted)
    note(f"job {made.job_id}")
    return made
