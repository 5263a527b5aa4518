"""The job: what to train, until when, for which goal, and what shall go wrong on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from littoral import units
from littoral.continuum.continuum import Continuum
from littoral.continuum.load import load_continuum
from littoral.document import Section, read_document, suggest
from littoral.errors import InputError, brief

OBJECTIVES = ["makespan", "cost", "fairness"]
WIRES = ["float32", "float16"]
SPLITS = ["iid", "dirichlet", "by-store"]
NODE_FAULTS = ["crash", "restart", "leave", "pause", "slow-device"]
SERVICE_FAULTS = ["crash", "pause"]  # of the coordinator and of stores
MOST_EPOCHS = 100_000  # beyond it is a slip of the pen
LINK_FAULTS = ["partition", "slow-link"]
POLICIES = ["elastic", "deepedge", "stop"]
COORDINATOR = "coordinator"  # what faults call it
_OTHER = {"folder", "samples", "batch", "lr", "momentum", "weight_decay"}  # options of tasks that leave a step as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong at ``at_s``, for ``seconds`` (infinity: for good).

    Node faults name a ``node`` (a device, a server, a store or the coordinator), link faults the two ends of a
    ``link``. A crash with a finite ``seconds`` is followed by a restart; a server's or the coordinator's process is
    started again in any case. ``restart`` brings back a node that crashed or left. ``factor`` is how much is left
    of a slowed device's speed or link's rate.
    """

    at_s: float
    kind: str
    node: str = ""
    link: tuple[str, str] | None = None
    seconds: float = float("inf")
    factor: float = 0.5

    @property
    def target(self) -> str:
        """What it hits, for people."""
        return self.node or "--".join(self.link or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan must keep; None is no limit."""

    cost_usd: float | None = None
    deadline_s: float | None = None
    fairness: float | None = None  # Jain's index of the burdens, at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training job on one continuum."""

    name: str
    continuum: Continuum
    task: str
    task_options: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)  # instead of the task's own: lr, optimizer ...
    yardstick: dict[str, Any] | None = None  # the lone device's recipe that goodput compares with; None: the job's
    epochs: int = 10
    accuracy: float | None = None
    plateau: float | None = None  # stop when all epochs left are expected to better the best accuracy by less
    objective: str = "makespan"
    limits: Limits = Limits()
    strategy: str = "auto"
    parameters: dict[str, Any] = field(default_factory=dict)
    planner: str = "auto"
    profile: str | None = None  # the folder of measurements that solvers believe instead of the description
    unmeasured: str = "refuse"  # or "guess": kinds of device, or a task, that the profile does not have
    workers: tuple[str, ...] = ()  # devices that may work; empty: all
    servers: tuple[str, ...] = ()  # devices that may serve; empty: the planner chooses
    batch: int | None = None  # mean batch per worker; None: the task's recipe
    split: str = "iid"
    alpha: float = 0.5
    wire: str = "float32"  # or another of WIRES: how vectors cross between nodes
    evaluate_every: float = 0.5  # epochs
    on_failure: str = "elastic"  # or another of POLICIES
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    places: Mapping[str, tuple[Path, int]] = field(default_factory=dict, compare=False)  # where keys were read

    @property
    def workload(self) -> str:
        """What a profile is of: the task, and those of its options that make the model what it is."""
        return workload(self.task, self.task_options)


def workload(task: str, options: Mapping[str, Any]) -> str:
    """A task's name with the options that decide what a step takes; a task on another one's model is that one.

    >>> workload("my.task", {"folder": "data", "width": 2.0, "lr": 0.1})
    'my.task width=2.0'
    >>> workload("littoral.tasks.stored", {"base": "my.task", "folder": "data", "options": {"width": 2.0}})
    'my.task width=2.0'
    """
    if "base" in options:
        return workload(options["base"], options.get("options") or {})
    return " ".join([task, *(f"{name}={value}" for name, value in sorted(options.items()) if name not in _OTHER)])


@contextmanager
def blame(job: Job, key: str) -> Iterator[None]:
    """Complaints from inside that have no place yet are placed at a key of the job's files."""
    try:
        yield
    except InputError as error:
        place = job.places.get(error.key or key)
        if place is None or error.file is not None:
            raise
        raise error.at(*place) from error


