"""What is not taken: each with the reason, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable

import pytest

from headway.archive import ArchiveLimits, ArchiveRefused, ImageInfo, SeveralImages
from tests.support.archives import (
    Entry,
    TinyImage,
    docker_save,
    layer,
    members_of,
    oci_layout,
    packed,
    tar_of,
    tiny_image,
)
from tests.support.layer_orders import ORDERS, special

Take = Callable[..., ImageInfo]
_IMAGE = tiny_image([Entry("bin/sh", b"shell")], [Entry("data", os.urandom(70_000))])
_OTHER = tiny_image([Entry("other", b"!")], tags=("other:2",))


def _with_member(*more: tarfile.TarInfo) -> bytes:
    """A good archive with more members in front."""
    return tar_of({**{f"{number}": info for number, info in enumerate(more)}, **members_of(docker_save(_IMAGE))})


def _layer_of(*infos: tarfile.TarInfo) -> bytes:
    return docker_save(tiny_image(tar_of({str(number): info for number, info in enumerate(infos)})))


def _changed(archive: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    members = members_of(archive)
    change(members)
    return tar_of(members)


def _config(**more: object) -> bytes:
    config = json.loads(_IMAGE.config) | more
    content = json.dumps({key: value for key, value in config.items() if value != "gone"}).encode()
    return docker_save(TinyImage(_IMAGE.layers, content))


def _manifest(**more: object) -> bytes:
    def change(members: dict[str, bytes]) -> None:
        entry = json.loads(members["manifest.json"])[0] | more
        members["manifest.json"] = json.dumps([entry]).encode()

    return _changed(docker_save(_IMAGE), change)


def _without(archive: bytes, word: str) -> bytes:
    def change(members: dict[str, bytes]) -> None:
        gone = [name for name in members if word in name]
        assert gone
        del members[gone[0]]

    return _changed(archive, change)


def _flipped(archive: bytes, content: bytes) -> bytes:
    at = archive.index(content) + len(content) // 2
    return archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1 :]


def _oci_kind(kind: str) -> bytes:
    archive = oci_layout(_IMAGE, layer_kind=kind)
    assert kind.encode() in archive
    return archive


_OUTER = {
    "an empty file": (b"", "empty"),
    "a text": (b"hello\n", "no tar archive"),
    "a zip": (b"PK\x03\x04" + bytes(600), "zip"),
    "bzip2": (b"BZh9" + bytes(600), "bzip2"),
    "zeros": (bytes(10_240), "empty tar"),
    "a container's files": (tar_of({"bin/sh": b"", "etc/passwd": b"", "usr/x": b""}), "docker import"),
    "a folder around it": (tar_of({f"x/{k}": v for k, v in members_of(docker_save(_IMAGE)).items()}), "tar -C FOLDER"),
    "something else": (tar_of({"readme": b"x"}), "neither manifest.json"),
    "a name above": (_with_member(special("../x", tarfile.REGTYPE)), "leads out of it: '../x'"),
    "a name that comes back": (_with_member(special("a/../x", tarfile.REGTYPE)), "leads out"),
    "an absolute name": (_with_member(special("/x", tarfile.REGTYPE)), "leads out of it: '/x'"),
    "a link above": (_with_member(special("a/b", tarfile.SYMTYPE, link="../../x")), "link that leads out"),
    "an absolute link": (_with_member(special("a", tarfile.SYMTYPE, link="/etc/passwd")), "link that leads out"),
    "a hard link above": (_with_member(special("a", tarfile.LNKTYPE, link="../x")), "link that leads out"),
    "a device": (_with_member(special("a", tarfile.CHRTYPE, device=(1, 3))), "character device: 'a'"),
    "a disk": (_with_member(special("a", tarfile.BLKTYPE, device=(8, 0))), "block device"),
    "a pipe": (_with_member(special("a", tarfile.FIFOTYPE)), "named pipe"),
    "a sparse file": (_with_member(special("a", tarfile.GNUTYPE_SPARSE)), "sparse"),
    "an unknown kind": (_with_member(special("a", b"Z")), "unknown kind"),
    "one name twice": (_with_member(special("manifest.json", tarfile.REGTYPE)), "two members"),
    "links in a circle": (
        tar_of(
            {
                **members_of(_manifest(Layers=["a", "a"])),
                "1": special("a", tarfile.SYMTYPE, link="b"),
                "2": special("b", tarfile.SYMTYPE, link="a"),
            }
        ),
        "circle",
    ),
    "a manifest that is no JSON": (_changed(docker_save(_IMAGE), lambda m: m.update({"manifest.json": b"[{"})), "JSON"),
    "a manifest that is deep": (
        _changed(docker_save(_IMAGE), lambda m: m.update({"manifest.json": b"[" * 100_000})),
        "JSON",
    ),
    "a manifest of the wrong form": (
        _changed(docker_save(_IMAGE), lambda m: m.update({"manifest.json": b'{"a": 1}'})),
        "not what it should be",
    ),
    "a manifest of nothing": (_changed(docker_save(_IMAGE), lambda m: m.update({"manifest.json": b"[]"})), "no image"),
    "a manifest that points above": (
        _manifest(Config="../../etc/passwd"),
        r"refers to a name that leads out of it: '\.\./\.\./etc/passwd'",
    ),
    "a manifest that points to the root": (_manifest(Config="/etc/passwd"), "leads out"),
    "a layer that isn't there": (_manifest(Layers=["a/layer.tar", "b/layer.tar"]), "layer 'a/layer.tar' is missing"),
    "no config": (_without(docker_save(_IMAGE), ".json"), "config '[0-9a-f]{64}.json' is missing"),
    "no layer": (_without(docker_save(_IMAGE), "layer.tar"), "layer '[0-9a-f]{64}/layer.tar' is missing"),
    "a layer too few": (_manifest(Layers=[]), "0 layers in the archive, and its config names 2"),
    "one file as two layers": (
        _changed(
            _manifest(),
            lambda m: m.update(
                {
                    "manifest.json": json.dumps(
                        [json.loads(m["manifest.json"])[0] | {"Layers": [next(iter(m))] * 2}]
                    ).encode()
                }
            ),
        ),
        "two different layers",
    ),
    "no layer of an oci layout": (_without(oci_layout(_IMAGE, layers=""), _IMAGE.diff_ids[0][7:]), "is missing"),
    "no config of an oci layout": (_without(oci_layout(_IMAGE), _IMAGE.digest[7:]), "config 'blobs/.*missing"),
    "another config": (_flipped(docker_save(_IMAGE), b"step 0"), "config .* doesn't have the digest"),
    "another layer": (_flipped(docker_save(_IMAGE), _IMAGE.layers[1]), "is not the layer"),
    "another blob": (_flipped(oci_layout(_IMAGE), packed(_IMAGE.layers[1], "gzip")), "digest|damaged"),
    "another oci manifest": (_flipped(oci_layout(_IMAGE), b'{"schemaVersion": 2, "mediaType"'), "digest|size|JSON"),
    "for Windows": (docker_save(tiny_image(os="windows")), "for windows"),
    "an oci layout for Windows": (oci_layout(tiny_image(os="windows")), "no image for Linux"),
    "no rootfs": (_config(rootfs="gone"), "no rootfs"),
    "an empty rootfs": (docker_save(TinyImage((), json.dumps({"rootfs": {}}).encode())), "without layers"),
    "a digest that is none": (_config(rootfs={"diff_ids": ["sha256:1", "x"]}), "no sha256 digest"),
    "an environment of another form": (_config(config={"Env": "A=1"}), "`Env` is not a list of texts"),
    "a user that is a number": (_config(config={"User": 5}), "`User` is not a text"),
    "a user as engines find it": (_config(config="gone", Config={"user": 5}), "`user` is not a text"),
    "a label of another form": (_config(config={"Labels": {"a": 5}}), r"`Labels\.a` is not a text"),
    "a label that acts": (_config(config={"Labels": {"a\x1b[31m": 5}}), r"`Labels\.a\ufffd\[31m` is not a text"),
    "volumes of another form": (_config(config={"Volumes": 5}), "`Volumes` is not an object"),
    "a port of another form": (
        _config(config={"ExposedPorts": {"80/tcp": 1}}),
        r"`ExposedPorts\.80/tcp` is not an obj",
    ),
    "a health check of another form": (
        _config(config={"Healthcheck": {"Interval": 1.5}}),
        r"`Healthcheck\.Interval` is not a whole number",
    ),
    "a settings list": (_config(config=[]), "`config` is not an object"),
    "a time that is none": (_config(created="not a date"), "`created` is not a time"),
    "an empty time": (_config(created=""), "`created` is not a time"),
    "a day that is none": (_config(created="2024-02-30T01:02:03Z"), "`created` is not a time"),
    "a step of another form": (_config(history=[{"created_by": 3}]), r"`history\[0\]\.created_by` is not a text"),
    "a manifest with a number": (_manifest(Config=5), "`Config` is not a text"),
    "one key twice, in engines' eyes": (_config(RootFS={"diff_ids": []}), "twice"),
    "an encrypted layer": (_oci_kind("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"), "encrypted"),
    "a layer from elsewhere": (
        _oci_kind("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"),
        "fetched from elsewhere",
    ),
    "a layer of docker's from elsewhere": (
        _oci_kind("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"),
        "fetched from elsewhere",
    ),
    "a layer of another kind": (_oci_kind("application/vnd.example.layer"), "unknown kind"),
}
_INNER = {
    "a name above": (special("a/../../x", tarfile.REGTYPE), "leads out of the image"),
    "a hard link above": (special("a", tarfile.LNKTYPE, link="../x"), "hard link that leads out"),
    "a disk": (special("dev/sda", tarfile.BLKTYPE, device=(8, 0)), "block device"),
    "memory": (special("dev/mem", tarfile.CHRTYPE, device=(1, 1)), "device 1:1"),
    "a sparse file": (special("a", tarfile.GNUTYPE_SPARSE), "sparse"),
    "an absolute name": (special("/etc/evil", tarfile.REGTYPE), "absolute name, '/etc/evil'"),
    "a hard link to what isn't there": (special("a", tarfile.LNKTYPE, link="/etc/shadow"), "'a', to '/etc/shadow'"),
    "a name that no disk takes": (special("b/" + "a" * 256 + "/c", tarfile.REGTYPE), "more than 255 bytes"),
    "a name that no disk takes in its script": (special("\u00e9" * 128, tarfile.REGTYPE), "more than 255 bytes"),
    "a path that engines can't reach": (special("a/" * 1990 + "x", tarfile.REGTYPE), "more than 3900 bytes"),
    "a target that no disk takes": (special("a", tarfile.SYMTYPE, link="b" * 4096), "more than 4095 bytes"),
    "a mark that removes its folder": (special("a/.wh..", tarfile.REGTYPE), "mark 'a/.wh..'"),
    "a mark that removes what is above": (special(".wh...", tarfile.REGTYPE), "mark '.wh...'"),
    "a mark without a name": (special("a/.wh.", tarfile.REGTYPE), "mark 'a/.wh.'"),
}


@pytest.mark.parametrize("what", ORDERS)
def test_layers_that_no_engine_unpacks_are_refused_and_no_others(take: Take, what: str) -> None:
    """They used to be taken, and the task that needed one failed with the engine's own words, after three retries."""
    content, why = ORDERS[what]
    archive = docker_save(tiny_image(content))
    if why:
        with pytest.raises(ArchiveRefused, match=why) as caught:
            take(archive)
        assert re.match(r"The layer '[0-9a-f]{64}/layer.tar' h", str(caught.value))
    else:
        assert take(archive)


