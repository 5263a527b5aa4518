"""The built-in catalogue: what a ``kind`` of device can do.

Facts (cores, memory, peaks, prices) were collected from vendors' and cloud catalogues; see docs/catalogue.md.
Peaks are not speeds: ``efficiency`` is the share of the fp32 peak that training sustains, measured where
published training rates exist (Gavel's K80, P100 and V100, Pollux's T4) and assumed by family elsewhere. A
profile of the real device always beats the catalogue.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from littoral.document import suggest
from littoral.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One row of the catalogue, in SI units."""

    name: str
    family: str
    processor: str
    memory_bytes: float
    flops: float  # sustained in training: fp32 peak (of TPUs bf16) times efficiency
    fixed_seconds: float  # cost of a step before its first sample
    memory_bytes_per_s: float
    network_bytes_per_s: float
    price_usd_per_s: float
    basis: str  # what is measured and what is assumed


@cache
def catalogue() -> dict[str, Kind]:
    """Every known kind, by name."""
    text = files("littoral.continuum").joinpath("devices.csv").read_text(encoding="utf-8")
    return {row["kind"]: _kind(row) for row in csv.DictReader(text.splitlines())}


def find_kind(name: str) -> Kind:
    """The kind of that name; an unknown one is answered with the nearest."""
    kinds = catalogue()
    if name not in kinds:
        remedy = f"{suggest(name, list(kinds))} (or give 'step' and 'memory' yourself instead of a kind)"
        raise InputError(f"unknown device kind {name!r}", remedy=remedy)
    return kinds[name]


def _kind(row: dict[str, str]) -> Kind:
    return Kind(
        name=row["kind"],
        family=row["family"],
        processor=row["processor"],
        memory_bytes=float(row["memory_gb"]) * 1e9,
        flops=float(row["fp32_gflops"]) * 1e9 * float(row["efficiency"]),
        fixed_seconds=float(row["fixed_ms"]) / 1e3,
        memory_bytes_per_s=float(row["memory_gb_s"]) * 1e9,
        network_bytes_per_s=float(row["network_gbit_s"]) * 1e9 / 8,
        price_usd_per_s=float(row["price_usd_h"] or 0.0) / 3600,
        basis=row["basis"],
    )
