"""Writing a continuum down and reading it back gives the same continuum, floats to the last bit."""

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.continuum.app import App, Store
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import TIERS, Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.load import parse_continuum
from littoral.continuum.signal import Constant, Lowest, Scaled, Signal, Steps
from littoral.continuum.write import continuum_document, signal_document

names = st.from_regex(r"[a-zA-Zäß][\w.-]{0,8}", fullmatch=True) | st.sampled_from(["on", "no", "null", "x1e3", "3d"])
positive = st.floats(1e-12, 1e15)
share = st.floats(0, 1)


def unique(elements: st.SearchStrategy[str], least: int, most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(elements, min_size=least, max_size=most, unique=True)


@st.composite
def signals(draw: st.DrawFn, values: st.SearchStrategy[float]) -> Signal:
    if draw(st.booleans()):
        return Constant(draw(values))
    gaps = draw(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=4))
    times = [0.0]
    for gap in gaps[:-1]:
        times.append(times[-1] + gap)
    steps = Steps(
        tuple(times),
        tuple(draw(values) for _ in times),
        times[-1] + gaps[-1] if draw(st.booleans()) else math.inf,
    )
    scale = draw(st.sampled_from([1.0]) | st.floats(1e-3, 1e3))
    return steps if scale == 1.0 else Scaled(steps, scale)


steps_times = st.one_of(
    st.builds(StepTime, fixed_seconds=st.floats(0, 10), seconds_per_sample=positive),
    st.builds(StepTime, fixed_seconds=st.floats(0, 10), flops=positive),
)


@st.composite
def continuums(draw: st.DrawFn) -> Continuum:
    sites = draw(unique(names, 1, 3))
    things = draw(unique(names, 1, 5))
    count = draw(st.integers(1, len(things)))
    rates = signals(positive)
    devices = [
        Device(
            name=name,
            site=draw(st.sampled_from(sites)),
            step=draw(steps_times),
            memory_bytes=draw(positive),
            memory_bytes_per_s=draw(positive),
            uplink=draw(st.none() | rates),
            downlink=draw(st.none() | rates),
            price_usd_per_s=draw(share),
            load=draw(signals(share)),
            jitter=draw(st.floats(0, 2)),
            kind=draw(names),
            cpu=draw(st.none() | st.floats(1e-3, 1e3)),
            card=(card := draw(st.none() | st.integers(0, 7))),
            card_share=1.0 if card is None else draw(st.floats(0.01, 1.0)),
        )
        for name in things[:count]
    ]
    ends = draw(st.lists(st.tuples(*[st.sampled_from(sites)] * 2), max_size=3, unique_by=frozenset))
    links = []
    for a, b in ends:
        half, shared, forward = draw(st.booleans()) and a != b, draw(st.booleans()) and a == b, draw(rates)
        links.append(
            Link(
                a=a,
                b=b,
                forward=forward,
                backward=forward if half or shared else draw(rates),
                latency_s=draw(st.floats(0, 10)),
                price_usd_per_byte=draw(share),
                loss=draw(st.floats(0, 0.99)),
                half_duplex=half,
                shared=shared,
            )
        )
    stores = []
    for name in things[count:]:
        on = draw(st.none() | st.sampled_from(devices))
        site = on.site if on else draw(st.sampled_from(sites))
        stores.append(Store(name=name, site=site, device=on and on.name, samples=draw(st.integers(0, 10**9))))
    apps = []
    for name in draw(unique(names, 0, 2)):
        period, work = draw(st.floats(1e-3, 1e3)), draw(st.floats(1e-3, 1e3))
        hosts = draw(st.lists(st.sampled_from(devices), unique=True))
        apps.append(
            App(
                name=name,
                on=tuple(device.name for device in devices if device in hosts),
                period_s=period,
                deadline_s=work * draw(st.floats(1, 10)),
                work_s=work,
                demand=draw(share),
                run=draw(st.sampled_from(["", "littoral.apps.sift"])),
            )
        )
    return Continuum(
        name=draw(names),
        sites=tuple(Site(name=site, tier=draw(st.sampled_from(TIERS))) for site in sites),
        devices=tuple(devices),
        links=tuple(links),
        apps=tuple(apps),
        stores=tuple(stores),
    )


@settings(max_examples=60, deadline=None)
@given(continuums())
def test_written_and_read_is_the_same(continuum: Continuum) -> None:
    document = continuum_document(continuum)
    for text in (yaml.safe_dump(document), yaml.safe_dump(document, sort_keys=False, allow_unicode=True)):
        assert parse_continuum(text) == continuum


@given(st.floats(0, 1e12), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_scaled_constant_is_a_constant(value: float, a: float, b: float) -> None:
    signal = Scaled(Scaled(Constant(value), a), b)
    assert signal_document(signal, "B/s") == f"{value * a * b!r} B/s"


def test_scales_multiply() -> None:
    document = signal_document(Scaled(Scaled(Steps((0.0,), (8.0,), 2.0), 0.5), 4.0), "")
    assert document == {"steps": [["0.0 s", 8.0]], "repeat": "2.0 s", "scale": 2.0}


def test_what_cannot_be_written_says_so() -> None:
    with pytest.raises(TypeError, match="cannot be written down"):
        signal_document(Lowest((Constant(1.0), Constant(2.0))), "B/s")


def test_numpy_numbers_are_written_as_numbers() -> None:
    np = pytest.importorskip("numpy")
    assert signal_document(Constant(np.float64(2.5)), "B/s") == "2.5 B/s"
    assert type(signal_document(Constant(np.float64(0.5)), "")) is float
