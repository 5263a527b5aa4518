"""Rows as a sweep would measure them, from formulas that a test can compare with.

    compute per sample   (fixed / batch + per_sample) / ((1 - cpu)(1 - share of gpu))
    update per batch     wire + service / (1 - rho), rho from the workers' rates and the server's load
    memory during        before + model + activations * batch
    cpu, gpu during      what training takes of what is left
    latency of an app    base / (1 - cpu), slower with the GPU in use

Each measurement is off by ``noise``; memory before is stressed, and changes no time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from littoral.profiling.rows import AppRow, State, TrainingRow

BATCHES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A made-up device, and what it makes of a state."""

    kind: str = "jetson-nano"
    fixed_s: float = 0.08
    sample_s: float = 0.02
    gpu_share: float = 0.6
    model_share: float = 0.08
    sample_share: float = 0.004
    wire_s: float = 0.15
    service_s: float = 0.04

    def compute_s(self, state: State, batch: float) -> float:
        slow = 1 / ((1 - state.cpu) * (1 - self.gpu_share * state.gpu))
        return (self.fixed_s / batch + self.sample_s) * slow

    def update_s(self, state: State, server: State, workers: float, batch_mean: float) -> float:
        service = self.service_s / (1 - server.cpu)
        round_s = batch_mean * self.sample_s + self.fixed_s + self.wire_s
        rho = min(0.9, workers * service / (workers * service + round_s))
        return (self.wire_s * (1 + 0.3 * state.cpu) + service / (1 - rho)) * 1.0

    def during(self, before: State, batch: float) -> State:
        cpu = before.cpu + 0.35 * (1 - before.cpu) * (1 - 0.3 * batch / 64)
        gpu = before.gpu + 0.8 * (1 - before.gpu) * batch / (batch + 4)
        memory = min(1.0, before.memory + self.model_share + self.sample_share * batch)
        pressure = min(1.0, 0.8 * before.pressure + 0.3 * cpu**2)
        return State(cpu=cpu, gpu=gpu, memory=memory, pressure=pressure, load=before.load + 1.2)


def exec_s(state: State) -> float:
    """An app's latency in a crowd."""
    return 0.03 * (1 + 0.4 * state.gpu) / (1 - 0.8 * min(state.cpu, 0.98))


def stressed(rng: np.random.Generator) -> State:
    """A state that stressors could make."""
    cpu, gpu, memory = rng.uniform(0, 0.8), rng.uniform(0, 0.8), rng.uniform(0.1, 0.6)
    return State(cpu=cpu, gpu=gpu, memory=memory, pressure=cpu**2 * rng.uniform(0.8, 1.2) / 1.2,
                 load=4 * cpu * rng.uniform(0.9, 1.1))  # fmt: skip


def training_rows(
    points: int = 60, *, machine: Machine | None = None, noise: float = 0.02, seed: int = 0, task: str = "digits",
    batches: int = 4,
) -> tuple[TrainingRow, ...]:  # fmt: skip
    """``batches`` windows at each stress point, each with company of its own."""
    device, rng, rows = machine or Machine(), np.random.default_rng(seed), []
    for point in range(points):
        before, server = stressed(rng), State(cpu=rng.uniform(0, 0.7))
        for batch in rng.choice(BATCHES, batches, replace=False):
            others = rng.choice(BATCHES, rng.integers(0, 4))
            everyone = [int(batch), *map(int, others)]
            rows.append(
                TrainingRow(
                    point=point,
                    device="d0",
                    kind=device.kind,
                    task=task,
                    batch=int(batch),
                    workers=len(everyone),
                    batch_sum=sum(everyone),
                    batch_max=max(everyone),
                    before=before,
                    server=server,
                    compute_s=device.compute_s(before, batch) * _off(rng, noise),
                    update_s=device.update_s(before, server, len(everyone), float(np.mean(everyone)))
                    * _off(rng, noise),
                    during=_measured(device.during(before, batch), rng, noise / 2),
                    steps=20,
                )
            )
    return tuple(rows)


def app_rows(points: int = 60, *, noise: float = 0.02, seed: int = 1, kind: str = "jetson-nano") -> tuple[AppRow, ...]:
    """Three windows of an app at each stress point."""
    rng, rows = np.random.default_rng(seed), []
    for point in range(points):
        state = stressed(rng)
        for _ in range(3):
            seen = _measured(state, rng, noise / 4)
            latency = exec_s(state) * _off(rng, noise)
            rows.append(
                AppRow(point=point, device="d0", kind=kind, app="sift", beside=0, state=seen, mean_s=latency,
                       tail_s=1.25 * latency, deadline_s=0.2, periods=50)
            )  # fmt: skip
    return tuple(rows)


def noise_floor(noise: float) -> float:
    """The mean relative error of the truth itself."""
    return noise * np.sqrt(2 / np.pi)


def _off(rng: np.random.Generator, noise: float) -> float:
    return float(np.exp(noise * rng.standard_normal()))


def _measured(state: State, rng: np.random.Generator, noise: float) -> State:
    shares = {name: min(1.0, getattr(state, name) * _off(rng, noise)) for name in ("cpu", "gpu", "memory", "pressure")}
    return State(**shares, load=state.load * _off(rng, noise))
