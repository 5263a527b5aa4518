"""The built-in catalogue: enough kinds, none of them absurd, and a helpful answer to a misspelt one."""

import math

import pytest

from littoral.continuum.catalogue import Kind, catalogue, find_kind
from littoral.errors import InputError

EVERY_KIND = pytest.mark.parametrize("kind", catalogue().values(), ids=lambda kind: kind.name)


def test_there_are_kinds_from_edge_to_cloud() -> None:
    assert len(catalogue()) >= 30
    assert {"edge-cpu", "edge-gpu", "gpu", "cloud-cpu", "tpu", "fpga"} <= {kind.family for kind in catalogue().values()}
    assert {"raspberry-pi-4b", "jetson-nano", "jetson-tx2", "t4", "v100-sxm2"} <= set(catalogue())


@EVERY_KIND
def test_values_are_sane(kind: Kind) -> None:
    assert kind.name == kind.name.lower().strip() and " " not in kind.name
    assert kind.family and kind.processor and kind.basis
    assert 0.25e9 <= kind.memory_bytes <= 4e12
    assert 1e8 <= kind.flops <= 2e15
    assert 1e-4 <= kind.fixed_seconds <= 0.1
    assert 1e9 <= kind.memory_bytes_per_s <= 1e14
    assert 1e6 <= kind.network_bytes_per_s <= 1e12
    assert 0 <= kind.price_usd_per_s * 3600 < 100
    assert all(math.isfinite(getattr(kind, name)) for name in ("memory_bytes", "flops", "price_usd_per_s"))


def test_known_orders_hold() -> None:
    """What everybody knows about these machines."""
    flops = {name: kind.flops for name, kind in catalogue().items()}
    assert flops["raspberry-pi-3b"] < flops["raspberry-pi-4b"] < flops["jetson-nano"] < flops["jetson-tx2"]
    assert flops["jetson-tx2"] < flops["t4"] < flops["v100-sxm2"] < flops["tpu-v3"] < flops["tpu-v5e"] < flops["tpu-v4"]
    assert flops["zcu102"] < flops["aws-f1.2xlarge"] < flops["t4"]


def test_an_unknown_kind_is_answered_with_the_nearest() -> None:
    assert find_kind("t4").name == "t4"
    with pytest.raises(InputError, match="unknown device kind 'jetson-nanoo'; did you mean 'jetson-nano'"):
        find_kind("jetson-nanoo")
    with pytest.raises(InputError, match=r"known: .* more .*'step' and 'memory'"):
        find_kind("qqqqqqqq")
