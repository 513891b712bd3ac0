"""Changes of the market's rows. Each function runs inside one transaction."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from headway.errors import NotFound, StoreFull
from headway.units import format_size

from .names import BASE, MarketImageName, new_id
from .tables import contents, images, infos, moves, shares, tags

if TYPE_CHECKING:
    from headway.archive import ImageInfo

UNTAGGED_KEPT_S = 86_400.0  # so long a content that its tag left stays; a job that needs it keeps it anyway
_MOVES_KEPT = 200  # of one image


class QuotaFull(StoreFull):
    """The account's images take all that it may have."""

    slug = "quota-full"
    title = "The quota is used up; nothing was stored"


class ImagePush(NamedTuple):
    """What one push asks for."""

    name: MarketImageName  # with a tag
    by: str
    upload: str
    description: str | None  # None: as it is
    public: bool | None
    quota_bytes: int  # 0: none


class PublishedImage(NamedTuple):
    """What a push has done."""

    image_id: str
    created: bool
    left: str  # the content that the tag pointed to before; empty: none, or the same


def publish(conn: Connection, push: ImagePush, info: ImageInfo, now: float) -> PublishedImage:
    """The tag points to the content from now on. Done again for the same upload it changes nothing.

    Raises:
        QuotaFull: the account would have more than its quota.
    """
    name, digest = push.name, info.digest
    image = conn.execute(select(images).where(_named(name))).first()
    if image is not None:
        done = (moves.c.image_id == image.id) & (moves.c.upload == push.upload)
        if conn.execute(select(moves.c.number).where(done)).first() is not None:
            return PublishedImage(image.id, False, "")
    image_id = str(image.id) if image is not None else new_id(os.urandom(12))
    refuse_beyond_quota(conn, push, info.size_bytes, digest)
    if image is None:
        public = push.public if push.public is not None else name.owner == BASE
        row = {"id": image_id, "owner": name.owner, "name": name.name, "public": public, "created_at": now}
        conn.execute(insert(images).values(**row, **_described(name.image, push.description or ""), updated_at=now))
    else:
        changes: dict[str, Any] = {"updated_at": now}
        if push.description is not None:
            changes |= _described(name.image, push.description)
        if push.public is not None:
            changes["public"] = push.public
        conn.execute(update(images).where(images.c.id == image_id).values(**changes))
    if conn.execute(select(infos.c.digest).where(infos.c.digest == digest)).first() is None:
        conn.execute(insert(infos).values(**_facts(info), published_at=now))
    _upsert_content(conn, image_id, digest, push.by, now)
    left = move_tag(conn, image_id, name.tag, digest, by=push.by, upload=push.upload, now=now)
    return PublishedImage(image_id, image is None, left)


def move_tag(conn: Connection, image_id: str, tag: str, digest: str, *, by: str, now: float, upload: str = "") -> str:
    """Points the tag to a content that the image has. Answers the content it left, empty if none."""
    where = (tags.c.image_id == image_id) & (tags.c.tag == tag)
    before = conn.execute(select(tags.c.digest).where(where)).scalar() or ""
    values = {"digest": digest, "pushed_at": now, "pushed_by": by}
    if before:
        conn.execute(update(tags).where(where).values(**values))
    else:
        conn.execute(insert(tags).values(image_id=image_id, tag=tag, **values))
    _tagged(conn, image_id, digest, now)
    _note(conn, image_id, tag, by=by, at=now, before=before, after=digest, upload=upload)
    if not before or before == digest:
        return ""
    _tagged(conn, image_id, before, now)
    return before


def delete_tags(conn: Connection, image_id: str, names: Collection[str], *, by: str, now: float) -> None:
    """These tags are gone, and with them what no other tag of the image points to; without a tag the image too."""
    for row in conn.execute(select(tags).where((tags.c.image_id == image_id) & tags.c.tag.in_(names))).all():
        conn.execute(delete(tags).where((tags.c.image_id == image_id) & (tags.c.tag == row.tag)))
        _note(conn, image_id, row.tag, by=by, at=now, before=row.digest, after="", upload="")
        if not _tags_of(conn, image_id, row.digest):
            conn.execute(delete(contents).where(_content(image_id, row.digest)))
    if not conn.execute(select(func.count()).select_from(tags).where(tags.c.image_id == image_id)).scalar():
        delete_image(conn, image_id)
    else:
        conn.execute(update(images).where(images.c.id == image_id).values(updated_at=now))


