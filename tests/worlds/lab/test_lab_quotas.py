"""Which device gets how much of the machine."""

import pytest

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.errors import InputError
from littoral.worlds.lab.quotas import cpu_quotas


def devices(*rows: str) -> Continuum:
    listed = "\n".join(f"  - {{name: d{n}, site: s, memory: 1 GB, {row}}}" for n, row in enumerate(rows))
    return parse_continuum(f"sites: [{{name: s}}]\ndevices:\n{listed}\n")


FAST, SLOW = "samples_per_second: 300 samples/s", "samples_per_second: 100 samples/s"


def test_in_proportion_to_speed() -> None:
    quotas = cpu_quotas(devices(FAST, SLOW, SLOW), cores=2)
    assert quotas == pytest.approx({"d0": 1.08, "d1": 0.36, "d2": 0.36})


def test_in_proportion_to_flops() -> None:
    quotas = cpu_quotas(devices("speed: 30 GFLOP/s", "speed: 10 GFLOP/s"), cores=4)
    assert quotas == pytest.approx({"d0": 2.7, "d1": 0.9})


def test_what_the_file_says() -> None:
    quotas = cpu_quotas(devices(f"{FAST}, cpu: 0.2", f"{SLOW}, cpu: 1.5"), cores=2)
    assert quotas == {"d0": 0.2, "d1": 1.5}


def test_the_rest_is_shared_out() -> None:
    quotas = cpu_quotas(devices(f"{FAST}, cpu: 0.6", FAST, SLOW), cores=2)
    assert quotas == pytest.approx({"d0": 0.6, "d1": 0.9, "d2": 0.3})


def test_the_caller_overrides_the_file() -> None:
    assert cpu_quotas(devices(f"{FAST}, cpu: 0.6", SLOW), cores=2, asked={"d0": 0.3})["d0"] == 0.3


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(InputError, match=r"ask for 2 cores.*95%.*lower 'cpu'"):
        cpu_quotas(devices(f"{FAST}, cpu: 1.2", f"{SLOW}, cpu: 0.8"), cores=2)


def test_nothing_left_for_the_others_is_refused() -> None:
    with pytest.raises(InputError, match="leave nothing for 'd1'"):
        cpu_quotas(devices(f"{FAST}, cpu: 1.85", SLOW), cores=2)


def test_speeds_in_different_measures_are_not_compared() -> None:
    with pytest.raises(InputError, match=r"'d0' has a step time and 'd1' a speed.*cpu: 0.4"):
        cpu_quotas(devices(FAST, "speed: 10 GFLOP/s"), cores=2)
    assert cpu_quotas(devices(f"{FAST}, cpu: 0.9", "speed: 10 GFLOP/s"), cores=2)["d1"] == pytest.approx(0.9)
