"""When to train again: drift detectors and expected gain against always, never and by schedule.

    python benchmarks/drift.py run --data FOLDER [--fashion FOLDER] [--picture FILE] [--seeds N]
    python benchmarks/drift.py tune

FOLDER holds elec2.csv.gz (electricity prices, drifts unknown); images are scikit-learn's digits in five phases with
known drifts, and Fashion-MNIST in the same ones if its folder is given. A small network answers every sample before its
label is known (at once after that), and trains only when a policy says so: from where it is, on the last window. The
settings of the policies are those that ``tune`` found best on digits with seeds of its own (100 to 102).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from littoral.errors import InputError
from littoral.incremental.images import Images, digits, fashion_mnist
from littoral.incremental.stream import ImageStream, Phase, seasons
from littoral.watching.drift import detector
from littoral.watching.gain import Answers, Stakes, weigh

TUNING_SEEDS = (100, 101, 102)
COST = 20.0  # right answers that an update must bring to be worth it: a choice, the same for all policies
HORIZON = 2000.0  # answers that profit from an update


# -- what is served -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """A stream to serve: samples in order, how it is trained, and where it drifts, if that is known."""

    x: torch.Tensor
    y: torch.Tensor
    first: int  # samples the first version learns from
    window: int  # samples an update learns from
    often: int  # samples between the updates of "always"; "schedule" lets four times as many pass
    drifts: tuple[tuple[int, int], ...] | None  # where, and over how many samples
    hidden: int = 64
    epochs: int = 5


def image_course(images: Images, phases: Sequence[Phase], seed: int) -> Course:
    """The first phase ends elsewhere with every seed, so that "always" is neither always early nor always late."""
    longer = replace(phases[0], samples=phases[0].samples + 137 * (seed + 1) % 500)
    stream = ImageStream(images, [longer, *phases[1:]], seed=seed)
    x, y = (torch.from_numpy(part) for part in stream.between(0, len(stream)))
    drifts = tuple((start, phase.gradual) for start, phase in zip(stream.drifts, phases[1:], strict=True))
    return Course(x.flatten(1), y, first=1000, window=500, often=500, drifts=drifts)


def electricity(folder: Path) -> Course:
    """Half-hours: the first version learns from twelve weeks, an update from four; always is every week.

    Three columns are constant in these twelve weeks and vary later, so deviations get a floor.
    """
    path = folder / "elec2.csv.gz"
    try:
        with gzip.open(path, "rt", newline="") as file:
            rows = np.array([[float(cell) for cell in row] for row in list(csv.reader(file))[1:]])
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror or error}", file=path, remedy="give --data") from error
    week, features = 7 * 48, rows[:, :-1]
    x = (features - features[: 12 * week].mean(axis=0)) / (features[: 12 * week].std(axis=0) + 0.05)
    samples = torch.tensor(x, dtype=torch.float32), torch.tensor(rows[:, -1], dtype=torch.int64)
    return Course(*samples, first=12 * week, window=4 * week, often=week, drifts=None, hidden=32)


class Model:
    """One hidden layer, trained by SGD with momentum; counts what training took."""

    def __init__(self, course: Course, seed: int) -> None:
        self._rng = torch.Generator().manual_seed(seed)
        inputs, classes = course.x.shape[1], int(course.y.max()) + 1
        torch.manual_seed(seed)
        self._net = nn.Sequential(nn.Linear(inputs, course.hidden), nn.ReLU(), nn.Linear(course.hidden, classes))
        self.trained, self.seconds = 0, 0.0

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        """The likeliest classes."""
        with torch.no_grad():
            return torch.argmax(self._net(x), dim=1)

    def train(self, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
        """From where it is."""
        began = time.process_time()
        optimiser = torch.optim.SGD(self._net.parameters(), lr=0.05, momentum=0.9)
        for _ in range(epochs):
            order = torch.randperm(len(x), generator=self._rng)
            for start in range(0, len(x), 32):
                rows = order[start : start + 32]
                optimiser.zero_grad()
                torch.autograd.backward(nn.functional.cross_entropy(self._net(x[rows]), y[rows]))
                optimiser.step()
        self.trained += epochs * len(x)
        self.seconds += time.process_time() - began


# -- policies -----------------------------------------------------------------------------------------------------


class Policy(Protocol):
    """Told whether each answer was wrong, it says when to update; it is told of every update too."""

    def see(self, wrong: bool) -> bool: ...

    def updated(self) -> None: ...


class Never:
    """No update at all."""

    def see(self, wrong: bool) -> bool:
        return False

    def updated(self) -> None: ...


@dataclass
class Every:
    """By the number of samples; in a stream this is the schedule as well."""

    samples: int
    _seen: int = 0

    def see(self, wrong: bool) -> bool:
        self._seen += 1
        return self._seen >= self.samples

    def updated(self) -> None:
        self._seen = 0


class Drift:
    """A detector's alarm; it starts afresh with every update."""

    def __init__(self, name: str, **settings: Any) -> None:
        self._detector = detector(name, **settings)

    def see(self, wrong: bool) -> bool:
        return self._detector.see(wrong)

    def updated(self) -> None:
        self._detector.reset()