def test_a_link_of_a_lower_layer_stands_in_nobodys_way(take: Take) -> None:
    link = tar_of({"0": special("lib", tarfile.SYMTYPE, link="usr/lib")})
    assert take(docker_save(tiny_image(link, layer([Entry("lib/x", b"")]))))


@pytest.mark.parametrize("what", _OUTER)
def test_it_is_refused_with_the_reason(take: Take, left: Callable[[], list[str]], what: str) -> None:
    content, why = _OUTER[what]
    with pytest.raises(ArchiveRefused, match=why) as caught:
        take(content)
    assert caught.value.slug == "image-refused"
    assert left() == []


@pytest.mark.parametrize("what", _INNER)
def test_what_leads_out_of_a_layer_is_refused(take: Take, left: Callable[[], list[str]], what: str) -> None:
    info, why = _INNER[what]
    with pytest.raises(ArchiveRefused, match=why):
        take(_layer_of(info))
    assert left() == []


def test_a_file_through_a_link_out_is_refused_and_the_link_alone_is_not(take: Take) -> None:
    link, absolute = (
        special("x", tarfile.SYMTYPE, link="../../etc"),
        special("y", tarfile.SYMTYPE, link="/etc"),
    )
    with pytest.raises(ArchiveRefused, match="goes through a link"):
        take(_layer_of(link, special("x/passwd", tarfile.REGTYPE)))
    with pytest.raises(ArchiveRefused, match="goes through a link"):
        take(_layer_of(link, special("z", tarfile.LNKTYPE, link="x/passwd")))
    assert take(_layer_of(link, absolute, special("dev/null", tarfile.CHRTYPE, device=(1, 3))))


