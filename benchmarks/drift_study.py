"""The drift study's tables: every policy on every course with every seed."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from drift_courses import Course, electricity, image_course
from drift_policies import Every, Never, Policy, watcher
from drift_serving import Found, Outcome, judge, serve
from drift_tuning import CHOSEN, DEFAULT, KSWIN, Settings, heads, words
from littoral.incremental.images import Images
from littoral.incremental.stream import Phase, seasons

Make = Callable[[Course], Policy]
Results = dict[str, list[Outcome]]
COLUMNS = ("policy", "accuracy", "updates", "samples x epochs", "training, CPU s", "watching, us/sample")
FOUND = ("delay at each drift", "not found", "false per 10,000")
BY_SAMPLES: dict[str, Make] = {
    "never": lambda _: Never(),
    "always": lambda course: Every(course.often),
    "schedule": lambda course: Every(4 * course.often),
}


def entries(kswin: bool, *, without: bool = True) -> dict[str, Make]:
    """The rows of the tables; every trigger that has a follow-up also ``without`` it."""
    rows = dict(BY_SAMPLES)
    watched = [("adwin", DEFAULT), *CHOSEN.items(), *([("kswin", KSWIN)] if kswin else [])]
    for name, settings in watched:
        rows[f"{name} {words(settings)}"] = partial(_watching, name, settings)
        if without and "follow_up" in settings:
            once = {**settings, "follow_up": 0.0}
            rows[f"{name} {words(once)}"] = partial(_watching, name, once)
    return rows


def _watching(name: str, settings: Settings, course: Course) -> Policy:
    return watcher(name, settings, course)


def on_images(name: str, images: Images, seeds: Sequence[int], kswin: bool) -> Results:
    """Four drifts, and none; returns what came out of the drifts."""
    phases = seasons()
    calm = [Phase(name="calm", samples=11_000, classes=phases[0].classes)]
    results = study(f"{name}, four drifts", entries(kswin), partial(image_course, images, phases), seeds)
    study(f"{name} without drift", entries(kswin, without=False), partial(image_course, images, calm), seeds)
    return results


def on_prices(folder: Path, seeds: Sequence[int], kswin: bool) -> Results:
    """Nobody knows where they drift, so there are no delays."""
    course = electricity(folder)
    results = study("elec2", entries(kswin), lambda _: course, seeds)
    same = (course.y[course.first :] == course.y[course.first - 1 : -1]).float().mean()
    print(f"\nelec2, answering with the label before: {same:.4f}")
    return results


def study(name: str, rows: dict[str, Make], make_course: Callable[[int], Course], seeds: Sequence[int]) -> Results:
    """Every policy with every seed; prints the table, returns what came out."""
    results: Results = {row: [] for row in rows}
    found: dict[str, list[Found]] = {row: [] for row in rows}
    for seed in seeds:
        course = make_course(seed)
        for row, make in rows.items():
            print(f"{name}, seed {seed}: {row}", file=sys.stderr, flush=True)
            results[row].append(serve(course, make(course), seed))
            found[row].append(judge(course, results[row][-1].alarms))
    print(f"\n{name}: about {len(course.y) - course.first:,} answers, {len(seeds)} seeds, mean (range)\n")
    known = course.drifts is not None
    heads(*(COLUMNS + FOUND if known else COLUMNS))
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
