"""The plots of one run: accuracy, who was busy, what crossed the links, which deadlines were missed."""

from __future__ import annotations

from littoral.manager.page.course import Course
from littoral.manager.page.pieces import empty, section
from littoral.manager.page.plots import Axis, Line, Rule, legend, plot, time_span
from littoral.manager.page.strips import gantt, misses
from littoral.manager.page.view import Visit
from littoral.manager.runs import Run
from littoral.units import show_duration, show_rate

_LINKS = 6  # that are drawn: those that carried most
_STEPS = 50  # of a link's rate that are drawn


def accuracy(visit: Visit, run: Run, course: Course) -> str:
    """Accuracy against time, with the target."""
    if not course.accuracy:
        return section("Accuracy", empty("No evaluation yet."))
    target = visit.manager.jobs.get(run.job).document.get("target", {})
    goal = target.get("accuracy") if isinstance(target, dict) else None
    rules = [Rule(y=float(goal), name="target")] if isinstance(goal, int | float) else []
    low = min(accuracy for _, accuracy in course.accuracy)
    y = Axis(low=0.0 if low < 0.5 else 0.5, high=1.0, show=lambda value: f"{100 * value:.0f} %")
    t, last = course.accuracy[-1]
    label = f"Accuracy against time: {100 * last:.1f} % after {show_duration(t)}"
    line = Line(name="accuracy", points=course.accuracy, dots=True)
    return section("Accuracy", plot(label, time_span(course.now), y, [line], rules), id="accuracy")


def busy(visit: Visit, run: Run, course: Course) -> str:
    """The Gantt chart."""
    if not course.busy.amounts:
        return section("Who was busy", empty("Nobody has computed yet."))
    follower = visit.manager.launcher.following(run.number)
    devices = follower.devices if follower else {}
    label = f"Gantt chart of {len(course.busy.amounts)} nodes over {show_duration(course.now)}"
    chart = gantt(label, time_span(course.now), course.busy, devices)
    note = '<p class="note">The stronger the colour, the larger the share of time spent computing.</p>'
    return section("Who was busy", chart, note, id="gantt")


def links(course: Course) -> str:
    """The rates of the links that carried most."""
    names = [name for name in course.sent.totals() if not name.startswith(">")][:_LINKS]
    if not names:
        return section("Link rates", empty("Nothing was sent yet."))
    width, rates = _rates(course, names)
    top = max(max(row) for row in rates.values()) or 1.0
    y = Axis(low=0.0, high=top, show=lambda value: show_rate(value / 8) if value else "0")
    lines = [
        Line(name=_arrow(name), points=[(i * width, rate) for i, rate in enumerate(row)], look=look, stairs=True)
        for look, (name, row) in enumerate(rates.items())
    ]
    label = f"Rates of {len(names)} links over time, at most {show_rate(top / 8)}"
    rest = len(course.sent.amounts) - len(names)
    note = f'<p class="note">The {len(names)} that carried most, of {len(names) + rest}.</p>' if rest else ""
    figure = plot(label, time_span(course.now), y, lines)
    return section("Link rates", figure, legend([(line.name, line.look) for line in lines]), note, id="links")


def _rates(course: Course, names: list[str]) -> tuple[float, dict[str, list[float]]]:
    """Bits per second of each link, in few enough steps to be told apart, and how long a step is."""
    bins = int(course.now / course.sent.width) or 1
    each = -(-bins // _STEPS)
    width = each * course.sent.width
    return width, {
        name: [8 * sum(course.sent.amounts[name][i : i + each]) / width for i in range(0, bins - each + 1, each)]
        for name in names
    }


def _arrow(name: str) -> str:
    return name.replace(">", " → ")


def missed(visit: Visit, run: Run, course: Course) -> str:
    """The deadlines of apps that were missed."""
    apps = visit.manager.jobs.order(run.job)[0].continuum.get("apps") or []
    names = [str(app["name"]) for app in apps]
    if not names:
        return section("Deadlines", empty("No apps run beside this job."))
    total = sum(course.missed.totals().values())
    if not total:
        return section("Deadlines missed", empty(f"No deadline of {' or '.join(names)} was missed."), id="missed")
    figure = misses(f"{total:.0f} missed deadlines over time", time_span(course.now), course.missed, names)
    return section("Deadlines missed", figure, f'<p class="note">{total:.0f} in all.</p>', id="missed")