def delete_content(conn: Connection, image_id: str, digest: str, *, by: str, now: float) -> None:
    """The image has this content no more, nor the tags that point to it."""
    names = [row.tag for row in _tags_of(conn, image_id, digest)]
    conn.execute(delete(contents).where(_content(image_id, digest)))
    delete_tags(conn, image_id, names, by=by, now=now)


def delete_image(conn: Connection, image_id: str) -> None:
    """The image with all that hangs on it. What lies on the mount is the collector's."""
    for table in (tags, contents, moves, shares):
        conn.execute(delete(table).where(table.c.image_id == image_id))
    conn.execute(delete(images).where(images.c.id == image_id))


def change(conn: Connection, image_id: str, changes: dict[str, Any], now: float) -> None:
    """Sets description, public and shares (pairs of kind and name), as far as given.

    Raises:
        NotFound: it was deleted meanwhile.
    """
    image = conn.execute(select(images).where(images.c.id == image_id)).first()
    if image is None:
        raise NotFound("This image was deleted just now.")
    values: dict[str, Any] = {"updated_at": now}
    if "description" in changes:
        values |= _described(f"{image.owner}/{image.name}", changes["description"])
    if "public" in changes:
        values["public"] = changes["public"]
    conn.execute(update(images).where(images.c.id == image_id).values(**values))
    if "shares" in changes:
        conn.execute(delete(shares).where(shares.c.image_id == image_id))
        for kind, name in sorted(changes["shares"]):
            conn.execute(insert(shares).values(image_id=image_id, kind=kind, name=name))


def drop_account(conn: Connection, account: str) -> None:
    """The account is removed: nothing is shared with it any more."""
    conn.execute(delete(shares).where((shares.c.kind == "user") & (shares.c.name == account)))


def drop_group(conn: Connection, group: str) -> None:
    """The group is deleted: nothing is shared with it any more, also not with a later one of that name."""
    conn.execute(delete(shares).where((shares.c.kind == "group") & (shares.c.name == group)))


# -- quota --------------------------------------------------------------------------------------


def refuse_beyond_quota(conn: Connection, push: ImagePush, size_bytes: int, digest: str = "") -> None:
    """
    Raises:
        QuotaFull: with ``size_bytes`` more, the account would have pushed more than its quota. Contents that no tag
            points to don't count, nor does what this push takes its tag from.
    """
    if not push.quota_bytes:
        return
    counted = _tagged_by(conn, push.by)
    if digest in counted:
        return
    used = sum(size for other, size in counted.items() if not _only_for(conn, other, push.name))
    if used + size_bytes > push.quota_bytes:
        raise QuotaFull(
            f"Your images take {format_size(used)} and this one {format_size(size_bytes)} more; you may have "
            f"{format_size(push.quota_bytes)}. Delete what you don't need, or ask an admin for more."
        )


def beyond_quota(conn: Connection, account: str, quota_bytes: int) -> list[str]:
    """Contents without a tag that have to go at once for the account to keep to its quota, the oldest first."""
    if not quota_bytes:
        return []
    used = sum(_tagged_by(conn, account).values())
    query = (
        select(contents.c.digest, infos.c.size_bytes)
        .join(infos, infos.c.digest == contents.c.digest)
        .where((contents.c.pushed_by == account) & contents.c.untagged_at.is_not(None))
        .order_by(contents.c.untagged_at)
    )
    rows = conn.execute(query).all()
    used += sum(row.size_bytes for row in rows)
    over = []
    for row in rows:
        if used > quota_bytes:
            over.append(row.digest)
            used -= row.size_bytes
    if over:
        mine = (contents.c.pushed_by == account) & contents.c.untagged_at.is_not(None)
        conn.execute(update(contents).where(mine & contents.c.digest.in_(over)).values(untagged_at=0.0))
    return over


def _tagged_by(conn: Connection, account: str) -> dict[str, int]:
    query = (
        select(contents.c.digest, infos.c.size_bytes)
        .join(infos, infos.c.digest == contents.c.digest)
        .where((contents.c.pushed_by == account) & contents.c.untagged_at.is_(None))
    )
    return {row.digest: row.size_bytes for row in conn.execute(query)}


