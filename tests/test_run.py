"""Whole runs through the command line: determinism, the promised result, resuming after a kill, comparing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from commands import here
from littoral.compare import compare_jobs, summary, tune_jobs
from littoral.events import Resumed
from littoral.job import load_job
from littoral.journal import read_journal
from littoral.learning.leases import prove
from littoral.testing import used_spans

EXAMPLES = Path(__file__).parent.parent / "examples"
EDGE = EXAMPLES / "edge-cluster" / "job.yaml"


def littoral(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "littoral", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stderr
    return done


def journal(out: Path) -> bytes:
    (folder,) = [path for path in out.iterdir() if path.is_dir()]
    return (folder / "journal.jsonl").read_bytes()


def test_one_seed_one_journal_byte_for_byte(tmp_path: Path) -> None:
    """In a process of its own, in one that has done other things, and with another seed."""
    runs = [
        run("run", EDGE, "--json", "--seed", seed, "--out", tmp_path / str(i))
        for i, (run, seed) in enumerate([(littoral, 1), (here, 1), (here, 0)])
    ]
    first, again, other = (journal(tmp_path / str(i)) for i in range(3))
    assert first == again
    assert first != other
    assert json.loads(runs[0].stdout) == json.loads(runs[1].stdout)


def test_the_result_is_what_the_design_promises(tmp_path: Path) -> None:
    result = json.loads(here("run", EDGE, "--json", "--out", tmp_path).stdout)
    promised = {
        "run", "world", "strategy", "planner", "seed", "time_s", "epochs", "samples", "accuracy", "target_accuracy",
        "time_to_target_s", "throughput_efficiency", "goodput_efficiency", "bytes_sent", "wan_bytes", "cost_usd",
        "slo", "faults", "predicted", "workers", "forecasts",
    }  # fmt: skip
    assert promised <= set(result)
    assert set(result["slo"]) == {"checked", "violated"}
    assert set(result["faults"]) == {"injected", "survived"}
    assert "time_s" in result["predicted"]
    assert set(result["workers"]) == {"tx2", "nano-1", "nano-2", "nano-3"}
    for worker in result["workers"].values():
        assert set(worker) == {"shard", "batch", "samples", "busy_s", "wait_s", "send_s", "bytes_sent"}
        assert worker["busy_s"] + worker["wait_s"] == pytest.approx(result["time_s"])
    assert result["samples"] == sum(worker["samples"] for worker in result["workers"].values())
    assert result["accuracy"] >= 0.9
    assert 0 < result["goodput_efficiency"] < 1
    assert 0 < result["throughput_efficiency"] < 1
    assert result["slo"] == {"checked": result["slo"]["checked"], "violated": 0}


def test_timing_only_agrees_with_the_real_run_on_time(tmp_path: Path) -> None:
    """The mathematics changes no clock: with no target, both take the same virtual time to the last digit."""
    text = EDGE.read_text().replace("accuracy: 0.95, epochs: 10", "epochs: 2")
    (tmp_path / "continuum.yaml").write_text((EDGE.parent / "continuum.yaml").read_text())
    (tmp_path / "job.yaml").write_text(text)
    real = json.loads(here("run", tmp_path / "job.yaml", "--json", "--out", tmp_path / "a").stdout)
    timing = here("run", tmp_path / "job.yaml", "--json", "--timing-only", "--out", tmp_path / "b")
    fast = json.loads(timing.stdout)
    assert (real["time_s"], real["bytes_sent"]) == (fast["time_s"], fast["bytes_sent"])
    assert fast["accuracy"] is None


def test_a_killed_run_resumes_and_uses_every_sample_once(tmp_path: Path) -> None:
    text = EDGE.read_text().replace("accuracy: 0.95, epochs: 10", "epochs: 150")
    (tmp_path / "continuum.yaml").write_text((EDGE.parent / "continuum.yaml").read_text())
    (tmp_path / "job.yaml").write_text(text)
    out = tmp_path / "runs"
    command = [sys.executable, "-m", "littoral", "run", str(tmp_path / "job.yaml"), "--timing-only", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not list(out.glob("*/checkpoint.safetensors")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    (folder,) = out.iterdir()
    assert not (folder / "result.json").exists()
    result = json.loads(littoral("run", "--resume", folder, "--json").stdout)
    assert result["reason"] == "epochs"
    events = list(read_journal(folder / "journal.jsonl"))
    assert sum(isinstance(event, Resumed) for event in events) == 1
    shards = {name: worker["shard"] for name, worker in result["workers"].items()}
    assert prove(shards, used_spans(events), 150) == []
    assert result["samples"] == 150 * sum(shards.values()) == sum(w["samples"] for w in result["workers"].values())
    whole = here("run", tmp_path / "job.yaml", "--timing-only", "--json", "--out", tmp_path / "whole")
    assert result["bytes_sent"] == pytest.approx(json.loads(whole.stdout)["bytes_sent"], rel=0.01)
    again = here("run", "--resume", folder, check=False)
    assert (again.returncode, "finished" in again.stderr) == (2, True)


def test_a_saved_plan_runs_as_saved(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    here("plan", EDGE, "--planner", "fair", "--save", plan)
    told = here("run", EDGE, "--plan", plan, "--json", "--timing-only", "--out", tmp_path / "r")
    result = json.loads(told.stdout)
    assert result["planner"] == "fair"
    assert len({worker["batch"] for worker in result["workers"].values()}) == 1


def test_a_plan_for_another_job_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    here("plan", EDGE, "--save", plan)
    other = EXAMPLES / "micro-clouds" / "job.yaml"
    refused = here("run", other, "--plan", plan, "--out", tmp_path / "runs", check=False)
    assert (refused.returncode, "not a plan for this job" in refused.stderr) == (2, True)
    assert not (tmp_path / "runs").exists()
    nowhere = here("plan", EDGE, "--save", tmp_path / "none" / "x.json", check=False)
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (2, 1)


def test_compare_says_which_runs_failed(tmp_path: Path) -> None:
    (tmp_path / "continuum.yaml").write_text((EDGE.parent / "continuum.yaml").read_text())
    faults = "".join(f"  - {{at: 0 s, node: {node}, kind: crash}}\n" for node in ("tx2", "nano-1", "nano-2", "nano-3"))
    (tmp_path / "job.yaml").write_text(EDGE.read_text() + "faults:\n" + faults)
    grid = here("compare", tmp_path / "job.yaml", "--seeds", 1, "--timing-only", "--out", tmp_path / "r", check=False)
    assert grid.returncode == 4
    assert "no worker is left" in grid.stderr


def test_explained_terms_and_refusal(tmp_path: Path) -> None:
    told = littoral("plan", EDGE, "--explain").stdout
    assert "compute" in told and "formula" in told and "predicted:" in told
    (tmp_path / "continuum.yaml").write_text((EDGE.parent / "continuum.yaml").read_text())
    (tmp_path / "job.yaml").write_text(EDGE.read_text() + "limits: {deadline: 10 s}\n")
    refused = here("run", tmp_path / "job.yaml", "--out", tmp_path / "runs", check=False)
    assert refused.returncode == 3
    assert "the deadline binds" in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_compare_prints_a_row_per_cell_and_writes_a_report(tmp_path: Path) -> None:
    grid = littoral("compare", EDGE, "--strategies", "allreduce,parameter_server:mode=ssp:bound=2", "--planners",
                    "fair,proportional", "--seeds", 2, "--timing-only", "--out", tmp_path / "runs",
                    "--report", tmp_path / "report.html")  # fmt: skip
    lines = grid.stdout.splitlines()
    assert sum(line.startswith(("allreduce", "parameter_server mode=ssp bound=2")) for line in lines) == 4
    assert len(list((tmp_path / "runs").iterdir())) == 8
    assert (tmp_path / "report.html").stat().st_size > 100_000
    littoral("report", tmp_path / "runs", "--out", tmp_path / "again.html")  # a folder of runs is all of them
    assert (tmp_path / "again.html").read_text().count("parameter_server mode=ssp") >= 4


def test_tuned_rows_have_their_own_rates_and_one_yardstick(tmp_path: Path) -> None:
    job = replace(load_job(EDGE), recipe={"lr": 0.05})  # rather little: the search must go up
    plain = compare_jobs([job], seeds=[0], out=tmp_path / "plain")
    (tuned,) = tune_jobs([job])
    assert tuned.recipe["lr"] == pytest.approx(0.1) and tuned.yardstick == {"lr": 0.05}
    found = compare_jobs([tuned], seeds=[0], out=tmp_path / "tuned")
    assert found[0].lr == pytest.approx(0.1) and summary(found)[0]["lr"] == found[0].lr
    products = [run.result["goodput_efficiency"] * run.result["time_to_target_s"] for run in (*plain, *found)]
    assert products[0] == pytest.approx(products[1]), "goodput times time is the yardstick"
    again = load_job(found[0].folder / "job.yaml")
    assert (again.recipe, again.yardstick) == (tuned.recipe, tuned.yardstick)


def test_tuning_without_learning_is_refused(tmp_path: Path) -> None:
    refused = here("compare", EDGE, "--tune", "--timing-only", "--out", tmp_path / "runs", check=False)
    assert refused.returncode == 2 and "--timing-only" in refused.stderr and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("job", sorted(EXAMPLES.glob("*/job.yaml")), ids=lambda path: path.parent.name)
def test_examples_run_and_reach_their_target(job: Path, tmp_path: Path) -> None:
    assert (job.parent / "README.md").exists()
    command = littoral if job == EDGE else here
    command("check", job)
    result = json.loads(command("run", job, "--json", "--out", tmp_path).stdout)
    assert result["reason"] == "target"
    assert result["slo"]["violated"] == 0
    assert result["faults"]["survived"] == result["faults"]["injected"]
