"""What Deep-Edge (IC2E 2020) says for training at the edge and for its design, measured on its own testbed.

    python benchmarks/claims.py [--seeds 3]

Simulated: real gradients on digits where a target is reached, timing alone for the paper's 3,855 pictures of 56 KB and
an Inception of some 22 million parameters. The testbed is ``examples/edge-cluster``, with its step times.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.job import Job, load_job
from littoral.learning.task import load_task
from littoral.run import Options, run_job
from littoral.tasks.stored import freeze

EDGE = Path(__file__).parent.parent / "examples" / "edge-cluster" / "job.yaml"
PICTURES = {"samples": 3855, "shape": [1, 118, 119], "model": "inception", "width": 1.8}  # of four bytes: 56 KB each
UPDATE_EPOCHS = 5
TURNS_DEGREES = (20.0, 40.0)  # of the pictures, after which the base model is stale
ASP: dict[str, Any] = {"mode": "asp"}
Result = dict[str, Any]


def once(job: Job, *, seed: int = 0, timing_only: bool = False) -> Result:
    """A simulated run's result."""
    with tempfile.TemporaryDirectory() as folder:
        return run_job(job, Path(folder) / "run", Options(seed=seed, timing_only=timing_only, reference=False))


def digits(**changes: Any) -> Job:
    """Training digits on the testbed."""
    return replace(load_job(EDGE), epochs=20, **changes)


def pictures(continuum: Continuum | None = None, **changes: Any) -> Job:
    """Five epochs on as much as the paper had; the apps are left out, for they cost everybody the same."""
    job = load_job(EDGE)
    plain = replace(continuum or job.continuum, apps=(), stores=(continuum or job.continuum).stores)
    given = {"epochs": UPDATE_EPOCHS, "accuracy": None, **changes}
    return replace(job, continuum=plain, task="littoral.tasks.synthetic", task_options=PICTURES, **given)


# -- the reasons for the edge ---------------------------------------------------------------------------------------


def with_a_cloud(uplink_bytes_per_s: float) -> Continuum:
    """The testbed, and a card with a server behind a link to a region."""
    edge = load_job(EDGE).continuum
    store = replace(edge.stores[0], samples=PICTURES["samples"])  # type: ignore[arg-type]
    quick = StepTime(fixed_seconds=0.01, seconds_per_sample=0.0532 / 12)  # the TX2's, by the catalogue's ratio to a T4
    rate = Constant(uplink_bytes_per_s)
    server = StepTime(seconds_per_sample=1.0)
    devices = [Device(name="t4", site="region", memory_bytes=16e9, step=quick, price_usd_per_s=0.526 / 3600),
               Device(name="cloud-server", site="region", memory_bytes=16e9, step=server)]  # fmt: skip
    inside = Link(a="region", b="region", forward=Constant(1.25e9), backward=Constant(1.25e9), latency_s=1e-4)
    away = Link(a="plant", b="region", forward=rate, backward=rate, latency_s=0.02, price_usd_per_byte=0.09e-9)
    return replace(edge, sites=(*edge.sites, Site(name="region", tier="cloud")), stores=(store,),
                   devices=(*edge.devices, *devices), links=(*edge.links, inside, away))  # fmt: skip


def no_bulk_transfer() -> Iterator[str]:
    """The same update at the edge, and by a card in a region to which the pictures go."""
    for mbit in (5, 50):
        both = with_a_cloud(mbit * 1e6 / 8)
        edge = once(pictures(both, workers=("tx2", "nano-1", "nano-2", "nano-3"), servers=("pi-server",),
                             strategy="parameter_server", parameters=ASP), timing_only=True)  # fmt: skip
        away = once(pictures(both, workers=("t4",), servers=("cloud-server",),
                             strategy="parameter_server", parameters=ASP), timing_only=True)  # fmt: skip
        for where, found in (("at the edge", edge), ("by a card there", away)):
            moved = f"{found['wan_bytes'] / 1e6:.0f} MB to and from the region, {found['cost_usd']:.3f} USD"
            yield f"uplink of {mbit} Mbit/s, {where}: {found['time_s'] / 60:.1f} min, {moved}"


def fewer_epochs(seeds: Sequence[int]) -> Iterator[str]:
    """From the model that was served, and from nothing, on pictures that have been turned since."""
    task = load_task("littoral.tasks.digits", {}, {})
    data = task.data()
    parts = {name: getattr(data, name).numpy() for name in ("train_x", "train_y", "test_x", "test_y")}
    base = _trained(task, parts, epochs=20)
    with tempfile.TemporaryDirectory() as folder:
        for degrees in TURNS_DEGREES:
            turned = {name: _turned(part, degrees) if name.endswith("x") else part for name, part in parts.items()}
            found: dict[str, list[float]] = {}
            for start, weights in (("from the served model", base), ("from nothing", None)):
                place = Path(folder) / f"{start}, {degrees}"
                freeze(place, turned, (0.0, 1.0), weights)
                options = {"base": "littoral.tasks.digits", "folder": str(place)}
                job = digits(task="littoral.tasks.stored", task_options=options, accuracy=0.9, evaluate_every=0.25)
                found[start] = [once(job, seed=seed)["epochs"] for seed in seeds]
            told = "; ".join(f"{start} {_spread(epochs)}" for start, epochs in found.items())
            yield f"epochs to 90 % on pictures turned by {degrees:.0f} degrees: {told}"


