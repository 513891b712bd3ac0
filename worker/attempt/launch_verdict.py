"""Whether the Worker accepts a launch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import Fenced, HeadwayError, MountUnavailable, Stopping, StoreFull, Unavailable

from ..model import AttemptRecord, AttemptStage, Condition, LaunchAttempt


@dataclass(frozen=True, slots=True)
class AcceptLaunch:
    """Accept it. ``known``: it was accepted before, so nothing is to be done."""

    known: bool = False


@dataclass(frozen=True, slots=True)
class RefuseLaunch:
    """Refuse it, which is an ordinary answer. ``again_later``: only the node is unfit now."""

    error: HeadwayError
    again_later: bool


GPU_UNAVAILABLE = "gpu_unavailable"
_ERRORS: dict[str, type[HeadwayError]] = {
    "mount_unavailable": MountUnavailable,
    "disk_full": StoreFull,
    "stopping": Stopping,
}


def verdict(
    launch: LaunchAttempt,
    *,
    record: AttemptRecord | None,
    incarnation: int,
    conditions: Sequence[Condition],
    not_clean: str = "",
) -> AcceptLaunch | RefuseLaunch:
    """Safe twice: an attempt that was accepted is accepted again. One that ended or was stopped never is.

    ``not_clean`` says that a card which it asks for is held back after another task.
    """
    if record is not None:
        if record.stage is AttemptStage.LIVE and record.stop is None:
            return AcceptLaunch(known=True)
        if record.launch is None:
            return RefuseLaunch(Fenced("A stop for this attempt came before its launch."), again_later=False)
        if record.stage in (AttemptStage.LIVE, AttemptStage.ENDED):
            # Its end will be reported, or is on its way: a second answer would contradict it.
            return AcceptLaunch(known=True)
        return RefuseLaunch(Fenced("This attempt has already ended here."), again_later=False)
    if launch.incarnation != incarnation:
        return RefuseLaunch(Fenced("This worker was restarted since the attempt was placed."), again_later=True)
    for condition in conditions:
        if condition.blocks_work:
            error = _ERRORS.get(condition.word, Unavailable)
            return RefuseLaunch(error(condition.sentence), again_later=True)
        if condition.word == GPU_UNAVAILABLE and launch.gpu_uuids:
            # The node goes on with other work, so it is not unfit as a whole.
            return RefuseLaunch(Unavailable(condition.sentence), again_later=False)
    if not_clean:
        # The scheduler placed it before it heard of that.
        return RefuseLaunch(Unavailable(not_clean), again_later=False)
    return AcceptLaunch()