class Gain:
    """What an update would bring back is worth its cost: the last 200 answers against the first 200 of the version."""

    def __init__(self, *, confidence: float, size: int = 200, look: int = 25) -> None:
        self._stakes = Stakes(value=1.0, horizon=HORIZON, cost=COST, confidence=confidence)
        self._size, self._look = size, look
        self.updated()

    def see(self, wrong: bool) -> bool:
        if len(self._fresh) < self._size:
            self._fresh.append(wrong)
            return False
        self._now.append(wrong)
        self._seen += 1
        if self._seen % self._look:
            return False
        now, fresh = (Answers(wrong=sum(answers), seen=len(answers)) for answers in (self._now, self._fresh))
        return weigh(now, fresh, self._stakes).update

    def updated(self) -> None:
        self._fresh: list[bool] = []
        self._now: deque[bool] = deque(maxlen=self._size)
        self._seen = 0


def watcher(name: str, settings: dict[str, Any]) -> Policy:
    """A policy that decides by the answers."""
    return Gain(**settings) if name == "gain" else Drift(name, **settings)


# -- serving ------------------------------------------------------------------------------------------------------

Waits = tuple[float, ...]
ONCE, GATHERED, LATER, TWICE = (0.0,), (0.4,), (1.0,), (0.0, 1.0)


@dataclass(frozen=True)
class Outcome:
    """What came of a policy on a course."""

    first: int
    wrong: list[bool]  # every answer after the first version's samples
    alarms: list[int]
    updates: list[int]
    trained: int  # samples times epochs, without the first version's
    seconds: float  # of processor time that this took
    watching: float  # the same, of the policy

    @property
    def accuracy(self) -> float:
        return 1 - sum(self.wrong) / len(self.wrong)

    @property
    def net(self) -> float:
        """Right answers in a thousand, less the cost of the updates."""
        return 1000 * (self.accuracy - COST * len(self.updates) / len(self.wrong))


def serve(course: Course, policy: Policy, seed: int, waits: Waits = ONCE) -> Outcome:
    """Answer, then learn the label, then update if told so: ``waits`` after the alarm, in windows.

    At the alarm, most of the last window is still from before the drift. Alarms while the first update is being waited
    for change nothing.
    """
    model = Model(course, seed)
    model.train(course.x[: course.first], course.y[: course.first], 4 * course.epochs)
    model.trained, model.seconds, watching = 0, 0.0, 0.0
    wrong: list[bool] = []
    alarms: list[int] = []
    updates: list[int] = []
    due: list[int] = []
    step = course.first
    while step < len(course.y):
        block = slice(step, step + 256)  # answered at once; what comes after an update is answered again
        for miss in (model.answers(course.x[block]) != course.y[block]).tolist():
            wrong.append(miss)
            began = time.process_time()
            alarm = policy.see(miss)
            watching += time.process_time() - began
            if alarm and (not due or not waits[0]):
                alarms.append(step)
                due = [step + int(wait * course.window) for wait in waits]
            step += 1
            if due and step > due[0]:
                updates.append(due.pop(0))
                recent = slice(max(0, step - course.window), step)
                model.train(course.x[recent], course.y[recent], course.epochs)
                policy.updated()
                break
    return Outcome(course.first, wrong, alarms, updates, model.trained, model.seconds, watching)


@dataclass(frozen=True)
class Found:
    """The alarms of one run against the drifts: how late each was found, how many were for nothing."""

    delays: list[int | None]  # of each drift; None where no alarm came before the next
    false: int
    calm: int  # samples at which an alarm would be for nothing


def judge(course: Course, alarms: Sequence[int]) -> Found:
    """The first alarm after a drift finds it; more are false once the drift is over and a window has passed."""
    ends = [*(start for start, _ in course.drifts or ()), len(course.y)]
    delays: list[int | None] = []
    false, calm = sum(alarm < ends[0] for alarm in alarms), ends[0] - course.first
    for (start, over), end in zip(course.drifts or (), ends[1:], strict=True):
        inside = [alarm for alarm in alarms if start <= alarm < end]
        settled = min(end, start + over + course.window)
        delays.append(inside[0] - start if inside else None)
        false += sum(alarm >= settled for alarm in inside[1:])
        calm += end - settled
    return Found(delays, false, calm)


# -- the choice of settings ---------------------------------------------------------------------------------------

