"""Archives that two readers read differently are refused: Headway would check one image, and the engine run another."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable

import pytest

from headway.archive import ArchiveRefused, ImageInfo
from tests.support.archives import Entry, TinyImage, docker_save, tar_of, tiny_image

Take = Callable[..., ImageInfo]
_BLOCK = 512


def _raw(name: str, kind: bytes = b"0", content: bytes = b"", *, link: str = "", gnu: bool = False) -> bytearray:
    """A member as nobody's library writes it."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(content), link
    head = info.create_ustar_header(info.get_info(), "utf-8", "surrogateescape")
    if gnu:
        head = head[:257] + b"ustar  \0" + head[265:]
    return bytearray(head + content + bytes(-len(content) % _BLOCK))


def _with_sum(member: bytearray) -> bytes:
    member[148:156] = b" " * 8
    member[148:156] = b"%06o\0 " % sum(member[:_BLOCK])
    return bytes(member)


def _pax(*facts: tuple[str, str], kind: bytes = b"x") -> bytes:
    records = b""
    for key, value in facts:
        body = f" {key}={value}\n".encode()
        size = len(body) + 1
        while len(str(size)) + len(body) != size:
            size = len(str(size)) + len(body)
        records += str(size).encode() + body
    return bytes(_raw("pax", kind, records))


def _long(name: str, kind: bytes = b"L") -> bytes:
    return bytes(_raw("././@LongLink", kind, name.encode() + b"\0"))


def _changed(at: int, to: bytes, *, gnu: bool = False) -> bytes:
    member = _raw("a", gnu=gnu)
    member[at : at + len(to)] = to
    return _with_sum(member)


_FILE = bytes(_raw("a"))
_LINK = bytes(_raw("a", b"2", link="b"))
_END = bytes(2 * _BLOCK)

