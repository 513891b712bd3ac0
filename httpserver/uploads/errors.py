"""Errors of uploads."""

from __future__ import annotations

from headway.errors import Conflict, HeadwayError, InvalidInput


class WrongVersion(InvalidInput):
    """Another version of tus, or none."""

    http_status = 412
    slug = "tus-version"
    title = "This version of the upload protocol is not supported"


class BadContentType(InvalidInput):
    """The body is not a piece of an upload."""

    http_status = 415
    slug = "upload-content-type"
    title = "This kind of content is not read here"


class WrongOffset(Conflict):
    """The piece does not begin where the last one ended."""

    slug = "upload-offset"
    title = "The piece does not begin where the stored bytes end"


class Locked(Conflict):
    """Another connection sends to this upload now."""

    code = "ABORTED"
    http_status = 423
    slug = "upload-locked"
    title = "Another connection sends this upload"


class PieceBroken(InvalidInput):
    """A piece is not what its checksum says."""

    http_status = 460
    slug = "upload-checksum"
    title = "The piece arrived damaged; it was thrown away"


class FileBroken(InvalidInput):
    """All bytes came, and they are not what the checksum of the file says."""

    http_status = 422
    slug = "checksum"
    title = "The file arrived damaged; nothing was stored"


class UploadOver(HeadwayError):
    """The upload was there, and nothing can be sent to it any more."""

    code = "NOT_FOUND"
    http_status = 410
    slug = "upload-over"
    title = "This upload is over"
