"""How busy the graphics card is: by NVML where there is one, by the driver's file on a Jetson, else zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from littoral.profiling.readings import Watched

_JETSON = (
    "/sys/devices/gpu.0/load",
    "/sys/devices/platform/gpu.0/load",
    "/sys/devices/platform/bus@0/17000000.gpu/load",
)


class Card:
    """One card, or none. Its use is what the driver averages over its last sixth of a second to second."""

    def __init__(self, number: int | None = 0) -> None:
        self._nvml, self._handle = _open(number)
        paths = [path for path in _JETSON if number == 0 and Path(path).exists()]
        self._load = Watched(paths[0]) if paths and self._nvml is None else None

    @property
    def there(self) -> bool:
        return self._nvml is not None or self._load is not None

    def read(self) -> tuple[float, float]:
        """Shares of time and of memory in use. A Jetson's card has no memory of its own."""
        if self._load is not None:
            return int(self._load.text() or 0) / 1000, 0.0
        if self._nvml is None:
            return 0.0, 0.0
        busy = self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100
        memory = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        return busy, memory.used / memory.total

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml = None
        if self._load is not None:
            self._load.close()


def _open(number: int | None) -> tuple[Any, Any]:
    if number is None:
        return None, None
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return None, None
    try:
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(number)
    except pynvml.NVMLError:  # no such card
        pynvml.nvmlShutdown()
        return None, None