REFUSED = {
    "a long name and a pax path": (_long("x") + _pax(("path", "y")) + _FILE, "two names, 'x' and 'y'"),
    "a pax path and a long name": (_pax(("path", "y")) + _long("x") + _FILE, "two names"),
    "the same name in both": (_long("x") + _pax(("path", "x")) + _FILE, "two names"),
    "two long names": (_long("x") + _long("y") + _FILE, "two names"),
    "a long link and a pax link": (_long("x", b"K") + _pax(("linkpath", "y")) + _LINK, "two links"),
    "two pax headers": (_pax(("path", "x")) + _pax(("size", "0")) + _FILE, "two extended headers"),
    "a pax path twice": (_pax(("path", "x"), ("path", "y")) + _FILE, "says path twice"),
    "a pax link twice": (_pax(("linkpath", "x"), ("linkpath", "y")) + _LINK, "says linkpath twice"),
    "a pax size twice": (_pax(("size", "0"), ("size", "512")) + _FILE, "says size twice"),
    "an empty pax path": (_pax(("path", "")) + _FILE, "names a member with nothing"),
    "an empty long name": (_long("") + _FILE, "names a member with nothing"),
    "an empty pax link": (_pax(("linkpath", "")) + _LINK, "links a member with nothing"),
    "a header for all in the middle": (_long("x") + _pax(("comment", "c"), kind=b"g") + _FILE, "in the middle of one"),
    "a name for all": (_pax(("path", "x"), kind=b"g") + _FILE, "for all members at once"),
    "a file named as a folder": (bytes(_raw("a/", b"0")), "a file with the name of a folder, 'a/'"),
    "an old folder with content": (bytes(_raw("a/", b"\0", bytes(_BLOCK))), "a file with the name of a folder"),
    "a size behind a NUL": (_changed(124, b"\x00000000512\0"), "damaged number"),
    "times that are a name": (_changed(345, b"root/nfs", gnu=True), "damaged number"),
    "half an end mark": (_FILE + bytes(_BLOCK) + bytes(_raw("b")), "half an end mark"),
    "a redirect of overlays": (_pax(("SCHILY.xattr.trusted.overlay.redirect", "/b")) + _FILE, "overlay"),
    "a redirect of libarchive's": (_pax(("LIBARCHIVE.xattr.user.overlay.redirect", "L2I")) + _FILE, "overlay"),
    "one name twice": (_FILE + _FILE, "two members named 'a'"),
    "one name twice by a dot": (_FILE + bytes(_raw("./a")), "two members named 'a'"),
    "one name twice by slashes": (bytes(_raw("a/b")) + bytes(_raw("a//b")), "two members named 'a/b'"),
    "one name twice by a dot inside": (bytes(_raw("a/b")) + bytes(_raw("a/./b")), "two members named 'a/b'"),
    "a folder twice": (bytes(_raw("a", b"5")) + bytes(_raw("a/", b"5")), "two members named 'a'"),
}
TAKEN = {
    "a long name": _long("x" * 200) + _FILE,
    "a long name and a long link": _long("x" * 200) + _long("y" * 200, b"K") + _LINK,
    "a pax path": _pax(("path", "x" * 200), ("mtime", "1.5")) + _FILE,
    "an attribute": _pax(("SCHILY.xattr.user.mine", "1")) + _FILE,
    "a comment for all": _pax(("comment", "c"), kind=b"g") + _FILE,
    "an old folder": bytes(_raw("a/", b"\0")),
    "a hard link": bytes(_raw("a", content=b"x")) + bytes(_raw("b", b"1", link="a")),
    "times": _changed(345, b"13000000000\x0013000000000\0", gnu=True),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_layer_that_can_be_read_in_two_ways_is_refused(take: Take, left: Callable[[], list[str]], what: str) -> None:
    content, why = REFUSED[what]
    with pytest.raises(ArchiveRefused, match=why):
        take(docker_save(tiny_image(content + _END)))
    assert left() == []


@pytest.mark.parametrize("what", [what for what in REFUSED if "twice by" not in what and "folder" not in what])
def test_an_archive_that_can_be_read_in_two_ways_is_refused(take: Take, what: str) -> None:
    content, _ = REFUSED[what]
    with pytest.raises(ArchiveRefused):
        take(content + docker_save(tiny_image()))


@pytest.mark.parametrize("what", TAKEN)
def test_what_all_read_alike_is_taken(take: Take, what: str) -> None:
    assert take(docker_save(tiny_image(TAKEN[what] + _END))).layers


def test_one_block_of_zeros_is_enough_of_an_end(take: Take) -> None:
    assert take(docker_save(tiny_image(_FILE + bytes(_BLOCK)))).layers
    assert take(docker_save(tiny_image(_FILE))).layers


def _config(text: str) -> bytes:
    image = tiny_image([Entry("hello", b"hi\n")])
    rootfs = json.dumps(json.loads(image.config)["rootfs"])
    return docker_save(TinyImage(image.layers, text.replace("ROOTFS", rootfs).encode(), image.tags))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"rootfs": ROOTFS, "config": {"Entrypoint": ["a"], "entrypoint": ["b"]}}', "entrypoint"),
        ('{"rootfs": ROOTFS, "config": {"Entrypoint": ["a"], "Entrypoint": ["b"]}}', "Entrypoint"),
        ('{"rootfs": ROOTFS, "config": {"Volumes": {}, "VOLUMES": {"/a": {}}}}', "VOLUMES"),
        # Go takes the long s and the Kelvin sign for s and k.
        ('{"rootfs": ROOTFS, "config": {"Volumes": {}, "Volume\\u017f": {"/a": {}}}}', "Volume\u017f"),
        ('{"rootfs": ROOTFS, "config": {}, "Config": {"User": "0"}}', "Config"),
        ('{"rootfs": ROOTFS, "rootfs": ROOTFS}', "rootfs"),
        ('{"rootfs": ROOTFS, "other": {"deep": {"a": 1, "a": 2}}}', "a"),
    ],
)
def test_a_config_that_says_one_thing_twice_is_refused(take: Take, text: str, key: str) -> None:
    with pytest.raises(ArchiveRefused, match="twice") as refused:
        take(_config(text))
    assert repr(key) in refused.value.message


def test_labels_and_volumes_are_told_apart_by_case(take: Take) -> None:
    """They are names of the image's own, not keys."""
    info = take(
        _config('{"rootfs": ROOTFS, "config": {"Labels": {"A": "1", "a": "2"}, "Volumes": {"/A": {}, "/a": {}}}}')
    )
    assert info.labels == {"A": "1", "a": "2"}


def test_many_keys_of_which_the_last_two_are_one_are_refused_at_once(take: Take) -> None:
    keys = ", ".join(f'"{number}": 1' for number in range(100_000))
    with pytest.raises(ArchiveRefused, match="'99999' twice"):
        take(_config(f'{{"rootfs": ROOTFS, "more": {{{keys}, "99999": 1}}}}'))


def test_members_that_differ_in_case_are_two(take: Take) -> None:
    assert take(docker_save(tiny_image(tar_of({"a": b"", "A": b""})))).layers
