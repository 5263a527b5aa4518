"""Which device gets how much of the machine."""

import os
import subprocess
import sys

import pytest

from littoral.continuum.continuum import Continuum
from littoral.continuum.load import parse_continuum
from littoral.errors import InputError
from littoral.worlds.lab.lab import Lab, missing_parts
from littoral.worlds.lab.quotas import cpu_quotas, own_cores


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


def test_cores_of_ones_own_leave_one_for_the_lab() -> None:
    assert own_cores({"a": 1.0, "b": 0.25}, [2, 3, 5]) == {"a": (2,), "b": (3,)}


def test_devices_share_cores_where_there_are_too_few() -> None:
    assert own_cores({"a": 0.25, "b": 1.0, "c": 0.6}, [4, 5]) == {"a": (5,), "b": (4,), "c": (5,)}
    assert own_cores({"a": 1.5, "b": 0.25}, [0, 1]) == {"a": (0, 1), "b": (0,)}
    with pytest.raises(InputError, match=r"do not fit on whole cores, of which there are 2; .*--pin"):
        own_cores({"a": 0.7, "b": 0.7, "c": 0.4}, [0, 1])


@pytest.mark.skipif(bool(missing_parts()) or len(os.sched_getaffinity(0)) < 2, reason="needs a lab and two cores")
def test_a_pinned_device_stays_on_its_core() -> None:
    with Lab.up(devices(f"{FAST}, cpu: 0.3"), pin=True) as lab:
        place = lab.place("d0")
        code = (
            "import os; from littoral.worlds.lab.places import Place, enter; "
            f"enter({place!r}); print(os.sched_getaffinity(0))"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str({min(os.sched_getaffinity(0))})
