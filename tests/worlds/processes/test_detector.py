"""How long a silence means that a node is gone, its own past tells."""

from __future__ import annotations

from littoral.worlds.processes.detector import CAUTION, FLOOR_S, Detector


def beating(every_s: float, until_s: float) -> Detector:
    detector, now = Detector(0.0), 0.0
    while now < until_s:
        now += every_s
        detector.heard(now)
    return detector


def test_silence_beyond_the_floor_is_noticed() -> None:
    detector = beating(0.2, 10.0)
    assert not detector.silent(10.0 + 0.9 * FLOOR_S)
    assert detector.silent(10.3 + FLOOR_S)


def test_a_node_that_beats_slowly_is_given_more_time() -> None:
    detector = beating(0.8, 40.0)
    assert detector.limit_s >= CAUTION * 0.79
    assert not detector.silent(40.0 + 2.0)


def test_one_long_gap_is_forgotten_in_time() -> None:
    detector = Detector(0.0)
    detector.heard(3.0)
    assert detector.limit_s == CAUTION * 3.0
    for beat in range(200):
        detector.heard(3.0 + 0.2 * (beat + 1))
    assert detector.limit_s == FLOOR_S


def test_the_listeners_own_absence_is_nobodys_silence() -> None:
    detector = beating(0.2, 5.0)
    detector.excuse(60.0)
    assert not detector.silent(60.5)
    assert detector.limit_s == FLOOR_S