def _only_for(conn: Connection, digest: str, name: MarketImageName) -> bool:
    query = (
        select(images.c.owner, images.c.name, tags.c.tag)
        .join(images, images.c.id == tags.c.image_id)
        .where(tags.c.digest == digest)
    )
    return [tuple(row) for row in conn.execute(query)] == [(name.owner, name.name, name.tag)]


# -- what lies on the mount ---------------------------------------------------------------------


def needed(conn: Connection, digest: str, now: float) -> bool:
    """Whether an image has this content, under a tag or since a short while without one."""
    kept = contents.c.untagged_at.is_(None) | (contents.c.untagged_at > now - UNTAGGED_KEPT_S)
    return conn.execute(select(contents.c.digest).where((contents.c.digest == digest) & kept)).first() is not None


def exists(conn: Connection, digest: str) -> bool:
    """Whether an image has this content; then a job may be submitted with it."""
    return conn.execute(select(contents.c.digest).where(contents.c.digest == digest)).first() is not None


def forget_content(conn: Connection, digest: str) -> None:
    """Forgets this content. It is removed from the mount next."""
    conn.execute(delete(contents).where((contents.c.digest == digest) & contents.c.untagged_at.is_not(None)))
    conn.execute(delete(infos).where(infos.c.digest == digest))


def known_digests(conn: Connection) -> set[str]:
    """Of all contents that something is known of."""
    return set(conn.execute(select(infos.c.digest)).scalars())


def due(conn: Connection, now: float) -> list[str]:
    """Contents that no image needs any more."""
    kept = contents.c.untagged_at.is_(None) | (contents.c.untagged_at > now - UNTAGGED_KEPT_S)
    needed_ones = select(contents.c.digest).where(kept)
    return list(conn.execute(select(infos.c.digest).where(infos.c.digest.not_in(needed_ones))).scalars())


# -- inside -------------------------------------------------------------------------------------


def _named(name: MarketImageName) -> ColumnElement[bool]:
    return (images.c.owner == name.owner) & (images.c.name == name.name)


def _content(image_id: str, digest: str) -> ColumnElement[bool]:
    return (contents.c.image_id == image_id) & (contents.c.digest == digest)


def _tags_of(conn: Connection, image_id: str, digest: str) -> list[Row[Any]]:
    return list(conn.execute(select(tags.c.tag).where((tags.c.image_id == image_id) & (tags.c.digest == digest))))


def _tagged(conn: Connection, image_id: str, digest: str, now: float) -> None:
    untagged_at = None if _tags_of(conn, image_id, digest) else now
    conn.execute(update(contents).where(_content(image_id, digest)).values(untagged_at=untagged_at))


def _upsert_content(conn: Connection, image_id: str, digest: str, by: str, now: float) -> None:
    where = _content(image_id, digest)
    values = {"pushed_at": now, "pushed_by": by, "untagged_at": None}
    if conn.execute(select(contents.c.digest).where(where)).first() is not None:
        conn.execute(update(contents).where(where).values(**values))
    else:
        conn.execute(insert(contents).values(image_id=image_id, digest=digest, **values))


def _note(
    conn: Connection, image_id: str, tag: str, *, by: str, at: float, before: str, after: str, upload: str
) -> None:
    values = {"tag": tag, "at": at, "by": by, "from_digest": before, "to_digest": after, "upload": upload}
    conn.execute(insert(moves).values(image_id=image_id, **values))
    of_image = select(moves.c.number).where(moves.c.image_id == image_id).order_by(moves.c.number.desc())
    oldest = conn.execute(of_image.offset(_MOVES_KEPT).limit(1)).scalar()
    if oldest is not None:
        conn.execute(delete(moves).where((moves.c.image_id == image_id) & (moves.c.number <= oldest)))


def _described(full_name: str, description: str) -> dict[str, str]:
    return {"description": description, "search": f"{full_name}\n{description}".casefold()}


def _facts(info: ImageInfo) -> dict[str, Any]:
    found = {**info.frameworks, "python": info.python_version, "cuda": info.cuda_version}
    words = " ".join(f"{name} {version}" for name, version in sorted(found.items()) if version)
    return {
        "digest": info.digest,
        "size_bytes": info.size_bytes,
        "architecture": info.architecture[:64],
        "has_shell": info.has_shell,
        "cuda_version": info.cuda_version[:64],
        "frameworks": json.dumps(dict(info.frameworks)),
        "search": words.casefold(),
        "info": json.dumps(info.to_json()),
    }
