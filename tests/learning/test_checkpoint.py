"""A checkpoint is whole or absent, and anything else is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from littoral.errors import InputError
from littoral.learning.checkpoint import load_checkpoint, save_checkpoint

METADATA = {"epoch": 3, "workers": {"nano-1": [1, 2.5, None]}, "note": "é"}


def test_a_round_trip(tmp_path: Path) -> None:
    vector = torch.randn(10)
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"vector": vector, "piece": vector[2:5], "steps": torch.tensor(4)}, METADATA)
    loaded = load_checkpoint(path)
    assert loaded.metadata == METADATA
    assert torch.equal(loaded.tensors["vector"], vector) and torch.equal(loaded.tensors["piece"], vector[2:5])
    assert loaded.tensors["steps"].item() == 4
    loaded.tensors["vector"].add_(1)  # writable, and not tied to the file
    assert torch.equal(load_checkpoint(path).tensors["vector"], vector)
    assert os.listdir(tmp_path) == ["a.safetensors"], "no draft is left behind"


def test_no_tensors_need_no_torch(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from littoral.learning.checkpoint import load_checkpoint, save_checkpoint
save_checkpoint(Path(sys.argv[1]), {}, {"time": 1.5})
assert load_checkpoint(Path(sys.argv[1])).metadata == {"time": 1.5}
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True)
    assert load_checkpoint(tmp_path / "a").tensors == {}


def test_a_crash_while_writing_keeps_the_previous_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    save_checkpoint(path, {}, {"version": 1})

    def crash(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, {"x": torch.zeros(100)}, {"version": 2})
    assert load_checkpoint(path).metadata == {"version": 1}
    assert os.listdir(tmp_path) == ["a"]


def test_a_reader_of_the_previous_one_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_checkpoint(path, {}, {"version": 1})
    before = path.read_bytes()
    with path.open("rb") as reader:
        save_checkpoint(path, {}, {"version": 2})
        assert reader.read() == before
    assert load_checkpoint(path).metadata == {"version": 2}


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_checkpoint(path, {"x": torch.ones(50)}, METADATA)
    whole = path.read_bytes()
    for length in (0, 5, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="truncated, or not a checkpoint"):
            load_checkpoint(path)


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(InputError, match="no such checkpoint"):
        load_checkpoint(path)
    path.write_bytes(b"\x80\x04\x95 a pickle, perhaps" * 10)
    with pytest.raises(InputError, match="not a checkpoint"):
        load_checkpoint(path)
    with pytest.raises(InputError):
        load_checkpoint(tmp_path)
    save_file({"x": torch.ones(2)}, path)
    with pytest.raises(InputError, match="did not write"):
        load_checkpoint(path)
