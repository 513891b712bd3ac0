"""Queries of the image market: what an account may see, by name or by search words."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, exists, false, select, true, tuple_

from ..auth.model import Account
from ..auth.tables import members
from ..schemas import SharedWith, UsedBy
from ..text.near_names import TaggedImage
from ..uses.store import good_runs, totals
from . import schemas as s
from .names import is_id, parse, shown
from .tables import contents, images, infos, moves, shares, tags

_HISTORY = 100


class MarketMatch(NamedTuple):
    """An image that the account may see, and the tag or digest that the request names; both empty: all of it."""

    image: Row[Any]
    tag: str
    digest: str

    @property
    def full_name(self) -> str:
        return shown(self.image.owner, self.image.name)


class MarketContent(NamedTuple):
    """A tag's content; ``tag`` is empty where none points to it."""

    full_name: str
    digest: str
    info: str  # JSON


def may_change(account: Account, owner: str) -> bool:
    """Whether the account may change images of that owner."""
    return account.admin or owner == account.name


def visible(account: Account) -> ColumnElement[bool]:
    """Own, public and shared ones; all for admins."""
    if account.admin:
        return true()
    groups = select(members.c.group).where(members.c.account == account.name)
    to_me = (shares.c.kind == "user") & (shares.c.name == account.name)
    to_my_groups = (shares.c.kind == "group") & shares.c.name.in_(groups)
    shared = exists().where((shares.c.image_id == images.c.id) & (to_me | to_my_groups))
    return (images.c.owner == account.name) | images.c.public | shared


def find(conn: Connection, account: Account, ref: str) -> MarketMatch | None:
    """What the account means by ``ref`` (an id, or a name as in ``names.parse``); None: nothing that it may see."""
    if is_id(ref):
        image = conn.execute(select(images).where((images.c.id == ref) & visible(account))).first()
        if image is not None:
            return MarketMatch(image, "", "")
    name = parse(ref, account.name)
    if name is None:
        return None
    where = (images.c.owner == name.owner) & (images.c.name == name.name) & visible(account)
    image = conn.execute(select(images).where(where)).first()
    if image is None:
        return None
    if name.digest:
        of = contents
        there = (of.c.image_id == image.id) & (of.c.digest == name.digest)
        return MarketMatch(image, "", name.digest) if conn.execute(select(of.c.digest).where(there)).first() else None
    if name.tag:
        there = (tags.c.image_id == image.id) & (tags.c.tag == name.tag)
        return MarketMatch(image, name.tag, "") if conn.execute(select(tags.c.tag).where(there)).first() else None
    return MarketMatch(image, "", "")


def tagged(conn: Connection, account: Account, ref: str) -> TaggedImage | None:
    """The image that a name is of, whatever tag or content the name says; None: none that the account may see."""
    name = parse(ref, account.name)
    found = find(conn, account, name.image) if name is not None else None
    if found is None:
        return None
    of_image = select(tags.c.tag).where(tags.c.image_id == found.image.id)
    return TaggedImage(found.full_name, list(conn.execute(of_image.order_by(tags.c.pushed_at.desc())).scalars()))


def names(conn: Connection, account: Account, at_most: int) -> list[str]:
    """With their tags, of what the account may use, the latest push first."""
    query = (
        select(images.c.owner, images.c.name, tags.c.tag)
        .join(tags, tags.c.image_id == images.c.id)
        .where(visible(account))
        .order_by(tags.c.pushed_at.desc())
        .limit(at_most)
    )
    return [shown(row.owner, row.name, row.tag) for row in conn.execute(query)]


def content(conn: Connection, found: MarketMatch, default_tag: str) -> MarketContent | None:
    """The one content that was meant; without tag and digest that of ``default_tag``."""
    digest = found.digest
    tag = "" if digest else found.tag or default_tag
    if not digest:
        where = (tags.c.image_id == found.image.id) & (tags.c.tag == tag)
        digest = conn.execute(select(tags.c.digest).where(where)).scalar() or ""
    info = conn.execute(select(infos.c.info).where(infos.c.digest == digest)).scalar()
    if info is None:
        return None
    return MarketContent(shown(found.image.owner, found.image.name, tag, digest), digest, info)


