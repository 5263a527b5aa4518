"""Draws every strategy's first seconds on the same small continuum: docs/strategies/NAME.svg.

Two sites, two workers each, one of them slow; fast links inside a site, a slow one between them. Bars are computing,
lines are messages from where they were sent to where they arrived.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device, Site, StepTime
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant
from littoral.events import Computed, Sent
from littoral.job import Job
from littoral.strategies.strategy import REGISTRY
from littoral.testing import Story, simulate

HERE = Path(__file__).parent / "strategies"
SECONDS, LEFT, TOP, WIDTH, ROW = 2.4, 96, 34, 720, 46
COLOURS = {"plant": "#2a6f97", "region": "#9a5b13"}
BACKGROUND, INK, FAINT, NEAR, FAR = "#ffffff", "#222222", "#d8d8d8", "#7a9e7e", "#c0392b"
MOST, SMALL = 250, 512  # messages, bytes
SPEEDS = {"plant-1": 120.0, "plant-2": 40.0, "region-1": 120.0, "region-2": 60.0}
# Settings with which the picture shows what is special; the others are shown with their defaults.
SETTINGS = {
    "local_sgd": {"period": 8, "site_period": 2}, "diloco": {"period": 6}, "fedavg": {"local_steps": 4},
    "fedasync": {"local_steps": 4}, "fedbuff": {"local_steps": 4, "buffer": 2}, "hop": {"backups": 1},
    "parameter_server": {"mode": "asp"},
}  # fmt: skip


def continuum() -> Continuum:
    """The one on which all are drawn."""
    devices = tuple(
        Device(name=name, site=name.partition("-")[0], step=StepTime(seconds_per_sample=1 / speed), memory_bytes=4e9)
        for name, speed in SPEEDS.items()
    )
    lan, wan = Constant(2e6), Constant(4e5)
    links = (
        Link(a="plant", b="plant", forward=lan, backward=lan, latency_s=0.002),
        Link(a="region", b="region", forward=lan, backward=lan, latency_s=0.002),
        Link(a="plant", b="region", forward=wan, backward=wan, latency_s=0.04),
    )
    sites = (Site(name="plant", tier="edge"), Site(name="region", tier="cloud"))
    return Continuum(name="timeline", sites=sites, devices=devices, links=links)


def run(strategy: str) -> Story:
    """A timing-only run; about 40 kB cross per model."""
    job = Job(
        name="timeline", continuum=continuum(), task="littoral.tasks.synthetic", strategy=strategy, planner="fair",
        task_options={"samples": 2000, "test_samples": 60, "features": 64, "classes": 10, "batch": 8, "width": 2.0},
        epochs=1, parameters=SETTINGS.get(strategy, {}), batch=8, workers=tuple(SPEEDS), servers=("plant-1",),
    )  # fmt: skip
    return simulate(replace(job, seed=0), timing_only=True)


def draw(strategy: str) -> str:
    """The picture."""
    story = run(strategy)
    nodes = [*(server.name for server in story.plan.servers), *(worker.name for worker in story.plan.workers)]
    device = story.plan.device_of
    height = TOP + ROW * len(nodes) + 30
    y = {node: TOP + ROW * i for i, node in enumerate(nodes)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
        f'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{strategy}: computing and messages in the first {SECONDS:g} seconds</title>",
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>',
        f'<text x="{LEFT}" y="18" fill="{INK}" font-weight="bold">{strategy}{_settings(story)}</text>',
    ]
    for x, colour, text in ((520, NEAR, "message inside a site"), (672, FAR, "between sites")):
        parts.append(f'<line x1="{x}" x2="{x + 22}" y1="14" y2="14" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 28}" y="18" fill="{INK}">{text}</text>')
    for node in nodes:
        middle = y[node] + ROW / 2
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{middle}" y2="{middle}" stroke="{FAINT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end" fill="{INK}">{node}</text>')
    shown = [event for event in story.of(Sent) if event.start < SECONDS]
    if len(shown) > MOST:  # then only what carries something
        shown = [event for event in shown if event.size > SMALL]
    for event in shown:
        parts.append(_message(event, y, far=device[event.source].split("-")[0] != device[event.target].split("-")[0]))
    for event in story.of(Computed):
        if event.start < SECONDS:
            colour = COLOURS[event.node.partition("-")[0]]
            left, right = _x(event.start), _x(min(event.t, SECONDS))
            parts.append(f'<rect x="{left:.1f}" y="{y[event.node] + 14}" width="{right - left:.1f}" height="18" rx="2" '
                         f'fill="{colour}" stroke="{BACKGROUND}" stroke-width="0.6"/>')  # fmt: skip
    for tick in range(int(SECONDS / 0.4) + 1):
        x, bottom = _x(0.4 * tick), height - 12
        parts.append(f'<text x="{x:.1f}" y="{bottom}" text-anchor="middle" fill="{INK}">{0.4 * tick:.1f} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def _settings(story: Story) -> str:
    return "".join(f" {key}={value}" for key, value in story.plan.parameters.items())


def _x(t: float) -> float:
    return LEFT + WIDTH * t / SECONDS


def _message(event: Sent, y: dict[str, int], far: bool) -> str:
    """A line from where it left to where it arrived, cut at the picture's edge."""
    end = min(event.t, SECONDS)
    share = (end - event.start) / (event.t - event.start) if event.t > event.start else 1.0
    start_y, target_y = y[event.source] + ROW / 2, y[event.target] + ROW / 2
    stop_y = start_y + share * (target_y - start_y)
    width = 1.4 if event.size > 4096 else 0.7
    return (f'<line x1="{_x(event.start):.1f}" y1="{start_y:.1f}" x2="{_x(end):.1f}" y2="{stop_y:.1f}" '
            f'stroke="{FAR if far else NEAR}" stroke-width="{width}" opacity="0.75"/>')  # fmt: skip


def pictures() -> dict[Path, str]:
    """Every picture, by its file."""
    return {HERE / f"{name}.svg": draw(name) for name in REGISTRY}


if __name__ == "__main__":
    for path, text in pictures().items():
        path.write_text(text)
