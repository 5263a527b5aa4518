"""Workers with graphics cards: refused where there is none; shares of one need NVIDIA's MPS."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from littoral.continuum.device import Device, StepTime
from littoral.errors import InputError
from littoral.run import Options, run_job
from littoral.testing import small_job
from littoral.worlds.processes.cards import Cards, cards_for

CARD = Device(name="gpu", site="s", step=StepTime(flops=1e9), memory_bytes=1e9, card=0)
LIVE = Options(world="processes")
has_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no graphics card for torch")
has_mps = pytest.mark.skipif(shutil.which("nvidia-cuda-mps-control") is None, reason="NVIDIA's MPS is not installed")


def test_processes_are_told_of_their_share() -> None:
    shared = Cards({"CUDA_MPS_PIPE_DIRECTORY": "/somewhere"})
    assert shared.environment(replace(CARD, card_share=0.35)) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/somewhere",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "35",
    }
    assert shared.environment(replace(CARD, card=None)) == {} == Cards().environment(CARD)


def test_a_card_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="'gpu' trains on card 99") as error, cards_for([replace(CARD, card=99)]):
        pass
    assert error.value.remedy


def test_a_run_refuses_it_before_anything_starts(tmp_path: Path) -> None:
    job = small_job()
    devices = tuple(replace(device, card=99) for device in job.continuum.devices)
    with pytest.raises(InputError, match="trains on card 99"):
        run_job(replace(job, continuum=replace(job.continuum, devices=devices)), tmp_path / "r", LIVE)
    assert not (tmp_path / "r").exists()


@has_card
@pytest.mark.skipif(shutil.which("nvidia-cuda-mps-control") is not None, reason="NVIDIA's MPS is installed")
def test_a_share_without_mps_is_refused() -> None:
    with pytest.raises(InputError, match="has a share of a card"), cards_for([replace(CARD, card_share=0.5)]):
        pass


@has_card
@has_mps
def test_two_workers_share_a_card(tmp_path: Path) -> None:
    job = small_job()
    devices = tuple(replace(device, card=0, card_share=share)
                    for device, share in zip(job.continuum.devices, (0.6, 0.3, 0.1, 0.1), strict=False))  # fmt: skip
    result = run_job(replace(job, continuum=replace(job.continuum, devices=devices)), tmp_path / "r", LIVE)
    assert result["reason"] == "epochs"
