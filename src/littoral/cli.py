"""The command line: one verb per stage. Prose and progress go to stderr, results to stdout.

Everything heavy is imported by the verb that needs it, so that ``--help`` and ``check`` answer at once.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from littoral.arguments import (
    advice_if_interrupted,
    front_of,
    load,
    plan_of,
    runs_in,
    saved_plan,
    strategy_names,
    task_of,
    warn_of_idle_faults,
    with_strategy,
    world_of,
)
from littoral.cli_client import add_to as add_client_verbs
from littoral.cli_manager import add_to as add_manager_verbs
from littoral.cli_models import add_to as add_model_verbs
from littoral.cli_operations import add_to as add_operating_verbs
from littoral.cli_options import AsJson, JobFile
from littoral.cli_profile import profile_app
from littoral.errors import Infeasible, InputError, LittoralError
from littoral.interruption import EXIT_CODE, Interruption

if TYPE_CHECKING:
    from littoral.events import Event
    from littoral.planning.plan import Plan
    from littoral.result import Tally

app = typer.Typer(
    help="Plan, run, watch and adapt deep-learning training over the edge-to-cloud continuum.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Seed = Annotated[int | None, typer.Option(help="Seed of everything random (default: the job's, 0).")]
StrategyName = Annotated[str | None, typer.Option(help="Instead of the job's: name or name:key=value:key=value.")]
PlannerName = Annotated[str | None, typer.Option(help="Instead of the job's: fair, proportional, search ... or auto.")]
TimingOnly = Annotated[bool, typer.Option("--timing-only", help="No mathematics: times and bytes only.")]
Out = Annotated[Path, typer.Option(help="Folder in which runs are kept.")]
WorldName = Annotated[str, typer.Option(help="Where to run: simulated, processes (this machine) or ray (a cluster).")]
InLab = Annotated[bool, typer.Option("--lab", help="Emulate the continuum: real processes, shaped links, CPU quotas.")]
Address = Annotated[str, typer.Option(help="Of the Ray cluster to join (default: this machine's).")]
ContinuumFile = Annotated[Path, typer.Argument(help="A continuum's YAML file.", show_default=False)]


def main() -> None:
    """Entry point: our own errors become one line and their exit code."""
    with Interruption() as interruption:
        _main(interruption)


def _main(interruption: Interruption) -> None:
    try:
        app(obj=interruption)
    except LittoralError as error:
        print(f"littoral: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"littoral: {place}{error.strerror or error}; check the path and its permissions", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # it was told when it happened
        sys.exit(EXIT_CODE)


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help="A job's or a continuum's YAML file.")] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="List the built-in device kinds.")] = False,
) -> None:
    """Read a file and say what it describes, or what is wrong with it."""
    from littoral import terminal

    if kinds:
        print(terminal.kinds())
        return
    if file is None:
        raise InputError("no file is given", remedy="name a job's or a continuum's YAML file, or use --kinds")
    from littoral.continuum.load import load_continuum
    from littoral.document import read_document

    if "continuum" not in read_document(file):
        print(terminal.continuum(load_continuum(file)))
        return
    job = load(file)
    task = task_of(job)
    try:
        verdict = f"a plan exists: {terminal.prediction(plan_of(job))}"
    except Infeasible as error:
        verdict = f"but no plan is possible: {error}"
    print(f"{terminal.job(job, task.footprint())}\n{verdict}")


@app.command()
def plan(
    file: JobFile,
    strategy: StrategyName = None,
    planner: PlannerName = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every term of the prediction.")] = False,
    pareto: Annotated[bool, typer.Option("--pareto", help="Show the plans between quick, cheap and fair.")] = False,
    pick: Annotated[int | None, typer.Option(help="Of --pareto: the plan of that number.", min=1)] = None,
    figure: Annotated[Path | None, typer.Option(help="Of --pareto: draw the front into this PNG file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the plan to this file (JSON).")] = None,
    as_json: AsJson = False,
) -> None:
    """Decide who works on how much with which batch, and predict time, bytes and cost."""
    import msgspec

    from littoral import terminal
    from littoral.rundir import write_whole

    job = load(file, strategy, planner)
    if pareto or pick is not None or figure is not None:
        plans = front_of(job)
        if figure is not None:
            _draw_front(plans, figure)
        if pick is None:
            print(json.dumps({"plans": msgspec.to_builtins(plans)}) if as_json else terminal.front(plans))
            return
        if pick > len(plans):
            raise InputError(f"there are {len(plans)} plans on the front", remedy="pick one of them")
        decided = plans[pick - 1][0]
    else:
        decided = plan_of(job)
    document = json.dumps(msgspec.to_builtins(decided), indent=2)
    if save is not None:
        write_whole(save, document + "\n")
    print(document if as_json else terminal.plan(decided, explain=explain))


@app.command()
def run(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="A job's YAML file.", show_default=False)] = None,
    seed: Seed = None,
    strategy: StrategyName = None,
    planner: PlannerName = None,
    plan_file: Annotated[Path | None, typer.Option("--plan", help="Run a plan saved by 'littoral plan'.")] = None,
    world: WorldName = "simulated",
    lab: InLab = False,
    address: Address = "",
    timing_only: TimingOnly = False,
    trace: Annotated[
        bool,
        typer.Option(
            help="Journal every step and message; without, a resumed run forgets its workers' earlier samples."
        ),
    ] = True,
    resume: Annotated[Path | None, typer.Option(help="Go on with an interrupted run: its folder.")] = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Train: with real gradients in virtual time, or with real processes here, in the lab or on a Ray cluster."""
    from littoral import terminal
    from littoral.result import FINISHED
    from littoral.run import Options, free_folder, resumable, run_plan
    from littoral.terminal import Progress

    if resume is not None:
        job, decided, options = resumable(resume)
        folder = resume
    elif file is None:
        raise InputError("no job is given", remedy="name a job's YAML file, or use --resume RUN")
    else:
        job = load(file, strategy, planner)
        decided = saved_plan(plan_file, job) if plan_file else plan_of(job)
        options = Options(
            world=world_of(world, lab), lab=lab, address=address, seed=job.seed if seed is None else seed,
            timing_only=timing_only, detail=trace,
        )  # fmt: skip
        folder = free_folder(out, job, decided, options.seed)
    warn_of_idle_faults(job, decided)
    interruption: Interruption = context.obj
    interruption.advice = partial(advice_if_interrupted, folder, options)
    with Progress(job, decided) as progress:

        def watch(event: Event, tally: Tally) -> None:
            interruption.check()
            progress(event, tally)

        result = run_plan(job, task_of(job), decided, folder, options, watch=watch)
    print(json.dumps(result) if as_json else terminal.result(result, folder))
    if result["reason"] not in FINISHED:
        print(f"littoral: the run failed: {result['reason']}", file=sys.stderr)
        sys.exit(4)


