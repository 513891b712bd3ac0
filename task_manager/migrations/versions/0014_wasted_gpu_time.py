"""How much of the time for which an attempt held its GPUs was measured, and what they did then; sums of it by day.

Attempts of before were not measured. Of the days of attempts that are no longer kept, it is not known what failed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0014", "0013"


def upgrade() -> None:
    for name in ("gpu_measured_share", "gpu_busy_share", "gpu_idle_share"):
        op.add_column("attempts", sa.Column(name, sa.Float(53), nullable=False, server_default="0"))
    for name in ("measured_gpu_s", "busy_gpu_s", "idle_gpu_s", "failed_gpu_s", "wasted_gpu_s"):
        op.add_column("usage_days", sa.Column(name, sa.Float(53), nullable=False, server_default="0"))
