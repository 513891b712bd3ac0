"""What a real engine writes and what it takes: the same image on the other side of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import docker
import pytest

from headway.archive import ImageStore, ingest, omittable
from headway.model.reasons import EndWord
from headway.mount import prepare_local
from tests.support import images
from tests.support.archives import Entry, TinyImage, docker_save, layer, oci_layout, packed, tiny_image
from tests.support.layer_orders import ORDERS
from worker.runtime.docker_errors import load_refusal

pytestmark = [pytest.mark.docker]


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """A store on a folder of the test's own."""
    return ImageStore(prepare_local(tmp_path / "mount", "test"))


@pytest.fixture
def program() -> TinyImage:
    """An image of two layers with a program that prints."""
    content = images.static_program().read_bytes()
    return tiny_image(
        [Entry("static", content)],
        layer([Entry("etc"), Entry("etc/greeting", b"hello", mode=0o644)]),
        settings={"Entrypoint": ["/static"], "Cmd": ["print", "hello"]},
    )


def _load(client: docker.DockerClient, archive: Iterator[bytes]) -> str:
    """The id of the image that the engine says it loaded."""
    # The SDK streams an iterator as well as a file.
    (loaded,) = client.images.load(cast(bytes, archive))
    assert loaded.id is not None
    return loaded.id


def test_what_docker_saves_comes_back_as_the_same_image_without_a_name(
    docker_client: docker.DockerClient, store: ImageStore, tmp_path: Path
) -> None:
    name = images.import_busybox(docker_client, "headway-test/archive:1", more=[Entry("mark", b"one")])
    image = docker_client.images.get(name)
    upload = tmp_path / "up"
    with upload.open("wb") as file:
        file.writelines(image.save(named=True))
    docker_client.images.remove(name)
    info = ingest(upload, store)
    assert info.digest == image.id
    assert info.has_shell
    # Another image has the name meanwhile; it keeps it.
    images.import_busybox(docker_client, name, more=[Entry("mark", b"two")])
    other = docker_client.images.get(name).id
    try:
        assert _load(docker_client, store.compose(info.digest).chunks()) == image.id
        assert docker_client.images.get(name).id == other
        assert docker_client.images.get(info.digest).tags == []
    finally:
        docker_client.images.remove(name)
        docker_client.images.remove(info.digest)


@pytest.mark.parametrize("layers", ["gzip", "zstd"])
def test_an_oci_layout_runs_and_known_layers_need_not_be_sent(
    docker_client: docker.DockerClient, store: ImageStore, tmp_path: Path, program: TinyImage, layers: str
) -> None:
    upload = tmp_path / "up"
    upload.write_bytes(packed(oci_layout(program, layers=layers), "zstd"))
    info = ingest(upload, store)
    more = TinyImage(
        (*program.layers, layer([Entry("more", b"!")])),
        tiny_image(*program.layers, layer([Entry("more", b"!")]), settings={"Cmd": ["/static", "exit", "0"]}).config,
    )
    upload.write_bytes(oci_layout(more, layers=layers))
    ingest(upload, store)
    try:
        assert _load(docker_client, store.compose(info.digest).chunks()) == program.digest
        assert docker_client.containers.run(info.digest, remove=True, network_mode="none").strip() == b"hello"
        present = docker_client.images.get(info.digest).attrs["RootFS"]["Layers"]
        known = omittable(more.diff_ids, [present])
        assert known == set(program.diff_ids)
        short = store.compose(more.digest, omit=known)
        assert short.size < len(program.layers[0])
        assert _load(docker_client, short.chunks()) == more.digest
        docker_client.containers.run(more.digest, remove=True, network_mode="none")
    finally:
        for digest in (more.digest, program.digest):
            docker_client.images.remove(digest, force=True)


def test_layers_are_refused_that_the_engine_would_not_unpack_and_no_others(
    docker_client: docker.DockerClient, store: ImageStore, tmp_path: Path
) -> None:
    upload = tmp_path / "up"
    for what, (content, why) in ORDERS.items():
        image = tiny_image(content)
        answers = docker_client.api.load_image(iter([docker_save(image)]), quiet=True)  # type: ignore[no-untyped-call]
        refusals = [answer["error"] for answer in answers if "error" in answer]
        assert bool(refusals) == bool(why), (what, refusals)
        if not why:
            docker_client.images.remove(image.digest)
            upload.write_bytes(docker_save(image))
            assert ingest(upload, store).digest == image.digest
        # The words of a load that the Worker meets where something is taken after all.
        for text in refusals:
            refusal = load_refusal(text, node="n1", image="lab/tool:1")
            assert (refusal.word, refusal.elsewhere) == (EndWord.IMAGE_BAD, False), text
