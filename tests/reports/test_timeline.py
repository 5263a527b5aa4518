from __future__ import annotations

from littoral.events import Computed, NodeStarted, RunFinished
from littoral.reports.spans import sliced, subtract, total, union
from littoral.reports.story import read_story
from littoral.reports.timeline import timeline_of


def many(count: int, every: float, long: float) -> list:
    steps = [Computed(i * every + long, "w1", i * every, 5, 0, None) for i in range(count)]
    return [NodeStarted(0.0, "w1"), *steps, RunFinished(count * every, "epochs")]


def test_few_spans_are_drawn_as_they_are(write_run) -> None:
    chart = timeline_of(read_story(write_run()))
    assert chart is not None
    assert chart.lanes["compute"]["w2"] == [(0.0, 3.0)]
    assert chart.lanes["lost"]["w2"] == [(4.0, 8.0)]
    assert chart.notes == ()


def test_many_spans_become_few_but_keep_their_length(write_run) -> None:
    story = read_story(write_run(events=many(5000, every=1.0, long=0.25)))
    chart = timeline_of(story, most_spans=200)
    assert chart is not None
    lane = chart.lanes["compute"]["w1"]
    assert len(lane) <= 200
    assert abs(total(lane) - 1250.0) < 1e-6
    assert "10,000 spans" in chart.notes[0]


def test_of_many_nodes_those_that_failed_are_drawn(write_run) -> None:
    chart = timeline_of(read_story(write_run()), most_rows=2)
    assert chart is not None
    assert chart.rows == ("run", "ps-1", "w2")
    assert "2 of 3 nodes" in chart.notes[0]


def test_span_algebra() -> None:
    spans = [(0.0, 4.0), (3.0, 6.0), (8.0, 9.0)]
    assert union(spans, pause=2.0) == [(0.0, 9.0)]
    assert subtract([(0.0, 10.0)], spans) == [(6.0, 8.0), (9.0, 10.0)]
    assert total(sliced(spans, 2.5)) == total(union(spans)) == total(sliced(spans, 2.5, late=True))
