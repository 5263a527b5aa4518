"""Real apps: frames are looked at, features cross real sockets, and the sink sees how the camera moved."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from littoral.apps.busy import Busy
from littoral.apps.features import LARGEST_DATAGRAM, BadDatagram, Features, joined, read_datagram, to_datagrams
from littoral.apps.registry import BUILT_IN, RealApp, Setting, find_app
from littoral.apps.sink import Stitcher, find_shift, open_sink
from littoral.continuum.app import App
from littoral.errors import InputError
from littoral.events import AppChecked, Event

CAMERA = ("192.0.2.1", 4000)


def setting(**changes: object) -> Setting:
    app = App(name="a", on=("d",), period_s=0.2, deadline_s=0.2, work_s=0.01)
    return Setting(app=app, device="d", **changes)  # type: ignore[arg-type]


def features(count: int, shift: float = 0.0) -> Features:
    rng = np.random.default_rng(0)
    points = rng.random((count, 4), dtype=np.float32) * 300
    points[:, 0] += shift
    return Features(points, rng.integers(256, size=(count, 128), dtype=np.uint8))


# -- datagrams and stitching ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 9, 10, 500])
def test_features_survive_the_journey(count: int) -> None:
    sent = features(count)
    datagrams = to_datagrams(7, sent)
    assert max(map(len, datagrams)) <= LARGEST_DATAGRAM
    parts = [read_datagram(datagram) for datagram in datagrams]
    got = joined(parts)
    assert {part.frame for part in parts} == {7}
    assert np.array_equal(got.points, sent.points) and np.array_equal(got.descriptors, sent.descriptors)


@pytest.mark.parametrize(
    "change", [lambda d: d[:-1], lambda d: b"", lambda d: b"XXXX" + d[4:], lambda d: d + bytes(2000)]
)
def test_rubbish_is_counted_and_dropped(change: Callable[[bytes], bytes]) -> None:
    datagram = change(to_datagrams(0, features(5))[0])
    with pytest.raises(BadDatagram):
        read_datagram(datagram)
    stitcher = Stitcher()
    stitcher.take(CAMERA, datagram)
    assert (stitcher.malformed, stitcher.frames, stitcher.bytes) == (1, 0, 0)


def test_frames_are_put_together_in_any_order() -> None:
    stitcher = Stitcher()
    for number, shift in enumerate((0.0, -8.0, -16.0)):
        for datagram in reversed(to_datagrams(number, features(100, shift))):
            stitcher.take(CAMERA, datagram)
            stitcher.take(CAMERA, datagram)  # twice
    assert (stitcher.frames, stitcher.incomplete, stitcher.unmatched) == (3, 0, 0)
    assert stitcher.sources[CAMERA].moved == pytest.approx((-16.0, 0.0), abs=0.01)


def test_a_frame_that_lost_a_datagram_is_given_up() -> None:
    stitcher = Stitcher()
    for number in range(3):
        for datagram in to_datagrams(number, features(100))[: -1 if number == 1 else None]:
            stitcher.take(CAMERA, datagram)
    stitcher.take(CAMERA, to_datagrams(1, features(100))[-1])  # too late
    assert (stitcher.frames, stitcher.incomplete) == (2, 1)


def test_cameras_do_not_mix_and_parts_must_agree() -> None:
    stitcher = Stitcher()
    first, *rest = to_datagrams(0, features(30))
    stitcher.take(CAMERA, first)
    for datagram in rest:
        stitcher.take(("192.0.2.2", 4000), datagram)
    stitcher.take(CAMERA, to_datagrams(0, features(5))[0])
    assert (stitcher.frames, stitcher.malformed, len(stitcher.sources)) == (0, 1, 2)
    for port in range(1000):
        stitcher.take(("192.0.2.3", port), first)
    assert len(stitcher.sources) == 256


def test_frames_with_nothing_in_common_are_not_stitched() -> None:
    rng = np.random.default_rng(1)
    other = Features(features(50).points, rng.integers(256, size=(50, 128), dtype=np.uint8))
    assert find_shift(features(50), other) is None
    assert find_shift(features(0), features(50)) is None
    assert find_shift(features(50), features(50, 3.0)) == pytest.approx((3.0, 0.0), abs=0.001)


# -- SIFT ----------------------------------------------------------------------------------------------------------


def test_sift_looks_at_frames_and_the_sink_sees_the_camera_move() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    from littoral.apps.sift import STEP, Sift

    async def story() -> None:
        async with open_sink() as (address, stitcher), asyncio.timeout(20):
            app = Sift(setting(sink=address))
            try:
                await asyncio.to_thread(app.prepare)
                for frame in range(3):
                    await asyncio.to_thread(app.work)
                    while stitcher.frames <= frame:
                        await asyncio.sleep(0.001)
            finally:
                app.close()
        assert stitcher.bytes == app.bytes_sent and app.unsent == stitcher.malformed == stitcher.incomplete == 0
        [camera] = stitcher.sources.values()
        assert camera.last is not None and len(camera.last) >= 400
        assert camera.moved == pytest.approx((-2 * STEP, 0.0), abs=1.0)

    asyncio.run(story())


def test_the_panorama_is_seeded_and_goes_round() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    from littoral.apps.sift import HEIGHT, WIDTH, paint

    first, again, other = paint(0), paint(0), paint(1)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert first.shape[0] == HEIGHT and np.array_equal(first[:, :WIDTH], first[:, -WIDTH:])


def test_a_network_that_refuses_datagrams_does_not_end_the_app() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    from littoral.apps.sift import Sift

    app = Sift(setting(sink=("255.255.255.255", 9)))  # broadcasting is not allowed to this socket
    try:
        app.prepare()
        app.work()
    finally:
        app.close()
    assert app.frames == 1 and app.bytes_sent == 0 and app.unsent >= 40


def test_sift_as_an_app_finds_its_own_sink() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    from littoral.apps.pacing import run_app

    app = App(name="sift", on=("d",), period_s=0.2, deadline_s=1e-6, work_s=0.05, run="littoral.apps.sift")
    events: list[Event] = []

    async def story() -> None:
        task = asyncio.create_task(run_app(app, "d", events.append, time.monotonic))
        async with asyncio.timeout(20):
            while len(events) < 2:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    account = events[-1]
    assert isinstance(account, AppChecked) and account.checked == account.violated >= 2 and account.worst_s > 0


def test_without_opencv_the_install_line_is_given() -> None:
    code = """
