"""Models from the command line and from both clients, against a service on a real socket."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from freshness import Stream
from given import CONTINUUM
from serving import Served
from typer.testing import CliRunner

from littoral import AsyncClient, Client, InputError
from littoral.cli import app
from littoral.manager.refusals import Conflict
from littoral.manager.tokens import Role

TRAINING = {
    "least_samples": 50,
    "window": 400,
    "job": {"continuum": "bench.yaml", "workers": ["w-*"], "target": {"epochs": 10}, "strategy": "allreduce",
            "planner": "fair"},
    "options": {"world": "simulated"},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of a model and of samples; the environment names the manager."""
    for name, value in (("URL", served.url), ("TOKEN", served.secrets[Role.OPERATOR])):
        monkeypatch.setenv(f"LITTORAL_{name}", value)
    monkeypatch.delenv("LITTORAL_CERTIFICATE", raising=False)
    (tmp_path / "bench.yaml").write_text(yaml.safe_dump({"name": "bench", **CONTINUUM}))
    model = {"name": "digits", "task": "littoral.tasks.digits", "gate": {"least_samples": 20}, "training": TRAINING}
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(model))
    x, y = Stream().take(1200)
    np.savez(tmp_path / "samples.npz", inputs=x, actual=y, ids=[f"s-{i}" for i in range(1200)])
    return tmp_path


def littoral(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words: object) -> str:
    with pytest.raises(InputError) as found:
        CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    return str(found.value)


def test_from_a_file_to_a_rollback(folder: Path) -> None:
    samples = folder / "samples.npz"
    assert "model digits is kept" in littoral("model", "create", folder / "model.yaml")
    assert "never updated" in refused("model", "watch", "digits")
    assert "no version to serve" in refused("predict", "digits", samples)
    assert json.loads(littoral("ingest", "digits", samples, "--json")) == {"accepted": 1200, "repeated": 0}
    assert littoral("ingest", "digits", samples) == "0 samples are kept, 1200 were there already\n"
    assert "update 1 of model digits: promoted, version 1" in littoral("model", "update", "digits", "--watch")
    assert "promoted, version 1" in littoral("model", "watch", "digits")
    told = json.loads(littoral("predict", "digits", samples, "--json"))
    assert told["versions"] == [1] and len(told["labels"]) == 1200 and told["accuracy"] > 0.8
    assert f"{round(told['accuracy'] * 1200)} of 1200 right" in littoral("predict", "digits", samples)
    update = json.loads(littoral("model", "update", "digits", "--why", "once more", "--watch", "--json"))
    assert update["why"] == "once more" and update["state"] in ("promoted", "refused")
    littoral("model", "promote", "digits", "2", "--force")
    assert "serves version 1: rolled back from version 2" in littoral("model", "rollback", "digits")
    shown = json.loads(littoral("model", "show", "digits", "--json"))
    assert [each["state"] for each in shown["versions"]] == ["current", "retired"]
    assert shown["model"]["training"]["job"]["continuum"] == "bench"
    assert "retired" in littoral("model", "show", "digits")
    assert "digits  littoral.tasks.digits  digits       1" in littoral("model", "list")


def test_triggers(folder: Path) -> None:
    littoral("model", "create", folder / "model.yaml")
    assert "trigger 1 watches" in littoral("trigger", "create", "digits", "drift", "detector=kswin", "gather=50")
    littoral("trigger", "create", "digits", "schedule", "at=03:30", "every_s=3600")
    found = json.loads(littoral("trigger", "list", "digits", "--json"))["triggers"]
    assert [each["kind"] for each in found] == ["drift", "schedule"]
    assert found[0]["settings"]["gather"] == 50 and found[1]["settings"]["at"] == "03:30"
    assert "detector=kswin" in littoral("trigger", "list")
    littoral("trigger", "delete", 1)
    assert "detector=kswin" not in littoral("trigger", "list")
    assert "write key=value" in refused("trigger", "create", "digits", "count", "samples")
    assert "model" in refused("trigger", "create", "digits", "count", "samples=1", "model=x")


