"""What the simulator adds to the bare torch mathematics of the same steps: gradients, merging, updates, by hand.

python benchmarks/overhead.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from littoral.job import Job
from littoral.learning.task import Task, load_task
from littoral.testing import simulate, small_continuum

CASES: list[tuple[str, dict[str, Any]]] = [
    ("digits MLP, 15 k", {"samples": 2560, "test_samples": 64, "shape": [1, 8, 8], "model": "mlp"}),
    ("MLP-200, 159 k", {"samples": 2560, "test_samples": 64, "shape": [1, 28, 28], "model": "mlp"}),
    ("LeNet, 108 k", {"samples": 1280, "test_samples": 64, "shape": [1, 28, 28], "model": "lenet"}),
    ("ResNet-8, 78 k", {"samples": 320, "test_samples": 64, "shape": [3, 32, 32], "model": "resnet8"}),
]
STRATEGIES: list[tuple[str, dict[str, Any]]] = [("allreduce", {}), ("parameter_server", {"mode": "asp"})]
WORKERS = 4


def job(options: dict[str, Any], strategy: str, parameters: dict[str, Any]) -> Job:
    continuum = small_continuum([100.0] * WORKERS)
    names = tuple(name for name in continuum.device_names if name != "hub")
    return Job(
        name="overhead",
        continuum=continuum,
        task="littoral.tasks.synthetic",
        task_options=options,
        epochs=1,
        strategy=strategy,
        parameters=parameters,
        planner="fair",
        workers=names,
        servers=("hub",),
        evaluate_every=1.0,
    )


def bare_allreduce(task: Task, steps: int) -> float:
    """The same algorithm by hand: gradients of four models, their mean, four optimiser steps. No clock, no network."""
    dataset = task.data()
    models = [task.model().train() for _ in range(WORKERS)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
    order = torch.randperm(len(dataset.train_x))
    batch = task.recipe.batch
    start = time.perf_counter()
    for step in range(0, steps, WORKERS):
        for i, model in enumerate(models):
            index = order[(step + i) * batch : (step + i + 1) * batch]
            optimizers[i].zero_grad()
            loss = task.loss(model(dataset.train_x[index]), dataset.train_y[index])
            loss.backward()
            loss.item()
        with torch.no_grad():
            for parameters in zip(*(model.parameters() for model in models), strict=True):
                total = parameters[0].grad * (1 / WORKERS)
                for parameter in parameters[1:]:
                    total.add_(parameter.grad, alpha=1 / WORKERS)
                for parameter in parameters:
                    parameter.grad = total
        for optimizer in optimizers:
            optimizer.step()
    return time.perf_counter() - start


def bare_server(task: Task, steps: int) -> float:
    """The same algorithm by hand: a worker copies the server's parameters, computes, and the server takes the step."""
    dataset = task.data()
    server, models = task.model(), [task.model().train() for _ in range(WORKERS)]
    optimizer = torch.optim.SGD(server.parameters(), lr=0.01)
    order = torch.randperm(len(dataset.train_x))
    batch = task.recipe.batch
    start = time.perf_counter()
    for step in range(steps):
        model = models[step % WORKERS]
        index = order[step * batch : (step + 1) * batch]
        with torch.no_grad():
            for mine, theirs in zip(model.parameters(), server.parameters(), strict=True):
                mine.copy_(theirs)
        model.zero_grad()
        loss = task.loss(model(dataset.train_x[index]), dataset.train_y[index])
        loss.backward()
        loss.item()
        for mine, theirs in zip(model.parameters(), server.parameters(), strict=True):
            theirs.grad = mine.grad
        optimizer.step()
    return time.perf_counter() - start


def ours(described: Job) -> float:
    """Seconds of the simulated run, less its set-up and its two evaluations."""
    from littoral.learning.mathematics import RealMathematics

    spent = 0.0
    original = RealMathematics.evaluate

    def timed(self: RealMathematics, parts: Any) -> tuple[float, float]:
        nonlocal spent
        start = time.perf_counter()
        try:
            return original(self, parts)
        finally:
            spent += time.perf_counter() - start

    RealMathematics.evaluate = timed  # type: ignore[method-assign]
    try:
        marks: list[float] = []
        story = simulate(described, on_start=lambda: marks.append(time.perf_counter()))
        assert story.reason == "epochs"
        return time.perf_counter() - marks[0] - spent
    finally:
        RealMathematics.evaluate = original  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    print(f"simulator over bare torch, {WORKERS} workers, batch 32, median of {repeats} interleaved runs; goal: 1.10")
    print(f"{'model':20}{'strategy':>18}{'ours ms/step':>14}{'bare ms/step':>14}{'ratio':>8}  spread")
    for name, options in CASES:
        for strategy, parameters in STRATEGIES:
            described = job(options, strategy, parameters)
            task = load_task(described.task, described.task_options)
            steps = options["samples"] // task.recipe.batch
            bare = bare_allreduce if strategy == "allreduce" else bare_server
            pairs = []
            for _ in range(repeats):
                pairs.append((ours(described) / steps, bare(task, steps) / steps))
            ratios = sorted(a / b for a, b in pairs)
            mine, plain = (statistics.median(p[i] for p in pairs) * 1e3 for i in (0, 1))
            print(f"{name:20}{strategy:>18}{mine:>14.3f}{plain:>14.3f}{statistics.median(ratios):>8.3f}"
                  f"  {ratios[0]:.3f} .. {ratios[-1]:.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
