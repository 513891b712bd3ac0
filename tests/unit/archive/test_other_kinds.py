"""What people send that is no image: each is named for what it is, with the way on, before it is judged."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable

import pytest

from headway.archive import ArchiveRefused, ImageInfo
from tests.support.archives import Entry, digest_of, docker_save, members_of, oci_layout, packed, tar_of, tiny_image
from tests.support.layer_orders import special

Take = Callable[..., ImageInfo]
_IMAGE = tiny_image([Entry("bin/sh", b"shell")])
_FILES = {"bin/sh": b"", "etc/passwd": b"", "usr/x": b"", "var/x": b""}
_LINK = special("etc/mtab", tarfile.SYMTYPE, link="/proc/mounts")

_FILE_SYSTEM = (
    "This is the file system of a container (`docker export`, or a build with `type=tar`), not an image. Save the "
    "image itself with `docker save`. Or make an image of these files with `docker import FILE NAME`, then "
    "`docker save NAME`."
)
_DIR_FORM = (
    "This is a folder of `podman save --format docker-dir` or of `skopeo copy … dir:`, which no engine loads. Save the "
    "image with `podman save --format docker-archive`, and send that file."
)
_BUILD = "Build it with `docker build -t NAME FOLDER`, then send what `docker save NAME` writes."
_DATA = "Data and models belong into a dataset (`headway datasets push`), not into an image."
_MANIFEST = json.dumps({"schemaVersion": 2, "config": {}, "layers": []}).encode()


def _artifact(kind: str) -> bytes:
    """An OCI layout of something that isn't run."""
    members = members_of(oci_layout(_IMAGE))
    config = "application/vnd.oci.image.config.v1+json"
    text = {name: content.replace(config.encode(), kind.encode()) for name, content in members.items()}
    changed = next(name for name, content in members.items() if content != text[name] and name.startswith("blobs/"))
    index = json.loads(text["index.json"])
    content = text.pop(changed)
    digest = digest_of(content)
    index["manifests"][0] |= {"digest": digest, "size": len(content)}
    return tar_of({**text, f"blobs/{digest.replace(':', '/')}": content, "index.json": json.dumps(index).encode()})


