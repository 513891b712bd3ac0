"""ResourceManager's own numbers, as ``GET /metrics`` shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Gauge

from headway.states import Admission, NodeHealth


class NodeNumbers:
    """Nodes by health and by admission. The two functions are asked at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        health: Callable[[], Mapping[NodeHealth, int]],
        admission: Callable[[], Mapping[Admission, int]],
    ) -> None:
        by_health = Gauge("headway_nodes", "Nodes by their health", ["health"], registry=registry)
        for one in NodeHealth:
            by_health.labels(one.value).set_function(lambda one=one: health().get(one, 0))  # type: ignore[misc]
        by_admission = Gauge(
            "headway_nodes_admission", "Nodes by whether they may take work", ["admission"], registry=registry
        )
        for word in Admission:
            by_admission.labels(word.value).set_function(
                lambda word=word: admission().get(word, 0)  # type: ignore[misc]
            )