def test_bad_files_are_told_what_is_wrong(folder: Path) -> None:
    littoral("model", "create", folder / "model.yaml")
    x, y = Stream().take(10)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"actual": y}, "there is no array 'inputs'"),
        ({"inputs": x, "actuals": y}, "did you mean 'actual'"),
        ({"inputs": x, "actual": y[:9]}, "'actual' is not as long as 'inputs'"),
        ({"inputs": x.astype(np.int64)}, "inputs of int64"),
        ({"inputs": x[:, :, :4]}, "inputs of float32, each of shape (1, 4, 8); give float32 of shape (1, 8, 8)"),
        ({"inputs": x.reshape(10, 8, 8, 1)}, "each of shape (8, 8, 1); give float32 of shape (1, 8, 8)"),
        ({"inputs": x.astype(np.uint8)}, "inputs of uint8, each of shape (1, 8, 8); give float32"),
        ({"inputs": np.array([object()])}, "allow_pickle"),
    ]
    for arrays, said in bad:
        np.savez(folder / "bad.npz", **arrays)
        assert said in refused("ingest", "digits", folder / "bad.npz")
    (folder / "bad.npz").write_text("pictures")
    assert "not NumPy's file" in refused("ingest", "digits", folder / "bad.npz")
    assert "no such file" in refused("ingest", "digits", folder / "none.npz")
    (folder / "bad.yaml").write_text("name: [digits")
    assert "bad.yaml" in refused("model", "create", folder / "bad.yaml")
    (folder / "bad.yaml").write_text("name: x\ntask: littoral.tasks.digits\ntraining: {job: {continuum: none.yaml}}")
    assert "no such file" in refused("model", "create", folder / "bad.yaml")
    (folder / "bad.yaml").write_text("name: x\ntask: littoral.tasks.digits\ntrain: {}")
    assert "did you mean 'training'" in refused("model", "create", folder / "bad.yaml")


def test_both_clients_have_the_same_methods_of_the_same_parameters() -> None:
    def methods(kind: type) -> dict[str, list[tuple[str, object, object]]]:
        public = [name for name in vars(kind) if not name.startswith("_")]
        told = {name: inspect.signature(getattr(kind, name)).parameters.values() for name in public}
        return {name: [(each.name, each.kind, each.default) for each in each_of] for name, each_of in told.items()}

    assert methods(Client) == methods(AsyncClient)
    assert [name for name, *_ in methods(Client)["runs"]] == ["self", "limit", "after", "state", "newest"]
    kept = {name for name in vars(Client) if not name.startswith("_")}
    coroutines = {name for name in kept if inspect.iscoroutinefunction(getattr(AsyncClient, name))}
    assert kept - coroutines == {"of_folder", "watch", "watch_events", "watch_update"}
    assert all(getattr(kind, name).__doc__ for kind in (Client, AsyncClient) for name in kept)


def test_both_clients_ask_the_same(folder: Path, served: Served) -> None:
    littoral("model", "create", folder / "model.yaml")
    x, y = Stream().take(300)

    async def asked() -> None:
        async with AsyncClient(served.url, served.secrets[Role.OPERATOR]) as manager:
            added = await manager.ingest("digits", x.astype(np.float64), ids=[f"a-{i}" for i in range(300)])
            assert added.accepted == 300
            assert await manager.label("digits", {f"a-{i}": y[i] for i in range(300)} | {"b": 1}) == ["b"]
            update = await manager.update_model("digits")
            states = [each.state async for each in manager.watch_update(update.number)]
            assert states[-1] == "promoted", states
            assert (await manager.predict("digits", x)).version == 1

    asyncio.run(asked())
    with Client(served.url, served.secrets[Role.OPERATOR]) as manager:
        assert [each.state for each in manager.watch_update(1)] == ["promoted"]
        assert manager.updates("digits").items == [manager.update(1)]
        weights = manager.weights("digits", 1)
        assert manager.add_version("digits", weights).number == 2
        assert manager.promote("digits", 2, force=True).state == "current"
        assert manager.rollback("digits").number == 1
        with pytest.raises(Conflict, match="no version before"):
            manager.rollback("digits")
        assert manager.predict("digits", x).labels == manager.predict("digits", x.tolist()).labels
        with pytest.raises(InputError, match=r"each of shape \(1, 16, 8\); give float32 of shape \(1, 8, 8\)"):
            manager.predict("digits", np.concatenate([x, x], axis=2))
        trigger = manager.create_trigger("digits", "count", samples=5)
        assert manager.triggers("digits").items == [trigger]
        assert manager.models().items == [manager.model("digits")]
        manager.delete_trigger(trigger.number)


def test_what_cannot_be_right_is_not_sent() -> None:
    """Nobody listens there."""
    x, y = Stream().take(10)
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (x.astype(np.int64), {}, r"inputs of int64, together of shape \(10, 1, 8, 8\); give one of float32"),
        (x[0, 0, 0], {}, r"together of shape \(8,\); .* the first dimension the samples"),
        (x[:0], {}, r"together of shape \(0, 1, 8, 8\)"),
        ([[1.0], [1.0, 2.0]], {}, "inputs of different shapes"),
        (x, {"actual": y[:9]}, "9 actual for 10 inputs; give one for each input"),
        (x, {"actual": [0.5] * 10}, "a label: .* give whole numbers"),
    ]
    with Client("http://127.0.0.1:9", "none") as manager:
        for inputs, known, said in wrong:
            with pytest.raises(InputError, match=said):
                manager.ingest("digits", inputs, **known)


def test_a_folder_that_nobody_served(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="littoral serve --data"):
        Client.of_folder(tmp_path)
