"""Layers whose members come in an order that engines can unpack or can't.

content, why = ORDERS["a hard link to a folder"]    # why: part of the refusal; "" where engines unpack it
"""

from __future__ import annotations

import tarfile

from .archives import tar_of


def special(name: str, kind: bytes, *, link: str = "", device: tuple[int, int] = (0, 0)) -> tarfile.TarInfo:
    """A member without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.devmajor, info.devminor = device
    return info


# A name alone is a file.
_MEMBERS: dict[str, tuple[list[str | tarfile.TarInfo], str]] = {
    "one name twice": (["d", "d"], "two members named 'd'"),
    "a folder twice": ([special("d", tarfile.DIRTYPE), "d/x", special("d/", tarfile.DIRTYPE)], "two members named 'd'"),
    "a folder made on the way and named after": (["d/x", special("d", tarfile.DIRTYPE)], ""),
    "a file in the place of a folder made on the way": (["d/x", "d"], ""),
    "a link and a folder of one name": (
        [special("d", tarfile.SYMTYPE, link="/e"), special("d", tarfile.DIRTYPE)],
        "two members",
    ),
    "below a file": (["d", "d/x"], "'d/x' below 'd', which is no folder"),
    "through a link to nothing here": ([special("d", tarfile.SYMTYPE, link="/etc"), "d/x"], "'d/x' below 'd', a symb"),
    "through a link to what comes later": (
        [special("d", tarfile.SYMTYPE, link="etc"), "d/x", special("etc", tarfile.DIRTYPE)],
        "leads to no folder",
    ),
    "through a link to a file": (["f", special("d", tarfile.SYMTYPE, link="/f"), "d/x"], "leads to no folder"),
    "through a link to itself": ([special("d", tarfile.SYMTYPE, link="d"), "d/x"], "leads to no folder"),
    "through a link": (
        [special("usr/lib", tarfile.DIRTYPE), special("lib", tarfile.SYMTYPE, link="usr/lib"), "lib/x"],
        "",
    ),
    "through two links, into new folders": (
        [
            "a/b/c",
            special("l", tarfile.SYMTYPE, link="a"),
            special("m", tarfile.SYMTYPE, link="./l/../l/b"),
            "m/new/er/x",
            special("n", tarfile.SYMTYPE, link="/a/b/new"),
            "n/y",
            special("h", tarfile.LNKTYPE, link="a/b/new/er/x"),
        ],
        "",
    ),
    "a hard link to what comes later": ([special("a", tarfile.LNKTYPE, link="b"), "b"], "comes before it"),
    "a hard link to a folder": (
        [special("b", tarfile.DIRTYPE), special("a", tarfile.LNKTYPE, link="b")],
        "no file that comes",
    ),
    "a hard link to itself": ([special("a", tarfile.LNKTYPE, link="a")], "no file that comes"),
    "hard links": (
        [
            "r/y",
            special("l", tarfile.SYMTYPE, link="r"),
            special("1", tarfile.LNKTYPE, link="/r/y"),
            special("2", tarfile.LNKTYPE, link="./l/y"),
            special("3", tarfile.LNKTYPE, link="l"),
            special("4", tarfile.LNKTYPE, link="3"),
        ],
        "",
    ),
    "a mark for what the layer holds": (["q", ".wh.q"], "holds 'q' and then removes it"),
    "a mark for a folder that it fills": (["q/z", ".wh.q"], "holds 'q' and then removes it"),
    "a mark twice": ([".wh.q", ".wh.q"], "two members named '.wh.q'"),
    "below what was removed": ([".wh.q", "q/x"], "'q/x' below 'q', which is no folder"),
    "a mark, then the new one": (
        [".wh.q", special("q", tarfile.DIRTYPE), "q/x", "q/.wh..wh..opq", ".wh..wh.plnk/1"],
        "",
    ),
}
ORDERS: dict[str, tuple[bytes, str]] = {
    what: (
        tar_of(
            {str(at): special(one, tarfile.REGTYPE) if isinstance(one, str) else one for at, one in enumerate(members)}
        ),
        why,
    )
    for what, (members, why) in _MEMBERS.items()
}
