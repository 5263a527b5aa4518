"""The verbs of whoever uses a manager: submit, status, logs, watch and stop."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from littoral.cli_options import AsJson, JobFile, Where, asking

RunNumber = Annotated[int, typer.Argument(help="A run's number.", min=1, show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Give an application these verbs."""
    for verb in (submit, status, logs, watch, stop):
        app.command()(asking(verb))


def submit(
    file: JobFile,
    world: Annotated[str, typer.Option(help="Where to run: simulated, processes or ray.")] = "processes",
    lab: Annotated[bool, typer.Option("--lab", help="Emulate the continuum on the manager's machine.")] = False,
    seed: Annotated[int | None, typer.Option(help="Of everything random (default: the job's).", min=0)] = None,
    timing_only: Annotated[bool, typer.Option("--timing-only", help="No mathematics (simulated world).")] = False,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Send a job, its continuum and its profile to a manager, which keeps it and runs it in its turn."""
    from littoral.arguments import world_of
    from littoral.manager.jobs import RunOptions
    from littoral.manager.sending import send

    world_of(world, lab)
    options = RunOptions(world=world, lab=lab, seed=seed, timing_only=timing_only)  # type: ignore[arg-type]
    with manager.connect() as client:
        sent = send(client, file, options)
    told = f"job {sent.job.number} is kept; see its run with: littoral watch {sent.run.number}"
    print(json.dumps(asdict(sent)) if as_json else told)


def status(
    number: Annotated[int | None, typer.Argument(help="A run's number (default: all runs).", min=1)] = None,
    *,
    manager: Where,
    as_json: AsJson = False,
) -> None:
    """Show a run, or the newest ones."""
    from littoral.manager.telling import run_line, runs_table

    with manager.connect() as client:
        found = client.runs(newest=True).items if number is None else [client.run(number)]
    if as_json:
        shown = [asdict(run) for run in found]
        print(json.dumps(shown[0] if number is not None else {"runs": shown}))
    else:
        print(runs_table(found) if number is None else run_line(found[0]))


def logs(number: RunNumber, *, manager: Where, as_json: AsJson = False) -> None:
    """Print the end of what a run's process said."""
    with manager.connect() as client:
        text = client.log(number)
    print(json.dumps({"run": number, "log": text}) if as_json else text, end="\n" if as_json else "")


def watch(number: RunNumber, *, manager: Where, as_json: AsJson = False) -> None:
    """Follow a run until it has ended; exit code 4 if it failed."""
    from littoral.manager.runs import RunState
    from littoral.manager.telling import run_line

    with manager.connect() as client:
        for run in client.watch(number):
            print(run_line(run), file=sys.stderr)
    print(json.dumps(asdict(run)) if as_json else run_line(run))
    if run.state is RunState.FAILED:
        sys.exit(4)


def stop(number: RunNumber, *, manager: Where, as_json: AsJson = False) -> None:
    """Stop a run once it has written a checkpoint."""
    from littoral.manager.telling import run_line

    with manager.connect() as client:
        run = client.stop(number)
    print(json.dumps(asdict(run)) if as_json else run_line(run))
