"""Plans over HTTP: made once per key, tried in virtual time, refused with the limit that binds, and run."""

from __future__ import annotations

from given import CONTINUUM, ended, job
from serving import Served


def test_plans_are_made_tried_kept_and_run(served: Served) -> None:
    with served.client() as client:
        client.put("/continuums/bench", json=CONTINUUM)
        asked = {"json": {"job": job()}, "params": {"simulate": True}, "headers": {"Idempotency-Key": "once"}}
        made = client.post("/plans", **asked)
        assert made.status_code == 201, made.text
        (plan,) = made.json()["plans"]
        assert plan["plan"]["planner"] == "fair" and plan["plan"]["reasons"]
        assert plan["simulated"]["reason"] == "epochs" and plan["simulated"]["time_s"] > 0
        assert client.post("/plans", **asked).json() == made.json()
        assert client.post("/plans", **{**asked, "params": {}}).status_code == 409
        assert client.get("/plans/1").json() == plan and len(client.get("/plans").json()["items"]) == 1
        body = {"job": job(), "plan": 1, "options": {"world": "simulated", "timing_only": True}}
        assert client.post("/jobs", json=body).status_code == 201
        assert ended(client, 1)["state"] == "finished"
        assert client.get("/runs/1/result").json()["result"]["time_s"] == plan["simulated"]["time_s"]
        assert client.delete("/plans/1").status_code == 204
        assert client.post("/jobs", json=body).status_code == 404


def test_what_cannot_be_kept_is_refused_by_name(served: Served) -> None:
    with served.client() as client:
        client.put("/continuums/bench", json=CONTINUUM)
        refused = client.post("/plans", json={"job": job(limits={"deadline": "1 ms"})})
        assert refused.status_code == 409 and "deadline" in refused.json()["detail"], refused.text
        assert refused.json()["type"] == "urn:littoral:infeasible"
        front = client.post("/plans", json={"job": job()}, params={"pareto": True}).json()["plans"]
        assert front and all(0 < one["fairness"] <= 1 for one in front)
