"""Routes: which pipes a message passes, at what latency and price, and who shares what."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.continuum.app import Store
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link, loss_limit
from littoral.continuum.routes import LOCAL, Route, Routes
from littoral.continuum.signal import Constant, Signal, Steps
from littoral.errors import InputError


def device(name: str, site: str, up: float | None = None, down: float | None = None) -> Device:
    return Device(
        name=name,
        site=site,
        step=StepTime(seconds_per_sample=0.01),
        memory_bytes=1e9,
        uplink=None if up is None else Constant(up),
        downlink=None if down is None else Constant(down),
    )


def link(a: str, b: str, rate: float | Signal = 100.0, back: float | None = None, **more: object) -> Link:
    forward = Constant(rate) if isinstance(rate, float | int) else rate
    return Link(a=a, b=b, forward=forward, backward=forward if back is None else Constant(back), **more)  # type: ignore[arg-type]


def routes(devices: list[Device], links: list[Link], stores: tuple[Store, ...] = ()) -> Routes:
    sites = {d.site: Site(name=d.site) for d in devices} | {e: Site(name=e) for x in links for e in (x.a, x.b)}
    return Routes(
        Continuum(name="c", sites=tuple(sites.values()), devices=tuple(devices), links=tuple(links), stores=stores)
    )


def names(route: Route) -> list[str]:
    return [pipe.name for pipe in route.pipes]


def test_the_same_device_is_reached_for_free() -> None:
    assert routes([device("a", "x")], []).between("a", "a") == LOCAL
    assert LOCAL.seconds(1e9) == 0.0


def test_within_a_site_each_device_has_its_port() -> None:
    found = routes([device("a", "x"), device("b", "x")], [link("x", "x", 100.0, 50.0, latency_s=0.01)])
    there = found.between("a", "b")
    assert names(there) == ["a.up", "b.down"]
    assert [pipe.capacity.mean() for pipe in there.pipes] == [100, 50]
    assert (there.latency_s, there.rate(), there.wide_area) == (0.01, 50, False)
    assert there.seconds(100) == pytest.approx(2.01)


def test_a_slow_port_binds() -> None:
    found = routes([device("a", "x", up=10), device("b", "x", down=500)], [link("x", "x", 100.0)])
    assert [pipe.capacity.mean() for pipe in found.between("a", "b").pipes] == [10, 100]
    assert found.between("b", "a").rate() == 100


def test_a_port_and_a_network_that_vary_bind_in_turn() -> None:
    network = Steps((0.0, 10.0), (5.0, 1000.0), period=20.0)
    found = routes([device("a", "x", up=100), device("b", "x")], [link("x", "x", network)])
    port = found.between("a", "b").pipes[0].capacity
    assert [port.at(t) for t in (0, 10, 20)] == [5, 100, 5]
    assert port.next_change(0) == 10


def test_a_shared_medium_is_one_pipe_for_all() -> None:
    wifi = [link("x", "x", 30.0, shared=True)]
    found = routes([device("a", "x", 80, 80), device("b", "x"), device("c", "x")], wifi)
    assert names(found.between("a", "b")) == ["a.up", "x~", "b.down"]
    assert found.between("a", "b").pipes[1] is found.between("c", "a").pipes[1]
    assert found.between("a", "b").rate() == 30


def test_between_two_sites() -> None:
    links = [link("x", "x", 1000.0, latency_s=0.001), link("x", "y", 100.0, 20.0, latency_s=0.04)]
    found = routes([device("a", "x"), device("b", "y")], links)
    there, back = found.between("a", "b"), found.between("b", "a")
    assert names(there) == ["a.up", "x->y", "b.down"] and names(back) == ["b.up", "y->x", "a.down"]
    assert (there.rate(), back.rate()) == (100, 20)
    assert there.latency_s == back.latency_s == pytest.approx(0.041)
    assert there.wide_area
    assert there.pipes[2].capacity.mean() == math.inf


def test_half_duplex_shares_one_pipe() -> None:
    found = routes([device("a", "x"), device("b", "y")], [link("x", "y", 100.0, 20.0, half_duplex=True)])
    there, back = found.between("a", "b"), found.between("b", "a")
    assert there.pipes[1] is back.pipes[1]
    assert (there.rate(), back.rate()) == (100, 100)


def test_through_a_fog_site() -> None:
    links = [
        link("edge", "fog", 50.0, latency_s=0.01, price_usd_per_byte=1e-9),
        link("fog", "cloud", 80.0, latency_s=0.03, price_usd_per_byte=2e-9),
        link("cloud", "cloud", 1000.0, latency_s=0.001, price_usd_per_byte=4e-9),
        link("edge", "cloud", 80.0, latency_s=0.2),
    ]
    found = routes([device("a", "edge"), device("b", "cloud"), device("f", "fog")], links)
    there = found.between("a", "b")
    assert names(there) == ["a.up", "edge->fog", "fog->cloud", "b.down"]
    assert there.latency_s == pytest.approx(0.041)
    assert there.price_usd_per_byte == pytest.approx(7e-9)
    assert there.rate() == 50


def test_equal_latency_takes_fewer_hops_then_the_first_described() -> None:
    links = [link("x", "m", latency_s=0.01), link("m", "y", latency_s=0.01), link("x", "y", latency_s=0.02)]
    assert names(routes([device("a", "x"), device("b", "y")], links).between("a", "b"))[1:-1] == ["x->y"]
    links = [link("x", "n"), link("n", "y"), link("x", "m"), link("m", "y")]
    assert names(routes([device("a", "x"), device("b", "y")], links).between("a", "b"))[1:-1] == [
        "x->n",
        "n->y",
    ]


def test_a_store_on_a_device_sends_from_there() -> None:
    devices = [device("a", "x"), device("b", "x")]
    found = routes(devices, [link("x", "x")], (Store(name="s", site="x", device="a"),))
    assert found.between("s", "b") == found.between("a", "b")
    assert found.between("s", "a") == LOCAL


def test_a_store_of_a_site_has_no_port() -> None:
    devices = [device("a", "x", down=10), device("b", "y")]
    found = routes(devices, [link("x", "y")], (Store(name="s", site="x"),))
    assert names(found.between("s", "a")) == ["a.down"]
    assert names(found.between("s", "b")) == ["x->y", "b.down"]


def test_missing_links_name_the_sites() -> None:
    found = routes([device("a", "x"), device("b", "x"), device("c", "y")], [])
    with pytest.raises(InputError, match=r"no link leads from site 'x' to site 'y'.*between: \[x, y\]") as caught:
        found.between("a", "c")
    assert caught.value.key == "links"
    with pytest.raises(InputError, match=r"'x' has several .* no network.*between: \[x, x\]"):
        found.between("a", "b")


def test_loss_limits_a_flow() -> None:
    assert loss_limit(0.0, 0.05) == math.inf
    assert loss_limit(0.01, 0.05) == pytest.approx(1.22 * 1458 / (0.1 * 0.1))
    lossy = [link("x", "y", 1e9, latency_s=0.05, loss=0.01), link("y", "y", 1e9, loss=0.01)]
    route = routes([device("a", "x"), device("b", "y")], lossy).between("a", "b")
    assert route.flow_limit == pytest.approx(loss_limit(1 - 0.99**2, 0.05))
    assert route.rate() == route.flow_limit < 1e9


@given(st.floats(1e-6, 0.99), st.floats(1e-6, 0.99), st.floats(0, 1))
def test_more_loss_is_never_faster(a: float, b: float, latency: float) -> None:
    low, high = sorted((a, b))
    assert loss_limit(high, latency) <= loss_limit(low, latency)


def test_pipes_with_long_traces_are_quick_to_look_up() -> None:
    trace = Steps(tuple(map(float, range(100_000))), (1.0,) * 100_000, period=1e6)
    found = routes([device("a", "x"), device("b", "y")], [link("x", "y", trace)])
    pipe = found.between("a", "b").pipes[1]
    users = dict.fromkeys([pipe], 0)
    for _ in range(10_000):
        users[pipe] += pipe.capacity.mean() > 0
    assert users[pipe] == 10_000


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1)), max_size=12))
def test_latency_is_that_of_the_shortest_path(edges: list[tuple[int, int, float]]) -> None:
    """Compared with Floyd and Warshall."""
    joined = {tuple(sorted((a, b))): (a, b, latency) for a, b, latency in edges if a != b}
    links = [link(f"s{a}", f"s{b}", latency_s=latency) for a, b, latency in joined.values()]
    best = [[0.0 if i == j else math.inf for j in range(6)] for i in range(6)]
    for a, b, latency in joined.values():
        best[a][b] = best[b][a] = latency
    for k in range(6):
        best = [[min(best[i][j], best[i][k] + best[k][j]) for j in range(6)] for i in range(6)]
    found = routes([device(f"d{i}", f"s{i}") for i in range(6)], links)
    for target in range(1, 6):
        if math.isinf(best[0][target]):
            with pytest.raises(InputError):
                found.between("d0", f"d{target}")
        else:
            assert found.between("d0", f"d{target}").latency_s == pytest.approx(best[0][target])