def load_job(path: Path) -> Job:
    """The job described in a YAML file, with its continuum."""
    top = read_document(path)
    described = path.parent / top.text("continuum")
    continuum = top.read("continuum", lambda _: load_continuum(described))
    task, options = _named(top, "task")
    strategy, parameters = _named(top, "strategy", "auto")
    target = top.section("target")
    limits = top.section("limits")
    data = top.section("data")
    job = Job(
        name=top.name("name", _default_name(path)),
        continuum=continuum,
        task=task,
        task_options=_resolved(options, path.parent),
        recipe=_mapping(top, "recipe"),
        yardstick=_mapping(top, "yardstick") if "yardstick" in top.keys() else None,  # noqa: SIM118 (not a dict)
        epochs=target.integer("epochs", 10, least=1, most=MOST_EPOCHS) if target else 10,
        accuracy=_accuracy(target) if target else None,
        plateau=target.read("plateau", lambda value: _share(value, "gain", 0.002), None) if target else None,
        objective=top.choice("objective", OBJECTIVES, "makespan"),
        limits=_limits(limits) if limits else Limits(),
        strategy=strategy,
        parameters=parameters,
        planner=top.text("planner", "auto"),
        profile=_profile(top),
        unmeasured=_unmeasured(top),
        workers=_devices(top, "workers", continuum),
        servers=_devices(top, "servers", continuum),
        batch=top.integer("batch", None, least=1),
        split=data.choice("split", SPLITS, "iid") if data else "iid",
        alpha=data.number("alpha", 0.5, least=1e-3) if data else 0.5,
        wire=top.choice("wire", WIRES, "float32"),
        evaluate_every=top.number("evaluate_every", 0.5, least=0.01),
        on_failure=_on_failure(top),
        faults=tuple(_fault(section, continuum) for section in top.sections("faults")),
        seed=top.integer("seed", 0),
        places=_places(top, described),
    )
    for section in (target, limits, data):
        if section:
            section.close()
    top.close()
    return job


def _mapping(top: Section, key: str) -> dict[str, Any]:
    """A mapping whose keys somebody else checks."""
    section = top.section(key)
    return {name: section.value(name) for name in section.keys()} if section else {}  # noqa: SIM118 (not a dict)


def _default_name(path: Path) -> str:
    """The file's name, or its folder's if that says more than ``job``."""
    name = path.resolve().parent.name if path.stem == "job" else path.stem
    return re.sub(r"[^\w.-]+", "-", name) or "job"


def job_document(job: Job) -> dict[str, Any]:
    """The job as one would write it, beside its continuum as ``continuum.yaml``."""
    goals = {"accuracy": job.accuracy, "plateau": job.plateau}
    target = {"epochs": job.epochs} | {name: goal for name, goal in goals.items() if goal is not None}
    document: dict[str, Any] = {
        "name": job.name,
        "continuum": "continuum.yaml",
        "task": {"name": job.task, **job.task_options},
        "recipe": job.recipe,
        "yardstick": job.yardstick,
        "target": target,
        "objective": job.objective,
        "limits": _limits_document(job.limits),
        "strategy": {"name": job.strategy, **job.parameters},
        "planner": job.planner,
        "profile": job.profile,
        "unmeasured": None if job.profile is None else job.unmeasured,
        "workers": list(job.workers),
        "servers": list(job.servers),
        "batch": job.batch,
        "data": {"split": job.split, "alpha": job.alpha},
        "wire": job.wire,
        "evaluate_every": job.evaluate_every,
        "on_failure": job.on_failure,
        "faults": [_fault_document(fault) for fault in job.faults],
        "seed": job.seed,
    }
    return {key: value for key, value in document.items() if value not in (None, [], {})}


def _limits_document(limits: Limits) -> dict[str, Any]:
    document = {
        "cost": None if limits.cost_usd is None else f"{limits.cost_usd!r} USD",
        "deadline": None if limits.deadline_s is None else f"{limits.deadline_s!r} s",
        "fairness": limits.fairness,
    }
    return {key: value for key, value in document.items() if value is not None}


def _fault_document(fault: Fault) -> dict[str, Any]:
    row: dict[str, Any] = {"at": f"{fault.at_s!r} s", "kind": fault.kind}
    row |= {"node": fault.node} if fault.node else {"link": list(fault.link or ())}
    if fault.seconds != float("inf"):
        row["for"] = f"{fault.seconds!r} s"
    return row | ({"factor": fault.factor} if fault.kind.startswith("slow") else {})


