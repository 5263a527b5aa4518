"""Jobs: every key, the way back to YAML, and complaints at the line that caused them."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from littoral.continuum.load import load_continuum
from littoral.continuum.write import continuum_document
from littoral.errors import InputError
from littoral.job import (
    LINK_FAULTS,
    NODE_FAULTS,
    OBJECTIVES,
    POLICIES,
    SPLITS,
    Fault,
    Job,
    Limits,
    blame,
    job_document,
    load_job,
    workload,
)

CONTINUUM = """\
name: two
sites: [{name: plant}, {name: region, tier: cloud}]
devices:
- {name: nano-1, site: plant, kind: jetson-nano, count: 2}
- {name: gpu, site: region, kind: t4}
stores: [{name: camera, site: plant}]
links:
- {between: [plant, plant], bandwidth: 1 Gbit/s}
- {between: [plant, region], bandwidth: 20 Mbit/s}
"""
MINIMAL = "continuum: c.yaml\ntask: littoral.tasks.digits\n"
FULL = """\
name: all-keys
continuum: c.yaml
task: {name: littoral.tasks.fashion_mnist, folder: data, lr: 1e-3}
target: {accuracy: 95 %, epochs: 20}
objective: cost
limits: {cost: 2 USD, deadline: 30 min, fairness: 0.8}
strategy: {name: parameter_server, mode: ssp, slack: 3}
planner: fair
workers: [gpu, "nano-*"]
servers: gpu
batch: 64
data: {split: dirichlet, alpha: 0.1}
evaluate_every: 0.25
on_failure: stop
seed: 7
faults:
- {at: 12 s, node: nano-2, kind: crash}
- {at: 1 min, node: ps-1, kind: pause, for: 10 s}
- {at: 0 s, node: gpu, kind: slow-device, factor: 0.25}
- {at: 5 s, link: [region, plant], kind: slow-link, factor: 0.1, for: 1 s}
- {at: 5 s, link: [plant, plant], kind: partition}
- {at: 6 s, node: camera, kind: pause, for: 2 s}
- {at: 7 s, node: coordinator, kind: crash}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CONTINUUM)
    return tmp_path


def load(folder: Path, text: str, name: str = "my.yaml") -> Job:
    path = folder / name
    path.write_text(text)
    return load_job(path)


def refused(folder: Path, text: str, *parts: str, line: int) -> None:
    with pytest.raises(InputError) as caught:
        load(folder, text)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'my.yaml'}:{line}: "), message
    assert caught.value.remedy and all(part in message for part in parts), message


def test_every_key(folder: Path) -> None:
    job = load(folder, FULL)
    assert replace(job, continuum=None) == Job(  # type: ignore[arg-type]
        name="all-keys",
        continuum=None,  # type: ignore[arg-type]
        task="littoral.tasks.fashion_mnist",
        task_options={"folder": str((folder / "data").resolve()), "lr": 0.001},
        epochs=20,
        accuracy=0.95,
        objective="cost",
        limits=Limits(cost_usd=2.0, deadline_s=1800.0, fairness=0.8),
        strategy="parameter_server",
        parameters={"mode": "ssp", "slack": 3},
        planner="fair",
        workers=("nano-1", "nano-2", "gpu"),
        servers=("gpu",),
        batch=64,
        split="dirichlet",
        alpha=0.1,
        evaluate_every=0.25,
        on_failure="stop",
        seed=7,
        faults=(
            Fault(at_s=12.0, kind="crash", node="nano-2"),
            Fault(at_s=60.0, kind="pause", node="ps-1", seconds=10.0),
            Fault(at_s=0.0, kind="slow-device", node="gpu", factor=0.25),
            Fault(at_s=5.0, kind="slow-link", link=("region", "plant"), factor=0.1, seconds=1.0),
            Fault(at_s=5.0, kind="partition", link=("plant", "plant")),
            Fault(at_s=6.0, kind="pause", node="camera", seconds=2.0),
            Fault(at_s=7.0, kind="crash", node="coordinator"),
        ),
    )
    assert job.continuum == load_continuum(folder / "c.yaml")
    assert [fault.target for fault in job.faults] == [
        "nano-2",
        "ps-1",
        "gpu",
        "region--plant",
        "plant--plant",
        "camera",
        "coordinator",
    ]