_KINDS: dict[str, tuple[bytes, str]] = {
    "a file system": (tar_of(_FILES), _FILE_SYSTEM),
    # Before it is searched for attacks: these used to be "a link that leads out", "a device", "two members".
    "a file system with links, devices and pipes": (
        tar_of(
            {
                "1": _LINK,
                "2": special("dev/null", tarfile.CHRTYPE, device=(1, 3)),
                "3": special("run/pipe", tarfile.FIFOTYPE),
                **_FILES,
            }
        ),
        _FILE_SYSTEM,
    ),
    "a file system with absolute names": (
        tar_of({str(i): special(f"/{name}", tarfile.REGTYPE) for i, name in enumerate(_FILES)}),
        _FILE_SYSTEM,
    ),
    "a file system in a folder": (
        tar_of({"0": special("x/etc/mtab", tarfile.SYMTYPE, link="/x"), **{f"x/{name}": b"" for name in _FILES}}),
        _FILE_SYSTEM,
    ),
    "a file system, packed": (packed(tar_of({"1": _LINK, **_FILES}), "zstd"), _FILE_SYSTEM),
    "podman's folder": (tar_of({"manifest.json": _MANIFEST, "version": b"Directory Transport"}), _DIR_FORM),
    "podman's folder in a folder": (tar_of({"x/manifest.json": _MANIFEST, "x/version": b"1"}), _DIR_FORM),
    "a registry's storage": (
        tar_of({"docker/registry/v2/repositories/x/_layers/y": b"", "docker/registry/v2/blobs/sha256/a": b""}),
        "This is the storage of a registry, not an image. Start a registry on it, `docker pull` the image from there, "
        "and send what `docker save` writes.",
    ),
    "an engine's folder": (
        tar_of({"overlay2/l": b"", "image/overlay2/x": b"", "containers/x": b""}),
        "This is a part of an engine's own folder (/var/lib/docker or /var/lib/containerd). Let that engine save the "
        "image: `docker save`.",
    ),
    "a bundle of runc": (
        tar_of({"config.json": b"{}", "rootfs/bin/sh": b"", "1": special("rootfs/x", tarfile.SYMTYPE, link="/y")}),
        "This is a container's folder rootfs with its settings, as runc, LXD or plugins use it, not an image. Make an "
        "image of its files: `tar -C rootfs -c . | docker import - NAME`, then `docker save NAME`.",
    ),
    "a conda environment": (
        tar_of({"conda-meta/history": b"", "bin/python": b"", "lib/x": b"", "etc/x": b"", "var/x": b""}),
        f"This is an environment of conda or Python, not an image. Install it in a Dockerfile. {_BUILD}",
    ),
    "a chart": (
        tar_of({"web/Chart.yaml": b"", "web/values.yaml": b""}),
        "This is a chart of Helm: it names images and holds none. Send each image as `docker save` writes it.",
    ),
    "a folder with a Dockerfile": (
        tar_of({"Dockerfile": b"FROM x", "src/a.py": b""}),
        f"The archive holds a Dockerfile: it is what an image is built from, and no image. {_BUILD}",
    ),
    "a layer": (
        tar_of({f"{'a' * 64}/layer.tar": b"", f"{'a' * 64}/json": b"{}"}),
        "This is a layer of an image, without its config and its manifest. Send what `docker save` writes, whole.",
    ),
    "an archive in an archive": (
        tar_of({"out/image.tar": docker_save(_IMAGE)}),
        "The archive holds another archive, 'out/image.tar'. If that is an image, send it alone.",
    ),
    "an OCI layout without its index": (
        tar_of({name: c for name, c in members_of(oci_layout(_IMAGE)).items() if name != "index.json"}),
        "The index.json of this OCI layout is missing. Pack the whole folder: `tar -C FOLDER -cf image.tar .`.",
    ),
    "a model": (
        tar_of({"m/model-00001.safetensors": b"", "m/config.json": b"{}"}),
        f"The archive holds files of a model, and no image. {_DATA}",
    ),
    "models of Ollama": (
        tar_of({"manifests/registry.ollama.ai/library/x/latest": b"{}", "blobs/sha256-1": b""}),
        f"These are models of Ollama, not an image. {_DATA}",
    ),
    "a virtual machine": (
        tar_of({"vm.ovf": b"", "disk.vmdk": b""}),
        "The archive holds the disk of a virtual machine. Nothing here runs virtual machines. Build an image with a "
        "Dockerfile.",
    ),
    "an OCI layout of a chart": (
        _artifact("application/vnd.cncf.helm.config.v1+json"),
        "The archive holds a chart of Helm, and no image. It names images and holds none. Save those with "
        "`docker save`.",
    ),
    "an OCI layout of a build's cache": (
        _artifact("application/vnd.buildkit.cacheconfig.v0"),
        "The archive holds the cache of a build (`--cache-to`), and no image. Build with `--output "
        "type=docker,dest=image.tar`, and send that file.",
    ),
    "an image of Singularity": (
        b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0" + bytes(600),
        "The file is an image of Singularity or Apptainer (.sif), not an image archive. `docker save` the image that "
        "it was made from. Or: `apptainer build --sandbox FOLDER FILE`, `tar -C FOLDER -c . | docker import - NAME`, "
        "then `docker save NAME`.",
    ),
    "squashfs": (
        b"hsqs" + bytes(600),
        "The file is a squashfs file system, as Enroot and Singularity use it, not an image archive. Unpack it with "
        "unsquashfs. Make an image of its files: `tar -C FOLDER -c . | docker import - NAME`, then `docker save NAME`.",
    ),
    "a zip": (
        b"PK\x03\x04" + bytes(600),
        "The file is a zip file, not an image archive. Unpack it, and send what `docker save` writes.",
    ),
    "bzip2": (
        b"BZh9" + bytes(600),
        "The file is packed with bzip2, not an image archive. Pack the tar with gzip, zstd or xz, or not at all.",
    ),
    "a Dockerfile": (
        b"# syntax=docker/dockerfile:1\n\nFROM debian:12\nRUN true\n",
        f"The file is a Dockerfile, which says how an image is built, not an image archive. {_BUILD}",
    ),
    "a web page": (
        b"<!DOCTYPE html><html>Sign in",
        "The file is a web page or another document, perhaps in the place of a download, not an image archive. Look at "
        "it, and load it anew.",
    ),
    "a pointer of Git LFS": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "The file is a pointer of Git LFS, without the content, not an image archive. Fetch the content with "
        "`git lfs pull`.",
    ),
    "a script that writes an image": (
        b"#!/nix/store/x/bin/python3\n",
        "The file is a script, not an image archive. If it writes an image, as those of Nix do, run it and send its "
        "output.",
    ),
    "a text for Compose": (
        b"services:\n  web:\n    image: x\n",
        "The file is a text for Compose, Kubernetes or a CI, which names images, not an image archive. Send each image "
        "as `docker save` does.",
    ),
    "what docker inspect writes": (
        b'[\n    {\n        "Id": "sha256:0"\n',
        "The file is a JSON document, which describes something, not an image archive. Send what `docker save` writes.",
    ),
    "an archive that is packed twice": (
        packed(packed(docker_save(_IMAGE), "gzip"), "zstd"),
        "The file is packed twice, with zstd and gzip. Unpack it once.",
    ),
    "a packed zip": (
        packed(b"PK\x03\x04" + bytes(600), "gzip"),
        "The file is a zip file, not an image archive. Unpack it, and send what `docker save` writes.",
    ),
}


@pytest.mark.parametrize("what", _KINDS)
def test_it_is_named_for_what_it_is_with_the_way_on(take: Take, left: Callable[[], list[str]], what: str) -> None:
    content, sentence = _KINDS[what]
    with pytest.raises(ArchiveRefused) as caught:
        take(content)
    assert str(caught.value) == sentence
    assert left() == []


def test_what_may_be_an_image_is_judged_as_one(take: Take) -> None:
    """A manifest decides: whatever lies beside it is not forgiven."""
    members = members_of(docker_save(_IMAGE))
    with pytest.raises(ArchiveRefused, match="link that leads out of it: 'etc/mtab'"):
        take(tar_of({"1": _LINK, "bin/x": b"", "usr/x": b"", **members}))
    assert take(tar_of({**members, "Dockerfile": b"FROM x"})).digest == _IMAGE.digest