def page(conn: Connection, account: Account, *, query: str, owner: str, limit: int, cursor: str) -> s.ImageList:
    """One page by owner and name; each word of ``query`` must be in the name, the description, or what the contents
    hold."""
    where = visible(account)
    if owner:
        where &= images.c.owner == owner
    for word in query.casefold().split():
        inside = (
            select(tags.c.image_id)
            .join(infos, infos.c.digest == tags.c.digest)
            .where(infos.c.search.contains(word, autoescape=True))
        )
        where &= images.c.search.contains(word, autoescape=True) | images.c.id.in_(inside)
    if cursor:
        after = parse(cursor, account.name)
        where &= false() if after is None else tuple_(images.c.owner, images.c.name) > tuple_(after.owner, after.name)
    found = conn.execute(select(images).where(where).order_by(images.c.owner, images.c.name).limit(limit + 1)).all()
    rows = found[:limit]
    return s.ImageList(
        images=_shown(conn, account, rows),
        next_cursor=shown(rows[-1].owner, rows[-1].name) if len(found) > limit else None,
    )


def detail(conn: Connection, account: Account, found: MarketMatch, live: dict[str, list[str]]) -> s.ImageDetail:
    """Everything of an image. ``live`` is filled by the caller: digest to jobs."""
    image = found.image
    rows = _tag_rows(conn, [image.id])[image.id]
    if found.tag:
        rows = [row for row in rows if row.tag == found.tag]
    if found.digest:
        rows = [row for row in rows if row.digest == found.digest] or _untagged(conn, image.id, found.digest)
    digests = {row.digest for row in rows}
    known = conn.execute(select(infos.c.digest, infos.c.info).where(infos.c.digest.in_(digests)))
    texts = {row.digest: row.info for row in known}
    used = _used(conn, digests)
    base = _base(account, image, _shares(conn, [image.id])[image.id], _runs(conn, digests))
    return s.ImageDetail(
        **base,
        tags=[
            _tag_detail(row, json.loads(texts[row.digest]), used[row.digest], live.get(row.digest, [])) for row in rows
        ],
        history=_history(conn, image.id, found),
    )


def digests_of(conn: Connection, found: MarketMatch) -> list[str]:
    """The contents that were meant, also those that no tag points to any more."""
    if found.digest:
        return [found.digest]
    if found.tag:
        where = (tags.c.image_id == found.image.id) & (tags.c.tag == found.tag)
        return list(conn.execute(select(tags.c.digest).where(where)).scalars())
    return sorted(conn.execute(select(contents.c.digest).where(contents.c.image_id == found.image.id)).scalars())


def had_elsewhere(conn: Connection, digests: Collection[str], image_id: str, gone_tags: Collection[str]) -> set[str]:
    """Those of ``digests`` that a tag keeps: of another image, or of this one and not among ``gone_tags``."""
    gone = (tags.c.image_id == image_id) & tags.c.tag.in_(gone_tags)
    return set(conn.execute(select(tags.c.digest).where(tags.c.digest.in_(digests) & ~gone)).scalars())


def tags_meant(conn: Connection, found: MarketMatch) -> list[str]:
    """Names of the tags that were meant."""
    if found.tag:
        return [found.tag]
    where = tags.c.image_id == found.image.id
    if found.digest:
        where &= tags.c.digest == found.digest
    return list(conn.execute(select(tags.c.tag).where(where)).scalars())


# -- inside -------------------------------------------------------------------------------------


def _shown(conn: Connection, account: Account, rows: Sequence[Row[Any]]) -> list[s.Image]:
    ids = [row.id for row in rows]
    of_tags, of_shares = _tag_rows(conn, ids), _shares(conn, ids)
    runs = _runs(conn, {row.digest for some in of_tags.values() for row in some})
    out = []
    for row in rows:
        mine = {tag.digest: runs[tag.digest] for tag in of_tags[row.id] if tag.digest in runs}
        base = _base(account, row, of_shares[row.id], mine)
        out.append(s.Image(**base, tags=[s.ImageTag(**_tag(tag)) for tag in of_tags[row.id]]))
    return out


