"""The image market in the HTTP API."""

from __future__ import annotations

from pydantic import Field, StrictBool

from ..schemas import DESCRIPTION_CHARACTERS, ApiRequest, ApiResponse, ShareChange, SharedWith, UsedBy
from .names import TAG_PATTERN


class GoodRun(ApiResponse):
    """The last run that succeeded."""

    job_id: str
    at: float


class ImageTag(ApiResponse):
    """A name for a content; it may move to another content, and a submitted job keeps the one it found."""

    tag: str = Field(description="empty: a content that no tag points to any more")
    digest: str = Field(description="of the content; what engines call the image's id")
    pushed_at: float
    pushed_by: str
    size_bytes: int = Field(description="of all layers, unpacked")
    architecture: str
    has_shell: bool
    cuda_version: str = Field(description="empty: none, or nothing tells")
    frameworks: dict[str, str] = Field(description="name to version, where files of the image tell")


class ImageLayer(ApiResponse):
    digest: str = Field(description="of the uncompressed layer")
    size_bytes: int
    created_by: str


class ImageTagDetail(ImageTag):
    os: str
    entrypoint: list[str]
    command: list[str]
    user: str = Field(description="empty: root")
    working_dir: str
    env: list[str]
    labels: dict[str, str]
    python_version: str
    has_bash: bool
    require_cuda: str = Field(description="what the image asks of the driver (NVIDIA_REQUIRE_CUDA)")
    layers: list[ImageLayer]
    created_at: float | None = Field(description="when the image was built; null: it doesn't say")
    used_by: list[UsedBy]
    live_jobs: list[str] = Field(description="queued and running jobs that need it")


class TagMove(ApiResponse):
    """A push, or the end of a tag."""

    tag: str
    at: float
    by: str
    from_digest: str | None = Field(description="null: the tag was new")
    to_digest: str | None = Field(description="null: the tag was deleted")


class _ImageBase(ApiResponse):
    id: str
    owner: str = Field(description="an account, or `base`")
    name: str
    full_name: str
    public: bool = Field(description="everybody who is signed in may use it")
    shared_with: SharedWith
    description: str = Field(description="Markdown as it was written; HTML in it is text")
    created_at: float
    updated_at: float
    may_change: bool = Field(description="whether the one who asks may change and delete it")
    last_good_run: GoodRun | None


class Image(_ImageBase):
    tags: list[ImageTag] = Field(description="the latest push first")


class ImageDetail(_ImageBase):
    tags: list[ImageTagDetail] = Field(description="the latest push first; where one was asked for, that one alone")
    history: list[TagMove] = Field(description="of the tags, the latest first, up to 100")


class ImageList(ApiResponse):
    images: list[Image]
    next_cursor: str | None = Field(description="null at the end")


class ImagePatch(ApiRequest):
    """Only what is given changes."""

    description: str | None = Field(None, max_length=DESCRIPTION_CHARACTERS)
    public: StrictBool | None = None
    shared_with: ShareChange | None = None


class ImageTagCreate(ApiRequest):
    tag: str = Field(pattern=f"^{TAG_PATTERN}$", description="as Docker's: letters, digits, `_`, `.`, `-`, up to 128")


class ImageDeletion(ApiResponse):
    """It is out of the lists now; what jobs still need goes when the last of them ends."""

    live_jobs: list[str]
