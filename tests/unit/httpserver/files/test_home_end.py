"""What becomes of a personal space when its account is removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headway.mount import Layout
from httpserver.auth.model import Account
from httpserver.files import home_end
from httpserver.filesystem import removal


def an_account(name: str) -> Account:
    return Account(name, os.getuid(), os.getgid(), False, False, False, False, created_at=0.0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "homes" / "ann" / "a" / "b").mkdir(parents=True)
    (tmp_path / "homes" / "bob" / "b").mkdir(parents=True)
    (tmp_path / "homes" / "bob" / "b" / "thesis").write_text("years")
    return Layout(tmp_path)


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was declared lost on a machine that was cut off still has the space mounted."""
    homes = layout.root / "homes"
    real = removal.open_beneath

    def swapped(folder: int, path: str, *flags: Any, **options: Any) -> int:
        if path == "ann/a/b" and not (homes / "ann" / "a").is_symlink():
            (homes / "ann" / "a").rename(homes / "ann" / "away")
            (homes / "ann" / "a").symlink_to("../bob")
        return real(folder, path, *flags, **options)

    monkeypatch.setattr(removal, "open_beneath", swapped)
    with pytest.raises(OSError, match="symbolic links"):
        home_end.delete(layout, an_account("ann"))
    assert (homes / "bob" / "b" / "thesis").read_text() == "years"


def test_a_space_deeper_than_any_path_is_deleted(layout: Layout) -> None:
    folder = os.open(layout.root / "homes" / "ann", os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=folder)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert home_end.delete(layout, an_account("ann"))
    assert not (layout.root / "homes" / "ann").exists()
    assert not home_end.delete(layout, an_account("ann")), "there is nothing any more"
