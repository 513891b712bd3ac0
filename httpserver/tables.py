"""The one list of this service's tables. Each room adds its own in its ``tables`` module."""

from __future__ import annotations

from sqlalchemy import MetaData

from headway.store import TimerTable

metadata = MetaData()

timer_table = TimerTable(metadata)
