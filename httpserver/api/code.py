"""Snapshots of code that go with jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request

from ..code import schemas as s
from .common import BINARY, SignedIn, TheParts

router = APIRouter(tags=["code"])


@router.get("/code")
async def list_code(account: SignedIn, parts: TheParts) -> s.CodeList:
    """One's own snapshots, and how large one may be."""
    return await parts.code.list(account)


@router.post("/code")
async def offer_code(body: s.CodeManifest, account: SignedIn, parts: TheParts) -> s.CodeAnswer:
    """Names all files of a folder. The answer is the snapshot's digest, and which contents have to be sent first.
    With none missing the snapshot is there, and tasks of one's jobs can name it as `code`."""
    return await parts.code.offer(account, body)


@router.put(
    "/code/blobs",
    openapi_extra={"requestBody": {"required": True, "content": {"application/x-tar": {"schema": BINARY}}}},
)
async def put_code_blobs(request: Request, account: SignedIn, parts: TheParts) -> s.CodeBlobs:
    """Contents as a plain tar archive whose members are named by their SHA-256."""
    return await parts.code.receive(account, request.stream())
