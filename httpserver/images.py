"""Where images are. Pure; the image market, where most will come from, is asked first once there is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.rpc.v1 import resource_manager_pb2 as rm

# A node tells at most so many names; one that tells all of them may have more.
_MOST_TOLD = 500


def with_tag(image: str) -> str:
    """``python`` means ``python:latest``, as engines read it."""
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def nodes_with(image: str, nodes: Iterable[rm.Node]) -> list[str]:
    """The nodes whose engine has it already."""
    wanted = with_tag(image)
    return [node.id for node in nodes if wanted in map(with_tag, node.status.images)]


def warnings(images: Iterable[str], nodes: Sequence[rm.Node]) -> list[str]:
    """A sentence for each image that no engine has; none while it isn't known what the engines have."""
    told = [node for node in nodes if node.status.images]
    if not told or any(len(node.status.images) >= _MOST_TOLD for node in told):
        return []
    known = {with_tag(name) for node in told for name in node.status.images}
    return [
        f"No machine has the image `{image}` yet: it is fetched from its registry when the task starts, which takes "
        "time and can fail."
        for image in images
        if with_tag(image) not in known
    ]