@app.command()
def compare(
    file: JobFile,
    strategies: Annotated[
        str, typer.Option(help="Names, separated by commas, or 'all'; name:key=value for parameters.")
    ] = "",
    planners: Annotated[str, typer.Option(help="Names, separated by commas.")] = "",
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 3,
    tune: Annotated[
        bool, typer.Option("--tune", help="Find a learning rate for each first: half, once or twice the recipe's.")
    ] = False,
    timing_only: TimingOnly = False,
    out: Out = Path("runs"),
    report_file: Annotated[Path | None, typer.Option("--report", help="Also write a report of all runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the grid of strategies, planners and seeds, and print a table with the spread."""
    from littoral import terminal
    from littoral.compare import compare_jobs, summary, tune_jobs
    from littoral.result import FINISHED

    job = load(file)
    names = strategy_names(strategies) or [job.strategy]
    jobs = [
        replace(with_strategy(job, name), planner=planner)
        for name in names
        for planner in ([part for part in planners.split(",") if part] or [job.planner])
    ]
    if tune and timing_only:
        raise InputError("--tune with --timing-only", remedy="nothing is learnt then: leave one of them out")
    if tune:
        jobs = tune_jobs(jobs, seed=job.seed)
    runs = compare_jobs(jobs, seeds=range(job.seed, job.seed + seeds), out=out, timing_only=timing_only)
    rows = summary(runs)
    print(json.dumps({"rows": rows, "runs": [run.result for run in runs]}) if as_json else terminal.comparison(rows))
    if report_file is not None:
        _write_report([run.folder for run in runs], report_file, png=False)
    failed = [run for run in runs if run.result["reason"] not in FINISHED]
    for run in failed:
        print(f"littoral: {run.folder} failed: {run.result['reason']}", file=sys.stderr)
    if failed:
        sys.exit(4)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or folders that hold some.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    png: Annotated[bool, typer.Option("--png", help="Also write the figures as PNG files.")] = False,
) -> None:
    """Write one self-contained HTML page about one or several runs."""
    _write_report([run for path in runs for run in runs_in(path)], out, png)


@app.command()
def fidelity(
    file: JobFile,
    strategies: Annotated[str, typer.Option(help="Names, separated by commas; name:key=value for parameters.")] = "",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Run a job in the lab and in virtual time: predicted against measured (as root)."""
    from littoral import terminal
    from littoral.fidelity import compare_worlds, fidelity_document, measured_continuum
    from littoral.worlds.lab.lab import Lab
    from littoral.worlds.processes.launch import Forge

    job = load(file)
    task_of(job)
    jobs = [with_strategy(job, name) for name in strategies.split(",") if name] or [job]
    with Lab.up(job.continuum) as lab, Forge() as forge:
        print("measuring step times on every device", file=sys.stderr)
        measured = measured_continuum(job, lab)
        found = [
            compare_worlds(each, lab, forge, measured=measured, seed=job.seed if seed is None else seed,
                           progress=lambda text: print(text, file=sys.stderr))
            for each in jobs
        ]  # fmt: skip
    print(json.dumps([fidelity_document(each) for each in found]) if as_json else terminal.fidelity(found))


lab_app = typer.Typer(help="Emulate a continuum on this machine: namespaces, shaped links, CPU quotas (as root).",
                      no_args_is_help=True)  # fmt: skip
app.add_typer(lab_app, name="lab")
app.add_typer(profile_app, name="profile")
add_manager_verbs(app)
add_client_verbs(app)
add_model_verbs(app)
add_operating_verbs(app)


@lab_app.command("up")
def lab_up(file: ContinuumFile) -> None:
    """Bring a lab up and leave it; take it down with 'littoral lab down'."""
    from littoral.continuum.load import load_continuum
    from littoral.worlds.lab.lab import up_and_leave

    print(up_and_leave(load_continuum(file)))


@lab_app.command("down")
def lab_down(name: Annotated[str | None, typer.Argument(help="A lab's name (default: all).")] = None) -> None:
    """Remove a lab, or all of them, also what a killed run left behind."""
    from littoral.worlds.lab.lab import take_down

    removed = take_down(name)
    print("\n".join(removed) if removed else "no lab was up")


@lab_app.command("check")
def lab_check(file: ContinuumFile, as_json: AsJson = False) -> None:
    """Measure every link and device of a lab: asked against achieved."""
    import msgspec

    from littoral import terminal
    from littoral.continuum.load import load_continuum
    from littoral.worlds.lab.lab import check_lab

    rows = check_lab(load_continuum(file), progress=lambda text: print(text, file=sys.stderr))
    print(json.dumps(msgspec.to_builtins(rows)) if as_json else terminal.lab(rows))
    if not all(row.within for row in rows):
        sys.exit(4)


def _draw_front(plans: list[tuple[Plan, float]], path: Path) -> None:
    from littoral.reports.front import front_picture

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(front_picture(plans))
    print(f"figure: {path}", file=sys.stderr)


def _write_report(folders: list[Path], out: Path, png: bool) -> None:
    from littoral.reports.page import write_report

    for path in write_report(folders, out, png):
        print(f"report: {path}", file=sys.stderr)
