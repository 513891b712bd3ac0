"""Whatever is sent: an answer of the family, no trace, and never the wrong image."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.archive import ArchiveRefused, ImageInfo, ImageStore, ingest
from headway.mount import prepare_local
from tests.support.archives import Entry, docker_save, oci_layout, packed, tiny_image

_IMAGE = tiny_image([Entry("bin/sh", b"s" * 3000), Entry("l", link_to="bin/sh")], [Entry("é" * 90, b"data")])
_ARCHIVES = {
    "docker": docker_save(_IMAGE),
    "docker since 25": docker_save(_IMAGE, modern=True),
    "oci": oci_layout(_IMAGE, layers="zstd"),
    "gzip": packed(docker_save(_IMAGE), "gzip"),
    "zstd": packed(oci_layout(_IMAGE), "zstd"),
    "xz": packed(docker_save(_IMAGE), "xz"),
}


@pytest.mark.parametrize("form", _ARCHIVES)
def test_flipped_cut_and_mixed_archives_are_refused_or_right(
    take: Callable[..., ImageInfo], store: ImageStore, left: Callable[[], list[str]], form: str
) -> None:
    chance = random.Random(form)
    good = _ARCHIVES[form]
    longest = 0
    for _ in range(120):
        content = bytearray(good)
        for _ in range(chance.choice((1, 1, 1, 4))):
            at = chance.randrange(len(content))
            match chance.randrange(5):
                case 0 | 1:
                    content[at] ^= 1 << chance.randrange(8)
                case 2:
                    content[at : at + chance.randrange(1, 600)] = chance.randbytes(chance.randrange(300))
                case 3:
                    # Numbers of headers are where readers trust most.
                    at = at // 512 * 512
                    content[at + 124 : at + 136] = chance.choice((b"77777777777\0", b"\x80" + b"\xff" * 11, b"-1" * 6))
                case _:
                    content = content[:at] + content[at // 2 :]
        try:
            # What was changed may not matter; then it is the same image, to the last byte.
            assert take(bytes(content)).digest == _IMAGE.digest
            assert b"".join(store.compose(_IMAGE.digest).chunks())
            store.remove(_IMAGE.digest)
        except ArchiveRefused as refused:
            longest = max(longest, len(str(refused)))
        assert left() == []
    assert 0 < longest < 1000


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.lists(
            st.tuples(st.text(min_size=1, max_size=30), st.binary(max_size=2000)),
            max_size=4,
            unique_by=lambda entry: entry[0].encode("utf-8", "replace"),
        ),
        max_size=4,
    ),
    st.sampled_from(["", "gzip", "zstd"]),
    st.sampled_from(["", "gzip", "zstd", "xz"]),
    st.booleans(),
)
def test_any_image_is_itself_after_the_way_through(
    contents: list[list[tuple[str, bytes]]], layers: str, packing: str, oci: bool
) -> None:
    entries = [
        [Entry(name.encode("utf-8", "replace").hex(), content) for name, content in one] for one in contents
    ] or [[Entry("x", b"")]]
    image = tiny_image(*entries)
    archive = oci_layout(image, layers=layers) if oci else docker_save(image, layers=layers)
    with tempfile.TemporaryDirectory() as folder:
        store = ImageStore(prepare_local(Path(folder) / "mount", "test"))
        upload = Path(folder) / "up"
        upload.write_bytes(packed(archive, packing))
        info = ingest(upload, store)
        assert [layer.digest for layer in info.layers] == image.diff_ids
        upload.write_bytes(b"".join(store.compose(image.digest).chunks()))
        assert ingest(upload, store) == info
        store.remove(image.digest)
        assert store.sweep() == 0


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=3000), st.sampled_from(["", "gzip", "zstd", "xz"]))
def test_any_bytes_are_answered(content: bytes, packing: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ImageStore(prepare_local(Path(folder) / "mount", "test"))
        upload = Path(folder) / "up"
        upload.write_bytes(packed(content, packing))
        with pytest.raises(ArchiveRefused):
            ingest(upload, store)
        assert store.list() == []