import sys
sys.modules['cv2'] = None
from littoral.apps.registry import Setting, find_app
from littoral.continuum.app import App
from littoral.errors import MissingExtra
app = find_app('littoral.apps.sift')(Setting(app=App(name='a', on=(), period_s=1, deadline_s=1, work_s=0), device='d'))
try:
    app.prepare()
except MissingExtra as error:
    assert 'the app sift needs opencv-python-headless' in str(error) and "littoral[apps]" in str(error), error
else:
    raise SystemExit('SIFT without OpenCV?')
app.close()
assert 'torch' not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# -- the others, and finding them ----------------------------------------------------------------------------------


def test_inference_answers_every_request_alike() -> None:
    from littoral.apps.inference import Inference

    answers = []
    for _ in range(2):
        app = Inference(setting(seed=3))
        app.prepare()
        for _ in range(20):
            app.work()
        app.close()
        answers.append(app.answers)
    assert answers[0] == answers[1] and sum(answers[0]) == 20


@pytest.mark.parametrize("cores", [1.0, 0.25])
def test_busy_uses_the_processor_time_of_its_device(cores: float) -> None:
    app = Busy(setting(cores=cores))
    before = time.thread_time()
    app.work()
    assert time.thread_time() - before >= 0.01 * cores


class Homemade:
    def __init__(self, setting: Setting) -> None: ...
    def prepare(self) -> None: ...
    def work(self) -> None: ...
    def close(self) -> None: ...


def test_apps_are_found() -> None:
    for spec in BUILT_IN:
        assert find_app(spec).__module__ == spec
    assert find_app("") is Busy
    mine: type[RealApp] = find_app(f"{__name__}:Homemade")
    assert mine is Homemade


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("littoral.apps.shift", "no module littoral.apps.shift; did you mean 'littoral.apps.sift'?"),
        ("nowhere.at.all", "there is no module nowhere"),
        ("littoral.apps.sink", "APP of littoral.apps.sink is not a class"),
        ("littoral.apps.sink:Stitcher", "Stitcher of littoral.apps.sink lacks prepare, work, close"),
        ("os:system", "system of os is not a class"),
        (":", "importing  failed"),
    ],
)  # fmt: skip
def test_what_is_no_app_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_app(spec)
    assert message in str(caught.value)
