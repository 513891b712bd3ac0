"""The personal space."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from .. import schemas as s
from .common import BINARY, SignedIn, TheParts, streams

router = APIRouter(tags=["files"])

Account = Annotated[
    str, Query(max_length=64, description="whose space; default: one's own; another's for admins only")
]


@router.get(
    "/files/{path:path}",
    response_model=s.FileList,
    responses={
        200: {
            "description": "The listing of a folder as JSON, or the bytes of a file",
            "content": {"application/octet-stream": {"schema": BINARY}},
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
    account_name: Annotated[str, Query(alias="account", max_length=64)] = "",
) -> Response:
    """A folder is listed, a file is sent. Links are listed and never followed out of the space."""
    return await parts.files.get(
        account, path, byte_range=request.headers.get("range"), limit=limit, cursor=cursor, of=account_name
    )


@router.put(
    "/files/{path:path}",
    status_code=201,
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
    account_name: Annotated[str, Query(alias="account", max_length=64)] = "",
) -> Response:
    """Writes a whole file at once: until the last byte has come, the old one stays."""
    size, existed = await parts.files.put(
        account, path, request.stream(), overwrite=overwrite, parents=parents, of=account_name
    )
    done = s.FileDone(path=path, size_bytes=size)
    return JSONResponse(done.model_dump(), status_code=200 if existed else 201)


@router.delete("/files/{path:path}", status_code=204)
async def delete_file(
    path: str,
    account: SignedIn,
    parts: TheParts,
    recursive: Annotated[bool, Query(description="a folder with all that is in it")] = False,
    account_name: Annotated[str, Query(alias="account", max_length=64)] = "",
) -> Response:
    """Deletes a file, an empty folder, or a link (never what it points at)."""
    await parts.files.delete(account, path, recursive=recursive, of=account_name)
    return Response(status_code=204)


@router.post("/files/{path:path}", status_code=200)
async def change_file(
    path: str,
    account: SignedIn,
    parts: TheParts,
    op: Annotated[Literal["mkdir", "move"], Query(description="`mkdir`: no body; `move`: FileMove")],
    body: s.FileMove | None = None,
    account_name: Annotated[str, Query(alias="account", max_length=64)] = "",
) -> s.FileDone:
    """Makes a folder (with those on the way; one that is there already is fine), or renames."""
    if op == "mkdir":
        await parts.files.mkdir(account, path, of=account_name)
        return s.FileDone(path=path)
    return await parts.files.move(account, path, body, of=account_name)
