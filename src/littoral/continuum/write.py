"""A continuum as a plain document that reads back as the same continuum, floats to the last bit."""

from __future__ import annotations

import math
from typing import Any

from littoral.continuum.app import App, Store
from littoral.continuum.continuum import Continuum
from littoral.continuum.device import Device
from littoral.continuum.link import Link
from littoral.continuum.signal import Constant, Scaled, Signal, Steps


def continuum_document(continuum: Continuum) -> dict[str, Any]:
    """What one would write in YAML, with traces spelled out."""
    document: dict[str, Any] = {
        "name": continuum.name,
        "sites": [{"name": site.name, "tier": site.tier} for site in continuum.sites],
        "devices": [_device(device) for device in continuum.devices],
        "links": [_link(link) for link in continuum.links],
    }
    if continuum.apps:
        document["apps"] = [_app(app) for app in continuum.apps]
    if continuum.stores:
        document["stores"] = [_store(store) for store in continuum.stores]
    return document


def _device(device: Device) -> dict[str, Any]:
    row: dict[str, Any] = {"name": device.name, "site": device.site, "label": device.kind}
    if device.step.seconds_per_sample is not None:
        row["step"] = {
            "fixed": _quantity(device.step.fixed_seconds, "s"),
            "per_sample": _quantity(device.step.seconds_per_sample, "s"),
        }
    else:
        row["speed"] = _quantity(device.step.flops, "FLOP/s")
        row["overhead"] = _quantity(device.step.fixed_seconds, "s")
    row["memory"] = _quantity(device.memory_bytes, "B")
    row["memory_bandwidth"] = _quantity(device.memory_bytes_per_s, "B/s")
    for key, signal in (("uplink", device.uplink), ("downlink", device.downlink)):
        if signal is not None:
            row[key] = signal_document(signal, "B/s")
    if device.price_usd_per_s:
        row["price"] = _quantity(device.price_usd_per_s, "USD/s")
    row["load"] = signal_document(device.load, "")
    row["jitter"] = float(device.jitter)
    if device.cpu is not None:
        row["cpu"] = float(device.cpu)
    if device.card is not None:
        row |= {"card": device.card, "card_share": float(device.card_share)}
    return row


def _link(link: Link) -> dict[str, Any]:
    return {
        "between": [link.a, link.b],
        "up": signal_document(link.forward, "B/s"),
        "down": signal_document(link.backward, "B/s"),
        "latency": _quantity(link.latency_s, "s"),
        "price": _quantity(link.price_usd_per_byte, "USD/B"),
        "loss": float(link.loss),
        "duplex": "half" if link.half_duplex else "full",
        "shared": link.shared,
    }


def _app(app: App) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": app.name,
        "on": list(app.on),
        "every": _quantity(app.period_s, "s"),
        "deadline": _quantity(app.deadline_s, "s"),
        "work": _quantity(app.work_s, "s"),
        "demand": float(app.demand),
    }
    return row | ({"run": app.run} if app.run else {})


def _store(store: Store) -> dict[str, Any]:
    place = {"on": store.device} if store.device else {"site": store.site}
    return {"name": store.name, **place, "samples": store.samples}


def signal_document(signal: Signal, unit: str) -> Any:
    """A signal as it is written in YAML."""
    match signal:
        case Constant(value=value):
            return _quantity(value, unit)
        case Scaled(signal=inner, factor=factor):
            document = signal_document(inner, unit)
            if isinstance(document, dict):
                return document | {"scale": document.get("scale", 1.0) * factor}
            return _quantity(signal.mean(), unit)  # of a constant
        case Steps(times=times, values=values, period=period):
            steps = [[_quantity(t, "s"), _quantity(v, unit)] for t, v in zip(times, values, strict=True)]
            return {"steps": steps} | ({} if math.isinf(period) else {"repeat": _quantity(period, "s")})
    raise TypeError(f"a live signal cannot be written down: {signal!r}")


def _quantity(value: float, unit: str) -> Any:
    """Every digit; float() because NumPy's numbers do not print as numbers."""
    return f"{float(value)!r} {unit}" if unit else float(value)
