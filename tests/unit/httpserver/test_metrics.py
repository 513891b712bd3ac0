"""HttpServer's own numbers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from httpserver.metrics import HttpNumbers


def test_made_up_methods_are_one_series() -> None:
    registry = CollectorRegistry()
    numbers = HttpNumbers(registry, lambda: 2, lambda: 3)
    for method in ("GET", "BREW", "PROPFIND"):
        numbers.count_request(method, "/metrics", 200, 0.1)
    numbers.count_request("GET", "/metrics", 0, 0.1)
    count = "headway_http_requests_total"
    labels = {"route": "/metrics", "status": "200"}
    assert registry.get_sample_value(count, {"method": "GET", **labels}) == 1
    assert registry.get_sample_value(count, {"method": "other", **labels}) == 2
    assert registry.get_sample_value(count, {"method": "BREW", **labels}) is None
    assert registry.get_sample_value(count, {"method": "GET", "route": "/metrics", "status": "499"}) == 1
    assert registry.get_sample_value("headway_http_event_streams") == 2
    assert registry.get_sample_value("headway_http_log_streams") == 3
