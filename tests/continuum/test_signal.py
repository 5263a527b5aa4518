"""Signals: constant between changes, the next change always ahead, traces read or refused with their line."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.continuum.signal import Constant, Lowest, Scaled, Signal, Steps, read_trace
from littoral.errors import InputError

SQUARE = Steps((0.0, 10.0), (1.0, 3.0), period=20.0)


@st.composite
def stepped(draw: st.DrawFn) -> Steps:
    gaps = draw(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6))
    times = [0.0]
    for gap in gaps[:-1]:
        times.append(times[-1] + gap)
    values = draw(st.lists(st.floats(0, 1e9), min_size=len(times), max_size=len(times)))
    repeats = draw(st.booleans())
    return Steps(tuple(times), tuple(values), times[-1] + gaps[-1] if repeats else math.inf)


signals = st.one_of(
    st.floats(0, 1e9).map(Constant),
    stepped(),
    st.builds(Scaled, stepped(), st.floats(0, 100)),
    st.builds(lambda a, b: Lowest((a, b)), stepped(), stepped()),
)


@st.composite
def signals_and_times(draw: st.DrawFn) -> tuple[Signal, float]:
    """Any time, and above all times at, just before and just after a change, early or late."""
    signal = draw(signals)
    t = draw(st.floats(0, 1e15) | st.floats(0, 1e4))
    inner = signal.signal if isinstance(signal, Scaled) else signal
    if isinstance(inner, Steps) and math.isfinite(inner.period) and draw(st.booleans()):
        t = draw(st.integers(0, 10**12)) * inner.period + draw(st.sampled_from(inner.times))
    for _ in range(draw(st.integers(0, 2))):
        t = math.nextafter(t, draw(st.sampled_from([0.0, math.inf])))
    return signal, t


@given(signals_and_times())
def test_the_next_change_is_ahead(case: tuple[Signal, float]) -> None:
    signal, t = case
    assert signal.next_change(t) > t


@given(signals_and_times(), st.floats(0, 1))
def test_constant_until_the_next_change(case: tuple[Signal, float], share: float) -> None:
    signal, t = case
    change = signal.next_change(t)
    last = math.nextafter(change, 0.0) if math.isfinite(change) else 2 * t + 1e6
    assert signal.at(min(t + share * (last - t), last)) == signal.at(t)
    assert signal.at(last) == signal.at(t)


@given(signals_and_times())
def test_walking_the_changes_never_stops(case: tuple[Signal, float]) -> None:
    signal, t = case
    for _ in range(20):
        later = signal.next_change(t)
        assert later > t
        if math.isinf(later):
            break
        t = later


@given(stepped())
def test_every_step_is_taken_in_each_of_the_first_cycles(signal: Steps) -> None:
    t, seen = 0.0, [signal.at(0.0)]
    while len(seen) < 3 * len(signal.times) and math.isfinite(signal.next_change(t)):
        t = signal.next_change(t)
        seen.append(signal.at(t))
    cycles = 3 if math.isfinite(signal.period) else 1
    assert seen == list(signal.values) * cycles


@given(stepped())
def test_the_mean_is_the_area_over_time(signal: Steps) -> None:
    if math.isinf(signal.period):
        assert signal.mean() == signal.values[-1]
        return
    t, area = 0.0, 0.0
    while t < signal.period:
        change = min(signal.next_change(t), signal.period)
        area, t = area + signal.at(t) * (change - t), change
    assert signal.mean() == pytest.approx(area / signal.period, rel=1e-9, abs=1e-9)


def test_steps_by_hand() -> None:
    assert [SQUARE.at(t) for t in (0, 9.999, 10, 19.999, 20, 30, 1e9 + 10)] == [1, 1, 3, 3, 1, 3, 3]
    assert [SQUARE.next_change(t) for t in (0, 9.999, 10, 20, 30)] == [10, 10, 20, 30, 40]
    assert SQUARE.mean() == 2.0
    once = Steps((0.0, 5.0), (1.0, 2.0))
    assert (once.at(4.9), once.at(5.0), once.at(1e9)) == (1, 2, 2)
    assert (once.next_change(0), once.next_change(5)) == (5, math.inf)


def test_a_change_that_rounds_down_is_not_repeated() -> None:
    """k * 0.1 lies beside the true multiple, 0.1 being no binary fraction: nobody must spin there."""
    tenth = Steps((0.0, 0.03), (1.0, 2.0), period=0.1)
    for k in range(0, 100_000, 7):
        t = k * 0.1
        assert tenth.next_change(t) > t
        assert tenth.at(tenth.next_change(t)) != tenth.at(t)


def test_scaled_and_lowest() -> None:
    half = Scaled(SQUARE, 0.5)
    assert (half.at(0), half.at(10), half.mean(), half.next_change(0)) == (0.5, 1.5, 1.0, 10)
    capped = Lowest((SQUARE, Constant(2.0)))
    assert (capped.at(0), capped.at(10), capped.mean(), capped.next_change(3)) == (1, 2, 2, 10)


@pytest.mark.parametrize(
    ("times", "values", "period"),
    [
        ((), (), math.inf),
        ((0.0,), (1.0, 2.0), math.inf),
        ((1.0,), (1.0,), math.inf),
        ((0.0, 2.0, 1.0), (1.0, 2.0, 3.0), math.inf),
        ((0.0, 1.0, 1.0), (1.0, 2.0, 3.0), math.inf),
        ((0.0, math.nan), (1.0, 2.0), math.inf),
        ((0.0,), (math.nan,), math.inf),
        ((0.0, 5.0), (1.0, 2.0), 5.0),
        ((0.0, 5.0), (1.0, 2.0), math.nan),
        ((0.0,), (1.0,), 0.0),
    ],
)
def test_impossible_steps(times: tuple[float, ...], values: tuple[float, ...], period: float) -> None:
    with pytest.raises(InputError) as caught:
        Steps(times, values, period)
    assert caught.value.remedy


# -- traces ----------------------------------------------------------------------------------------


def test_a_trace_repeats_after_its_last_interval(tmp_path: Path) -> None:
    path = tmp_path / "lte.csv"
    path.write_text("t_s,mbps\n100,8\n101,16\n\n103,0\n", encoding="utf-8-sig")  # any start, BOM, blank lines
    trace = read_trace(path)
    assert trace == Steps((0.0, 1.0, 3.0), (1e6, 2e6, 0.0), period=5.0)
    assert trace.at(6.5) == 2e6


def test_other_columns_and_a_single_row(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("host,load,t_s\na,0.5,0\n")
    assert read_trace(path, "load", 1.0) == Steps((0.0,), (0.5,), period=1.0)


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"", 1, "empty"),
        (b"\n\n", 1, "empty"),
        (b"t_s,mbps\n", 1, "empty"),
        (b"t_s,mbps\n0,1\n2,1\n1,1\n", 4, "does not increase"),
        (b"t_s,mbps\n0,1\n0,1\n", 3, "does not increase"),
        (b"t_s,mbps\n0,1\n1,-2\n", 3, "mbps is '-2'"),
        (b"t_s,mbps\n0,nan\n", 2, "mbps is 'nan'"),
        (b"t_s,mbps\n0,inf\n", 2, "mbps is 'inf'"),
        (b"t_s,mbps\nnan,1\n", 2, "t_s is 'nan'"),
        (b"t_s,mbps\n0,1\n1\n", 3, "mbps is missing"),
        (b"t_s,mbps\n0,1\n,5\n", 3, "t_s is missing"),
        (b"t_s,mbps\n0,fast\n", 2, "mbps is 'fast'"),
        (b"t_s,kbps\n0,1\n", 1, "no column 'mbps'"),
        (b"time,mbps\n0,1\n", 1, "no column 't_s'"),
        (b"0,1\n1,2\n", 1, "no column 't_s'"),
        (b"\x00\x01\x02\x03", 1, "trace"),
        (b"\xff\xfe\x00binary", 1, "not a text file"),
        (b"t_s,mbps\n0,1\x00\n", 2, "mbps is"),
        (b"t_s,mbps\n0," + b"9" * 200_000 + b"\n", 1, "not a text file"),
    ],
)
def test_a_broken_trace_is_refused_with_its_line(tmp_path: Path, content: bytes, line: int, found: str) -> None:
    path = tmp_path / "lte.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert (caught.value.file, caught.value.line) == (path, line)
    assert found in str(caught.value) or "no column" in str(caught.value)
    assert caught.value.remedy and len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["missing.csv", ".", "x" * 5000])
def test_a_trace_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot read it") as caught:
        read_trace(tmp_path / name)
    assert caught.value.file == tmp_path / name