def _base(
    account: Account, image: Row[Any], shared: list[tuple[str, str]], runs: dict[str, s.GoodRun]
) -> dict[str, Any]:
    changes = may_change(account, image.owner)
    if not changes:
        shared = [(kind, name) for kind, name in shared if (kind, name) == ("user", account.name)]
    return {
        "id": image.id,
        "owner": image.owner,
        "name": image.name,
        "full_name": shown(image.owner, image.name),
        "public": image.public,
        "shared_with": SharedWith(
            users=[name for kind, name in shared if kind == "user"],
            groups=[name for kind, name in shared if kind == "group"],
        ),
        "description": image.description,
        "created_at": image.created_at,
        "updated_at": image.updated_at,
        "may_change": changes,
        "last_good_run": max(runs.values(), key=lambda run: run.at, default=None),
    }


def _tag_rows(conn: Connection, ids: Iterable[str]) -> defaultdict[str, list[Row[Any]]]:
    facts = (infos.c.size_bytes, infos.c.architecture, infos.c.has_shell, infos.c.cuda_version, infos.c.frameworks)
    query = (
        select(tags, *facts)
        .join(infos, infos.c.digest == tags.c.digest)
        .where(tags.c.image_id.in_(list(ids)))
        .order_by(tags.c.pushed_at.desc(), tags.c.tag)
    )
    out: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    for row in conn.execute(query):
        out[row.image_id].append(row)
    return out


def _untagged(conn: Connection, image_id: str, digest: str) -> list[Row[Any]]:
    facts = (infos.c.size_bytes, infos.c.architecture, infos.c.has_shell, infos.c.cuda_version, infos.c.frameworks)
    query = (
        select(contents.c.digest, contents.c.pushed_at, contents.c.pushed_by, *facts)
        .join(infos, infos.c.digest == contents.c.digest)
        .where((contents.c.image_id == image_id) & (contents.c.digest == digest))
    )
    return list(conn.execute(query))


def _tag(row: Row[Any]) -> dict[str, Any]:
    return {
        "tag": getattr(row, "tag", ""),
        "digest": row.digest,
        "pushed_at": row.pushed_at,
        "pushed_by": row.pushed_by,
        "size_bytes": row.size_bytes,
        "architecture": row.architecture,
        "has_shell": row.has_shell,
        "cuda_version": row.cuda_version,
        "frameworks": json.loads(row.frameworks),
    }


def _tag_detail(row: Row[Any], info: dict[str, Any], used: list[UsedBy], live: list[str]) -> s.ImageTagDetail:
    return s.ImageTagDetail(
        **_tag(row),
        os=info["os"],
        entrypoint=info["entrypoint"],
        command=info["cmd"],
        user=info["user"],
        working_dir=info["working_dir"],
        env=info["env"],
        labels=info["labels"],
        python_version=info["python_version"],
        has_bash=info["has_bash"],
        require_cuda=info["require_cuda"],
        layers=[s.ImageLayer(**layer) for layer in info["layers"]],
        created_at=info["created_at"],
        used_by=used,
        live_jobs=live,
    )


def _shares(conn: Connection, ids: Iterable[str]) -> defaultdict[str, list[tuple[str, str]]]:
    query = select(shares).where(shares.c.image_id.in_(list(ids))).order_by(shares.c.kind, shares.c.name)
    out: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in conn.execute(query):
        out[row.image_id].append((row.kind, row.name))
    return out


def _runs(conn: Connection, digests: Collection[str]) -> dict[str, s.GoodRun]:
    query = select(good_runs).where((good_runs.c.kind == "image") & good_runs.c.key.in_(list(digests)))
    return {row.key: s.GoodRun(job_id=row.job_id, at=row.at) for row in conn.execute(query)}


def _used(conn: Connection, digests: Collection[str]) -> defaultdict[str, list[UsedBy]]:
    query = select(totals).where((totals.c.kind == "image") & totals.c.key.in_(list(digests)))
    out: defaultdict[str, list[UsedBy]] = defaultdict(list)
    for row in conn.execute(query.order_by(totals.c.last_used_at.desc())):
        out[row.key].append(UsedBy(account=row.account, jobs=row.jobs, last_used_at=row.last_used_at))
    return out


def _history(conn: Connection, image_id: str, found: MarketMatch) -> list[s.TagMove]:
    where = moves.c.image_id == image_id
    if found.tag:
        where &= moves.c.tag == found.tag
    query = select(moves).where(where).order_by(moves.c.number.desc()).limit(_HISTORY)
    return [
        s.TagMove(
            tag=row.tag, at=row.at, by=row.by, from_digest=row.from_digest or None, to_digest=row.to_digest or None
        )
        for row in conn.execute(query)
    ]
