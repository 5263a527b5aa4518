"""``/metrics``: what Prometheus reads, checked by Prometheus' own parser."""

from __future__ import annotations

import re
from typing import Any

from furnished import SAMPLES, furnish
from given import until
from prometheus_client.parser import text_string_to_metric_families
from serving import Served

from littoral.manager.tokens import Role


def figures(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name and labels, which come in the order of their names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_figures_of_everything_and_only_for_viewers(served: Served) -> None:
    with served.client() as client, served.client(Role.VIEWER) as prometheus:
        furnish(client)
        with served.client(None) as stranger, served.client(Role.INGEST) as camera:
            assert stranger.get("/metrics").status_code == 401, "also from loopback: proxies are there"
            assert camera.get("/metrics").status_code == 403
        seen: dict[str, Any] = {}

        def ready() -> bool:
            answer = prometheus.get("/metrics")
            assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=")
            seen.update(figures(answer.text))
            return ("count", "digits", "1") in seen.get("littoral_trigger_level", {})

        until(ready)
        assert seen["littoral_samples_received_total"] == {("digits",): SAMPLES}
        assert seen["littoral_samples_kept"] == {("digits",): SAMPLES} and seen["littoral_samples_waiting"] == {(): 0}
        assert seen["littoral_predictions_total"] == {("digits",): 7}
        assert seen["littoral_model_version"] == {("digits",): 1}
        assert seen["littoral_runs"][("finished",)] == 1 and seen["littoral_runs"][("queued",)] == 0
        assert seen["littoral_devices"][("idle",)] == 3
        assert set(seen["littoral_healthy"].values()) == {1}
        assert seen["littoral_database_bytes"][()] > 10_000 and seen["littoral_disk_free_bytes"][()] > 0
        assert seen["littoral_events_total"][()] >= 8
        assert seen["littoral_requests_total"][("POST", "/models/{name}/predict", "200")] == 1
        assert seen["littoral_request_seconds_count"][("/models/{name}/predict",)] == 1
        assert seen["littoral_requests_in_flight"] == {(): 1}, "the one that asks"
        assert seen["process_cpu_seconds_total"][()] > 0 and seen["process_resident_memory_bytes"][()] > 1e6


def test_strangers_make_no_new_series(served: Served) -> None:
    with served.client() as client:
        client.get("/metrics")
        client.get("/nothing")
        client.request("BREW", "/nothing")

        def series() -> set[str]:
            return {re.sub(r" [^ ]*$", "", line) for line in client.get("/metrics").text.splitlines()}

        before = series()
        for number in range(40):
            client.get(f"/nothing/{number}")
            client.request(f"BREW{number}", "/nothing")
            client.get(f"/runs/{number + 7}")
            client.get(f"/models/stranger-{number}")
        new = {line for line in series() - before if "seconds" not in line}
        assert len(new) <= 4 and not any("stranger" in line for line in new), new
