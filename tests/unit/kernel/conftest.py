"""Databases for the store's tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind, as it stands in headway.toml."""
    if request.param == "sqlite":
        return str(tmp_path / "state" / "things.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.tcp_url(server.new_database())
