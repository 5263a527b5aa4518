from __future__ import annotations

from dataclasses import replace

import pytest

from littoral.errors import InputError
from littoral.events import Computed, Evaluated, Sent
from littoral.learning.task import Recipe
from littoral.strategies.clocks import Clocks
from littoral.strategies.strategy import REGISTRY, make_strategy
from littoral.testing import SETTINGS, check_strategy, fail_at, simulate, small_job

VARIANTS = [
    *SETTINGS,
    ("parameter_server", {"mode": "asp", "damping": "inverse"}),
    ("parameter_server", {"mode": "asp", "damping": "sqrt", "servers": 2}),
    ("parameter_server", {"mode": "asp", "ahead": 2, "servers": 2}),
]


def test_every_registered_strategy_is_covered_by_the_contract() -> None:
    assert {name for name, _ in VARIANTS} == set(REGISTRY)


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_contract(name: str, settings: dict[str, object]) -> None:
    check_strategy(name, **settings)


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_contract_with_a_crash_and_a_return(name: str, settings: dict[str, object]) -> None:
    check_strategy(name, faults=[fail_at("w-2", 0.6, back_after_s=1.5)], **settings)


def test_backups_drop_late_gradients_and_redo_their_samples() -> None:
    job = small_job(strategy="parameter_server", planner="fair", mode="bsp", backups=1)
    story = simulate(job, timing_only=True)
    computed = sum(event.samples for event in story.of(Computed))
    assert computed > 240 * job.epochs  # some were computed twice
    assert story.contradictions() == []  # and counted once


def test_backup_workers_do_not_wait_for_the_slowest() -> None:
    """While all three are at work, steps close at the pace of the second slowest (24 ms a sample), not the slowest."""
    plain = simulate(small_job(strategy="parameter_server", planner="fair", mode="bsp", epochs=4), timing_only=True)
    backed = simulate(
        small_job(strategy="parameter_server", planner="fair", mode="bsp", backups=1, epochs=4), timing_only=True
    )

    def pace(story: object) -> float:
        starts = [event.start for event in story.of(Computed) if event.node == "w-1"][:20]  # type: ignore[attr-defined]
        return (starts[-1] - starts[0]) / (len(starts) - 1)

    assert pace(backed) < 0.75 * pace(plain)


def test_every_push_is_answered_in_asynchronous_mode() -> None:
    story = simulate(small_job(strategy="parameter_server", mode="asp"), timing_only=True)
    kinds = [event.message for event in story.of(Sent)]
    asked = kinds.count("Push") + kinds.count("Pull")
    assert asked - 3 <= kinds.count("Parameters") <= asked  # the run ends with the last pushes, before their answers


def test_wrong_settings_are_refused_with_a_remedy() -> None:
    for settings, match in [
        ({"mode": "bps"}, "did you mean 'bsp'"),
        ({"bound": -1}, "at least 0"),
        ({"bound": True}, "whole number"),
        ({"backups": 1, "mode": "asp"}, "set 'mode: bsp'"),
        ({"backups": 1, "mode": "bsp", "servers": 2}, "single server"),
        ({"servers": 0}, "at least 1"),
        ({"damping": "zzz"}, "known: inverse, none, sqrt"),
    ]:
        with pytest.raises(InputError, match=match):
            make_strategy("parameter_server", settings)


def test_clocks_keep_the_minimum_through_joins_and_leaves() -> None:
    clocks = Clocks(["a", "b"], bound=1)
    for _ in range(3):
        clocks.advance("a")
    assert (clocks.slowest, clocks.may_start("a"), clocks.may_start("b")) == (0, False, True)
    clocks.remove("b")
    assert (clocks.slowest, clocks.may_start("a")) == (3, True)
    clocks.admit("c")
    assert clocks.may_start("c")
    clocks.advance("c")
    clocks.advance("c")
    assert (clocks.slowest, clocks.may_start("c")) == (3, False)
    clocks.remove("a")
    assert clocks.slowest == 5
    clocks.remove("c")
    clocks.admit("d")
    assert clocks.may_start("d")


def test_asynchronous_servers_take_off_the_momentum_that_asynchrony_adds() -> None:
    recipe = Recipe(lr=0.03, momentum=0.9, nesterov=True)
    asp = make_strategy("parameter_server", {"mode": "asp"})
    few, many = asp.tune(recipe, 2), asp.tune(recipe, 100)
    assert 0.0 < few.momentum < 0.9
    assert (many.momentum, many.nesterov) == (0.0, False)
    for tuned in (few, many):
        assert tuned.lr == pytest.approx(0.03 * ((1 - tuned.momentum) / 0.1) ** 0.5)
    for same in ({"mode": "bsp"}, {"mode": "asp", "momentum": "keep"}):
        assert make_strategy("parameter_server", same).tune(recipe, 6) == recipe


def test_momentum_does_not_wreck_asynchronous_training() -> None:
    """Six workers, momentum 0.9: the recipe as it is goes astray, the tuned one learns."""
    last = {}
    for momentum in ("keep", "auto"):
        job = small_job(workers=6, strategy="parameter_server", mode="asp", momentum=momentum, epochs=3)
        recipe = {"momentum": 0.9, "lr": 0.05, "batch": 32}
        story = simulate(replace(job, task="littoral.tasks.digits", task_options={}, recipe=recipe))
        last[momentum] = sum(event.loss for event in story.of(Evaluated)[-3:]) / 3
    assert last["auto"] < 0.5 * last["keep"], last
