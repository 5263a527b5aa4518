"""The verbs of 'littoral profile': measure under stress, learn from it, show how well it was learned."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from littoral.arguments import front_of, load, task_of
from littoral.cli_options import JobFile
from littoral.errors import InputError

if TYPE_CHECKING:
    from littoral.continuum.continuum import Continuum
    from littoral.experiments import Outcome, Setting
    from littoral.job import Job
    from littoral.planning.plan import Plan
    from littoral.profiling.profile import Profile
    from littoral.worlds.lab.lab import Lab

profile_app = typer.Typer(
    help="Measure devices, a task and apps under stress, and learn what training will take and disturb.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(help="A profile's folder.", show_default=False)]
SeedOption = Annotated[int, typer.Option(help="Seed of points, batches and models.")]


@profile_app.command("sweep")
def profile_sweep(
    file: JobFile,
    budget: Annotated[str, typer.Option(help="How long to measure, such as '10 min'.")] = "10 min",
    lab: Annotated[bool, typer.Option("--lab", help="On emulated devices (as root).")] = False,
    pin: Annotated[bool, typer.Option("--pin", help="With --lab: every device on cores of its own.")] = False,
    world: Annotated[str, typer.Option(help="'processes' on this machine, or 'ray' on a cluster.")] = "processes",
    address: Annotated[str, typer.Option(help="The Ray cluster, as HOST:PORT; this machine's by default.")] = "",
    window: Annotated[str, typer.Option(help="How long to train at each point; longer ones are less noisy.")] = "6 s",
    visits: Annotated[int, typer.Option(help="How often to measure each point, to and fro.", min=1)] = 1,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Where plans are: all devices train, in the larger half of batches.")
    ] = False,
    disk: Annotated[bool, typer.Option("--disk", help="Stress disks, too (by stress-ng).")] = False,
    out: Annotated[Path, typer.Option(help="The profile's folder; one that was begun is gone on with.")] = Path(
        "profile"
    ),
    seed: SeedOption = 0,
) -> None:
    """Measure training and apps at stress points until the budget is spent; started again, it goes on."""
    from littoral import units
    from littoral.profiling.bench import Bench, Windows
    from littoral.profiling.kinds import kinds_of
    from littoral.profiling.stressors import has_stress_ng
    from littoral.profiling.sweep import begun, check_room, server_of, space_of, sweep
    from littoral.worlds.processes.ground import Ground
    from littoral.worlds.processes.launch import Forge, Launcher
    from littoral.worlds.ray.cluster import RayGround, join
    from littoral.worlds.ray.launch import RayLauncher

    job, seconds, trained = load(file), units.duration(budget), units.duration(window)
    if seconds <= 0:
        raise InputError(f"a budget of {budget}", remedy="give a time to measure, such as '10 min'")
    if trained < 1:
        raise InputError(f"a window of {window}", remedy="give at least a second, such as '6 s'")
    if disk and not has_stress_ng():
        raise InputError("--disk without stress-ng", remedy="install it: apt install stress-ng")
    task_of(job)
    server = server_of(job)
    space = space_of(job, server, everybody=everybody, disks=disk)
    if world not in ("processes", "ray") or (lab and world == "ray"):
        raise InputError(f"a sweep in the world {world!r}", remedy="give processes, with or without --lab, or ray")
    if pin and not lab:
        raise InputError("--pin without --lab", remedy="only emulated devices are given cores; add --lab")
    if world == "processes":
        check_room(space, job, lab=lab)
    kinds = kinds_of(job, space.workers)
    before = begun(out, kinds, job.workload)
    with ExitStack() as stack:
        launcher: Launcher
        if world == "ray":
            cluster = stack.enter_context(join(address, [*space.workers, server]))
            ground: Ground = RayGround(cluster=cluster)
            launcher = RayLauncher(cluster)
        else:
            ground = Ground(stack.enter_context(_lab(job.continuum, pin)) if lab else None)
            launcher = stack.enter_context(Forge())
        windows = Windows.of(trained)
        bench = Bench(job, kinds, server, ground=ground, launcher=launcher, windows=windows, seed=seed)
        print(f"{len(before.training)} rows so far; apps are starting", file=sys.stderr)
        stack.enter_context(bench)
        found = sweep(bench, space, out, before, budget_s=seconds, visits=visits, seed=seed, tell=_tell)
    print(f"{len(found.training)} rows of training and {len(found.apps)} of apps are in {out}; "
          f"learn from them with: littoral profile fit {out}", file=sys.stderr)  # fmt: skip


@profile_app.command("join")
def profile_join(
    folders: Annotated[list[Path], typer.Argument(help="Profiles' folders.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder of the new profile.", show_default=False)],
) -> None:
    """Put the rows of several sweeps together, say of one device each; fit the outcome."""
    from littoral.profiling.profile import joined, save
    from littoral.profiling.profile import load as load_profile

    if out.exists():
        raise InputError("it is there already", file=out, remedy="give a new folder")
    profile = joined([load_profile(folder) for folder in folders])
    save(profile, out)
    print(f"{len(profile.training)} rows of training and {len(profile.apps)} of apps are in {out}", file=sys.stderr)


@profile_app.command("fit")
def profile_fit(
    folder: Folder,
    trials: Annotated[int, typer.Option(help="Models to try per function.", min=1)] = 30,
    jobs: Annotated[int, typer.Option(help="Functions to choose for at once.", min=1)] = 1,
    splits: Annotated[
        int, typer.Option(help="Ways to put points aside for the table; with several, every point once.", min=1)
    ] = 1,
    seed: SeedOption = 0,
) -> None:
    """Choose a model for every function, by its error on stress points it has not seen, and print the table."""
    from littoral.profiling.automl import Budget
    from littoral.profiling.estimators import fit
    from littoral.profiling.profile import load as load_profile
    from littoral.profiling.profile import save

    profile = fit(load_profile(folder), budget=Budget(trials=trials, splits=splits), seed=seed, jobs=jobs)
    save(profile, folder)
    profile_table(folder)


@profile_app.command("table")
def profile_table(folder: Folder) -> None:
    """Function by device kind: points, error on unseen ones, chosen algorithm."""
    from littoral.profiling.table import show, table

    print(show(table(_fitted(folder))))


@profile_app.command("importance")
def profile_importance(folder: Folder) -> None:
    """Which measurements each function depends on."""
    from littoral.profiling.table import show_importances

    print(show_importances(_fitted(folder)))


@profile_app.command("report")
def profile_report(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    count: Annotated[int, typer.Option("--experiments", help="Random ones to solve; 0 for none.", min=0)] = 120,
    kinds: Annotated[str, typer.Option(help="Of the experiments' workers; one quick and three of the next one.")] = "",
    deadline: Annotated[str | None, typer.Option(help="Of the apps in the experiments, such as '1 s'.")] = None,
    batch: Annotated[int, typer.Option(help="The job's, if not the middle one of those measured.", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Experiments to solve at once.", min=1)] = 1,
    seed: SeedOption = 0,
    front: Annotated[Path | None, typer.Option(help="Also show the front of this job's plans.")] = None,
) -> None:
    """Write one self-contained HTML page with the figures of the Deep-Edge paper, from this profile."""
    from littoral import units
    from littoral.experiments import setting_of
    from littoral.reports.page import need
    from littoral.reports.profile_page import write_profile_report

    need("plotly")
    profile, seconds = _fitted(folder), None if deadline is None else units.duration(deadline)
    fronts = [] if front is None else [_front(load(front))]
    workers = [kind for kind in kinds.split(",") if kind]
    setting = setting_of(profile, kinds=workers, deadline_s=seconds, batch=batch, seed=seed) if count else None
    found = _experiments(setting, count, jobs) if setting else []
    names = found[0].epoch_s if found else ()
    times = {name: [one.epoch_s[name] for one in found] for name in names}
    broken = {name: sum(one.broken[name] for one in found) for name in names}
    place = folder.resolve()
    title = f"Profile {place.parent.name if place.name == 'profile' else place.name}"
    page = write_profile_report(profile, out, times=times, broken=broken, fronts=fronts, title=title)
    print(f"report: {page}", file=sys.stderr)


def _front(job: Job) -> tuple[str, list[tuple[Plan, float]]]:
    return job.name, front_of(job)


def _experiments(setting: Setting, count: int, jobs: int) -> list[Outcome]:
    from littoral.experiments import experiments

    found: list[Outcome] = []
    for outcome in experiments(setting, count, jobs=jobs):
        found.append(outcome)
        if len(found) % 10 == 0:
            _tell(f"{len(found)} of {count} experiments")
    return found


def _fitted(folder: Path) -> Profile:
    from littoral.profiling.profile import load as load_profile

    profile = load_profile(folder)
    if not profile.choices:
        remedy = f"run: littoral profile fit {folder}"
        raise InputError("no models were chosen for these rows", file=folder, remedy=remedy)
    return profile


def _lab(continuum: Continuum, pin: bool) -> Lab:
    from littoral.worlds.lab.lab import Lab

    return Lab.up(continuum, pin=pin)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