def _named(top: Section, key: str, default: str | None = None) -> tuple[str, dict[str, Any]]:
    """Either a name, or a mapping with a name and parameters."""
    if not top.is_mapping(key):
        name: str = top.text(key) if default is None else top.text(key, default)
        return name, {}
    section = top.section(key)
    assert section is not None
    name = section.text("name")
    return name, {k: section.value(k) for k in section.keys() if k != "name"}  # noqa: SIM118 (not a dict)


def _places(top: Section, continuum: Path) -> dict[str, tuple[Path, int]]:
    keys = {
        key: (top.file, top.line_of(key))
        for key in ("task", "recipe", "data", "strategy", "planner", "profile", "workers", "servers")
    }
    return keys | {"links": (continuum, read_document(continuum).line_of("links"))}


def _resolved(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A task's ``folder`` is relative to the job file."""
    if isinstance(options.get("folder"), str):
        return {**options, "folder": str((folder / options["folder"]).resolve())}
    return options


def _profile(top: Section) -> str | None:
    """Relative to the job file, as all folders are."""
    named: str = top.text("profile", "")
    return str((top.file.parent / named).resolve()) if named else None


def _unmeasured(top: Section) -> str:
    asked: str = top.choice("unmeasured", ["refuse", "guess"], "refuse")
    if asked == "guess" and not top.text("profile", ""):
        found = "unmeasured: guess without a profile"
        raise InputError(found, file=top.file, line=top.line_of("unmeasured"), remedy="give the folder of a profile")
    return asked


def _accuracy(target: Section) -> float | None:
    return target.read("accuracy", lambda value: _share(value, "accuracy", 0.95), None)


def _share(value: object, what: str, example: float) -> float:
    share = units.parse(value, "fraction")
    if not 0.0 < share <= 1.0:
        remedy = f"give a share above 0, up to 1, such as {example}"
        raise InputError(f"{brief(value)} is not a reachable {what}", remedy=remedy)
    return share


def _limits(section: Section) -> Limits:
    return Limits(
        cost_usd=section.quantity("cost", units.money, None),
        deadline_s=section.quantity("deadline", units.duration, None, positive=True),
        fairness=section.read("fairness", lambda value: _share(value, "fairness", 0.8), None),
    )


def _devices(top: Section, key: str, continuum: Continuum) -> tuple[str, ...]:
    return top.read(key, lambda value: continuum.matching(value if isinstance(value, list) else [value]), ())


def _on_failure(top: Section) -> str:
    """The policy; ``continue`` is what ``elastic`` was called first."""
    word = top.choice("on_failure", [*POLICIES, "continue"], "elastic")
    return "elastic" if word == "continue" else word


def _fault(section: Section, continuum: Continuum) -> Fault:
    kind = section.choice("kind", NODE_FAULTS + LINK_FAULTS)
    link = _fault_link(section, continuum) if kind in LINK_FAULTS else None
    node = _fault_node(section, continuum, kind) if kind in NODE_FAULTS else ""
    fault = Fault(
        at_s=section.quantity("at", units.duration),
        kind=kind,
        node=node,
        link=link,
        seconds=section.quantity("for", units.duration, float("inf"), positive=True),
        factor=section.number("factor", 0.5, least=1e-6, most=1.0) if kind.startswith("slow") else 0.5,
    )
    section.close()
    return fault


def _fault_node(section: Section, continuum: Continuum, kind: str) -> str:
    node = section.text("node")
    nodes = [*continuum.device_names, *(f"ps-{i}" for i in range(1, 65))]
    services = [COORDINATOR, *(store.name for store in continuum.stores)]
    if node not in nodes and node not in services:
        known = list(dict.fromkeys([*nodes, *services]))
        raise section.error(f"unknown node {node!r}", key="node", remedy=suggest(node, known))
    if node not in nodes and kind not in SERVICE_FAULTS:
        remedy = f"use {' or '.join(SERVICE_FAULTS)}, or name a device"
        raise section.error(f"{kind!r} cannot happen to {node!r}", key="kind", remedy=remedy)
    return node


def _fault_link(section: Section, continuum: Continuum) -> tuple[str, str]:
    ends = section.texts("link")
    sites = [site.name for site in continuum.sites]
    for end in ends:
        if end not in sites:
            raise section.error(f"unknown site {end!r}", key="link", remedy=suggest(end, sites))
    if not any({link.a, link.b} == set(ends) and len(ends) == 2 for link in continuum.links):
        described = [f"[{link.a}, {link.b}]" for link in continuum.links]
        found = f"no link joins [{', '.join(ends)}]"
        raise section.error(found, key="link", remedy=suggest(f"[{', '.join(ends)}]", described))
    return ends[0], ends[1]
