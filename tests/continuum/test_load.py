"""Reading a continuum: every key does what it says, and what is wrong is placed at its line."""

from pathlib import Path

import pytest

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.load import load_continuum, parse_continuum
from littoral.continuum.signal import Constant, Scaled, Steps
from littoral.errors import InputError

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/**/continuum.yaml"))

FULL = """\
name: two-tiers
sites:
  - {name: plant, tier: edge}
  - {name: region, tier: cloud}
devices:
  - {name: nano-1, site: plant, kind: jetson-nano, count: 3, load: 20 %, jitter: 0.1}
  - {name: gpu, site: region, kind: t4, price: 0.36 USD/h, memory: 8 GiB, uplink: 1 Gbit/s}
  - {name: box, site: region, label: mine, speed: 5 GFLOP/s, overhead: 2 ms, memory: 1 GB,
     memory_bandwidth: 10 GB/s}
  - {name: pi, site: plant, step: {fixed: 5 ms, per_sample: 2 ms}, memory: 4 GB, downlink: 100 Mbit/s}
  - {name: old, site: plant, samples_per_second: 50 samples/s, memory: 1 GB, cpu: 0.4}
links:
  - {between: [plant, plant], bandwidth: 300 Mbit/s, shared: true, latency: 2 ms}
  - {between: [plant, region], up: 10 Mbit/s, down: 50 Mbit/s, rtt: 80 ms, price: 0.09 USD/GB, loss: 1e-3,
     duplex: full}
apps:
  - {name: sift, on: "nano-*", every: 200 ms}
  - {name: look, on: [gpu, pi], every: 1 s, deadline: 500 ms, work: 100 ms, demand: 0.2,
     run: littoral.apps.sift}
stores:
  - {name: camera, site: plant, samples: 3855}
  - {name: disk, on: box}
"""


def refused(text: str, *parts: str, line: int | None = None) -> None:
    with pytest.raises(InputError) as caught:
        parse_continuum(text, Path("c.yaml"))
    message = str(caught.value)
    assert message.startswith("c.yaml:") and caught.value.remedy, message
    assert all(part in message for part in parts), message
    if line is not None:
        assert caught.value.line == line, message


@pytest.fixture(scope="module")
def full() -> Continuum:
    return parse_continuum(FULL)


def test_names_and_places(full: Continuum) -> None:
    assert full.name == "two-tiers"
    assert [(site.name, site.tier) for site in full.sites] == [("plant", "edge"), ("region", "cloud")]
    assert full.device_names == ("nano-1", "nano-2", "nano-3", "gpu", "box", "pi", "old")
    assert full.site("plant").tier == "edge"


def test_devices(full: Continuum) -> None:
    nano, gpu, box = full.device("nano-2"), full.device("gpu"), full.device("box")
    assert (nano.kind, nano.load, nano.jitter) == ("jetson-nano", Constant(0.2), 0.1)
    assert (gpu.price_usd_per_s, gpu.memory_bytes) == (pytest.approx(1e-4), 8 * 2.0**30)
    assert gpu.uplink == Constant(1.25e8) and gpu.downlink == Constant(1.25e9)
    assert (box.kind, box.step) == ("mine", StepTime(fixed_seconds=0.002, flops=5e9))
    assert (box.memory_bytes_per_s, box.uplink) == (1e10, None)
    assert full.device("pi").step == StepTime(fixed_seconds=0.005, seconds_per_sample=0.002)
    assert full.device("old").step == StepTime(seconds_per_sample=0.02)
    assert (full.device("old").cpu, full.device("pi").cpu) == (0.4, None)


def test_links(full: Continuum) -> None:
    wifi, wan = full.links
    assert (wifi.shared, wifi.half_duplex, wifi.latency_s) == (True, False, 0.002)
    assert (wan.forward, wan.backward) == (Constant(1.25e6), Constant(6.25e6))
    assert (wan.latency_s, wan.loss, wan.half_duplex, wan.name) == (0.04, 0.001, False, "plant--region")
    assert wan.price_usd_per_byte == pytest.approx(9e-11)


