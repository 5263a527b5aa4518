"""What holds for every resource: problems, tokens, pages, keys, limits, and a document that says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serving import Served, serving

from littoral.errors import Infeasible, InputError
from littoral.manager import idempotency
from littoral.manager.database import Database
from littoral.manager.idempotency import Asked, Idempotency
from littoral.manager.manager import Manager, ManagerOptions
from littoral.manager.paging import Window
from littoral.manager.problems import MEDIA, of_error
from littoral.manager.refusals import Conflict, Unknown
from littoral.manager.tokens import Role


def is_problem(answer: httpx.Response, status: int) -> dict[str, object]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA), answer.text
    problem: dict[str, object] = answer.json()
    assert problem["status"] == status and problem["detail"]
    return problem


def test_errors_become_problems_of_their_status() -> None:
    found = [of_error(e).status for e in (InputError("a"), Unknown("a"), Conflict("a"), Infeasible("deadline binds"))]
    assert found == [422, 404, 409, 409]
    assert of_error(InputError("bad", file="/secret/place", line=3, remedy="do")).detail == "bad"


def test_bad_requests_over_a_socket(served: Served) -> None:
    with served.client() as client:
        is_problem(client.get("/nothing"), 404)
        is_problem(client.put("/tokens"), 405)
        assert client.put("/tokens").headers["allow"] == "GET, POST"
        assert client.post("/continuums/x").headers["allow"] == "DELETE, GET, PUT"
        is_problem(client.delete("/tokens/operator"), 409)
        is_problem(client.post("/tokens", content=b"{"), 422)
        is_problem(client.post("/tokens", json={"name": "../x", "role": "viewer"}), 422)
        is_problem(client.post("/tokens", json={"name": "x", "role": "king"}), 422)
        is_problem(client.get("/tokens", params={"limit": 0}), 422)
        is_problem(client.get("/events", params={"after": "x"}), 422)
        is_problem(client.delete("/tokens/nobody"), 404)
        is_problem(client.post("/tokens", json={"name": "viewer", "role": "viewer"}), 409)


MODEL = {"name": "m", "task": "littoral.tasks.digits"}
STORE = {"name": "s", "input": {"shape": [4], "classes": 2}}
UNKNOWN_KEYS: list[tuple[str, str, dict[str, object], str, str]] = [
    ("POST", "/models", {**MODEL, "gaet": {}}, "gaet", "gate"),
    ("POST", "/models", {**MODEL, "gate": {"mragin": 1}}, "mragin", "margin"),
    ("POST", "/models", {**MODEL, "training": {"windw": 9}}, "windw", "window"),
    ("POST", "/models", {**MODEL, "training": {"options": {"wrld": "ray"}}}, "wrld", "world"),
    ("POST", "/models", {**MODEL, "input": {"clases": 10}}, "clases", "classes"),
    ("PATCH", "/models/m", {"gates": {}}, "gates", "gate"),
    ("POST", "/jobs", {"jb": {}}, "jb", "job"),
    ("POST", "/jobs", {"job": {}, "options": {"wrld": "ray"}}, "wrld", "world"),
    ("POST", "/plans", {"job": {}, "pln": 1}, "pln", "job"),
    ("POST", "/tokens", {"name": "x", "rol": "viewer"}, "rol", "role"),
    ("POST", "/stores", {**STORE, "retain": {}}, "retain", "retention"),
    ("POST", "/stores/s/samples", {"samples": [{"input": [1], "actaul": 1}]}, "actaul", "actual"),
    ("PATCH", "/stores/s/samples", {"labels": [{"id": "a", "actual": 1, "ide": "a"}]}, "ide", "id"),
    ("POST", "/devices/w-1/heartbeat", {"sent": 1, "load": {"cup": 0}}, "cup", "cpu"),
    ("PUT", "/profiles/p", {"file": {}}, "file", "files"),
    ("POST", "/models/m/promote", {"version": 1, "forced": True}, "forced", "force"),
    ("POST", "/models/m/update", {"whi": "so"}, "whi", "why"),
    ("POST", "/triggers", {"modle": "m", "kind": "count"}, "modle", "model"),
    ("POST", "/triggers", {"model": "m", "kind": "count", "settings": {"sampels": 9}}, "sampels", "samples"),
]


def test_unknown_keys_are_refused_with_the_near_one(served: Served) -> None:
    with served.client() as client:
        assert client.post("/models", json=MODEL).status_code == 201
        assert client.post("/stores", json=STORE).status_code == 201
        for method, path, body, key, near in UNKNOWN_KEYS:
            problem = is_problem(client.request(method, path, json=body), 422)
            assert f"unknown key {key!r}" in str(problem["detail"]), (path, problem)
            assert repr(near) in str(problem["remedy"]) or f"known: {near}" in str(problem["remedy"]), (path, problem)
            assert str(problem["at"]).endswith(key), (path, problem)


def test_a_token_is_needed_and_its_role_counts(served: Served) -> None:
    with served.client(None) as stranger, served.client(Role.VIEWER) as viewer, served.client(Role.INGEST) as ingest:
        refused = stranger.get("/events")
        is_problem(refused, 401)
        assert refused.headers["www-authenticate"] == "Bearer"
        is_problem(httpx.get(f"{served.url}/events", headers={"Authorization": "Bearer lit_x_y"}), 401)
        assert viewer.get("/events").status_code == 200
        is_problem(viewer.get("/tokens"), 403)
        is_problem(ingest.get("/events"), 403)


def test_tokens_expire_and_are_revoked_and_only_hashes_are_kept(tmp_path: Path) -> None:
    now = [1000.0]
    manager = Manager(tmp_path, now=lambda: now[0])
    with manager.database.write() as connection:
        short = manager.tokens.create(connection, "short", Role.VIEWER, lasts_s=10)
        long = manager.tokens.create(connection, "long", Role.OPERATOR)
    assert manager.tokens.find(short.secret) == short.token
    assert manager.tokens.find(short.secret[:-1] + ("A" if short.secret[-1] != "A" else "B")) is None
    assert manager.tokens.find("") is None
    now[0] += 11
    assert manager.tokens.find(short.secret) is None and manager.tokens.any()
    with manager.database.write() as connection:
        manager.tokens.revoke(connection, "long")
    assert manager.tokens.find(long.secret) is None and not manager.tokens.any()
    manager.stop()
    kept = (tmp_path / "littoral.db").read_bytes()
    assert long.token.id.encode() in kept and long.secret.split("_", 2)[2].encode() not in kept


def test_large_bodies_are_refused_announced_or_not(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    with serving(tmp_path, ManagerOptions(body_limit=1000)) as served, served.client() as client:
        is_problem(client.post("/tokens", content=b" " * 1001), 413)
        is_problem(client.post("/tokens", content=chunks()), 413)
        assert client.post("/tokens", json={"name": "small", "role": "viewer"}).status_code == 201


def test_pages_lead_through_a_list(served: Served) -> None:
    with served.client() as client:
        names, after = [], None
        while True:
            page = client.get("/tokens", params={"limit": 2} | ({"after": after} if after else {})).json()
            names += [token["name"] for token in page["items"]]
            after = page["next"]
            if after is None:
                break
        assert names == ["ingest", "operator", "viewer"]


def test_one_effect_per_key_even_across_a_restart(tmp_path: Path) -> None:
    numbers = ("numbers", "CREATE TABLE numbers (value INTEGER PRIMARY KEY)")
    asked = Asked(owner="me", key="k", digest="d")

    def add(connection: sqlite3.Connection) -> dict[str, object]:
        return {"number": connection.execute("INSERT INTO numbers VALUES (NULL)").lastrowid}

    for _ in range(2):
        database = Database(tmp_path, [idempotency.MIGRATION, numbers])
        once = Idempotency(database)
        assert once.once(asked, add) == once.once(asked, add) == once.known(asked) == {"number": 1}
        with pytest.raises(Conflict):
            once.once(Asked(owner="me", key="k", digest="other"), add)
        database.close()
    database = Database(tmp_path, [idempotency.MIGRATION, numbers])
    assert Idempotency(database).once(Asked(owner="you", key="k", digest="d"), add) == {"number": 2}

    def fail(connection: sqlite3.Connection) -> dict[str, object]:
        add(connection)
        raise InputError("no")

    with pytest.raises(InputError):
        Idempotency(database).once(Asked(owner="me", key="new", digest="d"), fail)
    assert Idempotency(database).once(Asked(owner="me", key="new", digest="d"), add) == {"number": 3}
    database.close()


def test_events_stream_resumes_after_the_last_one_seen(served: Served) -> None:
    with served.client() as client:
        for name in ("a", "b"):
            client.post("/tokens", json={"name": name, "role": "viewer"})
        whole = client.get("/events/stream", params={"until_now": True}, headers={"Last-Event-ID": "0"})
        rest = client.get("/events/stream", params={"until_now": True}, headers={"Last-Event-ID": "1"})
        assert whole.headers["content-type"].startswith("text/event-stream")
        assert "tokens/a" in whole.text and "tokens/b" in whole.text
        assert "tokens/a" not in rest.text and "tokens/b" in rest.text
    assert [event.subject for event in served.manager.events.listed(Window()).items] == ["tokens/a", "tokens/b"]


def test_one_manager_per_folder(tmp_path: Path) -> None:
    with serving(tmp_path), pytest.raises(InputError, match="another manager"):
        Manager(tmp_path).start()
