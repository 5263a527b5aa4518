"""Serving: one version per answer, swapped under load without a lost or mixed answer."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from freshness import Life, Stream, alive
from safetensors.torch import save

from littoral.errors import InputError
from littoral.manager.refusals import Conflict
from littoral.manager.serving import Answer
from littoral.tasks.digits import Digits


def constant(label: int) -> bytes:
    """Weights of a model that always says ``label``."""
    state = {name: torch.zeros_like(tensor) for name, tensor in Digits().model().state_dict().items()}
    state[list(state)[-1]][label] = 10.0
    return save(state)


def serve(life: Life, label: int) -> int:
    file = life.cycle.keep_weights("digits", constant(label))
    with life.database.write() as connection:
        number = life.cycle.registry.add(connection, "digits", file, reason="", now=0.0).number
        life.cycle.promote(connection, "digits", number, None)
    life.cycle.serving.refresh("digits")
    return number


def test_answers_are_labels_probabilities_and_a_version(tmp_path: Path) -> None:
    x, _ = Stream().take(600)
    with alive(tmp_path) as life:
        life.model()
        with pytest.raises(Conflict, match="no version to serve"):
            life.cycle.serving.predict("digits", x)
        serve(life, 3)
        answer = life.cycle.serving.predict("digits", x)
        assert answer.version == 1 and answer.labels == [3] * 600
        assert answer.probabilities.shape == (600, 10)
        assert np.allclose(answer.probabilities.sum(axis=1), 1, atol=1e-5)
        with pytest.raises(InputError, match="sample 0: a value is not finite"):
            life.cycle.serving.kind("digits").from_json([np.full((1, 8, 8), np.nan).tolist()])


def test_a_restarted_server_serves_what_was_promoted(tmp_path: Path) -> None:
    x, _ = Stream().take(1)
    with alive(tmp_path) as life:
        life.model()
        serve(life, 3)
        serve(life, 4)
    with alive(tmp_path) as life:
        answer = life.cycle.serving.predict("digits", x)
        assert (answer.version, answer.labels) == (2, [4])


def test_swaps_under_load_lose_and_mix_nothing(tmp_path: Path) -> None:
    """Version n always says n % 10: an answer of two versions, or of another than it names, would show."""
    x, _ = Stream().take(7)
    with alive(tmp_path) as life:
        life.model()
        serve(life, 1)
        answers: list[list[Answer]] = [[] for _ in range(4)]
        done = threading.Event()

        def ask(mine: list[Answer]) -> None:
            while not done.is_set():
                mine.append(life.cycle.serving.predict("digits", x))

        threads = [threading.Thread(target=ask, args=(mine,)) for mine in answers]
        for thread in threads:
            thread.start()
        for number in range(2, 20):
            assert serve(life, number % 10) == number
            if number % 5 == 0:
                with life.database.write() as connection:
                    life.cycle.rollback(connection, "digits")
                life.cycle.serving.refresh("digits")
        done.set()
        for thread in threads:
            thread.join()
    everything = [answer for mine in answers for answer in mine]
    assert len({answer.version for answer in everything}) > 5
    for answer in everything:
        assert answer.labels == [answer.version % 10] * 7