def test_apps_and_stores(full: Continuum) -> None:
    sift, look = full.apps
    assert sift.on == ("nano-1", "nano-2", "nano-3")
    assert (sift.period_s, sift.deadline_s, sift.work_s, sift.demand) == (0.2, 0.2, 0.05, 0.5)
    assert (look.on, look.deadline_s, look.run) == (("gpu", "pi"), 0.5, "littoral.apps.sift")
    assert full.apps_on("pi") == (look,)
    assert [(s.site, s.device, s.samples) for s in full.stores] == [
        ("plant", None, 3855),
        ("region", "box", 0),
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_load(path: Path) -> None:
    assert load_continuum(path).devices


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("name: a", ["a"]),
        ("name: a, count: 1", ["a-1"]),
        ("name: a, count: 3", ["a-1", "a-2", "a-3"]),
        ("name: a-1, count: 2", ["a-1", "a-2"]),
        ("name: a-9, count: 2", ["a-9", "a-10"]),
        ("name: a7, count: 2", ["a-7", "a-8"]),
    ],
)
def test_count_numbers_devices(entry: str, expected: list[str]) -> None:
    text = f"sites: [{{name: x}}]\ndevices: [{{{entry}, site: x, kind: t4}}]\n"
    assert list(parse_continuum(text).device_names) == expected


def test_rates_may_vary(tmp_path: Path) -> None:
    (tmp_path / "lte.csv").write_text("t_s,mbps\n0,8\n1,16\n")
    (tmp_path / "busy.csv").write_text("t_s,load\n0,0.25\n60,0.75\n")
    path = tmp_path / "c.yaml"
    path.write_text(
        "sites: [{name: x}, {name: y}, {name: z}]\n"
        "devices:\n"
        "  - {name: a, site: x, kind: t4, load: {trace: busy.csv}, uplink: {trace: lte.csv, scale: 0.5}}\n"
        "links:\n"
        "  - {between: [x, y], bandwidth: 12 Mbit/s, trace: lte.csv, scale: 2}\n"
        "  - {between: [x, x], bandwidth: {steps: [[0 s, 1 Mbit/s], [10 s, 2 Mbit/s]], repeat: 1 min}}\n"
        "  - {between: [x, z], bandwidth: 8 Mbit/s, down: {trace: lte.csv}}\n"
    )
    continuum = load_continuum(path)
    lte = Steps((0.0, 1.0), (1e6, 2e6), period=2.0)
    device, (wan, lan, asymmetric) = continuum.devices[0], continuum.links
    assert continuum.name == "c"
    assert device.load == Steps((0.0, 60.0), (0.25, 0.75), period=120.0)
    assert device.uplink == Scaled(lte, 0.5)
    assert wan.forward == wan.backward == Scaled(lte, 2.0)
    assert lan.forward == Steps((0.0, 10.0), (1.25e5, 2.5e5), period=60.0)
    assert (asymmetric.forward, asymmetric.backward) == (Constant(1e6), lte)


# -- what is refused -------------------------------------------------------------------------------

HEAD = "sites: [{name: plant}, {name: region}]\ndevices:\n- {name: a, site: plant, kind: t4}\n"


