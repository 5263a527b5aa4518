"""The life cycle over a real socket: samples in, a trigger fires, a job trains, the version is served, rolled back."""

from __future__ import annotations

import base64
import math
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from freshness import Stream
from given import CONTINUUM, until
from serving import Served

from littoral.manager.parcels import Head, pack_samples
from littoral.manager.tokens import Role

BINARY = {"Content-Type": "application/octet-stream"}
JOB = {"continuum": "bench", "workers": ["w-*"], "target": {"epochs": 12}, "strategy": "allreduce", "planner": "fair"}
MODEL: dict[str, Any] = {
    "name": "digits",
    "task": "littoral.tasks.digits",
    "gate": {"least_samples": 20},
    "training": {"least_samples": 50, "window": 400, "job": JOB, "options": {"world": "simulated"}},
}


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, (answer.status_code, answer.text)
    return answer.json() if answer.content else None


def create(client: httpx.Client, **changes: Any) -> None:
    ok(client.put("/continuums/bench", json=CONTINUUM))
    ok(client.post("/models", json={**MODEL, **changes}), 201)


def send(client: httpx.Client, x: Any, **columns: Any) -> Any:
    return ok(client.post("/stores/digits/samples", content=pack_samples(Head(**columns), x), headers=BINARY), 201)


def updated(client: httpx.Client, number: int) -> dict[str, Any]:
    """An update, once it has ended."""

    def over() -> Any:
        update = client.get(f"/updates/{number}").json()
        return update if update["ended"] else None

    found: dict[str, Any] = until(over)
    return found


def test_from_samples_to_a_served_version_and_back(served: Served) -> None:
    stream = Stream()
    with served.client() as operator, served.client(Role.INGEST) as camera, served.client(Role.VIEWER) as viewer:
        create(operator)
        x, y = stream.take(600)
        assert camera.post("/models/digits/predict", content=x.tobytes(), headers=BINARY).status_code == 409
        assert send(camera, x, actual=y)["accepted"] == 600
        asked = ok(operator.post("/models/digits/update", json={"why": "the first"}), 201)
        assert operator.post("/models/digits/update", json={}).status_code == 409
        update = updated(operator, asked["number"])
        assert update["state"] == "promoted", update
        assert ok(viewer.get(f"/runs/{update['run']}"))["state"] == "finished"

        def answer(inputs: Any) -> Any:
            return ok(camera.post("/models/digits/predict", content=inputs.tobytes(), headers=BINARY))

        told = answer(x)
        assert told["version"] == 1 and np.mean(np.array(told["labels"]) == y) > 0.85
        settings = {"gather": 300, "debounce_s": 0, "follow_up": 0}
        wish = {"model": "digits", "kind": "drift", "settings": settings}
        trigger = ok(operator.post("/triggers", json=wish), 201)
        for turn in range(11):
            x, y = stream.take(100, drifted=turn >= 3)
            told = answer(x)
            send(camera, x, actual=y, predicted=told["labels"], versions=[told["version"]] * 100)
        signal_ = until(lambda: _fired(viewer, trigger["number"]))
        newest = ok(viewer.get("/models/digits/updates"))["items"][0]
        assert newest["trigger"] == trigger["number"] and newest["why"] == signal_["reason"]
        assert updated(viewer, newest["number"])["state"] == "promoted"
        x, y = stream.take(200, drifted=True)
        until(lambda: answer(x)["version"] == 2)
        assert np.mean(np.array(answer(x)["labels"]) == y) > 0.6
        assert ok(operator.post("/models/digits/rollback"))["number"] == 1
        assert answer(x)["version"] == 1
        assert operator.post("/models/digits/rollback").status_code == 409
        states = {v["number"]: v["state"] for v in ok(viewer.get("/models/digits/versions"))["items"]}
        assert states == {1: "current", 2: "retired"}
        kinds = {
            event["kind"]
            for event in ok(viewer.get("/events", params={"subject": "models/digits", "limit": 500}))["items"]
        }
        assert {"model.created", "update.asked", "update.promoted", "model.rolled-back"} <= kinds


def _fired(client: httpx.Client, trigger: int) -> Any:
    points = ok(client.get(f"/triggers/{trigger}/signal", params={"limit": 500}))["items"]
    return next((point for point in points if point["fired"]), None)


