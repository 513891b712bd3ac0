"""What limits of admission rule out, for whoever knows them and the cluster."""

from __future__ import annotations

from headway.units import counted, format_duration


def reserve_leaves_none(kept: int, above_s: float, gpus: int) -> str:
    """Why ``kept`` of ``gpus`` GPUs can't be set aside for tasks of up to ``above_s`` seconds.

    Empty where they can be, and where the cluster has no GPU.
    """
    if not 0 < gpus <= kept:
        return ""
    return (
        f"The reserve for short tasks ({counted(kept, 'GPU')}) leaves none of the cluster's {gpus} for tasks longer "
        f"than {format_duration(above_s)}: they can never start."
    )