@pytest.mark.parametrize(
    ("device", "parts"),
    [
        ("kind: t4", ("'site' is missing",)),
        ("site: plnt, kind: t4", ("unknown site 'plnt'", "did you mean 'plant'?")),
        ("site: plant, kind: t44", ("unknown device kind 't44'", "did you mean 't4'?")),
        ("site: plant, kind: [t4]", ("expected text",)),
        ("site: plant, kind: 4", ("expected text, found 4",)),
        ("site: plant, knd: t4", ("unknown key 'knd'", "did you mean 'kind'?")),
        ("site: plant, memory: 1 GB", ("nothing says how fast", "'kind'")),
        ("site: plant, kind: t4, memroy: 4 GB", ("unknown key 'memroy'", "did you mean 'memory'?")),
        ("site: plant, kind: t4, memory: 4", ("memory: 4 has no unit", "'4 GiB'")),
        ("site: plant, kind: t4, memory: -4 GB", ("memory", "negative")),
        ("site: plant, kind: t4, memory: .nan", ("memory: nan is not a size",)),
        ("site: plant, kind: t4, memory: 0 B", ("memory", "zero")),
        ("site: plant, kind: t4, count: 0", ("count: 0 is too small", "at least 1")),
        ("site: plant, kind: t4, count: 2.5", ("count: expected a whole number",)),
        ("site: plant, kind: t4, count: 999999999999", ("count", "too large")),
        ("site: plant, kind: t4, jitter: .inf", ("jitter", "out of range")),
        ("site: plant, kind: t4, jitter: 0x" + "f" * 5000, ("jitter", "out of range")),
        ("site: plant, kind: t4, memory: 0x" + "f" * 5000, ("memory: a huge number is not a size",)),
        ("site: plant, kind: t4, cpu: 0", ("cpu: 0 is out of range",)),
        ("site: plant, kind: t4, cpu: half", ("cpu: expected a number",)),
        ("site: plant, kind: t4, card: -1", ("card: -1 is too small",)),
        ("site: plant, kind: t4, card: 0, card_share: 1.5", ("card_share: 1.5 is out of range",)),
        ("site: plant, kind: t4, load: 1.5", ("load", "between 0 and 1")),
        ("site: plant, kind: t4, load: -0.1", ("load", "between 0 and 1")),
        ("site: plant, kind: t4, uplink: 0 Mbit/s", ("uplink: the rate is zero",)),
        ("site: plant, kind: t4, uplink: 20 Mb/s", ("'Mbit/s' if you mean bits",)),
        ("site: plant, kind: t4, price: 1 USD/GB", ("not a unit of price per time but of price per byte",)),
        ("site: plant, kind: t4, step: {fixed: 1 ms}", ("'per_sample' is missing",)),
        ("site: plant, kind: t4, step: 5 ms", ("step: expected a mapping",)),
        ("site: plant, kind: t4, step: {per_sample: 1 ms, fxed: 1 ms}", ("'fxed'", "did you mean 'fixed'?")),
        ("site: plant, step: {per_sample: 1 ms}", ("'memory' is missing",)),
        ("site: plant, kind: t4, step: {per_sample: 1 ms}, speed: 1 GFLOP/s", ("both 'step' and 'speed'",)),
        ("site: plant, kind: t4, uplink: {}", ("'steps' is missing",)),
        ("site: plant, kind: t4, uplink: {steps: []}", ("steps", "at least one")),
        ("site: plant, kind: t4, uplink: {steps: [1, 2]}", ("steps: expected a list of [time, value]",)),
        ("site: plant, kind: t4, uplink: {steps: [[1 s, 1 MB/s]]}", ("steps", "start at 0")),
        ("site: plant, kind: t4, uplink: {steps: [[0 s, 1]]}", ("steps: 1 has no unit",)),
        ("site: plant, kind: t4, uplink: {steps: [[0 s, -1 MB/s]]}", ("steps", "negative")),
        (
            "site: plant, kind: t4, uplink: {steps: [[0 s, 1 B/s], [9 s, 2 B/s]], repeat: 9 s}",
            ("repeats before",),
        ),
        ("site: plant, kind: t4, uplink: {steps: [[0 s, 1 B/s]], trace: x.csv}", ("x.csv", "cannot read")),
        ("site: plant, kind: t4, uplink: {steps: [[0 s, 1 B/s]], scale: -1}", ("scale", "out of range")),
        ("site: plant, kind: t4, uplink: {trace: [x]}", ("trace: expected text",)),
        ('site: plant, kind: t4, uplink: {trace: "a\\0b"}', ("trace: expected text",)),
        ("site: plant, kind: t4, uplink: {trace: nowhere.csv}", ("trace: nowhere.csv: cannot read it",)),
    ],
)
def test_devices_are_checked(device: str, parts: tuple[str, ...]) -> None:
    refused(f"sites:\n- name: plant\ndevices:\n- {{name: d, {device}}}\n", *parts, line=4)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("7", ("expected text, found 7", "quotes")),
        ("no", ("expected text, found False", "quotes")),
        ("2024-01-01", ("expected text", "quotes")),
        ("''", ("expected text, found ''",)),
        ("", ("expected text, found None",)),
        ("'a b'", ("'a b' cannot be a name", "letters")),
        ("a*", ("'a*' cannot be a name",)),
        ("../../x", ("cannot be a name",)),
        ('"a\\nb"', ("cannot be a name",)),
        ("'12'", ("reads as a number",)),
        ("'1e3'", ("reads as a number",)),
        ("x" * 100_000 + "/", ("cannot be a name",)),
    ],
)
def test_names_are_checked(name: str, parts: tuple[str, ...]) -> None:
    refused(f"sites:\n- name: plant\ndevices:\n- name: {name}\n  site: plant\n  kind: t4\n", *parts, line=4)