def test_defaults(folder: Path) -> None:
    job = load(folder, MINIMAL)
    plain = Job(name="my", continuum=job.continuum, task="littoral.tasks.digits")
    assert job == plain
    assert load(folder, MINIMAL + "target: {epochs: 3}\n") == replace(plain, epochs=3)
    assert load(folder, MINIMAL + "limits: {}\ndata: {}\nfaults: []\nworkers: []\n") == plain


@pytest.mark.parametrize(("word", "policy"), [*((p, p) for p in POLICIES), ("continue", "elastic")])
def test_what_to_do_about_failures(folder: Path, word: str, policy: str) -> None:
    assert load(folder, f"{MINIMAL}on_failure: {word}\n").on_failure == policy


def test_the_name_is_the_files_or_its_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(folder, MINIMAL, "night run.yaml").name == "night-run"
    inner = folder / "my scenario"
    inner.mkdir()
    (inner / "c.yaml").write_text(CONTINUUM)
    assert load(inner, MINIMAL, "job.yaml").name == "my-scenario"
    monkeypatch.chdir(inner)
    assert load_job(Path("job.yaml")).name == "my-scenario"


def test_places_are_those_of_the_keys(folder: Path) -> None:
    job = load(folder, FULL)
    assert job.places["task"] == (folder / "my.yaml", 3)
    assert job.places["planner"] == (folder / "my.yaml", 8)
    assert job.places["links"] == (folder / "c.yaml", 7)
    with pytest.raises(InputError, match=r"my.yaml:7: bad mode; use asp"), blame(job, "strategy"):
        raise InputError("bad mode", remedy="use asp")
    with pytest.raises(InputError, match=r"c.yaml:7: no link"), blame(job, "strategy"):
        raise InputError("no link", key="links")
    with pytest.raises(InputError, match=r"^other.csv: empty$"), blame(job, "task"):
        raise InputError("empty", file="other.csv")


def write(folder: Path, job: Job) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "continuum.yaml").write_text(yaml.safe_dump(continuum_document(job.continuum)))
    (folder / "job.yaml").write_text(yaml.safe_dump(job_document(job)))
    return folder / "job.yaml"


@pytest.mark.parametrize("text", [MINIMAL, FULL], ids=["minimal", "full"])
def test_written_and_read_is_the_same(folder: Path, text: str) -> None:
    job = load(folder, text)
    assert load_job(write(folder / "run", job)) == job


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from(NODE_FAULTS + LINK_FAULTS))
    on_node = kind in NODE_FAULTS
    return Fault(
        at_s=draw(st.floats(0, 1e6)),
        kind=kind,
        node=draw(st.sampled_from(["nano-1", "gpu", "ps-2"])) if on_node else "",
        link=None if on_node else draw(st.sampled_from([("plant", "plant"), ("region", "plant")])),
        seconds=draw(st.sampled_from([math.inf]) | st.floats(1e-6, 1e6)),
        factor=draw(st.floats(1e-6, 1)) if kind.startswith("slow") else 0.5,
    )


