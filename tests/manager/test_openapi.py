"""The OpenAPI document, walked: no operation without a token but the health check, no write for a viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving import Served

from littoral.manager.manager import Manager
from littoral.manager.service import make_app
from littoral.manager.tokens import Role

OPEN = {("get", "/health"), ("get", "/health/live")}
VALUES = {"name": "x", "number": "1", "continuum": "x"}


def operations(folder: Path) -> list[tuple[str, str]]:
    manager = Manager(folder)
    document = make_app(manager).openapi()
    manager.stop()
    return [(method, path) for path, methods in document["paths"].items() for method in methods]


@pytest.fixture
def every(tmp_path: Path) -> list[tuple[str, str]]:
    return operations(tmp_path / "document")


def address(path: str) -> str:
    for name, value in VALUES.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path, f"what stands for the parameter in {path}?"
    return path


def test_nothing_is_open_to_strangers_but_the_health_check(served: Served, every: list[tuple[str, str]]) -> None:
    with served.client(None) as stranger:
        for method, path in every:
            status = stranger.request(method, address(path), json={}).status_code
            assert status == (200 if (method, path) in OPEN else 401), (method, path, status)


READS_BY_POST = {"/models/{name}/predict"}  # a POST that changes nothing, which everybody may


def test_viewers_write_nothing_and_ingest_reads_nothing(served: Served, every: list[tuple[str, str]]) -> None:
    with served.client(Role.VIEWER) as viewer, served.client(Role.INGEST) as ingest:
        for method, path in every:
            if method != "get" and path not in READS_BY_POST:
                assert viewer.request(method, address(path), json={}).status_code == 403, (method, path)
            elif method == "get" and (method, path) not in OPEN and not path.endswith("/stream"):
                assert ingest.request(method, address(path)).status_code == 403, (method, path)


def test_every_answer_has_a_schema_and_every_refusal_is_a_problem(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    document = make_app(manager).openapi()
    manager.stop()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), (method, path)
            for status, response in operation["responses"].items():
                kinds = response.get("content", {})
                assert kinds or status == "204", (method, path, status)
                assert (list(kinds) == ["application/problem+json"]) == (int(status) >= 400), (method, path, status)


def test_no_body_takes_unknown_keys(tmp_path: Path) -> None:
    """But documents, whose keys are checked as those of files."""
    manager = Manager(tmp_path)
    document = make_app(manager).openapi()
    manager.stop()
    asked = {name for name in document["components"]["schemas"] if f"/{name}'" in str(_bodies(document))}
    assert {"JobAsked", "ModelAsked", "Heartbeat", "TriggerAsked"} <= asked
    for name in asked:
        assert document["components"]["schemas"][name].get("additionalProperties") is False, name


def _bodies(document: dict[str, Any]) -> list[Any]:
    operations = (operation for methods in document["paths"].values() for operation in methods.values())
    return [operation["requestBody"] for operation in operations if "requestBody" in operation]
