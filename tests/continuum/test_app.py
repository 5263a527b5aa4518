"""Apps and stores: what they say and how a crowded device slows everyone down."""

from hypothesis import given
from hypothesis import strategies as st

from littoral.continuum.app import TRAINING_DEMAND, App, Store, crowding

demands = st.lists(st.floats(0, 2), max_size=8)


def test_nobody_is_slowed_while_demands_fit() -> None:
    assert crowding([]) == 1.0
    assert crowding([0.4, 0.6]) == 1.0
    assert crowding([TRAINING_DEMAND]) == 1.0


def test_beyond_that_all_are_slowed_alike() -> None:
    assert crowding([TRAINING_DEMAND, 0.5]) == 1.5


@given(demands, st.floats(0, 2))
def test_one_more_never_helps(present: list[float], more: float) -> None:
    assert crowding([*present, more]) >= crowding(present) >= 1.0


def test_defaults() -> None:
    app = App(name="sift", on=("a",), period_s=0.2, deadline_s=0.2, work_s=0.05)
    assert (app.demand, app.run) == (0.5, "")
    assert Store(name="s", site="plant") == Store(name="s", site="plant", device=None, samples=0)
