"""The fluid network against closed forms, and against a slow max-min written from its definition."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.continuum.routes import Pipe, Route
from littoral.continuum.signal import Constant, Signal, Steps
from littoral.worlds.simulated.kernel import Kernel
from littoral.worlds.simulated.network import FluidNetwork


class Bench:
    """Starts flows at given times and notes when they end."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.network = FluidNetwork(self.kernel)
        self.ends: dict[str, float] = {}

    def flow(self, name: str, at: float, route: Route, size: float) -> None:
        def done() -> None:
            self.ends[name] = self.kernel.now

        self.kernel.call_at(at, lambda _: self.network.start(route, size, done) and None)

    def run(self) -> dict[str, float]:
        self.kernel.run()
        return self.ends


def route(*pipes: tuple[str, Signal | float], limit: float = math.inf) -> Route:
    made = [Pipe(name, Constant(c) if isinstance(c, float) else c) for name, c in pipes]
    return Route(pipes=tuple(made), latency_s=0.0, flow_limit=limit)


def test_one_flow_takes_size_over_rate() -> None:
    bench = Bench()
    bench.flow("a", 1.0, route(("x", 100.0)), 250.0)
    assert bench.run() == {"a": pytest.approx(3.5)}


def test_two_flows_on_one_link_share_it_and_the_rest_speeds_up() -> None:
    bench = Bench()
    bench.flow("a", 0.0, route(("x", 100.0)), 100.0)
    bench.flow("b", 0.5, route(("x", 100.0)), 100.0)
    # a alone for 0.5 s (50 bytes), both at 50/s until a ends at 1.5; b has 50 left, alone: 2.0
    assert bench.run() == {"a": pytest.approx(1.5), "b": pytest.approx(2.0)}


def test_cross_traffic_on_a_star_is_max_min_fair() -> None:
    # Server port 100. Workers' ports: 10, 100, 100. The slow one takes 10, the others 45 each.
    bench = Bench()
    for name, port in (("slow", 10.0), ("b", 100.0), ("c", 100.0)):
        bench.flow(name, 0.0, route((name, port), ("server", 100.0)), 450.0)
    ends = bench.run()
    assert ends["b"] == ends["c"] == pytest.approx(10.0)
    assert ends["slow"] == pytest.approx(45.0)


def test_a_rate_that_changes_in_mid_transfer() -> None:
    bench = Bench()
    bench.flow("a", 0.0, route(("x", Steps((0.0, 1.0, 3.0), (100.0, 0.0, 10.0)))), 150.0)
    # 100 bytes in the first second, none until 3, then 50 at 10/s
    assert bench.run() == {"a": pytest.approx(8.0)}


def test_a_private_port_that_slows_down_frees_the_shared_link() -> None:
    bench = Bench()
    bench.flow("a", 0.0, route(("pa", Steps((0.0, 2.0), (100.0, 10.0))), ("x", 100.0)), 200.0)
    bench.flow("b", 0.0, route(("pb", 1000.0), ("x", 100.0)), 190.0)
    # until 2: 50 each (100 done each); then a 10/s, b 90/s: b's 90 take 1 s; a's 100 take 10 s
    assert bench.run() == {"b": pytest.approx(3.0), "a": pytest.approx(12.0)}


def test_a_cut_stalls_flows_and_healing_resumes_them() -> None:
    bench = Bench()
    bench.flow("a", 0.0, route(("x", 100.0)), 100.0)
    bench.kernel.call_at(0.5, lambda _: bench.network.scale("x", 0.0))
    bench.kernel.call_at(5.5, lambda _: bench.network.scale("x", 1.0))
    assert bench.run() == {"a": pytest.approx(6.0)}


def test_a_withdrawn_flow_leaves_its_share() -> None:
    bench = Bench()
    bench.flow("a", 0.0, route(("x", 100.0)), 100.0)
    held = []
    bench.kernel.call_at(
        0.0, lambda _: held.append(bench.network.start(route(("x", 100.0)), 1000.0, lambda: None)) or None
    )
    bench.kernel.call_at(1.0, lambda _: bench.network.stop(held[0]))
    assert bench.run() == {"a": pytest.approx(1.5)}


def test_a_lossy_path_caps_its_flow() -> None:
    bench = Bench()
    bench.flow("a", 0.0, route(("x", 100.0), limit=20.0), 100.0)
    bench.flow("b", 0.0, route(("x", 100.0)), 80.0)
    assert bench.run() == {"a": pytest.approx(5.0), "b": pytest.approx(1.0)}


# -- against the definition ---------------------------------------------------------------------------------------


def slow_max_min(paths: list[list[str]], capacity: dict[str, float]) -> list[float]:
    """Progressive filling, flow by flow, from the textbook."""
    rates, frozen = [0.0] * len(paths), [False] * len(paths)
    left = dict(capacity)
    while not all(frozen):
        users = {p: sum(1 for i, path in enumerate(paths) if p in path and not frozen[i]) for p in capacity}
        step = min(left[p] / n for p, n in users.items() if n)
        for i, path in enumerate(paths):
            if not frozen[i]:
                rates[i] += step
                for p in path:
                    left[p] -= step
        tight = {p for p, n in users.items() if n and left[p] <= 1e-9 * capacity[p]}
        for i, path in enumerate(paths):
            frozen[i] = frozen[i] or bool(tight & set(path))
    return rates


def slow_ends(flows: list[tuple[float, list[str], float]], capacity: dict[str, float]) -> list[float]:
    """Step from event to event, sharing anew each time."""
    ends, left, now = [math.inf] * len(flows), [size for _, _, size in flows], 0.0
    while math.inf in ends:
        active = [i for i, (start, _, _) in enumerate(flows) if start <= now + 1e-12 and ends[i] == math.inf]
        arrivals = [start for start, _, _ in flows if start > now + 1e-12]
        rates = slow_max_min([flows[i][1] for i in active], capacity)
        times = [left[i] / r for i, r in zip(active, rates, strict=True)]
        step = min([*times, *(start - now for start in arrivals)])
        for i, r in zip(active, rates, strict=True):
            left[i] -= r * step
            if left[i] <= 1e-6:
                ends[i] = now + step
        now += step
    return ends


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_random_networks_agree_with_the_definition(seed: int) -> None:
    dice = random.Random(seed)
    pipes = {f"p{i}": float(dice.choice([10, 20, 50, 100])) for i in range(dice.randint(1, 5))}
    flows = [
        (
            dice.choice([0.0, 0.0, round(dice.uniform(0, 5), 2)]),
            dice.sample(sorted(pipes), dice.randint(1, len(pipes))),
            float(dice.randint(10, 500)),
        )
        for _ in range(dice.randint(1, 8))
    ]
    bench = Bench()
    for i, (start, path, size) in enumerate(flows):
        bench.flow(str(i), start, route(*[(p, pipes[p]) for p in path]), size)
    ends = bench.run()
    expected = slow_ends(flows, pipes)
    assert [ends[str(i)] for i in range(len(flows))] == pytest.approx(expected, rel=1e-6)


def test_cost_per_flow_does_not_grow_with_their_number() -> None:
    """Counted in kernel events, which no machine's speed can change."""
    counts = {}
    for n in (10, 100, 1000):
        bench = Bench()
        for i in range(n):
            way = route((f"w{i}", 1e3 * (1 + i % 3)), ("server", 1e3 * n))
            bench.flow(str(i), i / n, way, 1e4)
        bench.run()
        counts[n] = bench.kernel.events / n
    assert counts[1000] < 1.5 * counts[10]
