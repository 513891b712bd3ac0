"""What is taken: every form of archive, told apart by content alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway.archive import ImageInfo, ImageStore
from tests.support.archives import Entry, TinyImage, docker_save, oci_layout, packed, tiny_image

_IMAGE = tiny_image([Entry("bin/sh", b"shell"), Entry("etc")], [Entry("data", b"x" * 100_000)])
_FORMS = {
    "docker before 25": docker_save(_IMAGE),
    "docker since 25": docker_save(_IMAGE, modern=True),
    "docker with packed layers": docker_save(_IMAGE, layers="gzip"),
    "oci": oci_layout(_IMAGE),
    "oci, plain layers": oci_layout(_IMAGE, layers=""),
    "oci, zstd layers": oci_layout(_IMAGE, layers="zstd"),
    "oci, index in the index": oci_layout(_IMAGE, nested=True),
}


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("packing", ["", "gzip", "zstd", "xz"])
def test_every_form_and_packing_is_the_same_image(
    take: Callable[..., ImageInfo], store: ImageStore, form: str, packing: str
) -> None:
    info = take(packed(_FORMS[form], packing))
    assert info.digest == _IMAGE.digest
    assert [layer.digest for layer in info.layers] == _IMAGE.diff_ids
    assert info.size_bytes == sum(map(len, _IMAGE.layers))
    assert store.list() == [_IMAGE.digest]
    assert store.info(_IMAGE.digest) == info


@pytest.mark.parametrize("form", _FORMS)
def test_what_is_composed_is_taken_in_again_as_the_same(
    take: Callable[..., ImageInfo], store: ImageStore, form: str
) -> None:
    info = take(_FORMS[form])
    archive = store.compose(info.digest)
    content = b"".join(archive.chunks())
    assert len(content) == archive.size
    assert content == b"".join(store.compose(info.digest).chunks())
    assert take(content) == info


def test_an_image_named_twice_is_one(take: Callable[..., ImageInfo]) -> None:
    image = TinyImage(_IMAGE.layers, _IMAGE.config, ("tiny:1", "tiny:latest"))
    assert take(docker_save(image)).digest == image.digest
    assert take(oci_layout(image)).digest == image.digest


@pytest.mark.parametrize(
    ("said", "want"),
    [("", ""), ("/a//b/", "/a/b"), ("a", "/a"), ("../../x", "/x"), ("/a/../../b", "/b"), ("//a", "/a")],
)
def test_the_working_folder_is_shown_as_a_container_has_it(
    take: Callable[..., ImageInfo], said: str, want: str
) -> None:
    assert take(docker_save(tiny_image(settings={"WorkingDir": said}))).working_dir == want
