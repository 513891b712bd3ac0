"""What a file is that holds no image, and the way from there to one. Pure.

People send what their tools wrote. Whoever reads "a link leads out of it" about the file system of a container takes it
for an attack. So a file is recognised first, and judged as an image only where it may be one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set

from .tar import shown

_SAVE = "send what `docker save` writes"
_UNPACK = f"Unpack it, and {_SAVE}"
_FROM_FILES = "Make an image of its files: `tar -C FOLDER -c . | docker import - NAME`, then `docker save NAME`"
_BUILD = "Build it with `docker build -t NAME FOLDER`, then send what `docker save NAME` writes"
_DATA = "Data and models belong into a dataset (`headway datasets push`), not into an image"
_DISK = "Nothing here runs virtual machines. Build an image with a Dockerfile"
# By the first bytes: what it is, and what to do.
_HEADS = {
    b"PK\x03\x04": ("a zip file", _UNPACK),
    b"PK\x05\x06": ("an empty zip file", f"S{_SAVE[1:]}"),
    b"BZh": ("packed with bzip2", "Pack the tar with gzip, zstd or xz, or not at all"),
    b"\x04\x22\x4d\x18": ("packed with lz4", "Pack the tar with gzip, zstd or xz, or not at all"),
    b"LZIP": ("packed with lzip", "Pack the tar with gzip, zstd or xz, or not at all"),
    b"\x89LZO": ("packed with lzop", "Pack the tar with gzip, zstd or xz, or not at all"),
    b"\x1f\x9d": ("packed with compress", "Pack the tar with gzip, zstd or xz, or not at all"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z file", _UNPACK),
    b"Rar!": ("a rar file", _UNPACK),
    b"age-encryption.org/": ("encrypted with age", "Decrypt it first"),
    b"-----BEGIN PGP MESSAGE": ("encrypted with PGP", "Decrypt it first"),
    b"\x7fELF": ("a program", f"Copy it in a Dockerfile. {_BUILD}"),
    b"MZ": ("a program for Windows", "The machines here run images for Linux only"),
    b"QFI\xfb": ("the disk of a virtual machine", _DISK),
    b"KDMV": ("the disk of a virtual machine", _DISK),
    b"vhdxfile": ("the disk of a virtual machine", _DISK),
    b"<<< Oracle VM": ("the disk of a virtual machine", _DISK),
    b"hsqs": ("a squashfs file system, as Enroot and Singularity use it", f"Unpack it with unsquashfs. {_FROM_FILES}"),
    b"!<arch>": ("a package or library", f"Install it in a Dockerfile. {_BUILD}"),
    b"\xed\xab\xee\xdb": ("an rpm package", f"Install it in a Dockerfile. {_BUILD}"),
    b"GGUF": ("a model in the form of llama.cpp", _DATA),
    b"\x89HDF": ("a file of HDF5, which holds data or a model", _DATA),
    b"version https://git-lfs": ("a pointer of Git LFS, without the content", "Fetch the content with `git lfs pull`"),
    b"# v2 git bundle": ("a bundle of Git, which holds sources", _BUILD),
    b"#!": ("a script", "If it writes an image, as those of Nix do, run it and send its output"),
}
_DOCKERFILE = re.compile(rb"\s*(#[^\n]*\n\s*)*(FROM|ARG)[ \t]+\S", re.IGNORECASE)
_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_YAML = re.compile(rb"(?m)^(apiVersion|services|kind|stages):")
_JSON = re.compile(rb"\s*[{\[]\s*[\"{\[]")

_SYSTEM = frozenset(("bin", "etc", "usr", "lib", "sbin", "var", "root", "proc", "opt", "home", "dev"))
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2", ".sif")
_MODELS = (".safetensors", ".gguf", ".onnx", ".ckpt", ".pt", ".pth", ".h5", "pytorch_model.bin", "saved_model.pb")
_DISKS = (".vmdk", ".ovf", ".qcow2", ".vhdx", ".vdi")
_FEW = 20
_DIR_FORM = (
    "This is a folder of `podman save --format docker-dir` or of `skopeo copy … dir:`, which no engine loads. Save the "
    "image with `podman save --format docker-archive`, and send that file"
)
_FILE_SYSTEM = (
    "This is the file system of a container (`docker export`, or a build with `type=tar`), not an image. Save the "
    "image itself with `docker save`. Or make an image of these files with `docker import FILE NAME`, then "
    "`docker save NAME`"
)
# What an OCI layout may hold besides images, by a part of its media types.
_ARTIFACTS = {
    "helm": ("a chart of Helm", "It names images and holds none. Save those with `docker save`"),
    "buildkit.cacheconfig": (
        "the cache of a build (`--cache-to`)",
        "Build with `--output type=docker,dest=image.tar`, and send that file",
    ),
    "sif": ("an image of Singularity or Apptainer", "Pull the image that it was made from, and `docker save` that"),
    "model": ("a model", _DATA),
    "wasm": ("a program for WebAssembly", "The machines here run images for Linux only"),
    "cosign": ("a signature", "Send the image itself, as `docker save` writes it"),
    "in-toto": ("a statement about an image", "Send the image itself, as `docker save` writes it"),
}


def of_head(head: bytes) -> str:
    """What a file that begins so is, if it is something known that is no tar. Empty: not known."""
    if head[32:41] == b"SIF_MAGIC":
        return _named(
            "an image of Singularity or Apptainer (.sif)",
            "`docker save` the image that it was made from. Or: `apptainer build --sandbox FOLDER FILE`, `tar -C "
            "FOLDER -c . | docker import - NAME`, then `docker save NAME`",
        )
    for magic, (what, way_on) in _HEADS.items():
        if head.startswith(magic):
            return _named(what, way_on)
    if b"\0" in head:
        return ""
    for pattern, what, way_on in (
        (_DOCKERFILE, "a Dockerfile, which says how an image is built", _BUILD),
        (_PAGE, "a web page or another document, perhaps in the place of a download", "Look at it, and load it anew"),
        (_YAML, "a text for Compose, Kubernetes or a CI, which names images", "Send each image as `docker save` does"),
        (_JSON, "a JSON document, which describes something", f"S{_SAVE[1:]}"),
    ):
        if pattern.search(head) if pattern is _YAML else pattern.match(head):
            return _named(what, way_on)
    return ""


def of_names(found: Collection[str], *, whole: bool) -> str:
    """What an archive with these members is, if it is something known that is no image. Empty: not known.

    Not ``whole``: it could not be read to its end, so the rest of an image may be missing.
    """
    for names, folder in ((found, ""), *_inside_of_one(found)):
        for sentence in _by_tops(names, {name.split("/", 1)[0] for name in names}, folder):
            return sentence
    return next(iter(_by_endings(found)), "") if whole else ""


def looks_like_files(found: Collection[str]) -> bool:
    """Whether nothing but the file system of a container has these members."""
    return len(_SYSTEM & {name.split("/", 1)[0] for name in found}) >= 4 and "manifest.json" not in found


def of_manifest(document: object) -> str:
    """What a manifest.json is that is no list of images. Empty: not known."""
    if isinstance(document, Mapping) and "schemaVersion" in document:
        return _DIR_FORM
    if isinstance(document, Mapping) and ("start_url" in document or "manifest_version" in document):
        return "This manifest.json is that of a web site or of a browser's add-on. Send what `docker save` writes"
    return ""


def of_artifacts(kinds: Iterable[str]) -> str:
    """What an OCI layout without an image holds, by the media types of what was passed over. Empty: not known."""
    for kind in kinds:
        for part, (what, way_on) in _ARTIFACTS.items():
            if part in kind.lower():
                return f"The archive holds {what}, and no image. {way_on}"
    return ""


def _named(what: str, way_on: str) -> str:
    return f"The file is {what}, not an image archive. {way_on}"


def _inside_of_one(found: Collection[str]) -> Iterable[tuple[Collection[str], str]]:
    """What lies in the only folder of an archive: people pack the folder itself."""
    tops = {name.split("/", 1)[0] for name in found}
    if len(tops) == 1:
        (top,) = tops
        inside = {name[len(top) + 1 :] for name in found} - {""}
        if inside:
            yield inside, top


def _by_tops(names: Collection[str], tops: Set[str], folder: str) -> Iterable[str]:
    """The sentences that fit to what lies at the top, the surest first."""
    if "manifest.json" in tops and "version" in tops and "oci-layout" not in tops:
        yield _DIR_FORM
    if folder and tops & {"manifest.json", "index.json", "oci-layout"}:
        yield (
            f"The image lies in the folder {shown(folder)} of the archive. Pack what is in it: "
            "`tar -C FOLDER -cf image.tar .`"
        )
    if any("registry/v2/repositories/" in name or "registry/v2/blobs/" in name for name in names):
        yield (
            "This is the storage of a registry, not an image. Start a registry on it, `docker pull` the image from "
            f"there, and {_SAVE}"
        )
    if {"overlay2", "image"} <= tops or any("containerd.content.v1.content" in name for name in names):
        yield (
            "This is a part of an engine's own folder (/var/lib/docker or /var/lib/containerd). Let that engine save "
            "the image: `docker save`"
        )
    if any(name.startswith("manifests/registry.ollama.ai/") for name in names):
        yield f"These are models of Ollama, not an image. {_DATA}"
    if "rootfs" in tops and tops & {"config.json", "manifest", "metadata.yaml"}:
        yield (
            "This is a container's folder rootfs with its settings, as runc, LXD or plugins use it, not an image. Make "
            "an image of its files: `tar -C rootfs -c . | docker import - NAME`, then `docker save NAME`"
        )
    if tops & {"conda-meta", "pyvenv.cfg"}:
        yield f"This is an environment of conda or Python, not an image. Install it in a Dockerfile. {_BUILD}"
    if len(_SYSTEM & tops) >= 3:
        yield _FILE_SYSTEM
    if "Chart.yaml" in tops:
        yield "This is a chart of Helm: it names images and holds none. Send each image as `docker save` writes it"
    if tops & {"Dockerfile", "Containerfile", "dockerfile"}:
        yield f"The archive holds a Dockerfile: it is what an image is built from, and no image. {_BUILD}"
    if "repositories" in tops:
        yield "The archive was written by a Docker older than 1.10. Save the image with a newer one"


def _by_endings(names: Collection[str]) -> Iterable[str]:
    """The sentences that fit to what lies anywhere."""
    tops = {name.split("/", 1)[0] for name in names}
    if any(name.rpartition("/")[2] == "layer.tar" for name in names):
        yield f"This is a layer of an image, without its config and its manifest. S{_SAVE[1:]}, whole"
    if {"blobs", "oci-layout"} <= tops:
        yield "The index.json of this OCI layout is missing. Pack the whole folder: `tar -C FOLDER -cf image.tar .`"
    archives = sorted(name for name in names if name.endswith(_TARS))
    if archives and len(names) <= _FEW:
        yield f"The archive holds another archive, {shown(archives[0])}. If that is an image, send it alone"
    if any(name.endswith(_DISKS) for name in names):
        yield f"The archive holds the disk of a virtual machine. {_DISK}"
    if any(name.endswith(_MODELS) for name in names):
        yield f"The archive holds files of a model, and no image. {_DATA}"
