"""Resumable uploads: tus 1.0.0, and what pages and programs ask besides."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from ..uploads import schemas as s
from ..uploads import tus
from ..uploads.errors import BadContentType
from ..uploads.live_upload import LiveUpload
from ..uploads.service import Uploads
from ..uploads.store_piece import UploadPiece
from .common import BINARY, SignedIn, TheParts

router = APIRouter(tags=["uploads"])

Resumable = Annotated[
    str | None, Header(alias="Tus-Resumable", description=f"`{tus.VERSION}`; anything else is refused with 412")
]

_BODY = {"content": {tus.CONTENT_TYPE: {"schema": BINARY}}}
_TUS = {
    "Tus-Resumable": {"description": "the version that is spoken", "schema": {"type": "string"}},
}
_OFFSET = {"Upload-Offset": {"description": "where the stored bytes end", "schema": {"type": "integer"}}}
_EXPIRES = {"Upload-Expires": {"description": "then it is removed, if unfinished", "schema": {"type": "string"}}}


def _says(description: str, **headers: Any) -> dict[str, Any]:
    return {"description": description, "headers": {**_TUS, **headers}}


@router.options(
    "/uploads/{kind}", status_code=204, responses={204: _says("Tus-Version, Tus-Extension and their kin as headers")}
)
async def get_upload_features(kind: str, _: SignedIn, parts: TheParts) -> Response:
    """What of tus is spoken here. Kinds are `images` and `files`."""
    parts.uploads.kind(kind)
    headers = {
        "Tus-Version": tus.VERSION,
        "Tus-Extension": tus.EXTENSIONS,
        "Tus-Checksum-Algorithm": ",".join(tus.ALGORITHMS),
    }
    if parts.uploads.max_bytes:
        headers["Tus-Max-Size"] = str(parts.uploads.max_bytes)
    return Response(status_code=204, headers=headers)


@router.get("/uploads/{kind}")
async def list_uploads(kind: str, account: SignedIn, parts: TheParts) -> s.UploadList:
    """One's own uploads of a kind: those that are not finished, and those of the last hour; newest first."""
    return await parts.uploads.list(account, kind)


