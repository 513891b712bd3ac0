"""The containers of attempts, as the engine has them. A name alone makes no container ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound

from headway.ids import AttemptId
from headway.logs import get_logger

from ..box import Box, spec_bytes, spec_digest
from ..launcher import FOREIGN_BOX
from ..model import attempt_of_folder
from ..ports import ContainerFacts, ContainerState
from .docker_errors import text_of
from .docker_facts import container_facts
from .docker_options import WorkerIdentity, container_name, folder_of

log = get_logger(__name__)

_ABSENT = ContainerFacts(ContainerState.ABSENT)


class AttemptContainers:
    """See the module. Its calls block; they raise APIError where nothing else is said."""

    def __init__(self, identity: WorkerIdentity, box: Callable[[AttemptId], Box]) -> None:
        self._identity = identity
        self._box = box

    def name(self, attempt: AttemptId) -> str:
        return container_name(self._identity.cluster, attempt.folder)

    def attempt_of(self, name: str, labels: dict[str, str] | None) -> AttemptId | None:
        folder = folder_of(name, labels, self._identity)
        return None if folder is None else attempt_of_folder(folder)

    def find(self, api: APIClient, name: str) -> Mapping[str, Any] | None:
        """The engine's answer about the container of this name, whoever's it is."""
        try:
            found: Mapping[str, Any] = api.inspect_container(name)
        except NotFound:
            return None
        return found

    def is_own(self, found: Mapping[str, Any], attempt: AttemptId) -> bool:
        return self.attempt_of(found.get("Name", ""), (found.get("Config") or {}).get("Labels")) == attempt

    def own(self, api: APIClient, attempt: AttemptId) -> str | None:
        """The id of the attempt's container. None: there is none. A name alone makes no container ours."""
        found = self.find(api, self.name(attempt))
        if found is None:
            return None
        if not self.is_own(found, attempt):
            log.warning("container.foreign", container=found.get("Name", ""))
            return None
        return str(found["Id"])

    def inspect(self, api: APIClient, attempt: AttemptId) -> ContainerFacts:
        found = self.find(api, self.name(attempt))
        if found is None:
            return _ABSENT
        if not self.is_own(found, attempt):
            log.warning("container.foreign", container=found.get("Name", ""))
            return _ABSENT
        facts = container_facts(found)
        if facts.state is ContainerState.EXITED and facts.exit_code == FOREIGN_BOX:
            return replace(facts, box_was_hidden=self._gave_its_box(found, attempt))
        return facts

    def clean_up(self, api: APIClient, attempt: AttemptId) -> None:
        try:
            container = self.own(api, attempt)
            if container is not None:
                api.remove_container(container, v=True, force=True)
        except NotFound:
            return
        except APIError as error:
            log.warning("container.not_removed", container=self.name(attempt), reason=text_of(error))

    def _gave_its_box(self, found: Mapping[str, Any], attempt: AttemptId) -> bool:
        """Whether the box is as it was when the container was made, so that it is not to blame."""
        entrypoint = (found.get("Config") or {}).get("Entrypoint") or []
        with contextlib.suppress(OSError):
            return entrypoint[-1:] == [spec_digest(spec_bytes(self._box(attempt)))]
        return False
