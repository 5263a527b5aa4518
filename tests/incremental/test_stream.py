"""The drifting stream: the same from a seed, phases where they should be, images that look as told."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from littoral.errors import InputError
from littoral.incremental.images import Images, digits, fashion_mnist, lit, turned
from littoral.incremental.stream import ImageStream, Phase, seasons

pytest.importorskip("sklearn")


def blobs(per_class: int = 5, classes: int = 4) -> Images:
    """Images whose one bright row tells their class."""
    labels = np.repeat(np.arange(classes), per_class)
    pixels = np.zeros((len(labels), 1, 8, 8), dtype=np.float32)
    pixels[np.arange(len(labels)), 0, labels] = np.linspace(0.5, 1, len(labels), dtype=np.float32)[:, None]
    return Images(pixels, labels)


def plain(phases: list[Phase], **more: float) -> ImageStream:
    """Without noise, so that images can be compared with what they were made of."""
    return ImageStream(blobs(), phases, noise=0, wobble=0, **more)  # type: ignore[arg-type]


def test_the_same_seed_is_the_same_stream_in_any_order() -> None:
    one, two = (ImageStream(blobs(), seasons(40, classes=4), seed=7) for _ in range(2))
    late_first = [two.at(step) for step in reversed(range(len(two)))]
    for sample, other in zip(one, reversed(late_first), strict=True):
        assert (sample.step, sample.label, sample.phase) == (other.step, other.label, other.phase)
        np.testing.assert_array_equal(sample.image, other.image)
    third = ImageStream(blobs(), seasons(40, classes=4), seed=8)
    assert not np.array_equal(one.labels, third.labels)


def test_phases_begin_where_they_should() -> None:
    phases = seasons(30, classes=4)
    stream = ImageStream(blobs(), phases)
    assert len(stream) == 150 and stream.drifts == (30, 60, 90, 120)
    assert [stream.at(step).phase for step in range(0, 150, 30)] == [phase.name for phase in phases]
    assert [stream.at(step).phase for step in range(29, 150, 30)] == [phase.name for phase in phases]
    pixels, labels = stream.between(25, 35)
    assert pixels.shape == (10, 1, 8, 8) and pixels.dtype == np.float32 and list(labels) == list(stream.labels[25:35])
    np.testing.assert_array_equal(pixels[3], stream.at(28).image)


def test_new_classes_are_new() -> None:
    stream = ImageStream(digits(), seasons(300))
    assert set(stream.labels[:900]) == set(range(7))
    assert set(stream.labels[900:1200]) == set(range(10))


def test_gradual_classes_come_little_by_little() -> None:
    stream = plain([Phase(name="a", samples=500, classes=(0,)),
                    Phase(name="b", samples=4000, classes=(1,), gradual=4000)])  # fmt: skip
    shares = [np.mean(stream.labels[start : start + 1000] == 1) for start in range(500, 4500, 1000)]
    assert shares == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.05)


def test_a_gradual_look_is_between_and_arrives() -> None:
    stream = plain([Phase(name="a", samples=10), Phase(name="b", samples=20, brightness=0.4, gradual=10)])
    background = [float(stream.at(step).image.min()) for step in range(30)]
    assert background[:10] == [0.0] * 10
    assert background[10:20] == pytest.approx([0.04 * (i + 1) for i in range(10)], abs=1e-6)
    assert background[20:] == pytest.approx([0.4] * 10, abs=1e-6)


def test_an_image_comes_again_only_after_all_of_its_class() -> None:
    stream = plain([Phase(name="a", samples=200)])
    for label in range(4):
        seen = [stream.at(int(step)).image.max() for step in np.flatnonzero(stream.labels == label)]
        for start in range(0, len(seen) - 5, 5):
            assert len(set(seen[start : start + 5])) == 5


def test_with_noise_no_two_samples_are_the_same() -> None:
    stream = ImageStream(blobs(per_class=1, classes=1), [Phase(name="a", samples=50)])
    assert len({sample.image.tobytes() for sample in stream}) == 50


@given(st.floats(-720, 720), st.integers(0, 3))
def test_turning_keeps_pixels_in_range_and_four_quarters_are_none(degrees: float, quarters: int) -> None:
    image = np.random.default_rng(1).random((2, 8, 8), dtype=np.float32)
    assert turned(image, degrees).min() >= 0 and turned(image, degrees).max() <= 1
    np.testing.assert_allclose(turned(image, 90 * quarters), np.rot90(image, quarters, (1, 2)), atol=1e-5)


def test_turning_agrees_with_scipy() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    image = digits().pixels[3]
    for degrees in (-75, 10, 40):
        theirs = ndimage.rotate(np.pad(image[0], 1), degrees, reshape=False, order=1)[1:-1, 1:-1]
        np.testing.assert_allclose(turned(image, degrees)[0], theirs, atol=1e-4)


def test_light() -> None:
    image = np.array([[[0.0, 0.5, 1.0]]], dtype=np.float32)
    assert lit(image, 0, -1).tolist() == [[[1, 0.5, 0]]]
    assert lit(image, 0.25, 0.5).ravel() == pytest.approx([0.5, 0.75, 1.0])
    assert lit(image, 2, 1).max() == 1


def test_fashion_mnist_is_read_from_its_folder(tmp_path: Path) -> None:
    pixels = np.arange(2 * 28 * 28, dtype=np.uint32).reshape(2, 28, 28).astype(np.uint8)
    head = struct.pack(">IIII", 2051, 2, 28, 28)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + pixels.tobytes()))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 2) + bytes([3, 9]))
    images = fashion_mnist(tmp_path)
    assert images.classes == (3, 9) and images.pixels.shape == (2, 1, 28, 28)
    np.testing.assert_allclose(images.pixels[1, 0], pixels[1] / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([], "no phases"),
        ([{"name": "a", "samples": 0}], "phase 'a' has 0 samples"),
        ([{"name": "a", "samples": 5, "gradual": 6}], "6 of them gradual"),
        ([{"name": "a", "samples": 5, "gradual": 5}], "the first phase is gradual"),
        ([{"name": "a", "samples": 5, "rotation": float("nan")}], "looks like"),
        ([{"name": "a", "samples": 5, "classes": ()}], "has no classes"),
        ([{"name": "a", "samples": 5, "classes": (1, 12)}], r"classes \[12\]; there are images of \(0, 1, 2, 3\)"),
    ],
)
def test_bad_phases_are_refused(phases: list[dict[str, object]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ImageStream(blobs(), [Phase(**phase) for phase in phases])  # type: ignore[arg-type]


def test_bad_numbers_are_refused() -> None:
    stream = plain([Phase(name="a", samples=5)])
    for step in (-1, 5):
        with pytest.raises(InputError, match=f"no step {step}; give one from 0 to 4"):
            stream.at(step)
    with pytest.raises(InputError, match="noise -1"):
        ImageStream(blobs(), [Phase(name="a", samples=5)], noise=-1)
    with pytest.raises(InputError, match="as many labels"):
        Images(np.zeros((2, 8, 8), dtype=np.float32), np.zeros(2, dtype=np.int64))