@router.post(
    "/uploads/{kind}",
    status_code=201,
    response_class=Response,
    openapi_extra={
        "requestBody": _BODY,
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": False,
                "description": text,
                "schema": {"type": "integer" if name == "Upload-Length" else "string"},
            }
            for name, text in (
                ("Upload-Length", "bytes of the whole"),
                ("Upload-Defer-Length", "`1`: the length is told later"),
                ("Upload-Metadata", "pairs of a key and a value in base64; which keys there are depends on the kind"),
                ("Upload-Checksum", "of the body, where there is one"),
            )
        ],
    },
    responses={
        201: _says(
            "Made; its address is in Location",
            Location={"description": "the upload's address", "schema": {"type": "string"}},
            **_OFFSET,
            **_EXPIRES,
        )
    },
)
async def create_upload(
    request: Request, kind: str, account: SignedIn, parts: TheParts, resumable: Resumable = None
) -> Response:
    """Begins an upload. Names, rights, quota and free space are checked here, before a byte is sent.

    Upload-Metadata of `files`: `path`, `overwrite` (`false`: refused where something is), `modified_at`, `account` (for
    admins); of `images`: `name`, `description`, `public`, `choose`, `filename`. Both take `sha256`, of the whole in
    hexadecimal digits: it is checked at the end."""
    headers = request.headers
    tus.check_version(resumable)
    length = tus.creation_length(headers)
    checksum = tus.checksum(headers.get("upload-checksum"))
    has_piece = tus.is_piece(headers.get("content-type"))
    if not has_piece and (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
        raise BadContentType(f"The first bytes of an upload are sent as {tus.CONTENT_TYPE}.")
    raw_metadata = ",".join(headers.getlist("upload-metadata"))
    uploads = parts.uploads
    upload = await uploads.create(account, kind, length, raw_metadata)
    offset = 0
    if has_piece:
        try:
            piece = UploadPiece(0, checksum, _body_bytes(request))
            offset = await uploads.append(upload, piece, None, request.stream().__aiter__())
        except BaseException:
            # No client knows its address yet, so nobody could go on with it.
            await asyncio.shield(uploads.delete(upload))
            raise
    said_to = {"Location": f"/api/v1/uploads/{kind}/{upload.record.id}"}
    return Response(status_code=201, headers={**said_to, **_progress(uploads, upload, offset)})


@router.head(
    "/uploads/{kind}/{upload_id}",
    response_class=Response,
    responses={
        200: _says(
            "How far it is, as headers",
            **_OFFSET,
            **{"Upload-Length": {"description": "bytes of the whole, once known", "schema": {"type": "integer"}}},
            **_EXPIRES,
        )
    },
)
async def get_upload_offset(
    kind: str, upload_id: str, account: SignedIn, parts: TheParts, resumable: Resumable = None
) -> Response:
    """Where to go on."""
    tus.check_version(resumable)
    upload = parts.uploads.find(account, kind, upload_id)
    headers = _progress(parts.uploads, upload, await parts.uploads.offset(upload))
    record = upload.record
    headers.update({"Upload-Defer-Length": "1"} if record.length is None else {"Upload-Length": str(record.length)})
    if record.raw_metadata:
        headers["Upload-Metadata"] = record.raw_metadata
    return Response(status_code=200, headers={**headers, "Cache-Control": "no-store"})


@router.get("/uploads/{kind}/{upload_id}")
async def get_upload(kind: str, upload_id: str, account: SignedIn, parts: TheParts) -> s.Upload:
    """One upload: how far it is, and what became of it. Kept for an hour after its end."""
    return await parts.uploads.view(parts.uploads.find(account, kind, upload_id))


@router.patch(
    "/uploads/{kind}/{upload_id}",
    status_code=204,
    response_class=Response,
    openapi_extra={
        "requestBody": {"required": True, **_BODY},
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": name == "Upload-Offset",
                "description": text,
                "schema": {"type": "string" if name == "Upload-Checksum" else "integer"},
            }
            for name, text in (
                ("Upload-Offset", "where this piece begins: where the stored bytes end"),
                ("Upload-Length", "bytes of the whole, where that was not told before"),
                ("Upload-Checksum", "algorithm and digest in base64 of this piece"),
            )
        ],
    },
    responses={204: _says("Stored", **_OFFSET, **_EXPIRES)},
)
async def append_to_upload(
    request: Request, kind: str, upload_id: str, account: SignedIn, parts: TheParts, resumable: Resumable = None
) -> Response:
    """Sends a piece. What has come is kept when the line breaks. 409: it does not begin where the stored bytes end.
    423: another connection sends to this upload. 460: it is not what its checksum says. 507: the disk is full; once
    there is room, the upload can go on from what is stored."""
    headers = request.headers
    tus.check_version(resumable)
    uploads = parts.uploads
    upload = uploads.find(account, kind, upload_id)
    tus.check_content_type(headers.get("content-type"))
    piece = UploadPiece(
        tus.number(headers, "Upload-Offset"), tus.checksum(headers.get("upload-checksum")), _body_bytes(request)
    )
    offset = await uploads.append(upload, piece, tus.later_length(headers), request.stream().__aiter__())
    return Response(status_code=204, headers=_progress(uploads, upload, offset))


@router.delete("/uploads/{kind}/{upload_id}", status_code=204, responses={204: _says("Gone")})
async def delete_upload(
    kind: str, upload_id: str, account: SignedIn, parts: TheParts, resumable: Resumable = None
) -> Response:
    """Ends an upload and forgets it. What it has become, once done, stays."""
    tus.check_version(resumable)
    await parts.uploads.delete(parts.uploads.find(account, kind, upload_id))
    return Response(status_code=204)


@router.post("/uploads/{kind}/{upload_id}")
async def change_upload(
    kind: str,
    upload_id: str,
    body: s.UploadChoice,
    account: SignedIn,
    parts: TheParts,
    op: Annotated[Literal["choose"], Query(description="`choose`: the one of the choices that is meant")],
) -> s.Upload:
    """Picks one of the choices of an upload that is in the state `choose`; its checks then go on."""
    upload = parts.uploads.find(account, kind, upload_id)
    await parts.uploads.choose(upload, body.choice)
    return await parts.uploads.view(upload)


def _body_bytes(request: Request) -> int | None:
    length = request.headers.get("content-length", "")
    return int(length) if length.isdigit() else None


def _progress(uploads: Uploads, upload: LiveUpload, offset: int) -> dict[str, str]:
    headers = {"Upload-Offset": str(offset)}
    expires_at = uploads.expires_at(upload)
    if expires_at is not None:
        headers["Upload-Expires"] = tus.http_date(expires_at)
    return headers
