"""One start of an attempt's container: what is checked before, the two calls, and what their failure means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound

from headway.ids import AttemptId
from headway.model.reasons import EndWord

from ..box import BoxStanding
from ..ports import ContainerFacts, ContainerState, EngineUnavailable, RuntimeRefused, StartOrder
from .boxed import LaidOut
from .docker_containers import AttemptContainers
from .docker_errors import engine_in_trouble, is_left_over, start_refusal, text_of
from .docker_facts import container_facts
from .docker_gpus import GpuProbe
from .docker_homes import DockerHomes, PreparedHome
from .docker_networks import NoNetwork, TaskNetworks
from .docker_options import WorkerIdentity, container_config, devices_of
from .docker_places import ImagePlaces
from .gpu_ways import GivenGpus

# A launcher lives or has lived: whatever the engine says, this start has worked.
BEGUN = frozenset({BoxStanding.RUNS, BoxStanding.ENDED, BoxStanding.OVER})


@dataclass(slots=True)
class ContainerStarts:
    """See the module. Its calls block.

    ``judge`` says how the attempt's box stands. ``withdraw`` makes sure that its launcher never begins.
    """

    identity: WorkerIdentity
    containers: AttemptContainers
    networks: TaskNetworks
    homes: DockerHomes
    gpu_probe: GpuProbe
    places: ImagePlaces | None
    pids_limit: int
    judge: Callable[[AttemptId], BoxStanding]
    withdraw: Callable[[AttemptId], bool]

    def prepare_home(self, api: APIClient, order: StartOrder) -> PreparedHome:
        attempt = order.attempt
        try:
            return self.homes.prepare(
                api, order, lambda: self.judge(attempt) in BEGUN or self.containers.own(api, attempt) is not None
            )
        except NotFound:
            return PreparedHome()  # no such image: what follows says so
        except APIError as error:
            raise EngineUnavailable(f"The container engine answered: {text_of(error)}") from error

    def create_and_start(
        self,
        api: APIClient,
        order: StartOrder,
        laid_out: LaidOut,
        home: PreparedHome,
        given: GivenGpus,
        cancelled: Callable[[], bool],
    ) -> ContainerFacts:
        attempt, container = order.attempt, ""
        try:
            refused = self._refused_before(api, order, given) or home.refusal
            if refused is not None:
                return self._refuse_or_leave(api, order, refused)
            address, network = self.networks.of(api, order)
            config = container_config(
                order,
                laid_out.box,
                self.identity,
                digest=laid_out.digest,
                pids_limit=self.pids_limit,
                address=address,
                network=network,
                home=home.binds,
                given=given,
            )
            container, before = self._create(api, order, config)
            if before is not None:
                return before
            if cancelled():
                raise EngineUnavailable("The start was cancelled.")
            api.start(container)
        except (APIError, NoNetwork) as error:
            # The box decides: an engine that was killed while it started a container knows nothing of its processes.
            if self.judge(attempt) in BEGUN:
                return ContainerFacts(ContainerState.RUNNING, id=container, image_id=order.image.id)
            if isinstance(error, NoNetwork):
                self._refuse(api, attempt, error)
                raise
            if engine_in_trouble(error) or is_left_over(error):
                if is_left_over(error):
                    self.containers.clean_up(api, attempt)
                raise EngineUnavailable(f"The container engine could not start it: {text_of(error)}") from error
            gpus = bool(devices_of(order))
            refusal = start_refusal(error, node=self.identity.node, image=order.image.id, gpus=gpus)
            self._refuse(api, attempt, refusal)
            raise refusal from error
        return ContainerFacts(ContainerState.RUNNING, id=container, image_id=order.image.id)

    def _refused_before(self, api: APIClient, order: StartOrder, given: GivenGpus) -> RuntimeRefused | None:
        """What stands in the way before any container is made. Raises APIError."""
        if not order.spec.place:
            text = "Its box was made by an older Headway, just before this update"
            return RuntimeRefused(text, word=EndWord.START_FAILED, elsewhere=True)
        if (refusal := self.gpu_probe.refusal(devices_of(order))) is not None:
            return refusal
        if not given.fits(order.spec):
            text = f"{self.identity.node} gives GPUs in another way since the task's files were written"
            return RuntimeRefused(text, word=EndWord.GPU_FAILED, elsewhere=True)
        try:
            if self.places is not None:
                self.places.check(api, order.image.id, order.spec.mounts)
        except RuntimeRefused as refusal:
            return refusal
        return None

    def _refuse_or_leave(self, api: APIClient, order: StartOrder, refusal: RuntimeRefused) -> ContainerFacts:
        """An earlier call may have made a container all the same. Then it runs."""
        if self.judge(order.attempt) in BEGUN:
            return ContainerFacts(ContainerState.RUNNING, image_id=order.image.id)
        self._refuse(api, order.attempt, refusal)
        raise refusal

    def _create(self, api: APIClient, order: StartOrder, config: dict[str, Any]) -> tuple[str, ContainerFacts | None]:
        """The id of a container that was never started; or the facts of one that was."""
        name = self.containers.name(order.attempt)
        try:
            return str(api.create_container_from_config(config, name)["Id"]), None  # type: ignore[no-untyped-call]
        except APIError as error:
            if error.status_code != 409:
                raise
            found = self.containers.find(api, name)
            if found is None:
                # The engine is about to make it, for a call that was cancelled.
                raise EngineUnavailable(f"The container engine is still busy with {name}.") from error
            if not self.containers.is_own(found, order.attempt):
                refusal = RuntimeRefused(
                    f"The engine of {self.identity.node} has a container named {name} that is not Headway's; its "
                    "owner has to rename or remove it",
                    word=EndWord.START_FAILED,
                    elsewhere=True,
                )
                if self.withdraw(order.attempt):
                    raise refusal from error
                return "", ContainerFacts(ContainerState.RUNNING, image_id=order.image.id)
            facts = container_facts(found)
            return facts.id, None if facts.state is ContainerState.CREATED else facts

    def _refuse(self, api: APIClient, attempt: AttemptId, refusal: RuntimeRefused) -> None:
        """Make sure that the program never runs, before anybody says so.

        Raises EngineUnavailable where a launcher was quicker: the call is repeated, and finds that it runs.
        """
        if not self.withdraw(attempt):
            raise EngineUnavailable(f"The start failed, but its launcher lives. {refusal.message}")
        self.containers.clean_up(api, attempt)