@pytest.mark.parametrize("packing", ["", "gzip", "zstd", "xz"])
@pytest.mark.parametrize("form", ["docker", "oci"])
def test_a_cut_archive_is_incomplete(take: Take, left: Callable[[], list[str]], packing: str, form: str) -> None:
    content = packed(docker_save(_IMAGE) if form == "docker" else oci_layout(_IMAGE), packing)
    for length in (len(content) // 10, len(content) // 2, len(content) - 1):
        with pytest.raises(ArchiveRefused, match="incomplete"):
            take(content[:length])
        assert left() == []
    assert take(content).digest == _IMAGE.digest


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_cut_layer_in_a_whole_archive_is_named(take: Take, left: Callable[[], list[str]], packing: str) -> None:
    def cut(members: dict[str, bytes]) -> None:
        name = next(name for name in members if "layer.tar" in name)
        members[name] = members[name][:-3]

    with pytest.raises(ArchiveRefused, match=r"layer '[0-9a-f]{64}/layer.tar' is incomplete"):
        take(_changed(docker_save(_IMAGE, layers=packing), cut))
    assert left() == []


@pytest.mark.parametrize("packing", ["gzip", "zstd", "xz"])
def test_something_after_the_end_of_the_packed_data_is_refused(take: Take, packing: str) -> None:
    content = packed(docker_save(_IMAGE), packing)
    with pytest.raises(ArchiveRefused):
        take(content + b"and more")
    # Several parts in a row are one stream, as parallel packers write them.
    half = len(docker_save(_IMAGE)) // 2
    parts = packed(docker_save(_IMAGE)[:half], packing) + packed(docker_save(_IMAGE)[half:], packing)
    assert take(parts).digest == _IMAGE.digest


@pytest.mark.parametrize("packing", ["gzip", "zstd", "xz"])
def test_bombs_are_refused(take: Take, left: Callable[[], list[str]], packing: str) -> None:
    limits = ArchiveLimits(ratio=50, ratio_free_bytes=1 << 20)
    bomb = tiny_image([Entry("zeros", bytes(64 << 20))])
    with pytest.raises(ArchiveRefused, match="bomb"):
        take(packed(docker_save(bomb), packing), limits=limits)
    with pytest.raises(ArchiveRefused, match="bomb"):
        take(docker_save(bomb), limits=ArchiveLimits(unpacked_bytes=1 << 20))
    assert left() == []


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_bombs_in_layers_are_refused(take: Take, left: Callable[[], list[str]], packing: str) -> None:
    bomb = tiny_image([Entry("zeros", bytes(64 << 20))])
    with pytest.raises(ArchiveRefused, match="bomb"):
        take(docker_save(bomb, layers=packing), limits=ArchiveLimits(ratio=50, ratio_free_bytes=1 << 20))
    assert left() == []


def test_too_much_of_anything_is_refused(take: Take, left: Callable[[], list[str]]) -> None:
    many = tiny_image([Entry(f"f{number}", b"") for number in range(60)])
    with pytest.raises(ArchiveRefused, match="more than 50 files"):
        take(docker_save(many), limits=ArchiveLimits(layer_members=50))
    with pytest.raises(ArchiveRefused, match="more than 2 members"):
        take(docker_save(many), limits=ArchiveLimits(members=2))
    with pytest.raises(ArchiveRefused, match="126 layers"):
        take(docker_save(tiny_image(*([Entry(f"{number}", b"")] for number in range(126)))))
    with pytest.raises(ArchiveRefused, match=r"config .* 4194304 may be"):
        take(docker_save(tiny_image(labels={"x": "y" * (4 << 20)})))
    with pytest.raises(ArchiveRefused, match="longer than 4096"):
        take(docker_save(tiny_image(layer([Entry("x/" * 2100, b"")]))))
    assert left() == []


def test_headers_of_any_size_cost_no_memory(take: Take, left: Callable[[], list[str]]) -> None:
    pax = tarfile.TarInfo("x")
    pax.type, pax.size = tarfile.XHDTYPE, 1 << 40
    with pytest.raises(ArchiveRefused, match="extended header of 1099511627776 bytes"):
        take(pax.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    many = b"".join(_pax_header({"comment": "x"}) for _ in range(20))
    with pytest.raises(ArchiveRefused, match="in a row"):
        take(many + bytes(1024))
    with pytest.raises(ArchiveRefused, match="for all members"):
        take(_pax_header({"path": "x"}, kind=tarfile.XGLTYPE) + docker_save(_IMAGE))
    with pytest.raises(ArchiveRefused, match="sparse"):
        take(_pax_header({"GNU.sparse.size": "99"}) + docker_save(_IMAGE))
    with pytest.raises(ArchiveRefused, match="NUL"):
        take(_pax_header({"path": "a\0b"}) + docker_save(_IMAGE))
    # What others write before a good archive does no harm.
    assert take(_pax_header({"comment": "x" * 40}, kind=tarfile.XGLTYPE) + docker_save(_IMAGE))


def _pax_header(records: dict[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    content = b""
    for key, value in records.items():
        rest = f" {key}={value}\n".encode()
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length = len(str(length)) + len(rest)
        content += str(length).encode() + rest
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, len(content)
    return info.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)


@pytest.mark.parametrize(
    "archive",
    [docker_save(_IMAGE, _OTHER), docker_save(_IMAGE, _OTHER, modern=True), oci_layout(_IMAGE, _OTHER)],
    ids=["docker before 25", "docker since 25", "oci"],
)
def test_several_images_are_a_question(take: Take, left: Callable[[], list[str]], archive: bytes) -> None:
    with pytest.raises(SeveralImages) as caught:
        take(archive)
    assert caught.value.choices == ("tiny:1", "other:2")
    assert caught.value.extra == {"choices": ["tiny:1", "other:2"]}
    with pytest.raises(SeveralImages, match="no image 'third:3'"):
        take(archive, choose="third:3")
    assert left() == []
    assert take(archive, choose="other:2").digest == _OTHER.digest
    assert take(archive, choose=_IMAGE.digest).digest == _IMAGE.digest


def test_another_name_than_the_one_image_has_is_refused_with_all_its_names(take: Take) -> None:
    both = docker_save(tiny_image(tags=("two:1", "two:2")))
    with pytest.raises(ArchiveRefused, match="has no image 'nix'; it has two:1 and two:2") as caught:
        take(both, choose="nix")
    assert not isinstance(caught.value, SeveralImages), "there is nothing to choose from"
    assert take(both, choose="two:2")


def test_an_image_for_several_platforms_is_that_for_the_usual_one(take: Take) -> None:
    arm, amd = tiny_image([Entry("arm", b"")], architecture="arm64"), tiny_image([Entry("amd", b"")])
    both = oci_layout(arm, amd, nested=True)
    assert take(both).architecture == "amd64"
    assert take(both, choose="linux/arm64").digest == arm.digest
    neither = oci_layout(arm, tiny_image([Entry("x", b"")], architecture="riscv64"), nested=True)
    with pytest.raises(SeveralImages) as caught:
        take(neither)
    assert caught.value.choices == ("linux/arm64", "linux/riscv64")
    assert take(oci_layout(arm)).architecture == "arm64"


def test_a_platform_that_was_never_fetched_is_passed_over(take: Take) -> None:
    arm, amd = tiny_image([Entry("arm", b"")], architecture="arm64"), tiny_image([Entry("amd", b"")])
    archive = oci_layout(arm, amd, nested=True)
    # The manifest of the first image: the index in the index names it still.
    name = json.loads(members_of(archive)[inner_index_of(archive)])["manifests"][0]["digest"]
    assert take(_without(archive, name.partition(":")[2])).digest == amd.digest


def inner_index_of(archive: bytes) -> str:
    """The name of the index in the index."""
    digest = json.loads(members_of(archive)["index.json"])["manifests"][0]["digest"]
    return f"blobs/{digest.replace(':', '/')}"


def test_layers_linked_to_each_other_are_followed(take: Take) -> None:
    """An engine before 25 writes a layer that several images have once, and links for the others."""
    members = members_of(docker_save(_IMAGE))
    first = next(name for name in members if "layer.tar" in name)
    entry = json.loads(members["manifest.json"])[0]
    entry["Layers"] = ["linked/layer.tar", *entry["Layers"][1:]]
    members["manifest.json"] = json.dumps([entry]).encode()
    for kind, target in ((tarfile.SYMTYPE, f"../{first}"), (tarfile.LNKTYPE, first)):
        assert take(tar_of({**members, "0": special("linked/layer.tar", kind, link=target)})).digest == _IMAGE.digest
