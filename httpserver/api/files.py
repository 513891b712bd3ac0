"""The personal space."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from .. import schemas as s
from ..audit.current import note
from ..filesystem.paths import from_address, shown
from .common import BINARY, SignedIn, TheParts, streams

router = APIRouter(tags=["files"])

Of = Annotated[
    str,
    Query(alias="account", max_length=64, description="whose space; default: one's own; another's for admins only"),
]


def _path(request: Request) -> tuple[str, ...]:
    # The decoded path has lost bytes that are no UTF-8, and file names may hold any.
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return from_address(raw, "/api/v1/files/")


def _length(request: Request) -> int | None:
    header = request.headers.get("content-length", "")
    return int(header) if header.isdecimal() else None


def _shown(request: Request) -> str:
    return shown("/".join(_path(request)))


@router.get(
    "/files/{path:path}",
    response_model=s.FileList,
    responses={
        200: {
            "description": "The listing of a folder as JSON, or the bytes of a file",
            "content": {"application/octet-stream": {"schema": BINARY}, "application/zip": {"schema": BINARY}},
        },
        206: streams("application/octet-stream", "A part of a file", schema=BINARY),
    },
)
async def get_file(
    request: Request,
    path: str,
    account: SignedIn,
    parts: TheParts,
    limit: Annotated[int, Query(ge=1, le=10_000, description="entries of a folder")] = 1000,
    cursor: Annotated[str, Query(max_length=1024, description="next_cursor of the page before")] = "",
    format: Annotated[
        Literal["zip"] | None, Query(description="a folder with all that is in it as one archive, links left out")
    ] = None,
    of: Of = "",
) -> Response:
    """A folder is listed, a file is sent. Links are listed and never followed out of the space."""
    if format == "zip":
        return await parts.files.zip(account, _path(request), of=of)
    return await parts.files.get(
        account, _path(request), byte_range=request.headers.get("range"), limit=limit, cursor=cursor, of=of
    )


@router.put(
    "/files/{path:path}",
    status_code=201,
    response_model=s.FileDone,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": BINARY}}}},
    responses={200: {"model": s.FileDone, "description": "Replaced what was there"}},
)
async def put_file(
    request: Request,
    path: str,
    account: SignedIn,
    parts: TheParts,
    overwrite: Annotated[bool, Query(description="false: refused with 409 where something is already")] = True,
    parents: Annotated[bool, Query(description="make missing folders on the way")] = False,
    of: Of = "",
) -> Response:
    """Writes a whole file at once: until the last byte has come, the old one stays."""
    _note_of(of)
    size, existed = await parts.files.put(
        account,
        _path(request),
        request.stream(),
        length=_length(request),
        overwrite=overwrite,
        parents=parents,
        of=of,
    )
    done = s.FileDone(path=_shown(request), size_bytes=size)
    return JSONResponse(done.model_dump(), status_code=200 if existed else 201)


@router.delete(
    "/files/{path:path}",
    status_code=204,
    responses={
        204: {
            "description": "Deleted",
            "headers": {
                "Headway-Trash-Id": {
                    "description": "for POST /trash/{id}/restore; missing where it was deleted for good",
                    "schema": {"type": "string"},
                }
            },
        }
    },
)
async def delete_file(
    request: Request,
    path: str,
    account: SignedIn,
    parts: TheParts,
    recursive: Annotated[bool, Query(description="a folder with all that is in it")] = False,
    permanent: Annotated[bool, Query(description="for good and at once, not into the trash")] = False,
    of: Of = "",
) -> Response:
    """Deletes a file, an empty folder, or a link (never what it points at). For some days it can be restored."""
    _note_of(of)
    note(permanent=permanent)
    trash_id = await parts.files.delete(account, _path(request), recursive=recursive, permanent=permanent, of=of)
    return Response(status_code=204, headers={"Headway-Trash-Id": trash_id} if trash_id else None)


@router.post("/files/{path:path}", status_code=200)
async def change_file(
    request: Request,
    path: str,
    account: SignedIn,
    parts: TheParts,
    op: Annotated[Literal["mkdir", "move"], Query(description="`mkdir`: no body; `move`: FileMove")],
    body: s.FileMove | None = None,
    of: Of = "",
) -> s.FileDone:
    """Makes a folder (with those on the way; one that is there already is fine), or renames."""
    _note_of(of)
    note(op=op, **({"to": body.to} if body is not None else {}))
    if op == "mkdir":
        await parts.files.mkdir(account, _path(request), of=of)
        return s.FileDone(path=_shown(request))
    return await parts.files.move(account, _path(request), body, of=of)


def _note_of(of: str) -> None:
    if of:
        note(of=of)
