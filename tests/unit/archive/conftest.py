"""A store on a folder of the test's own, and what is left in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.archive import ArchiveLimits, ImageInfo, ImageStore, ingest
from headway.mount import Layout, prepare_local


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The shared folder."""
    return prepare_local(tmp_path / "mount", "test")


@pytest.fixture
def store(layout: Layout) -> ImageStore:
    """Its images."""
    return ImageStore(layout)


@pytest.fixture
def take(tmp_path: Path, store: ImageStore) -> Callable[..., ImageInfo]:
    """Takes the bytes of an archive in."""

    def take(content: bytes, *, choose: str = "", limits: ArchiveLimits | None = None) -> ImageInfo:
        upload = tmp_path / "upload"
        upload.write_bytes(content)
        return ingest(upload, store, choose=choose, limits=limits or ArchiveLimits())

    return take


@pytest.fixture
def left(layout: Layout) -> Callable[[], list[str]]:
    """The files below images/, besides the lock; none of them may be there after a refusal."""

    def left() -> list[str]:
        images = layout.root / "images"
        return sorted(str(p.relative_to(images)) for p in images.rglob("*") if p.is_file() and p.name != ".lock")

    return left
