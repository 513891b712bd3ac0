"""Whether a node may take work: what operators say of it, and when a drain is over. Pure."""

from __future__ import annotations

from enum import StrEnum

from headway.states import Admission, StateMachine


class AdmissionEvent(StrEnum):
    """What changes a node's admission."""

    CORDON = "CORDON"
    UNCORDON = "UNCORDON"
    DRAIN = "DRAIN"
    EMPTY = "EMPTY"  # asked after the drain began, the Worker says that nothing runs
    BUSY = "BUSY"  # it says that something runs


_A, _E = Admission, AdmissionEvent
ADMISSION: StateMachine[Admission, AdmissionEvent] = StateMachine(
    "node admission",
    Admission,
    AdmissionEvent,
    moves={
        **{(state, _E.CORDON): _A.CORDONED for state in (_A.OPEN, _A.DRAINING, _A.DRAINED)},
        **{(state, _E.UNCORDON): _A.OPEN for state in (_A.CORDONED, _A.DRAINING, _A.DRAINED)},
        **{(state, _E.DRAIN): _A.DRAINING for state in (_A.OPEN, _A.CORDONED)},
        (_A.DRAINING, _E.EMPTY): _A.DRAINED,
        # A launch that was under way when the drain began may arrive after an empty answer.
        (_A.DRAINED, _E.BUSY): _A.DRAINING,
    },
    ignored={
        (_A.CORDONED, _E.CORDON): "said twice",
        (_A.OPEN, _E.UNCORDON): "said twice",
        (_A.DRAINING, _E.DRAIN): "said twice",
        (_A.DRAINED, _E.DRAIN): "done already",
        (_A.DRAINING, _E.BUSY): "running work ends by itself",
        (_A.DRAINED, _E.EMPTY): "as expected",
        **{(state, event): "not being emptied" for state in (_A.OPEN, _A.CORDONED) for event in (_E.EMPTY, _E.BUSY)},
    },
)


def after_status(admission: Admission, live_attempts: int) -> Admission:
    """The admission once a Worker, asked since the drain began, has told how many attempts live there."""
    return ADMISSION.after(admission, AdmissionEvent.BUSY if live_attempts else AdmissionEvent.EMPTY)