plain_values = st.one_of(st.integers(-5, 5), st.booleans(), st.floats(-1e9, 1e9), st.sampled_from(["a", "no", "1"]))
options = st.dictionaries(st.sampled_from(["lr", "mode", "on", "seed"]), plain_values, max_size=3)
changes = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "run-1", "no", "x.y"]),
        "task_options": options,
        "epochs": st.integers(1, 1000),
        "accuracy": st.none() | st.floats(1e-6, 1),
        "plateau": st.none() | st.floats(1e-6, 1),
        "objective": st.sampled_from(OBJECTIVES),
        "limits": st.builds(
            Limits,
            cost_usd=st.none() | st.floats(0, 1e6),
            deadline_s=st.none() | st.floats(1e-3, 1e9),
            fairness=st.none() | st.floats(1e-6, 1),
        ),
        "strategy": st.sampled_from(["auto", "allreduce"]),
        "parameters": options,
        "planner": st.sampled_from(["auto", "fair"]),
        "workers": st.sampled_from([(), ("nano-1",), ("nano-2", "gpu")]),
        "servers": st.sampled_from([(), ("gpu",)]),
        "batch": st.none() | st.integers(1, 4096),
        "split": st.sampled_from(SPLITS),
        "alpha": st.floats(1e-3, 1e3),
        "evaluate_every": st.floats(0.01, 100),
        "on_failure": st.sampled_from(POLICIES),
        "faults": st.lists(faults(), max_size=3).map(tuple),
        "seed": st.integers(0, 2**31),
    }
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes)
def test_any_job_written_and_read_is_the_same(folder: Path, change: dict[str, object]) -> None:
    job = replace(load(folder, MINIMAL), **change)  # type: ignore[arg-type]
    assert load_job(write(folder / "run", job)) == job


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("target: {accuracy: 1.5}", ("accuracy: 1.5 is not a reachable accuracy", "0.95")),
        ("target: {accuracy: 0}", ("not a reachable accuracy",)),
        ("target: {accuracy: -0.1}", ("not a reachable accuracy",)),
        ("target: {accuracy: high}", ("accuracy: 'high' is not a fraction",)),
        ("target: {accuracy: 95}", ("not a reachable accuracy",)),
        ("target: {plateau: 0}", ("plateau: 0 is not a reachable gain", "0.002")),
        ("target: {accuracy: .nan}", ("nan is not a fraction",)),
        ("target: {accurcy: 0.9}", ("unknown key 'accurcy'", "did you mean 'accuracy'?")),
        ("target: {epochs: 0}", ("epochs: 0 is too small", "at least 1")),
        ("target: {epochs: 2.5}", ("epochs: expected a whole number",)),
        ("target: {epochs: ten}", ("epochs: expected a whole number",)),
        ("target: 0.95", ("target: expected a mapping",)),
        ("objective: speed", ("objective: 'speed' is unknown", "known: cost, fairness, makespan")),
        ("limits: {cost: 2}", ("cost: 2 has no unit", "'2 USD'")),
        ("limits: {deadline: -3 s}", ("deadline", "negative")),
        ("limits: {budget: 2 USD}", ("unknown key 'budget'",)),
        ("limits: {fairness: 0}", ("fairness: 0 is not a reachable fairness", "above 0, up to 1, such as 0.8")),
        ("limits: {fairness: 1.2}", ("fairness: 1.2 is not a reachable fairness", "up to 1")),
        ("limits: {fairness: -0.5}", ("not a reachable fairness",)),
        ("limits: {fairness: .nan}", ("nan is not a fraction",)),
        ("limits: {fairness: very}", ("fairness: 'very' is not a fraction",)),
        ("limits: {fairnes: 0.8}", ("unknown key 'fairnes'", "did you mean 'fairness'?")),
        ("strategy: {mode: asp}", ("'name' is missing",)),
        ("strategy: 3", ("strategy: expected text",)),
        ("workers: nobody", ("workers: no device matches 'nobody'",)),
        ("workers: 3", ("workers: 3 is not a device",)),
        ("workers: [[gpu]]", ("workers", "is not a device")),
        ("servers: gpo", ("servers: no device matches 'gpo'", "did you mean 'gpu'?")),
        ("batch: 0", ("batch: 0 is too small",)),
        ("data: {split: random}", ("split: 'random' is unknown",)),
        ("data: {alpha: 0}", ("alpha: 0 is out of range",)),
        ("data: {slit: iid}", ("'slit'", "did you mean 'split'?")),
        ("evaluate_every: 0", ("evaluate_every: 0 is out of range",)),
        ("on_failure: retry", ("on_failure: 'retry' is unknown", "deepedge", "elastic", "stop")),
        ("on_failure: deep-edge", ("on_failure: 'deep-edge' is unknown", "did you mean 'deepedge'?")),
        ("seed: -1", ("seed: -1 is too small",)),
        ("stratgy: auto", ("unknown key 'stratgy'", "did you mean 'strategy'?")),
        ("faults: {at: 1 s}", ("faults: expected a list",)),
        ("name: ../../elsewhere", ("cannot be a name",)),
    ],
)
def test_keys_are_checked(folder: Path, rest: str, parts: tuple[str, ...]) -> None:
    refused(folder, MINIMAL + rest + "\n", *parts, line=3)


