"""Which points are measured, and what a sweep keeps: everything measured, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import app_rows, training_rows

from commands import here
from littoral.errors import InputError, RunFailed
from littoral.profiling.bench import Measured
from littoral.profiling.design import MOST_CPU, Point, Space, least_known, points
from littoral.profiling.kinds import kinds_of
from littoral.profiling.profile import Profile, load, save
from littoral.profiling.stressors import Stress
from littoral.profiling.sweep import AGAIN, EVENLY, Choice, begun, check_room, server_of, space_of, sweep
from littoral.testing import small_job

CAMERAS = Path(__file__).parents[2] / "examples" / "three-cameras" / "job.yaml"
SPACE = Space(workers=("a", "b", "c"), server="hub", batches=(4, 16, 64))


def test_points_fill_the_space_evenly() -> None:
    some = list(islice(points(SPACE), 128))
    for device in SPACE.workers:
        shares = np.array([point.stress[device].cpu for point in some]) / MOST_CPU
        gaps = np.abs(np.sort(shares) - (np.arange(128) + 0.5) / 128)
        assert gaps.max() < 0.05  # a random sample of as many has about 0.1
        sizes = [point.batches[device] for point in some if device in point.batches]
        assert {size: sizes.count(size) > len(sizes) / 5 for size in SPACE.batches} == dict.fromkeys(
            SPACE.batches, True
        )
    assert {len(point.batches) for point in some} == {1, 2, 3}
    assert [point.number for point in some] == list(range(1, 129))


def test_points_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    first, again, other = (list(islice(points(SPACE, seed), 5)) for seed in (1, 1, 2))
    assert first == again and first != other


def test_cards_are_stressed_where_they_are() -> None:
    some = list(islice(points(replace(SPACE, cards=("b",))), 64))
    assert {point.stress[device].gpu for point in some for device in ("a", "c", "hub")} == {0.0}
    busy = [point.stress["b"].gpu for point in some]
    assert min(busy) < 0.05 and max(busy) > 0.85 and 0.4 < np.mean(busy) < 0.5


def test_disks_are_stressed_where_that_was_asked_for() -> None:
    some = list(islice(points(replace(SPACE, disks=("a", "c"))), 64))
    assert {point.stress[device].disk for point in some for device in ("b", "hub")} == {0.0}
    shares = [point.stress["a"].disk for point in some]
    assert max(shares) > 0.8 and 0.3 < shares.count(0.0) / 64 < 0.5
    assert all(point.stress["b"].disk == 0 for point in islice(points(SPACE), 8))


def test_the_least_known_point_is_far_from_the_known() -> None:
    def point(number: int, cpu: float) -> Point:
        return Point(number=number, stress={"a": Stress(cpu=cpu)}, batches={"a": 16})

    known = [(point(i, cpu), {"a": 0.01 * (1 + cpu)}) for i, cpu in enumerate((0.0, 0.1, 0.2, 0.3, 0.4))]
    assert least_known([point(10, 0.15), point(11, 0.85), point(12, 0.35)], known).number == 11


class FakeBench:
    """Rows of a machine that is not there; fails at some points, is killed at one."""

    def __init__(self, failing: tuple[int, ...] = (), killed_at: int = 0) -> None:
        self.failing, self.killed_at = failing, killed_at
        self.asked: list[int] = []

    def measure(self, point: Point) -> Measured:
        self.asked.append(point.number)
        if point.number in self.failing:
            raise RunFailed("a device rebooted")
        if len(self.asked) == self.killed_at:
            raise KeyboardInterrupt
        (row, *_), (app, *_) = training_rows(8), app_rows(8)
        rows = [replace(row, point=point.number, device=d, kind=d, batch=b, batch_max=max(point.batches.values()),
                        batch_sum=sum(point.batches.values()), workers=len(point.batches))
                for d, b in point.batches.items()]  # fmt: skip
        return Measured(tuple(rows), (replace(app, point=point.number),))


def swept(bench: Any, folder: Path, count: int, visits: int = 1) -> Profile:
    """Until so many points were asked for."""

    class Enough(Exception):
        pass

    def tell(text: str) -> None:
        if len(bench.asked) >= count:
            raise Enough

    with suppress(Enough):
        sweep(bench, SPACE, folder, _begun(folder), budget_s=1e6, visits=visits, tell=tell)
    return load(folder)


def _begun(folder: Path) -> Profile:
    return begun(folder, {name: name for name in SPACE.workers}, "digits")


def test_a_point_that_fails_is_tried_again_and_left_out(tmp_path: Path) -> None:
    bench = FakeBench(failing=(2,))
    profile = swept(bench, tmp_path, 5)
    assert bench.asked == [1, 2, 2, 3, 4]
    assert {row.point for row in profile.training} == {1, 3, 4}


def test_an_interrupted_sweep_goes_on_and_nothing_is_lost(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep(FakeBench(killed_at=4), SPACE, tmp_path, Profile(), budget_s=1e6)  # type: ignore[arg-type]
    assert {row.point for row in load(tmp_path).training} == {1, 2, 3}
    bench = FakeBench()
    profile = swept(bench, tmp_path, 3)
    assert bench.asked == [4, 5, 6]
    assert {row.point for row in profile.training} == {1, 2, 3, 4, 5, 6}


def test_rows_of_half_a_point_are_dropped(tmp_path: Path) -> None:
    kept = swept(FakeBench(), tmp_path, 3)
    save(replace(kept, apps=(*kept.apps, replace(kept.apps[0], point=77))), tmp_path)
    assert {row.point for row in _begun(tmp_path).apps} == {1, 2, 3}


def test_after_the_even_points_doubts_choose(tmp_path: Path) -> None:
    bench = FakeBench()
    swept(bench, tmp_path, EVENLY + AGAIN)
    assert bench.asked[:EVENLY] == list(range(1, EVENLY + 1))
    assert bench.asked[EVENLY] in bench.asked[:EVENLY]  # once more, to know what cannot be learned
    chosen = bench.asked[EVENLY + 1 :]
    assert min(chosen) > EVENLY and len(set(chosen)) == AGAIN - 1
    assert chosen != list(range(EVENLY + 1, EVENLY + AGAIN))


def chosen(profile: Profile, spent: Sequence[float], visits: int) -> list[int]:
    """The points that are asked for when so much of the budget is spent; all of them can be measured."""
    choice, bench, numbers = Choice(SPACE, profile, 0, visits), FakeBench(), []
    for share in spent:
        point = choice.next(share)
        choice.learn(point, bench.measure(point))
        numbers.append(point.number)
    return numbers


def test_a_sweep_of_several_visits_goes_to_and_fro() -> None:
    spent = [0.0, 0.1, 0.3, 0.34, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95]
    assert chosen(Profile(), spent, visits=3) == [1, 2, 3, 3, 2, 1, 1, 2, 3, 4]


def test_visits_that_an_interrupted_sweep_still_owes_are_made_first(tmp_path: Path) -> None:
    profile = swept(FakeBench(), tmp_path, 3)
    assert chosen(profile, [0.0] * 5, visits=2) == [3, 2, 1, 4, 5]


def test_a_point_that_fails_when_it_is_visited_again_is_not_asked_for_ever(tmp_path: Path) -> None:
    swept(FakeBench(), tmp_path, 3, visits=2)
    bench = FakeBench(failing=(1, 3))
    swept(bench, tmp_path, 6, visits=2)
    assert bench.asked == [3, 3, 2, 1, 1, 4]


def test_a_folder_of_another_task_is_refused(tmp_path: Path) -> None:
    save(Profile(training=training_rows(8), apps=()), tmp_path)
    with pytest.raises(InputError, match="another folder"):
        begun(tmp_path, {"a": "a"}, "another.task")


def test_what_is_varied_follows_from_the_job() -> None:
    job = small_job(workers=3)
    server = server_of(job)
    space = space_of(job, server)
    assert server == "hub" and space.workers == ("w-1", "w-2", "w-3")
    assert kinds_of(job, space.workers) == {"w-1": "w", "w-2": "w", "w-3": "w"}
    assert space.batches == (1, 2, 4, 8, 16, 32)  # of a recipe's 8
    assert space_of(replace(job, batch=64), server).batches == (8, 16, 32, 64)  # a third of 240 samples at most


def test_a_sweep_where_plans_are_trains_on_everybody_in_the_larger_batches() -> None:
    job = small_job(workers=3)
    space = space_of(job, server_of(job), everybody=True)
    drawn = list(islice(points(space), 32))
    assert all(set(point.batches) == {"w-1", "w-2", "w-3"} for point in drawn)
    assert {size for point in drawn for size in point.batches.values()} == {8, 16, 32}


def test_stress_that_fills_the_machine_is_refused() -> None:
    job = small_job(workers=3)
    space = space_of(job, server_of(job))
    check_room(space, job, lab=True)
    devices = tuple(replace(device, memory_bytes=1e15) for device in job.continuum.devices)
    with pytest.raises(InputError, match="stress would hold up to"):
        check_room(space, replace(job, continuum=replace(job.continuum, devices=devices)), lab=True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sweep", str(CAMERAS), "--budget", "soon"], "'soon' is not a duration"),
        (["sweep", str(CAMERAS), "--budget", "0 s"], "a budget of 0 s"),
        (["sweep", str(CAMERAS), "--window", "0.1 s"], "a window of 0.1 s"),
        (["sweep", str(CAMERAS), "--world", "moon"], "a sweep in the world 'moon'"),
        (["sweep", "nowhere.yaml"], "there is no such file"),
        (["sweep", str(CAMERAS)], "without a lab, full and half and quarter are all this machine"),
        (["fit", "nowhere"], "there is no such file"),
    ],
)
def test_bad_arguments_are_told_and_nothing_is_written(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("profile", *arguments, check=False)
    assert done.returncode == 2 and told in done.stderr and not list(tmp_path.iterdir())


def test_without_stress_ng_disks_cannot_be_stressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = here("profile", "sweep", CAMERAS, "--lab", "--disk", check=False)
    assert done.returncode == 2 and "apt install stress-ng" in done.stderr and not list(tmp_path.iterdir())