PAIRS = ((0.005, 50.0), (0.005, 25.0), (0.05, 10.0), (0.1, 10.0))
GRID: dict[str, list[dict[str, Any]]] = {
    "adwin": [{"delta": delta} for delta in (0.0002, 0.002, 0.02, 0.2)],
    "page-hinkley": [{"delta": delta, "threshold": threshold} for delta, threshold in PAIRS],
    "kswin": [{"alpha": alpha} for alpha in (0.0001, 0.001, 0.005)],
    "gain": [{"confidence": confidence} for confidence in (0.9, 0.95, 0.99)],
}
# What `tune` chose: settings, and when to update, in windows after the alarm.
CHOSEN: dict[str, tuple[dict[str, Any], Waits]] = {
    "adwin": ({"delta": 0.2}, TWICE),
    "page-hinkley": ({"delta": 0.005, "threshold": 25.0}, TWICE),
    "kswin": ({"alpha": 0.005}, TWICE),
    "gain": ({"confidence": 0.99}, TWICE),
}


def tune() -> None:
    """Every setting of the grid on digits: of those within 1 of the most right answers in 1000, the fewest updates."""
    courses = {seed: image_course(digits(), seasons(), seed) for seed in TUNING_SEEDS}
    heads(("policy", "settings", "when", "right of 1000, less cost", "accuracy", "updates"))
    for name, grid in GRID.items():
        tried = []
        for settings, waits in product(grid, (ONCE, LATER, TWICE)):
            runs = [serve(course, watcher(name, settings), seed, waits) for seed, course in courses.items()]
            net, accuracy = statistics.mean(run.net for run in runs), statistics.mean(run.accuracy for run in runs)
            updates = statistics.mean(len(run.updates) for run in runs)
            tried.append((updates, net, f"{words(settings)} | {told(waits)}"))
            print(f"| {name} | {tried[-1][2]} | {net:.1f} | {accuracy:.4f} | {updates:.1f} |", flush=True)
        best = max(net for _, net, _ in tried)
        updates, net, said = min(one for one in tried if one[1] >= best - 1)
        print(f"| **{name}** | {said} | {net:.1f} | chosen | {updates:.1f} |", flush=True)


