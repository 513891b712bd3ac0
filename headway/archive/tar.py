"""Tar headers, read one after another from a stream, with a limit on everything.

The standard library's reader takes headers of any size into memory, follows sparse maps and forgives a cut end.
An upload may be hostile, so this module has a reader of its own. It reads what engines write and read: ustar, GNU long
names and pax. It refuses sparse members (a few bytes that grow on somebody's disk) and kinds it doesn't know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from .model import ArchiveLimits, ArchiveRefused
from .streams import Incomplete, Reader

BLOCK = 512
_ZERO = bytes(BLOCK)
# Headers that only describe the next one; more than a handful in a row is no real archive.
_EXTENSIONS_IN_A_ROW = 8
_OCTAL = frozenset(b"01234567")
_GNU = b"ustar  \0"
# With these an overlay file system shows other folders than an archive names.
_OF_OVERLAYS = tuple(
    f"{writer}.xattr.{space}.overlay.".encode() for writer in ("SCHILY", "LIBARCHIVE") for space in ("trusted", "user")
)


class MemberKind(Enum):
    """What a member is."""

    FILE = "file"
    DIR = "folder"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"
    CHAR = "character device"
    BLOCK = "block device"
    FIFO = "named pipe"


_KINDS = {
    b"0": MemberKind.FILE,
    b"\0": MemberKind.FILE,
    b"7": MemberKind.FILE,
    b"1": MemberKind.HARDLINK,
    b"2": MemberKind.SYMLINK,
    b"3": MemberKind.CHAR,
    b"4": MemberKind.BLOCK,
    b"5": MemberKind.DIR,
    b"6": MemberKind.FIFO,
}


@dataclass(frozen=True, slots=True)
class Member:
    """One member; ``size`` is that of its content, which begins at ``offset`` of the tar."""

    name: str
    kind: MemberKind
    size: int
    link: str
    device: tuple[int, int]
    offset: int


def members(
    reader: Reader, limits: ArchiveLimits, count: Callable[[], None], *, where: str, whole: bool = False
) -> Iterator[Member]:
    """Each member in turn; between two steps the caller may read of the member's content, at most its size.

    Ends behind the end mark. ``count`` is called for each header and raises when there are too many. With ``whole``
    the end mark must be there; without, a tar may also just end after a member, as some writers leave it.

    Raises:
        ArchiveRefused: it is no tar, or one of a form that isn't taken. ``where`` says which tar.
        Incomplete: it ends too soon.
    """
    name = link = None
    size: int | None = None
    extensions, pax = 0, False
    while True:
        head = reader.block(BLOCK)
        if head is None:
            if whole or extensions:
                raise Incomplete(f"{where} ends without an end mark")
            return
        if head == _ZERO:
            if extensions:
                raise ArchiveRefused(f"{where} is damaged: a header announces a member that doesn't come.")
            after = reader.block(BLOCK)
            if whole and after != _ZERO:
                raise Incomplete(f"{where} ends in the middle of its end mark")
            if after not in (None, _ZERO):
                raise ArchiveRefused(f"{where} goes on behind half an end mark, which some readers pass over.")
            return
        count()
        if not _sum_is_right(head):
            raise ArchiveRefused(
                f"{where} is damaged or no tar: the header at byte {reader.position - BLOCK} is wrong."
            )
        kind = head[156:157]
        if kind in b"xgLK":
            extensions += 1
            if extensions > _EXTENSIONS_IN_A_ROW:
                raise ArchiveRefused(f"{where} has too many extended headers in a row.")
            length = _number(head[124:136], where)
            if length > limits.header_bytes:
                raise ArchiveRefused(f"{where} has an extended header of {length} bytes; {limits.header_bytes} may be.")
            content = reader.exactly(length)
            reader.skip(-length % BLOCK)
            if kind in b"LK":
                facts = {"path" if kind == b"L" else "linkpath": _text(content.split(b"\0", 1)[0])}
            else:
                facts = _pax(content, where)
                if kind == b"g" and facts:
                    raise ArchiveRefused(f"{where} sets {', '.join(sorted(facts))} for all members at once.")
            # Readers disagree about which of two headers counts.
            if kind == b"g" and extensions > 1:
                raise ArchiveRefused(f"{where} has a header for all members in the middle of one.")
            if kind == b"x" and pax:
                raise ArchiveRefused(f"{where} has two extended headers for one member.")
            pax = pax or (kind == b"x" and bool(facts))
            _once("names", name, facts.get("path"), where)
            _once("links", link, facts.get("linkpath"), where)
            name, link = facts.get("path", name), facts.get("linkpath", link)
            if "size" in facts:
                size = _decimal(facts["size"], where)
            continue
        extensions, pax = 0, False
        member = _member(reader.position, head, kind, name, link, size, limits, where)
        name = link = size = None
        yield member
        reader.skip(member.offset + member.size + -member.size % BLOCK - reader.position)


def _member(
    offset: int,
    head: bytes,
    code: bytes,
    name: str | None,
    link: str | None,
    size: int | None,
    limits: ArchiveLimits,
    where: str,
) -> Member:
    if name is None:
        name = _own_name(head, where)
    if link is None:
        link = _text(head[157:257].split(b"\0", 1)[0])
    if "\0" in name or "\0" in link or not name:
        raise ArchiveRefused(f"{where} has a member with {'a NUL in its name' if name else 'no name'}.")
    if len(name) > limits.name_bytes or len(link) > limits.name_bytes:
        raise ArchiveRefused(f"{where} has a name longer than {limits.name_bytes} bytes: {shown(name)}.")
    kind = _KINDS.get(code)
    if kind is None:
        what = "a sparse file" if code == b"S" else f"of the unknown kind {code!r}"
        raise ArchiveRefused(f"{where}: {shown(name)} is {what}, which isn't taken.")
    if size is None:
        size = _number(head[124:136], where)
    if kind is MemberKind.FILE and name.endswith("/"):
        if code != b"\0" or size:
            raise ArchiveRefused(
                f"{where} has a file with the name of a folder, {shown(name)}: readers disagree on it."
            )
        kind = MemberKind.DIR  # as written before there was a kind for folders
    if kind is not MemberKind.FILE:
        size = 0  # whatever the header says: no content follows
    if size > limits.member_bytes:
        raise ArchiveRefused(f"{where}: {shown(name)} claims {size} bytes; {limits.member_bytes} may be.")
    device = (0, 0)
    if kind in (MemberKind.CHAR, MemberKind.BLOCK):
        device = (_number(head[329:337], where), _number(head[337:345], where))
    return Member(name, kind, size, link, device, offset)


def shown(name: str) -> str:
    """A name from an archive as a sentence may quote it."""
    if len(name) > 120:
        name = f"{name[:80]}…{name[-30:]}"
    return repr(name.encode("utf-8", "replace").decode("utf-8", "replace"))


def is_header(block: bytes) -> bool:
    """Whether a tar may begin with these 512 bytes (zeros: an empty one)."""
    return len(block) == BLOCK and (block == _ZERO or _sum_is_right(block))


def _sum_is_right(head: bytes) -> bool:
    field = head[148:156].replace(b"\0", b" ").strip()
    if not field or not _OCTAL.issuperset(field):
        return False
    want = int(field, 8)
    found = sum(head) - sum(head[148:156]) + 256
    if found == want:
        return True
    # Some old writers added signed bytes.
    return found - 256 * sum(byte > 127 for byte in head[:148] + head[156:]) == want


def _number(field: bytes, where: str) -> int:
    first = field[0]
    if first & 0x80:
        if first != 0x80:
            # A negative number, or one beyond 2^56 at least.
            raise ArchiveRefused(f"{where} has a header with an impossible number.")
        return int.from_bytes(field[1:], "big")
    text, _, rest = field.partition(b"\0")
    text = text.strip(b" ")
    if not text:
        if rest.strip(b"\0 "):
            raise ArchiveRefused(f"{where} has a header with a damaged number.")
        return 0
    if not _OCTAL.issuperset(text):
        raise ArchiveRefused(f"{where} has a header with a damaged number.")
    return int(text, 8)


def _once(what: str, before: str | None, now: str | None, where: str) -> None:
    """Refuses a member with two names or none, of which one reader takes this and another that."""
    if now is not None and before is not None:
        raise ArchiveRefused(f"{where} has a member with two {what}, {shown(before)} and {shown(now)}. Pack it anew.")
    if now == "":
        raise ArchiveRefused(f"{where} has an extended header that {what} a member with nothing. Pack it anew.")


def _decimal(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ArchiveRefused(f"{where} has an extended header with a damaged size.")
    return int(text)


def _own_name(head: bytes, where: str) -> str:
    name = head[:100].split(b"\0", 1)[0]
    if head[257:265] == _GNU:
        for field in (head[345:357], head[357:369]):
            # Of times that make no sense, some readers make a part of the name.
            if field[0]:
                _number(field, where)
    if head[257:263] == b"ustar\0":
        prefix = head[345:476] if head[508:512] == b"tar\0" else head[345:500]
        prefix = prefix.split(b"\0", 1)[0]
        if prefix:
            name = prefix + b"/" + name
    return _text(name)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _pax(content: bytes, where: str) -> dict[str, str]:
    """path, linkpath and size of an extended header; the other keys don't matter here."""
    facts: dict[str, str] = {}
    at = 0
    while at < len(content):
        space = content.find(b" ", at, at + 12)
        digits = content[at:space] if space > at else b""
        if not digits.isdigit():
            raise ArchiveRefused(f"{where} has a damaged extended header.")
        end = at + int(digits)
        if end > len(content) or end <= space or content[end - 1 : end] != b"\n":
            raise ArchiveRefused(f"{where} has a damaged extended header.")
        key, equals, value = content[space + 1 : end - 1].partition(b"=")
        if not equals:
            raise ArchiveRefused(f"{where} has a damaged extended header.")
        if key.startswith(b"GNU.sparse."):
            raise ArchiveRefused(f"{where} holds a sparse file, which isn't taken.")
        if key.startswith(_OF_OVERLAYS):
            raise ArchiveRefused(
                f"{where} has an attribute of overlay file systems, {shown(_text(key))}. Pack it anew."
            )
        if key in (b"path", b"linkpath", b"size"):
            if key.decode() in facts:
                raise ArchiveRefused(f"{where} has an extended header that says {key.decode()} twice. Pack it anew.")
            facts[key.decode()] = _text(value)
        at = end
    return facts