def test_samples_in_json_with_labels_later(served: Served) -> None:
    x, y = Stream().take(3)
    with served.client() as operator, served.client(Role.INGEST) as camera:
        create(operator)
        samples = [
            {"input": x[0].tolist(), "id": "a", "predicted": 1},
            {"input": base64.b64encode(x[1].tobytes()).decode(), "id": "b", "predicted": y[1], "actual": y[1]},
            {"input": x[2].tolist()},
        ]
        first = ok(camera.post("/stores/digits/samples", json={"samples": samples}), 201)
        assert first["accepted"] == 3 and first["ids"][:2] == ["a", "b"]
        again = ok(camera.post("/stores/digits/samples", json={"samples": samples[:2]}), 201)
        assert (again["accepted"], again["repeated"]) == (0, 2)
        labels = [{"id": "a", "actual": 2}, {"id": "zz", "actual": 1}]
        assert ok(camera.patch("/stores/digits/samples", json={"labels": labels})) == {"labelled": 1, "unknown": ["zz"]}
        counts = ok(operator.get("/stores/digits/counts"))
        assert (counts["kept"], counts["labelled"], counts["accuracy"]) == (3, 2, 0.5)
        listed = ok(operator.get("/stores/digits/samples", params={"limit": 2}))
        assert [row["actual"] for row in listed["items"]] == [2, y[1]] and listed["next"] == "2"


def test_the_same_key_adds_nothing_twice(served: Served) -> None:
    x, _ = Stream().take(2)
    body = {"samples": [{"input": one.tolist()} for one in x]}
    with served.client() as operator:
        create(operator)
        key = {"Idempotency-Key": "once"}
        first, second = (operator.post("/stores/digits/samples", json=body, headers=key).json() for _ in range(2))
        assert first["ids"] == second["ids"] and (first["accepted"], second["accepted"]) == (2, 0)
        assert operator.post("/stores/digits/samples", json=body).json()["accepted"] == 2
        updates = [operator.post("/models/digits/update", json={}, headers={"Idempotency-Key": "u"}) for _ in range(2)]
        assert [u.status_code for u in updates] == [201, 201] and updates[0].json() == updates[1].json()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"samples": []}, "samples"),
        ({"samples": [{"input": [[[0.0] * 8] * 7]}]}, "sample 0: the input has shape (1, 7, 8)"),
        ({"samples": [{"input": "AAAA"}]}, "sample 0: the input is 3 bytes"),
        ({"samples": [{"input": [[[0.0] * 8] * 8], "actual": 10}]}, "sample 0: the actual label is 10"),
        ({"samples": [{"input": [[[0.0] * 8] * 8]}, {"input": [[[1e39] * 8] * 8]}]}, "sample 1: a value is not finite"),
        ({"samples": [{"input": [[[0.0] * 8] * 8], "colour": 1}]}, "unknown key 'colour'"),
        ({"sample": 1}, "unknown key 'sample'"),
        ({}, "missing required field `samples`"),
        ([1, 2], "Expected `object`"),
    ],
)
def test_bad_samples_are_told_what_is_wrong(served: Served, body: Any, said: str) -> None:
    with served.client() as operator:
        create(operator)
        answer = operator.post("/stores/digits/samples", json=body)
        assert answer.status_code == 422 and answer.headers["content-type"] == "application/problem+json"
        assert said in answer.json()["detail"]
        assert ok(operator.get("/stores/digits"))["received"] == 0


def test_bad_bytes_and_bad_inputs_are_told_what_is_wrong(served: Served) -> None:
    x, _ = Stream().take(2)
    nan = x.copy()
    nan[1, 0, 3, 3] = math.nan
    with served.client() as operator:
        create(operator)
        for content, said in (
            (b"", "too few for the head"),
            (b"\xff\xff\xff\xff{}", "too few for the head"),
            (pack_samples(Head(), x)[:-1], "no whole number of inputs"),
            (pack_samples(Head(ids=["a"]), x), "1 ids for 2 inputs"),
            (pack_samples(Head(), nan), "sample 1: a value is not finite"),
            (b"\x02\0\0\0[]" + x.tobytes(), "the body"),
        ):
            answer = operator.post("/stores/digits/samples", content=content, headers=BINARY)
            assert answer.status_code == 422 and said in answer.json()["detail"], answer.text
        for document, said in (
            ({**MODEL, "name": "../x"}, "name"),
            ({**MODEL, "name": "b", "task": "os.path:join"}, "not allowed"),
            ({**MODEL, "name": "b", "task": {"name": "littoral.tasks.stored", "base": "antigravity"}}, "not allowed"),
            ({**MODEL, "name": "b", "task": {"name": "littoral.tasks.digits", "width": 1e300}}, ""),
            ({**MODEL, "name": "b", "task": {"name": "littoral.tasks.digits", "colour": 1}}, "no option 'colour'"),
            ({**MODEL, "name": "b", "gate": {"margin": 2}}, "gate"),
            ({**MODEL, "name": "b", "training": {"job": {**JOB, "continuum": "nowhere"}}}, "no continuum 'nowhere'"),
            ({**MODEL, "name": "b", "training": {"job": {**JOB, "task": "x"}}}, "has a task"),
            ({**MODEL, "name": "b", "training": {"options": {"world": "moon"}}}, "training.options"),
            ({**MODEL, "name": "b", "input": {"classes": 3}}, "is 10, not 3"),
            ({**MODEL, "name": "b", "store": "digits"}, "feeds model 'digits'"),
        ):
            answer = operator.post("/models", json=document)
            assert answer.status_code in (404, 409, 422) and said in answer.json()["detail"], answer.text
        assert [model["name"] for model in ok(operator.get("/models"))["items"]] == ["digits"]


