from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import yaml

from littoral.continuum.load import parse_continuum
from littoral.planning.plan import Plan, Prediction, Worker
from littoral.reports.graph import draw
from littoral.reports.outline import outline_of


def fleet(sites: int):
    """Many homes alike, each with three devices, below one region."""
    step = {"per_sample": "1 ms"}
    homes = [f"home-{i}" for i in range(1, sites + 1)]
    devices = [{"name": f"{home}-pi-1", "site": home, "count": 3, "memory": "1 GB", "step": step} for home in homes]
    links = [{"between": [home, "region"], "bandwidth": "20 Mbit/s", "latency": "9 ms"} for home in homes]
    document = {
        "sites": [*({"name": home} for home in homes), {"name": "region", "tier": "cloud"}],
        "devices": [*devices, {"name": "gpu", "site": "region", "memory": "1 GB", "step": step}],
        "links": links,
    }
    continuum = parse_continuum(yaml.safe_dump(document))
    worker = Worker(name="gpu", device="gpu", shard=10, batch=5, samples_per_s=1.0)
    nothing = Prediction(time_s=1.0, epoch_s=1.0, bytes_sent=0.0, wan_bytes=0.0, cost_usd=0.0)
    return continuum, Plan(planner="fair", strategy="allreduce", workers=(worker,), epochs=1, predicted=nothing)


def test_devices_that_are_alike_are_named_together() -> None:
    outline = outline_of(*fleet(2))
    assert [entry.names for place in outline.places for entry in place.entries] == [
        "home-1-pi-1..3", "home-2-pi-1..3", "gpu",
    ]  # fmt: skip


def test_many_sites_that_are_alike_are_drawn_as_one() -> None:
    outline = outline_of(*fleet(30))
    assert [(place.title, place.count) for place in outline.places] == [("home-1..30", 30), ("region", 1)]
    (tie,) = outline.ties
    assert tie.label == "→ region: 20 Mbit/s · 9 ms each"


def test_boxes_do_not_overlap_and_everything_is_inside() -> None:
    root = ElementTree.fromstring(draw(outline_of(*fleet(6))))
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    boxes = [
        tuple(float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        for rect in root.iter("rect") if rect.attrib["class"] == "site"
    ]  # fmt: skip
    assert len(boxes) == 7
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for x2, y2, w2, h2 in boxes[i + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_a_faster_link_is_wider() -> None:
    continuum, plan = fleet(1)
    slow = draw(outline_of(continuum, plan))
    text = yaml.safe_dump({
        "sites": [{"name": "home-1"}, {"name": "region", "tier": "cloud"}],
        "devices": [{"name": "gpu", "site": "region", "memory": "1 GB", "step": {"per_sample": "1 ms"}}],
        "links": [{"between": ["home-1", "region"], "bandwidth": "2 Gbit/s"}],
    })  # fmt: skip
    fast = draw(outline_of(parse_continuum(text), plan))
    widths = [float(re.search(r'class="link"[^>]*stroke-width="([\d.]+)"', svg)[1]) for svg in (slow, fast)]  # type: ignore[index]
    assert widths[0] < widths[1]
