"""Asked against achieved: every link and device of a lab, measured."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

from littoral.worlds.lab import probe
from littoral.worlds.lab.pairs import Pair, pairs, ring_of, rounds
from littoral.worlds.lab.places import Place
from littoral.worlds.lab.wiring import FRAME_BYTES, MTU

if TYPE_CHECKING:
    from littoral.worlds.lab.lab import Lab

T = TypeVar("T")
_WITHER_S = 0.2  # until what is under way when a pipe is cut has arrived
_PROBES, _MEASURE_S, _BURN_S = 40, 1.2, 1.5
_PAUSES_S = (0.0, 1.0, 3.0, 6.0)  # before a measurement is made again: the machine may have had other work


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One thing asked of the lab, and what it gave. ``error`` is relative, unless nothing was asked."""

    what: str
    where: str
    asked: float
    achieved: float
    unit: str
    error: float
    within: bool


def measure(lab: Lab, progress: Callable[[str], None]) -> Iterator[Measured]:
    """Every link and every device; wants the lab to itself, before its clock starts."""
    start, spent = time.monotonic(), lab.stats()["cpu_s"]
    todo = pairs(lab.wiring)
    for at_once in rounds(todo):
        progress(f"rate: {', '.join(pair.where for pair in at_once)}")
        tasks = [partial(again, partial(measure_rate, pair, lab.place)) for pair in at_once]
        for found in together(tasks):
            yield from found
    for pair in todo:
        progress(f"round trip: {pair.where}")
        yield from again(partial(measure_round_trip, pair, lab.place))
    if ring := ring_of(lab.wiring):
        progress(f"at once: {', '.join(pair.where for pair in ring)}, and {ring[-1].slowest} cut")
        yield from again(partial(measure_at_once, lab, ring))
    progress("cpu: all devices at once")
    yield from again(partial(measure_cpu, lab.quotas, lab.place))
    for pair in {pair.slowest: pair for pair in todo}.values():
        progress(f"cut: {pair.slowest}")
        yield measure_cut(pair, lab.place, lab.scale)
    used = (lab.stats()["cpu_s"] - spent) / (time.monotonic() - start)
    progress(f"the router used {used:.2f} of a core")


def together(acts: Sequence[Callable[[], T]]) -> list[T]:
    """What they return, all called at once."""
    with ThreadPoolExecutor(len(acts)) as pool:
        return [done.result() for done in [pool.submit(act) for act in acts]]


def again(act: Callable[[], list[Measured]]) -> list[Measured]:
    """What was measured, at the last try at the latest; between them time passes, and with it what disturbed."""
    found = act()
    for pause_s in _PAUSES_S:
        if all(each.within for each in found):
            break
        time.sleep(pause_s)
        found = act()
    return found


# -- links ------------------------------------------------------------------------------------------------------------


def measure_rate(pair: Pair, place: Callable[[str], Place]) -> list[Measured]:
    """Goodput of a pair; on a lossy one that of datagrams, and the losses."""
    source, target = place(pair.source), place(pair.target)
    if pair.loss:
        return _measure_lossy(pair, source, target)
    achieved = probe.goodput(source, target, warm_s=_warm_s(pair), seconds=_MEASURE_S) * 8e-6
    return [_judged("rate", pair.where, pair.goodput, achieved, "Mbit/s", share=0.05)]


def _warm_s(pair: Pair) -> float:
    """Until slow start, which takes round trips, and the losses it ends with are over."""
    return 0.5 + 15 * pair.latency_s


def _measure_lossy(pair: Pair, source: Place, target: Place) -> list[Measured]:
    payload = probe.DATAGRAM_BYTES / (MTU + FRAME_BYTES)
    per_s = pair.rate / (MTU + FRAME_BYTES)
    count = int(min(max(50 / pair.loss, 500), 2 * per_s))
    lost, _ = probe.datagrams(source, target, rate=0.8 * pair.rate * payload, count=count)
    flood = int(_MEASURE_S * 1.2 * per_s)
    _, received = probe.datagrams(source, target, rate=1.2 * pair.rate * payload, count=flood)
    asked = pair.rate * payload * (1.0 - pair.loss) * 8e-6
    chance = 4 * math.sqrt(pair.loss * (1 - pair.loss) / count)  # four standard deviations of an honest dice
    return [
        _judged("rate", pair.where, asked, received * 8e-6, "Mbit/s of UDP", share=0.05),
        _judged("loss", pair.where, 100 * pair.loss, 100 * lost, "% of packets", offset=100 * chance),
    ]


