"""The uploaded file itself: how it is packed, what members it has, and their content.

A plain tar is read by offsets. A packed one is unpacked twice, as a stream. The first time tells what is in
it and keeps nothing but the small documents; the second time takes the layers out. So nothing is ever unpacked to a
temporary folder, and the order in which a tool wrote the members doesn't matter.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from ..errors import MountUnavailable
from . import other_kinds
from .model import ArchiveLimits, ArchiveRefused
from .streams import CHUNK, Incomplete, Reader, packing, unpacked
from .tar import BLOCK, Member, MemberKind, is_header, members, shown

_LINKS_IN_A_ROW = 8
_WHERE = "The archive"
_SEND_IT_AGAIN = "Send it again, whole."
# A document begins with one of these; what doesn't isn't kept.
_JSON_BEGINS = b"{[ \t\r\n"


class UploadedArchive:
    """An uploaded archive, open for reading.

    Raises (from here and from every method):
        ArchiveRefused: it is no archive of an image, incomplete or hostile.
        MountUnavailable: the file can't be read.
    """

    def __init__(self, path: Path, limits: ArchiveLimits, passed: Callable[[int], None]) -> None:
        """``passed`` hears how many bytes each piece has that is read."""
        self._limits = limits
        self._passed = passed
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise MountUnavailable(f"The uploaded file can't be read: {error.strerror}.") from error
        try:
            self.file_bytes = os.fstat(self._fd).st_size
            self.packing = self._found_out()
            self._files: dict[str, Member] = {}
            self._links: dict[str, str] = {}
            self._kept: dict[str, bytes] = {}
            self._names: set[str] = set()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def index(self) -> None:
        """Learns what is in the archive; to be called first."""
        count = kept_bytes = 0

        def one_more() -> None:
            nonlocal count
            count += 1
            if count > self._limits.members:
                raise ArchiveRefused(f"The archive has more than {self._limits.members} members; this is no image.")

        reader: Reader = self._reader() if self.packing else _FileReader(self._read, self.file_bytes)
        problem: ArchiveRefused | None = None
        try:
            for member in self._members(reader, one_more):
                self._names.add(member.name.strip("/").removeprefix("./"))
                if problem is None:
                    try:
                        kept_bytes += self._take_in(reader, member, kept_bytes)
                    except ArchiveRefused as refused:
                        problem = refused
                elif other_kinds.looks_like_files(self._names):
                    break
        except ArchiveRefused as refused:
            problem = problem or refused
        if problem is not None:
            # It is judged as an image only where it may be one.
            raise self._other_kind(whole=False) or problem
        length = self.file_bytes
        if self.packing:
            # The rest is read too, so that a cut or damaged end is noticed.
            try:
                while reader.some(CHUNK):
                    pass
            except Incomplete as error:
                raise _incomplete(error) from None
            length = reader.position
        if length % BLOCK:
            # Everything in a tar comes in blocks, also what pads its end.
            raise _incomplete(None)
        if not self._files:
            raise ArchiveRefused("The archive is an empty tar. Send what `docker save` writes.")

    def _take_in(self, reader: Reader, member: Member, kept_bytes: int) -> int:
        """One member of the index; how many bytes of it were kept.

        Raises:
            ArchiveRefused: no archive of an image has such a member.
        """
        name = _inside(member.name, f"{_WHERE} has a member")
        match member.kind:
            case MemberKind.DIR:
                return 0
            case MemberKind.SYMLINK | MemberKind.HARDLINK:
                self._add_link(name, member)
                return 0
            case MemberKind.FILE:
                self._no_second(name)
                self._files[name] = Member(name, member.kind, member.size, "", (0, 0), member.offset)
            case _:
                raise ArchiveRefused(f"The archive has a {member.kind.value}: {shown(name)}. No image archive has.")
        if not self.packing or member.size > self._limits.document_bytes:
            return 0
        content = self._kept_content(reader, member)
        if content is not None and kept_bytes + len(content) <= self._limits.documents_bytes:
            self._kept[name] = content
        return len(content or b"")

    def find(self, name: str, what: str) -> Member:
        """The file that a document of the archive names, links followed; ``what`` says what it should be.

        Raises:
            ArchiveRefused: it isn't there, or the name leads out of the archive.
        """
        member = self._files.get(self._followed(_inside(name, f"{_WHERE} refers to a name"), what))
        if member is None:
            raise ArchiveRefused(f"The {what} {shown(name)} is missing from the archive.")
        return member

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return name in self._files

    def document(self, name: str, what: str, most: int) -> bytes:
        """The content of a small file.

        Raises:
            ArchiveRefused: as :meth:`find`, or it is larger than ``most`` bytes.
        """
        member = self.find(name, what)
        if member.size > most:
            raise ArchiveRefused(f"The {what} {shown(name)} has {member.size} bytes; {most} may be.")
        if not self.packing:
            return b"".join(self._piece(member))
        kept = self._kept.get(member.name)
        if kept is None:
            raise ArchiveRefused(f"The {what} {shown(name)} is no JSON, or the archive has too much of it.")
        return kept

    def contents(self, wanted: Collection[str]) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Each of the wanted files (by their members' names) with its content, to be read before the next one."""
        if not self.packing:
            for name in wanted:
                yield self._files[name], self._piece(self._files[name])
            return
        left = set(wanted)
        reader = self._reader()
        for member in self._members(reader):
            name = _inside(member.name, f"{_WHERE} has a member")
            if name in left:
                left.remove(name)
                yield self._files[name], self._whole(reader.window(member.size), name)
                if not left:
                    return
        if left:
            raise MountUnavailable("The uploaded file changed while it was read; try again.")

    def _found_out(self) -> str:
        head = self._read(BLOCK, 0)
        if not head:
            raise ArchiveRefused("The file is empty. Send what `docker save` writes.")
        how = packing(head)
        if is_header(head):
            return ""
        inside = self._head_inside(how) if how else head
        if how and packing(inside):
            raise ArchiveRefused(f"The file is packed twice, with {how} and {packing(inside)}. Unpack it once.")
        known = other_kinds.of_head(inside)
        if known:
            raise ArchiveRefused(f"{known}.")
        if how:
            return how
        if len(head) < BLOCK and b"\0" in head:
            raise ArchiveRefused(f"The archive is incomplete: it has {len(head)} bytes. {_SEND_IT_AGAIN}")
        raise ArchiveRefused(
            "The file is no tar archive. Send what `docker save` writes, or an OCI layout as a tar; gzip, zstd and "
            "xz are understood."
        )

    def _kept_content(self, reader: Reader, member: Member) -> bytes | None:
        try:
            head = reader.exactly(min(1, member.size))
            if not head or head not in _JSON_BEGINS:
                return None
            return head + reader.exactly(member.size - 1)
        except Incomplete as error:
            raise _incomplete(error, member.name) from None

    def _add_link(self, name: str, member: Member) -> None:
        self._no_second(name)
        base = "" if member.kind is MemberKind.HARDLINK else posixpath.dirname(name)
        if member.link.startswith("/") or (target := _resolved(base, member.link)) is None:
            raise ArchiveRefused(
                f"The archive has a link that leads out of it: {shown(name)} to {shown(member.link)}. It is refused."
            )
        self._links[name] = target

    def _no_second(self, name: str) -> None:
        if not name or name in self._files or name in self._links:
            raise ArchiveRefused(f"The archive has two members named {shown(name)}.")

    def _followed(self, name: str, what: str) -> str:
        for _ in range(_LINKS_IN_A_ROW):
            if name not in self._links:
                return name
            name = self._links[name]
        raise ArchiveRefused(f"The {what} {shown(name)} of the archive is a link in a circle.")

    def refuse_contents(self) -> ArchiveRefused:
        """Why an archive that has no manifest is not taken."""
        return self._other_kind(whole=True) or ArchiveRefused(
            "The archive is no image: it has neither manifest.json (docker save) nor index.json (OCI layout)."
        )

    def _other_kind(self, *, whole: bool) -> ArchiveRefused | None:
        """The refusal of what is something else than an image. None: it may be one."""
        if self._names & {"manifest.json", "index.json"}:
            return None
        known = other_kinds.of_names(self._names, whole=whole)
        return ArchiveRefused(f"{known}.") if known else None

    def _head_inside(self, how: str) -> bytes:
        """What a packed file begins with. Empty: that is for the index to find out."""
        try:
            head = next(unpacked(self._pieces(0, self.file_bytes), how, _WHERE), b"")[:BLOCK]
        except (ArchiveRefused, Incomplete):
            return b""
        return b"" if is_header(head) else head

    def _members(self, reader: Reader, one_more: Callable[[], None] = lambda: None) -> Iterator[Member]:
        found = members(reader, self._limits, one_more, where=_WHERE, whole=True)
        last = ""
        while True:
            try:
                member = next(found, None)
            except Incomplete as error:
                raise _incomplete(error, last) from None
            if member is None:
                return
            last = member.name
            yield member

    def _reader(self) -> Reader:
        return Reader(self._bounded(unpacked(self._pieces(0, self.file_bytes), self.packing, _WHERE)))

    def _bounded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        most = min(
            self._limits.unpacked_bytes, max(self._limits.ratio_free_bytes, self._limits.ratio * self.file_bytes)
        )
        total = 0
        for chunk in chunks:
            total += len(chunk)
            if total > most:
                raise bomb(self.file_bytes, most)
            yield chunk

    def _piece(self, member: Member) -> Iterator[bytes]:
        return self._pieces(member.offset, member.offset + member.size)

    def _pieces(self, begin: int, end: int) -> Iterator[bytes]:
        at = begin
        while at < end:
            piece = self._read(min(CHUNK, end - at), at)
            if not piece:
                raise _incomplete(None)
            at += len(piece)
            self._passed(len(piece))
            yield piece

    def _whole(self, chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
        try:
            yield from chunks
        except Incomplete as error:
            raise _incomplete(error, name) from None

    def _read(self, count: int, at: int) -> bytes:
        try:
            return os.pread(self._fd, count, at)
        except OSError as error:
            raise MountUnavailable(f"The uploaded file can't be read: {error.strerror}.") from error


class _FileReader(Reader):
    """Reads a plain file by offsets, so that passing a layer over costs nothing."""

    def __init__(self, read: Callable[[int, int], bytes], file_bytes: int) -> None:
        super().__init__(iter(()))
        self._read = read
        self._file_bytes = file_bytes

    def some(self, most: int) -> bytes:
        found = self._read(most, self.position)
        self.position += len(found)
        return found

    def exactly(self, count: int) -> bytes:
        found = self.some(count)
        if len(found) < count:
            raise Incomplete("it ends too soon")
        return found

    def block(self, size: int) -> bytes | None:
        return None if self.position >= self._file_bytes else self.exactly(size)

    def skip(self, count: int) -> None:
        self.position += count
        if self.position > self._file_bytes:
            raise Incomplete("it ends too soon")


def bomb(file_bytes: int, most: int) -> ArchiveRefused:
    """The refusal of what grows too much."""
    return ArchiveRefused(
        f"The archive unpacks to more than {most >> 20} MiB, from {max(file_bytes >> 20, 1)} MiB: it looks like a bomb."
    )


def _incomplete(error: Incomplete | None, name: str = "") -> ArchiveRefused:
    inside = f", in the middle of {shown(name)} or right after it" if name else ""
    return ArchiveRefused(f"The archive is incomplete: it ends too soon{inside}. {_SEND_IT_AGAIN}")


def _inside(name: str, what: str) -> str:
    """A name inside the archive in its plain form; "" for the archive's own folder.

    Raises:
        ArchiveRefused: it leads out.
    """
    plain = None if name.startswith("/") or "\0" in name else _resolved("", name)
    if plain is None or ".." in name.split("/"):
        raise ArchiveRefused(f"{what} that leads out of it: {shown(name)}. It is refused.")
    return plain


def _resolved(base: str, name: str) -> str | None:
    """``name`` seen from the folder ``base``; None if it leads above the top."""
    parts = [part for part in base.split("/") if part]
    for part in name.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