def test_weights_from_elsewhere_pass_the_gate_or_are_forced(served: Served) -> None:
    from safetensors.torch import save

    from littoral.tasks.digits import Digits

    weights = save(dict(Digits().model().state_dict()))
    x, y = Stream().take(200)
    with served.client() as operator:
        create(operator, gate={"least_samples": 20, "floor": 0.9})
        assert operator.post("/models/digits/versions", content=b"junk", headers=BINARY).status_code == 422
        key = {**BINARY, "Idempotency-Key": "w"}
        one, two = (ok(operator.post("/models/digits/versions", content=weights, headers=key), 201) for _ in range(2))
        assert one == two and one["state"] == "candidate"
        assert operator.get("/models/digits/versions/1/weights").content == weights
        refused = operator.post("/models/digits/promote", json={"version": 1})
        assert refused.status_code == 409 and "only 0 held-out samples" in refused.json()["detail"]
        send(operator, x, actual=y)
        refused = operator.post("/models/digits/promote", json={"version": 1})
        assert refused.status_code == 409 and "below the floor of 0.9" in refused.json()["detail"]
        assert ok(operator.get("/models/digits/versions"))["items"][0]["state"] == "refused"
        assert ok(operator.post("/models/digits/promote", json={"version": 1, "force": True}))["state"] == "current"
        assert operator.post("/models/digits/promote", json={"version": 2}).status_code == 404
        big = np.full((1, 1, 8, 8), 3e38, np.float32)
        answer = operator.post("/models/digits/predict", content=big.tobytes(), headers=BINARY)
        assert answer.status_code == 422 and "no finite answer" in answer.json()["detail"]
        assert operator.delete("/stores/digits").status_code == 409
        assert operator.delete("/models/digits").status_code == 204
        assert operator.post("/models/digits/predict", content=x.tobytes(), headers=BINARY).status_code == 404
        assert operator.delete("/stores/digits").status_code == 204


def test_triggers_are_made_changed_and_deleted(served: Served) -> None:
    with served.client() as operator:
        create(operator)
        made = ok(
            operator.post("/triggers", json={"model": "digits", "kind": "count", "settings": {"samples": 9}}), 201
        )
        assert made["settings"]["debounce_s"] == 60.0 and made["enabled"]
        path = f"/triggers/{made['number']}"
        until(lambda: ok(operator.get(f"{path}/signal"))["items"])
        assert not ok(operator.patch(path, json={"enabled": False}))["enabled"]
        assert ok(operator.patch(path, json={"settings": {"samples": 5}}))["settings"]["samples"] == 5
        assert operator.patch(path, json={"settings": {"samples": -5}}).status_code == 422
        for body in (
            {"model": "digits", "kind": "moon"},
            {"model": "digits", "kind": "drift", "settings": {"detector": "x"}},
        ):
            assert operator.post("/triggers", json=body).status_code == 422
        assert operator.post("/triggers", json={"model": "x", "kind": "manual"}).status_code == 404
        assert operator.delete(path).status_code == 204 and operator.get(path).status_code == 404


def test_the_page_in_the_docs_works(served: Served) -> None:
    text = (Path(__file__).parents[2] / "docs" / "keeping-fresh.md").read_text()
    code = re.search(r"    import httpx\n(?:    .*\n|\n)+", text)
    assert code is not None
    with served.client() as operator:
        ok(operator.put("/continuums/bench", json=CONTINUUM))
        scope = {"url": served.url, "token": served.secrets[Role.OPERATOR]}
        exec(re.sub(r"^    ", "", code[0], flags=re.M), scope)
        scope["manager"].close()  # type: ignore[attr-defined]
        assert ok(operator.get("/triggers"))["items"][0]["model"] == "digits"


def test_a_plan_tells_what_an_update_should_cost(served: Served) -> None:
    with served.client() as operator:
        create(operator)
    cost = served.manager.life.cost
    found = until(lambda: cost(served.manager.life.registry.get("digits")))
    assert found.time_s > 0 and found.usd >= 0