@pytest.mark.parametrize(
    ("link", "parts"),
    [
        ("bandwidth: 1 MB/s", ("'between' is missing",)),
        ("between: plant, bandwidth: 1 MB/s", ("needs two sites",)),
        ("between: [plant, reigon], bandwidth: 1 MB/s", ("unknown site 'reigon'", "did you mean 'region'?")),
        ("between: [plant, region]", ("no rate", "bandwidth: 20 Mbit/s")),
        (
            "between: [plant, region], bandwith: 1 MB/s",
            ("unknown key 'bandwith'", "did you mean 'bandwidth'?"),
        ),
        ("between: [plant, region], bandwidth: 20", ("bandwidth: 20 has no unit", "'20 Mbit/s'")),
        ("between: [plant, region], bandwidth: 0 MB/s", ("rate is zero",)),
        ("between: [plant, region], bandwidth: -1 MB/s", ("bandwidth", "negative")),
        ("between: [plant, region], up: 1 MB/s", ("no rate",)),
        ("between: [plant, region], bandwidth: 1 MB/s, latency: 3", ("latency: 3 has no unit",)),
        (
            "between: [plant, region], bandwidth: 1 MB/s, latency: 3 ms, rtt: 6 ms",
            ("both 'rtt' and 'latency'",),
        ),
        ("between: [plant, region], bandwidth: 1 MB/s, loss: 2", ("loss", "between 0 and 1")),
        ("between: [plant, region], bandwidth: 1 MB/s, loss: 100 %", ("loses everything",)),
        ("between: [plant, region], up: 1 MB/s, down: 2 MB/s, duplex: half", ("has only one rate",)),
        ("between: [plant, region], bandwidth: 1 MB/s, duplex: hlaf", ("duplex", "did you mean 'half'?")),
        ("between: [plant, region], bandwidth: 1 MB/s, shared: true", ("'shared' is for links within",)),
        (
            "between: [plant, plant], bandwidth: 1 MB/s, duplex: half",
            ("'duplex: half' is for links between",),
        ),
        ("between: [plant, region], bandwidth: 1 MB/s, shared: yep", ("expected true or false",)),
        ("between: [plant, region], bandwidth: 1 MB/s, scale: 2", ("unknown key 'scale'",)),
        ("between: [plant, region], trace: nowhere.csv", ("nowhere.csv: cannot read it",)),
    ],
)
def test_links_are_checked(link: str, parts: tuple[str, ...]) -> None:
    refused(f"{HEAD}links:\n- {{{link}}}\n", *parts, line=5)


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("apps:\n- {on: a, every: 1 s}", ("'name' is missing",)),
        ("apps:\n- {name: s, on: a}", ("'every' is missing",)),
        ("apps:\n- {name: s, on: a, evry: 1 s}", ("unknown key 'evry'", "did you mean 'every'?")),
        ("apps:\n- {name: s, on: b, every: 1 s}", ("on: no device matches 'b'",)),
        ("apps:\n- {name: s, on: [3], every: 1 s}", ("on: 3 is not a device",)),
        ("apps:\n- {name: s, on: [[a]], every: 1 s}", ("is not a device",)),
        ("apps:\n- {name: s, on: a, every: 0 s}", ("every", "zero")),
        ("apps:\n- {name: s, on: a, every: 1 s, work: 2 s}", ("cannot meet its deadline",)),
        ("apps:\n- {name: s, on: a, every: 1 s, demand: 2}", ("demand", "between 0 and 1")),
        ("apps:\n- {name: s, on: a, every: 1 s, deadlin: 2 s}", ("'deadlin'", "did you mean 'deadline'?")),
        ("stores:\n- {name: s}", ("no place",)),
        ("stores:\n- {name: s, on: b}", ("unknown device 'b'",)),
        ("stores:\n- {name: a, on: a}", ("store 'a' has the name of a device",)),
        ("stores:\n- {name: s, site: nowhere}", ("unknown site 'nowhere'",)),
        ("stores:\n- {name: s, on: a, site: region}", ("device 'a' is at 'plant'",)),
        ("stores:\n- {name: s, on: a, samples: -1}", ("samples", "too small")),
        ("stores:\n- {name: s, on: a, sample: 1}", ("'sample'", "did you mean 'samples'?")),
        ("stores:\n- s", ("stores: expected a mapping",)),
        ("stores: {name: s}\n\n", ("stores: expected a list",)),
    ],
)
def test_apps_and_stores_are_checked(rest: str, parts: tuple[str, ...]) -> None:
    refused(f"{HEAD}{rest}\n", *parts, line=4 if "expected a list" in parts[0] else 5)


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("name: x\n", 1, ("at least one device",)),
        ("devices: [{name: a, site: x, kind: t4}]\n", 1, ("unknown site 'x'", "known: none")),
        ("sites: [{name: x}]\ndevices: []\n", 2, ("at least one device",)),
        (HEAD + "\nnetworks: []\n", 5, ("unknown key 'networks'",)),
        (HEAD + "- {name: a, site: plant, kind: t4}\n", 4, ("'a' is described twice",)),
        (HEAD + "- {name: a, site: plant, kind: t4, count: 2}\n- {name: a-2, site: plant, kind: t4}\n", 5,
         ("'a-2' is described twice",)),
        ("sites:\n- {name: x}\n- {name: x}\ndevices: [{name: a, site: x, kind: t4}]\n", 3, ("twice",)),
        (HEAD + "links:\n- {between: [plant, region], bandwidth: 1 MB/s}\n"
         "- {between: [region, plant], bandwidth: 1 MB/s}\n", 6, ("'region--plant' is described twice",)),
        ("sites: [{name: x, tier: sky}]\n", 1, ("tier: 'sky' is unknown", "known: cloud, edge, fog")),
    ],
)  # fmt: skip
def test_the_whole_is_checked(text: str, line: int, parts: tuple[str, ...]) -> None:
    refused(text, *parts, line=line)


def test_a_continuum_built_in_python_is_checked_too() -> None:
    device = Device(name="a", site="x", step=StepTime(seconds_per_sample=1.0), memory_bytes=1.0)
    with pytest.raises(InputError, match="unknown site 'x'"):
        Continuum(name="c", sites=(Site(name="y"),), devices=(device,), links=())
    with pytest.raises(InputError, match="'a' is described twice"):
        Continuum(name="c", sites=(Site(name="x"),), devices=(device, device), links=())


def test_ten_thousand_devices_are_read_quickly() -> None:
    lines = "".join(f"- {{name: d{i}, site: x, kind: t4, load: 0.1}}\n" for i in range(3000))
    assert len(parse_continuum(f"sites: [{{name: x}}]\ndevices:\n{lines}").devices) == 3000
    assert len(parse_continuum(HEAD + "- {name: many, site: plant, kind: t4, count: 7000}\n").devices) == 7001
