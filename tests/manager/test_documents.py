"""Documents from strangers: the same complaints as for files, and no way to a file or to code of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from given import CONTINUUM, job
from serving import Served

from littoral.errors import InputError
from littoral.manager.documents import check_job, continuum_of, placed, text_of

DATA = Path("/data")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"devices": []}, "at least one device"),
        ({"devises": []}, "unknown key 'devises'"),
        ({"devices": [{"name": "a", "site": "bench", "kind": "t5"}]}, "t5"),
        ({"devices": [{"name": "a", "site": "bench", "kind": "t4", "count": 20_000}]}, "more than 10000 devices"),
        ({"links": [{"between": ["bench", "bench"], "trace": "/etc/passwd"}]}, "names a file"),
        ({"links": [{"between": ["bench", "bench"], "bandwidth": {"trace": "x.csv"}}]}, "names a file"),
        ({"apps": [{"name": "x", "on": "hub", "every": "1 s", "run": "os.path"}]}, "'os.path' is not allowed"),
        ({"name": "other"}, "named 'other'"),
        ({"sites": float("nan")}, "cannot be written"),
        ({"sites": "\ud800"}, "cannot be written"),
        ({"sites": [[[[]]]] * 3}, "expected a mapping"),
    ],
)
def test_bad_continuums(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        continuum_of({**CONTINUUM, **changes}, "bench")


def test_bottomless_documents_are_refused() -> None:
    deep: Any = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(InputError, match="cannot be written"):
        text_of({"a": deep})
    deep = {}
    for _ in range(60):
        deep = {"a": deep}
    with pytest.raises(InputError, match="levels of nesting"):
        continuum_of({**CONTINUUM, "links": [deep]}, "bench")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "os:system"}, "'os:system' is not allowed"),
        ({"task": "littoral.tasks.digits:Digits"}, "not allowed"),
        ({"task": "littoral.tasks.../x"}, "not allowed"),
        ({"task": {"name": "subprocess", "args": "x"}}, "not allowed"),
        ({"strategy": "os:system"}, "not allowed"),
        ({"strategy": {"name": "a.b:C"}}, "not allowed"),
        ({"task": {"name": "littoral.tasks.fashion_mnist", "folder": "../../etc"}}, "folder"),
        ({"task": {"name": "littoral.tasks.fashion_mnist", "folder": "/etc"}}, "folder"),
        ({"task": {"name": "littoral.tasks.fashion_mnist", "file": "/etc/passwd"}}, "is a path"),
    ],
)
def test_jobs_reach_no_code_and_no_file(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        check_job(job(**changes))


def test_what_the_operator_allows_is_allowed() -> None:
    mine = job(task="mine.tasks:Mine", strategy="mine.ways:Way")
    assert check_job(mine, ["mine.tasks:Mine", "mine.ways:Way"]) == mine
    named = check_job(job(task={"name": "littoral.tasks.caltech101", "folder": "pictures"}))
    assert named["task"]["folder"] == "pictures"
    for folder in ("pictures", "/elsewhere/datasets/pictures"):  # of a release that kept whole paths
        kept = {"task": {"name": "littoral.tasks.caltech101", "folder": folder}}
        assert placed(kept, DATA) == {"task": {**kept["task"], "folder": "/data/datasets/pictures"}}


def test_bad_documents_over_http_are_problems_not_failures(served: Served) -> None:
    with served.client() as client:
        assert client.put("/continuums/bench", json=CONTINUUM).status_code == 200
        for document, at in (
            (job(target={"epochs": 0}), ""),
            (job(continuum="nowhere"), ""),
            (job(continuum="../../etc/passwd"), "continuum"),
            (job(profile="../x"), "profile"),
            (job(planer="fair"), ""),
            (job(task=7), ""),
            ({}, "continuum"),
        ):
            for path in ("/jobs", "/plans"):
                answer = client.post(path, json={"job": document})
                assert answer.status_code in (404, 422), answer.text
                assert answer.json()["at"] == at or not at
                assert str(served.manager.folder) not in answer.text
        deep = b'{"job": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        assert 400 <= client.post("/jobs", content=deep).status_code < 500
        huge = b'{"job": {"seed": ' + b"9" * 10_000 + b"}}"
        assert 400 <= client.post("/jobs", content=huge).status_code < 500
        assert client.put("/continuums/..%2f..%2fx", json=CONTINUUM).status_code in (404, 422)
        assert client.get("/runs/99/log").status_code == client.get("/runs/99/report").status_code == 404
        assert client.get("/runs").json()["items"] == []


def test_continuums_are_replaced_listed_and_deleted(served: Served) -> None:
    with served.client() as client:
        for name in ("a", "b"):
            assert client.put(f"/continuums/{name}", json=CONTINUUM).json()["devices"] == 3
        less = {**CONTINUUM, "devices": CONTINUUM["devices"][:1]}
        assert client.put("/continuums/a", json=less).json()["devices"] == 1
        listed = client.get("/continuums").json()["items"]
        assert [(one["name"], one["devices"]) for one in listed] == [("a", 1), ("b", 3)]
        again = client.put("/continuums/c", json={**listed[1]["document"], "name": "c"})  # its own document reads back
        assert again.status_code == 200, again.text
        assert client.delete("/continuums/a").status_code == 204
        assert client.delete("/continuums/a").status_code == 404


def test_profiles_are_checked_and_kept(served: Served) -> None:
    with served.client() as client:
        assert client.put("/profiles/p", json={"files": {"x.sh": "rm"}}).status_code == 422
        assert (
            client.put("/profiles/p", json={"files": {"training.csv": "a,b\n1,2\n", "apps.csv": ""}}).status_code == 422
        )
        from littoral.profiling.rows import AppRow, TrainingRow
        from littoral.profiling.sheets import written

        files = {"training.csv": written(TrainingRow, []), "apps.csv": written(AppRow, [])}
        kept = client.put("/profiles/p", json={"files": files})
        assert kept.json()["training_rows"] == 0, kept.text
        assert client.get("/profiles/p/files").json()["files"] == files
        assert client.delete("/profiles/p").status_code == 204