def heads(columns: Sequence[str]) -> None:
    print(f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", sep="\n")


def told(waits: Waits) -> str:
    return f"at alarm + {' and '.join(f'{wait:g}' for wait in waits)} windows"


def words(settings: dict[str, Any]) -> str:
    return " ".join(f"{key}={value:g}" for key, value in settings.items())


# -- the study ----------------------------------------------------------------------------------------------------

Make = Callable[[Course], Policy]
COLUMNS = ("policy", "accuracy", "updates", "samples x epochs", "training, CPU s", "watching, us/sample")
FOUND = ("delay at each drift", "not found", "false per 10,000")
BY_SAMPLES: dict[str, Make] = {
    "never": lambda _: Never(),
    "always": lambda course: Every(course.often),
    "schedule": lambda course: Every(4 * course.often),
}


def entries() -> dict[str, tuple[Make, Waits]]:
    """The rows of the tables: how to make the policy, and when it updates; ADWIN in all ways."""
    rows: dict[str, tuple[Make, Waits]] = {name: (make, ONCE) for name, make in BY_SAMPLES.items()}
    for name, (settings, waits) in CHOSEN.items():
        rows[f"{name} {words(settings)}, {told(waits)}"] = (partial(_watching, name, settings), waits)
    adwin = partial(_watching, "adwin", CHOSEN["adwin"][0])
    others = [waits for waits in (ONCE, GATHERED, LATER, TWICE) if waits != CHOSEN["adwin"][1]]
    return rows | {f"adwin, {told(waits)}": (adwin, waits) for waits in others}


def _watching(name: str, settings: dict[str, Any], _: Course) -> Policy:
    return watcher(name, settings)


def study(name: str, make_course: Callable[[int], Course], seeds: Sequence[int]) -> dict[str, list[Outcome]]:
    """Every policy with every seed; prints the table, returns what came out."""
    results: dict[str, list[Outcome]] = {row: [] for row in entries()}
    found: dict[str, list[Found]] = {row: [] for row in results}
    for seed in seeds:
        course = make_course(seed)
        for row, (make, waits) in entries().items():
            print(f"{name}, seed {seed}: {row}", file=sys.stderr, flush=True)
            results[row].append(serve(course, make(course), seed, waits))
            found[row].append(judge(course, results[row][-1].alarms))
    print(f"\n{name}: about {len(course.y) - course.first:,} answers, {len(seeds)} seeds, mean (range)\n")
    known = course.drifts is not None
    heads(COLUMNS + FOUND if known else COLUMNS)
    for row, runs in results.items():
        more = f" {alarmed(found[row]) if row not in BY_SAMPLES else '- | - | -'} |" if known else ""
        print(f"| {row} | {spent(runs)} |{more}", flush=True)
    return results


def spent(runs: Sequence[Outcome]) -> str:
    """What was right, and what it took."""
    accuracies, updates = [run.accuracy for run in runs], [len(run.updates) for run in runs]
    trained, seconds = statistics.mean(run.trained for run in runs), statistics.mean(run.seconds for run in runs)
    watching = 1e6 * statistics.mean(run.watching / len(run.wrong) for run in runs)
    return (
        f"{statistics.mean(accuracies):.4f} ({min(accuracies):.4f}-{max(accuracies):.4f}) | "
        f"{statistics.mean(updates):.1f} ({min(updates)}-{max(updates)}) | "
        f"{trained:,.0f} | {seconds:.2f} | {watching:.1f}"
    )


def alarmed(found: Sequence[Found]) -> str:
    """Median delay per drift over the seeds that found it, how many did not, and false alarms where nothing drifts."""
    delays = []
    for each in zip(*(one.delays for one in found), strict=True):
        known = [delay for delay in each if delay is not None]
        delays.append(f"{statistics.median(known):.0f}" if known else "never")
    every = [delay for one in found for delay in one.delays]
    false, calm = sum(one.false for one in found), sum(one.calm for one in found)
    missed = f"{every.count(None)} of {len(every)}" if every else "-"
    return f"{' / '.join(delays) or '-'} | {missed} | {1e4 * false / calm:.2f} ({false} in {calm:,})"


def run(options: argparse.Namespace) -> None:
    """All tables and the picture."""
    seeds, phases = range(options.seeds), seasons()
    calm = [Phase(name="calm", samples=11_000, classes=phases[0].classes)]
    pools = {"digits": digits()} | ({"Fashion-MNIST": fashion_mnist(options.fashion)} if options.fashion else {})
    course, drifting = electricity(options.data), {}
    for name, images in pools.items():
        drifting[name] = study(f"{name}, four drifts", partial(image_course, images, phases), seeds)
        study(f"{name} without drift", partial(image_course, images, calm), seeds)
    prices = study("elec2 (nobody knows where it drifts: no delays)", lambda _: course, seeds)
    same = (course.y[course.first :] == course.y[course.first - 1 : -1]).float().mean()
    print(f"\nelec2, answering with the label before: {same:.4f}")
    if options.picture:
        rows = ["never", "always", next(row for row in prices if row.startswith("adwin "))]
        draw(options.picture, [drifting["digits"][row][0] for row in rows], [prices[row][0] for row in rows])


# -- the picture --------------------------------------------------------------------------------------------------

DRAWN = {"never": "#b3402a", "always": "#8a8a8a", "adwin": "#1f5fa8"}


def draw(path: Path, images: Sequence[Outcome], prices: Sequence[Outcome]) -> None:
    """Accuracy of the last answers against time: never, always, and by drift with a mark at each update."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(10, 7), layout="constrained")
    for axis, outcomes, last in ((axes[0], images, 200), (axes[1], prices, 4 * 7 * 48)):
        for (label, colour), outcome in zip(DRAWN.items(), outcomes, strict=True):
            sums = np.cumsum([0.0, *(1.0 - wrong for wrong in outcome.wrong)])
            means = (sums[last:] - sums[:-last]) / last
            name = f"{label}: {100 * outcome.accuracy:.1f} %, {len(outcome.updates)} updates"
            axis.plot(outcome.first + last + np.arange(len(means)), means, color=colour, linewidth=1.4, label=name)
            if label in CHOSEN:
                axis.plot(outcome.updates, [-0.04] * len(outcome.updates), "^", color=colour, label=f"{label}: update")
        axis.set(xlabel="sample", ylabel=f"accuracy of the last {last}", ylim=(-0.08, 1.02))
        axis.legend(loc="lower left", bbox_to_anchor=(0, 0.08), fontsize=8)
    _mark_phases(axes[0])
    axes[0].set_title("digits, seed 0 (yellow: a drift sets in)", pad=16)
    axes[1].set_title("elec2, seed 0")
    figure.savefig(path, dpi=110)


def _mark_phases(axis: Any) -> None:
    drifts = image_course(digits(), seasons(), 0).drifts or ()
    for phase, (start, over) in zip(seasons(), [(0, 0), *drifts], strict=True):
        axis.axvspan(start, start + over, color="#f0d9a0", alpha=0.6, linewidth=0)
        axis.axvline(start, color="#999999", linewidth=0.8)
        axis.text(start + 60, 1.03, phase.name, fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("tune")
    running = parts.add_parser("run")
    running.add_argument("--data", type=Path, required=True, help="the folder with elec2.csv.gz")
    running.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST")
    running.add_argument("--picture", type=Path, help="where to save the picture")
    running.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        tune() if options.part == "tune" else run(options)
    except InputError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
