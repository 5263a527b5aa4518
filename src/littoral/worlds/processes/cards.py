"""Graphics cards of this machine for the workers that have one, shared by NVIDIA's MPS where one has a share only."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from littoral.continuum.device import Device
from littoral.errors import InputError, RunFailed

_CONTROL = "nvidia-cuda-mps-control"
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Cards:
    """What processes must know to reach the daemon that shares the cards, if there is one."""

    reached: dict[str, str] = field(default_factory=dict)

    def environment(self, device: Device) -> dict[str, str]:
        """For a process on a device, before it touches its card."""
        if device.card is None or not self.reached:
            return {}
        return self.reached | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 * device.card_share:g}"}


@contextmanager
def cards_for(devices: Sequence[Device]) -> Iterator[Cards]:
    """Cards for these devices, as long as the body runs; InputError if this machine has them not."""
    wanting = [device for device in devices if device.card is not None]
    _check(wanting)
    if all(device.card_share == 1 for device in wanting):
        yield Cards()
        return
    if shutil.which(_CONTROL) is None:
        name = next(device.name for device in wanting if device.card_share < 1)
        remedy = "install NVIDIA's MPS, or give each card to one device"
        raise InputError(f"device {name!r} has a share of a card, and there is no {_CONTROL}", remedy=remedy)
    with tempfile.TemporaryDirectory(prefix="littoral-mps-") as folder:
        reached = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        _control(["-d"], reached)
        try:
            yield Cards(reached)
        finally:
            _control([], reached, "quit\n")


def _check(wanting: Sequence[Device]) -> None:
    if not wanting:
        return
    import torch

    there = torch.cuda.device_count()
    for device in wanting:
        assert device.card is not None
        if device.card >= there:
            found = f"device {device.name!r} trains on card {device.card}, and torch finds {there} here"
            raise InputError(found, remedy="leave 'card' away to train on its processor")


def _control(arguments: Sequence[str], reached: dict[str, str], said: str = "") -> None:
    command = [_CONTROL, *arguments]
    try:
        subprocess.run(command, env=os.environ | reached, input=said, text=True, check=True, timeout=_PATIENCE_S,
                       capture_output=True)  # fmt: skip
    except (subprocess.SubprocessError, OSError) as error:
        raise RunFailed(f"{' '.join(command)}: {getattr(error, 'stderr', '') or error}") from error