@pytest.mark.parametrize(
    ("fault", "parts"),
    [
        ("at: 1 s, node: gpu", ("'kind' is missing",)),
        ("at: 1 s, node: gpu, kind: crsh", ("kind: 'crsh' is unknown", "did you mean 'crash'?")),
        ("node: gpu, kind: crash", ("'at' is missing",)),
        ("at: 1, node: gpu, kind: crash", ("at: 1 has no unit",)),
        ("at: -1 s, node: gpu, kind: crash", ("at", "negative")),
        ("at: 1 s, kind: crash", ("'node' is missing",)),
        ("at: 1 s, node: gpx, kind: crash", ("unknown node 'gpx'", "did you mean 'gpu'?")),
        ("at: 1 s, node: camra, kind: crash", ("unknown node 'camra'", "did you mean 'camera'?")),
        ("at: 1 s, node: cordinator, kind: pause", ("unknown node", "did you mean 'coordinator'?")),
        ("at: 1 s, node: camera, kind: leave", ("'leave' cannot happen to 'camera'", "use crash or pause")),
        ("at: 1 s, node: coordinator, kind: restart", ("'restart' cannot happen to 'coordinator'",)),
        ("at: 1 s, node: coordinator, kind: slow-device", ("cannot happen to 'coordinator'", "name a device")),
        ("at: 1 s, node: gpu, kind: crash, for: 0 s", ("for", "zero")),
        ("at: 1 s, node: gpu, kind: crash, factor: 0.5", ("unknown key 'factor'",)),
        ("at: 1 s, node: gpu, kind: crash, fr: 1 s", ("unknown key 'fr'", "did you mean 'for'?")),
        ("at: 1 s, node: gpu, kind: slow-device, factor: 0", ("factor: 0 is out of range",)),
        ("at: 1 s, node: gpu, kind: slow-device, factor: 2", ("factor: 2 is out of range",)),
        ("at: 1 s, kind: partition", ("'link' is missing",)),
        ("at: 1 s, kind: partition, link: [plant, moon]", ("unknown site 'moon'",)),
        ("at: 1 s, kind: partition, link: plant", ("no link joins [plant]", "[plant, plant]")),
        ("at: 1 s, kind: partition, link: [plant, plant, plant]", ("no link joins [plant, plant, plant]",)),
        ("at: 1 s, kind: partition, link: [region, region]", ("no link joins [region, region]",)),
    ],
)
def test_faults_are_checked(folder: Path, fault: str, parts: tuple[str, ...]) -> None:
    refused(folder, f"{MINIMAL}faults:\n- {{{fault}}}\n", *parts, line=4)


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("task: littoral.tasks.digits\n", 1, ("'continuum' is missing",)),
        ("task: x\ncontinum: c.yaml\n", 2, ("unknown key 'continum'", "did you mean 'continuum'?")),
        ("continuum: c.yaml\n", 1, ("'task' is missing",)),
        ("task: x\ncontinuum: nowhere.yaml\n", 2, ("nowhere.yaml: there is no such file", "check the path")),
        ("task: x\ncontinuum: .\n", 2, ("Is a directory",)),
        ("task: x\ncontinuum: 3\n", 2, ("continuum: expected text",)),
        ('task: x\ncontinuum: "a\\0b"\n', 2, ("continuum: expected text",)),
        (f"task: x\ncontinuum: {'n' * 5000}\n", 2, ("cannot read it",)),
        ("continuum: c.yaml\ntask: [x]\n", 2, ("task: expected text",)),
        ("continuum: c.yaml\ntask: {nme: x}\n", 2, ("unknown key 'nme'", "did you mean 'name'?")),
    ],
)
def test_what_a_job_needs(folder: Path, text: str, line: int, parts: tuple[str, ...]) -> None:
    refused(folder, text, *parts, line=line)


def test_an_error_in_the_continuum_names_its_own_file(folder: Path) -> None:
    (folder / "c.yaml").write_text(CONTINUUM.replace("20 Mbit/s", "20"))
    with pytest.raises(InputError, match=r"c.yaml:9: bandwidth: 20 has no unit") as caught:
        load(folder, MINIMAL)
    assert os.fspath(caught.value.file or "") == str(folder / "c.yaml")


def test_a_workload_is_the_model_not_its_data() -> None:
    assert workload("t", {"folder": "a", "model": "resnet8"}) == workload("t", {"folder": "b", "model": "resnet8"})
    assert workload("t", {"model": "resnet8"}) != workload("t", {"model": "lenet"})
    stored = {"base": "t", "folder": "samples", "options": {"model": "lenet"}}
    assert workload("littoral.tasks.stored", stored) == workload("t", {"model": "lenet"})
