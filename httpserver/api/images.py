"""The image market."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from headway.errors import NotFound

from ..audit.current import note
from ..market import schemas as s
from ..market.download import ArchiveResponse
from ..market.names import is_id
from .common import BINARY, SignedIn, TheParts, streams

router = APIRouter(tags=["images"])

Ref = Annotated[
    str,
    Path(
        max_length=300,
        description="an id, `owner/name`, `owner/name:tag` or `owner/name@sha256:…`; a lone `name` is one's own",
    ),
]
_ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: streams("application/x-tar", "A docker archive with this one image, as `docker load` takes it", schema=BINARY)
}


@router.get("/images")
async def list_images(
    account: SignedIn,
    parts: TheParts,
    q: Annotated[str, Query(max_length=200, description="words in names, descriptions and what is inside")] = "",
    owner: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[str, Query(max_length=200, description="next_cursor of the page before")] = "",
) -> s.ImageList:
    """Images that one may use: one's own, public ones, and what others share; by owner and name."""
    return await parts.market.page(account, query=q, owner=owner, limit=limit, cursor=cursor)


@router.head("/images/{ref:path}/archive", include_in_schema=False)
@router.get("/images/{ref:path}/archive", response_class=Response, responses=_ARCHIVE)
async def get_image_archive(ref: Ref, account: SignedIn, parts: TheParts) -> Response:
    """The image as a file, tagged with its name. Without a tag in the address: `latest`."""
    if not set("/:@") & set(ref) and not is_id(ref):
        # An image that is itself called `archive`, of the account that stands where an image would; else one's own.
        with suppress(NotFound):
            detail = await parts.market.detail(account, f"{ref}/archive")
            return JSONResponse(detail.model_dump())
    archive = await parts.market.archive(account, ref)
    return ArchiveResponse(archive, parts.market)


@router.get("/images/{ref:path}")
async def get_image(ref: Ref, account: SignedIn, parts: TheParts) -> s.ImageDetail:
    """What is inside, who uses it, and where its tags pointed. With a tag or a digest: that one alone."""
    return await parts.market.detail(account, ref)


@router.patch("/images/{ref:path}")
async def update_image(ref: Ref, body: s.ImagePatch, account: SignedIn, parts: TheParts) -> s.ImageDetail:
    """Changes description and who may use it: the owner and admins."""
    note(changed=sorted(body.model_fields_set))
    return await parts.market.change(account, ref, body)


@router.post("/images/{ref:path}")
async def tag_image(
    ref: Ref,
    body: s.ImageTagCreate,
    account: SignedIn,
    parts: TheParts,
    op: Annotated[Literal["tag"], Query(description="`tag`: ImageTagCreate")],
) -> s.ImageDetail:
    """Points one more tag of the same image to this content, or moves one. Jobs keep what they were submitted with."""
    note(tag=body.tag)
    return await parts.market.tag(account, ref, body.tag)


@router.delete(
    "/images/{ref:path}",
    status_code=204,
    responses={202: {"model": s.ImageDeletion, "description": "Gone from the lists; jobs still need its content"}},
)
async def delete_image(
    ref: Ref,
    account: SignedIn,
    parts: TheParts,
    wait: Annotated[bool, Query(description="where jobs need it: gone now, removed when they have ended")] = False,
) -> Response:
    """Deletes the image, or only the tag or content that is named. Refused with 409 while queued or running jobs need
    what would go."""
    live = await parts.market.delete(account, ref, wait=wait)
    if live:
        return JSONResponse(s.ImageDeletion(live_jobs=live).model_dump(), status_code=202)
    return Response(status_code=204)