def measure_round_trip(pair: Pair, place: Callable[[str], Place]) -> list[Measured]:
    """Median of 40 echoes."""
    achieved = probe.round_trip(place(pair.source), place(pair.target), probes=_PROBES)
    return [_judged("round trip", pair.where, pair.latency_s * 1e3, achieved * 1e3, "ms", share=0.05, offset=1.0)]


def measure_cut(pair: Pair, place: Callable[[str], Place], scale: Callable[[str, float], None]) -> Measured:
    """How many of three echoes pass a cut pipe; none may, and afterwards they must again."""
    patience_s = pair.latency_s + 0.1
    with probe.echo(place(pair.source), place(pair.target)) as client:
        scale(pair.slowest, 0.0)
        passed = sum(probe.ping(client, patience_s) for _ in range(3))
        scale(pair.slowest, 1.0)
        restored = any(probe.ping(client, patience_s + 1.0) for _ in range(10))
    found = _judged("cut", pair.slowest, 0.0, float(passed), "echoes")
    return replace(found, within=found.within and restored)


def _judged(
    what: str, where: str, asked: float, achieved: float, unit: str, *, share: float = 0.0, offset: float = 0.0
) -> Measured:
    return Measured(
        what=what,
        where=where,
        asked=asked,
        achieved=achieved,
        unit=unit,
        error=achieved / asked - 1.0 if asked else achieved,
        within=abs(achieved - asked) <= share * asked + offset,
    )


# -- everything at once -----------------------------------------------------------------------------------------------


def measure_at_once(lab: Lab, ring: list[Pair]) -> list[Measured]:
    """All rates at once, whole and while one pipe is cut."""
    cut, found = ring[-1].slowest, []
    with ExitStack() as stack:
        flows = [stack.enter_context(probe.flowing(lab.place(p.source), lab.place(p.target))) for p in ring]
        time.sleep(max(_warm_s(pair) for pair in ring))
        for pair, rate in zip(ring, _rates(flows), strict=True):
            found.append(_judged("rate", f"{pair.where}, all at once", pair.goodput, rate, "Mbit/s", share=0.05))
        lab.scale(cut, 0.0)
        time.sleep(_WITHER_S)
        for pair, rate in zip(ring, _rates(flows), strict=True):
            asked, allowed = 0.0 if cut in pair.pipes else pair.goodput, 0.05 * pair.goodput
            found.append(_judged("rate", f"{pair.where}, {cut} cut", asked, rate, "Mbit/s", offset=allowed))
        lab.scale(cut, 1.0)
    return found


def _rates(flows: list[probe.Arrivals]) -> list[float]:
    """Mbit/s of each over the next second."""
    start = time.monotonic()
    time.sleep(_MEASURE_S)
    return [flow.rate(start, time.monotonic()) * 8e-6 for flow in flows]


# -- devices ----------------------------------------------------------------------------------------------------------


def measure_cpu(quotas: dict[str, float], place: Callable[[str], Place]) -> list[Measured]:
    """What a busy loop gets of its quota, and how long fixed work takes, with all devices busy at once."""
    burned = together([partial(_burn, place(name), cores) for name, cores in quotas.items()])
    return [
        each for (name, cores), got in zip(quotas.items(), burned, strict=True) for each in _judge(name, cores, got)
    ]


def _burn(place: Place, cores: float) -> list[tuple[float, float]]:
    """Cores and slowness of as many busy loops as the quota needs."""
    count = math.ceil(cores)
    step_s = max(0.02, 0.1 * cores / count)
    command = [sys.executable, "-S", str(files(__package__).joinpath("burn.py")), str(_BURN_S), str(step_s)]
    burning = [
        subprocess.Popen([*command, *place.cgroups], stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]  # fmt: skip
    told = [process.communicate()[0].split() for process in burning]
    return [(float(got), float(slowness)) for got, slowness in told]


def _judge(name: str, cores: float, got: list[tuple[float, float]]) -> list[Measured]:
    achieved = sum(share for share, _ in got)
    slowness = statistics.fmean(each for _, each in got)
    return [
        _judged("cpu", name, cores, achieved, "cores", share=0.1),
        _judged("step", name, len(got) / cores, slowness, "s per processor second", share=0.1),
    ]
