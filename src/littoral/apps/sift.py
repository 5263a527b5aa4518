"""SIFT features of a camera's frames, sent away by UDP: the app of the smart-camera scenario.

The camera pans over a seeded panorama of many scales, 8 pixels a frame, so every frame is new, has features enough
and overlaps the one before. One thread; 500 features of a 640x320 frame take about 50 ms of a desktop core.
"""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from littoral.apps.features import Features, to_datagrams
from littoral.apps.registry import Setting
from littoral.errors import MissingExtra

WIDTH, HEIGHT, STEP = 640, 320, 8
_PANORAMA = 2560
_SHAPES = 250
_FEATURES = 500


class Sift:
    """Looks at one frame per period; its work ends when the last datagram is on its way."""

    needs_sink = True

    def __init__(self, setting: Setting) -> None:
        self._seed, self._sink = setting.seed, setting.sink
        self._socket: socket.socket | None = None
        self.frames = 0
        self.bytes_sent = 0
        self.unsent = 0  # datagrams that the network refused, as when a link is cut

    def prepare(self) -> None:
        cv2 = _opencv()
        cv2.setNumThreads(1)
        self._sift: Any = cv2.SIFT.create(nfeatures=_FEATURES)
        self._panorama = paint(self._seed)
        family = socket.AF_INET6 if self._sink and ":" in self._sink[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._look(0)

    def work(self) -> None:
        for datagram in to_datagrams(self.frames, self._look(self.frames)):
            self._send(datagram)
        self.frames += 1

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _look(self, number: int) -> Features:
        left = number * STEP % _PANORAMA
        points, descriptors = self._sift.detectAndCompute(self._panorama[:, left : left + WIDTH], None)
        if descriptors is None:
            return Features(np.empty((0, 4), np.float32), np.empty((0, 128), np.uint8))
        places = np.array([(*p.pt, p.size, p.angle) for p in points], dtype=np.float32)
        return Features(places, descriptors.astype(np.uint8))

    def _send(self, datagram: bytes) -> None:
        assert self._socket is not None and self._sink is not None
        try:
            self.bytes_sent += self._socket.sendto(datagram, self._sink)
        except OSError:  # a lost datagram is the network's affair, not a failure of the app
            self.unsent += 1


def paint(seed: int) -> NDArray[np.uint8]:
    """The panorama, continued by its own beginning so that the camera can go round."""
    cv2 = _opencv()
    rng = np.random.default_rng(seed)
    picture = np.zeros((HEIGHT, _PANORAMA), np.float32)
    for scale in (4, 8, 16, 32, 64):
        noise = rng.random((HEIGHT // scale + 1, _PANORAMA // scale + 1), dtype=np.float32)
        picture += scale**0.5 * np.asarray(cv2.resize(noise, (_PANORAMA, HEIGHT), interpolation=cv2.INTER_CUBIC))
    picture -= picture.min()
    canvas = (picture * (255 / picture.max())).astype(np.uint8)
    for _ in range(_SHAPES):
        x, y, radius, grey = (int(each) for each in rng.integers((0, 0, 3, 0), (_PANORAMA, HEIGHT, 25, 256)))
        cv2.circle(canvas, (x, y), radius, grey, thickness=-1 if radius < 12 else 2)
    return np.ascontiguousarray(np.concatenate([canvas, canvas[:, :WIDTH]], axis=1))


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtra("opencv-python-headless", "apps", "the app sift") from error
    return cv2


APP = Sift
