"""Events per second of our kernel and of SimPy, in one run, interleaved.

python benchmarks/kernel.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import simpy

from littoral.worlds.simulated.kernel import Kernel, Mailbox, sleep


def ours_sleeps(processes: int, each: int) -> None:
    kernel = Kernel()

    async def program(index: int) -> None:
        pause = 1.0 + index / processes
        for _ in range(each):
            await sleep(pause)

    for index in range(processes):
        kernel.spawn(program(index))
    kernel.run()


def simpy_sleeps(processes: int, each: int) -> None:
    env = simpy.Environment()

    def program(index: int):  # type: ignore[no-untyped-def]
        pause = 1.0 + index / processes
        for _ in range(each):
            yield env.timeout(pause)

    for index in range(processes):
        env.process(program(index))
    env.run()


def ours_messages(processes: int, each: int) -> None:
    """A ring: everyone sends to the next with a latency, then waits for its own."""
    kernel = Kernel()
    boxes = [Mailbox[int](kernel) for _ in range(processes)]

    async def program(index: int) -> None:
        mine, nexts = boxes[index], boxes[(index + 1) % processes]
        latency = 0.01 + index / processes
        for number in range(each):
            nexts.put(number, latency)
            await mine.get()

    for index in range(processes):
        kernel.spawn(program(index))
    kernel.run()


def simpy_messages(processes: int, each: int) -> None:
    """The same ring with SimPy's documented recipe: a process per message in flight, a Store per receiver."""
    env = simpy.Environment()
    boxes = [simpy.Store(env) for _ in range(processes)]

    def deliver(box: simpy.Store, number: int, latency: float):  # type: ignore[no-untyped-def]
        yield env.timeout(latency)
        box.put(number)

    def program(index: int):  # type: ignore[no-untyped-def]
        mine, nexts = boxes[index], boxes[(index + 1) % processes]
        latency = 0.01 + index / processes
        for number in range(each):
            env.process(deliver(nexts, number, latency))
            yield mine.get()

    for index in range(processes):
        env.process(program(index))
    env.run()


def rate(run: Callable[[int, int], None], processes: int, each: int) -> float:
    gc.collect()
    start = time.perf_counter()
    run(processes, each)
    return processes * each / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(f"kernel against SimPy {simpy.__version__}; thousand per second, median of {repeats} interleaved runs")
    print(f"{'what':10}{'processes':>10}{'ours':>9}{'SimPy':>9}{'ratio':>8}  spread of the ratio    goal")
    cases = [
        ("sleeps", ours_sleeps, simpy_sleeps, 1.2, 1.2),
        ("messages", ours_messages, simpy_messages, 4, 6),
    ]
    for name, ours, theirs, *goals in cases:
        for (processes, each), goal in zip([(100, 2000), (10_000, 20)], goals, strict=True):
            pairs = [(rate(ours, processes, each), rate(theirs, processes, each)) for _ in range(repeats)]
            ratios = sorted(a / b for a, b in pairs)
            mine, other = (statistics.median(p[i] for p in pairs) / 1e3 for i in (0, 1))
            print(
                f"{name:10}{processes:>10}{mine:>9.0f}{other:>9.0f}{statistics.median(ratios):>7.2f}x"
                f"  {ratios[0]:.2f} .. {ratios[-1]:.2f}  {goal:>8}x"
            )


if __name__ == "__main__":
    main()