def _turned(x: NDArray[np.float32], degrees: float) -> NDArray[np.float32]:
    from scipy.ndimage import rotate

    return np.asarray(rotate(x, degrees, axes=(2, 3), reshape=False, order=1), np.float32)


def _trained(task: Any, parts: dict[str, NDArray[Any]], epochs: int) -> bytes:
    """The weights after plain SGD on the pictures as they were."""
    import torch
    from safetensors.torch import save

    torch.manual_seed(0)
    model, (x, y) = task.model(), (torch.from_numpy(parts["train_x"]), torch.from_numpy(parts["train_y"]))
    optimiser = torch.optim.SGD(model.parameters(), lr=task.recipe.lr)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(32):
            optimiser.zero_grad()
            torch.autograd.backward(task.loss(model(x[rows]), y[rows]))
            optimiser.step()
    return save(model.state_dict())


# -- the design -----------------------------------------------------------------------------------------------------


def decentralised_costs_more(seeds: Sequence[int]) -> Iterator[str]:
    """Everybody tells everybody, beside a server that is told."""
    yield from _compared(seeds, {
        "a server": digits(strategy="parameter_server", parameters=ASP, servers=("pi-server",)),
        "everybody to everybody": digits(strategy="dpsgd", parameters={"topology": "complete"}, servers=()),
        "a ring of neighbours": digits(strategy="dpsgd", parameters={"topology": "ring"}, servers=()),
    })  # fmt: skip


def asynchrony_avoids_waiting(seeds: Sequence[int]) -> Iterator[str]:
    """The same server, with and without a barrier; equal shards, as the paper's baseline has them."""
    yield from _compared(seeds, {
        "asynchronous": digits(strategy="parameter_server", parameters=ASP, planner="fair"),
        "with a barrier": digits(strategy="parameter_server", parameters={"mode": "bsp"}, planner="fair"),
    })  # fmt: skip


def equal_shards_idle_the_quick() -> Iterator[str]:
    """What part of its time each worker waits, with a model so small that the server is no limit."""
    for planner in ("fair", "search"):
        found = once(digits(planner=planner, parameters=ASP, accuracy=None), timing_only=True)
        waits = {name: worker["wait_s"] / found["time_s"] for name, worker in found["workers"].items()}
        told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in sorted(waits.items()))
        yield f"{planner}: epoch {found['time_s'] / found['epochs']:.1f} s; idle: {told}"


def more_workers_may_be_slower() -> Iterator[str]:
    """Equal shards on the TX2 and more and more of the others, the store's Pi last."""
    order = ("tx2", "nano-1", "nano-2", "nano-3", "pi-store")
    for rate in (1e9, 1e8):
        edge = load_job(EDGE).continuum
        ports = Constant(rate / 8)
        slow = replace(edge, devices=tuple(replace(d, uplink=ports, downlink=ports) for d in edge.devices))
        seconds = []
        for count in range(1, len(order) + 1):
            found = once(pictures(slow, workers=order[:count], planner="fair", parameters=ASP), timing_only=True)
            seconds.append(found["time_s"] / UPDATE_EPOCHS)
        best = once(pictures(slow, workers=order, planner="search", parameters=ASP), timing_only=True)
        used = sum(worker["samples"] > 0 for worker in best["workers"].values())
        yield (f"ports of {rate / 1e6:.0f} Mbit/s: equal shards on 1 to 5 workers take "
               f"{', '.join(f'{s:.0f}' for s in seconds)} s an epoch; search uses {used}, "
               f"{best['time_s'] / UPDATE_EPOCHS:.0f} s")  # fmt: skip


def _compared(seeds: Sequence[int], jobs: dict[str, Job]) -> Iterator[str]:
    for name, job in jobs.items():
        runs = [once(job, seed=seed) for seed in seeds]
        times = [run["time_to_target_s"] or float("inf") for run in runs]
        sent = [run["bytes_sent"] / run["samples"] for run in runs]
        waits = [statistics.fmean(w["wait_s"] / run["time_s"] for w in run["workers"].values()) for run in runs]
        yield (f"{name}: {_spread(times)} s to 95 %, {statistics.fmean(sent) / 1e3:.2f} kB sent per sample, "
               f"workers wait {100 * statistics.fmean(waits):.0f} % of the time")  # fmt: skip


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    claims: dict[str, Callable[[], Iterator[str]]] = {
        "No bulk transfer to the cloud": no_bulk_transfer,
        "An update needs fewer epochs than initial training": lambda: fewer_epochs(seeds),
        "Decentralised exchange costs more than a server": lambda: decentralised_costs_more(seeds),
        "Asynchrony avoids waiting": lambda: asynchrony_avoids_waiting(seeds),
        "Equal shards under-use quick nodes": equal_shards_idle_the_quick,
        "Adding workers can lower throughput": more_workers_may_be_slower,
    }
    for claim, measure in claims.items():
        print(f"{claim}:", flush=True)
        for line in measure():
            print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
