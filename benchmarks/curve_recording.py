"""Validation curves from real training: one process, one thread, plain torch loops on Littoral's tasks and models.

A setting is trained for its epochs and judged after each, on samples that are not trained on and, apart from these, on
held-out ones that no decision may look at. A warm start learns the first half of the samples, then goes on with the
other half, changed: the curve is that of the update.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from littoral.learning.image_task import ImageTask

Row = dict[str, Any]
WARM_EPOCHS = 8  # of training before the data change
NEW_CLASSES = 3  # that a warm-started model has never seen
TEST_SAMPLES = 2000  # of Fashion-MNIST: the first ones
TUNE, TEST = "tune", "test"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One curve to record."""

    task: str
    model: str
    lr: float
    part: str = TEST
    optimizer: str = "sgd"
    momentum: float = 0.0
    batch: int = 32
    width: float = 1.0
    samples: int = 6000
    epochs: int = 60
    judged: int = 1000  # validation samples, half of those that are not trained on at most
    change: str = ""  # turned, dimmed or classes: warm-started, then trained on what has changed so
    wrong: float = 0.0  # share of the training labels that are drawn at random
    seed: int = 0

    @property
    def key(self) -> str:
        """What differs from the defaults."""
        return json.dumps({f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default})


def settings() -> Iterator[Setting]:
    """All curves; what is tuned on shares neither seeds nor settings with what is tested on."""
    for seed, setting in enumerate((*_FASHION, *_DIGITS, *_CALTECH, *_CHEAP)):
        yield replace(setting, seed=seed)
    for seed, setting in enumerate(_TUNED):
        yield replace(setting, part=TUNE, seed=1000 + seed)


def _fashion(model: str, lr: float, **more: Any) -> Setting:
    return Setting(task="fashion_mnist", model=model, lr=lr, **more)


def _digits(model: str, lr: float, **more: Any) -> Setting:
    return Setting(task="digits", model=model, lr=lr, samples=1437, **more)


def _caltech(model: str, lr: float, **more: Any) -> Setting:
    return Setting(task="caltech101", model=model, lr=lr, **more)


_FASHION = (
    _fashion("lenet", 0.05),
    _fashion("lenet", 0.02, batch=64),
    _fashion("lenet", 0.1),
    _fashion("lenet", 0.01, momentum=0.9),
    _fashion("lenet", 0.001, optimizer="adamw"),
    _fashion("lenet", 0.0003, optimizer="adamw", batch=64),
    _fashion("lenet", 0.005, epochs=50),  # still rising at the end
    _fashion("lenet", 0.05, width=2.0, samples=3000),
    _fashion("lenet", 0.05, width=0.5, samples=12000, epochs=50),
    _fashion("lenet", 0.05, batch=128, samples=12000, epochs=80),
    _fashion("lenet", 0.3),
    _fashion("lenet", 0.3, momentum=0.9, epochs=40),  # collapses
    _fashion("lenet", 0.05, judged=200),  # noisy
    _fashion("lenet", 0.001, optimizer="adamw", judged=150),
    _fashion("lenet", 0.05, wrong=0.3),  # rises, then falls
    _fashion("lenet", 0.05, change="turned"),
    _fashion("lenet", 0.02, change="dimmed"),
    _fashion("lenet", 0.05, change="classes"),
    _fashion("mlp", 0.05),
    _fashion("mlp", 0.01),
    _fashion("mlp", 0.001, epochs=40),  # still rising
    _fashion("mlp", 0.001, optimizer="adamw"),
    _fashion("mlp", 0.1, width=3.0, batch=128),
    _fashion("mlp", 0.05, wrong=0.4),
    _fashion("mlp", 0.02, change="turned", epochs=80),
    _fashion("mlp", 0.05, judged=200),
    _fashion("resnet8", 0.05, momentum=0.9, width=0.5, samples=3000, epochs=40),
    _fashion("resnet8", 0.001, optimizer="adamw", width=0.5, samples=3000, epochs=40),
)
_DIGITS = (
    _digits("mlp", 0.2),
    _digits("mlp", 0.02),
    _digits("mlp", 0.005, epochs=80),  # still rising
    _digits("lenet", 0.1),
    _digits("lenet", 0.001, optimizer="adamw"),
    _digits("mlp", 0.1, change="turned"),
    _digits("mlp", 0.1, change="classes"),
    _digits("resnet8", 0.05, width=0.5, epochs=40),
    _digits("lenet", 1.0, epochs=40),  # collapses
)
_CALTECH = (
    _caltech("resnet8", 0.05, momentum=0.9, width=0.5, epochs=50),
    _caltech("resnet8", 0.001, optimizer="adamw", width=0.5, epochs=50),
    _caltech("resnet8", 0.02, momentum=0.9, width=0.5, change="classes", epochs=50),
    _caltech("lenet", 0.02),
    _caltech("lenet", 0.005, epochs=80),
    _caltech("lenet", 0.02, change="turned"),
    _caltech("mlp", 0.01),
)
_CHEAP = (  # a few seconds each
    _fashion("mlp", 0.0003, optimizer="adamw", samples=3000),
    _fashion("mlp", 0.05, change="classes"),
    _fashion("mlp", 0.1, change="dimmed", epochs=50),
    _fashion("mlp", 0.2, epochs=50),
    _fashion("mlp", 0.05, width=0.1, samples=4000, epochs=80),
    _fashion("mlp", 0.003, momentum=0.9, judged=150),
    _caltech("mlp", 0.003, momentum=0.9, epochs=50),
    _caltech("mlp", 0.0003, optimizer="adamw", epochs=40),
    _caltech("mlp", 0.02, change="classes"),
    _digits("lenet", 0.02),
    _digits("lenet", 0.05, change="turned"),
    _digits("mlp", 0.1, wrong=0.4, epochs=80),
)
_TUNED = (
    _fashion("lenet", 0.04, batch=48),
    _fashion("lenet", 0.08, samples=4000),
    _fashion("lenet", 0.007, momentum=0.9, epochs=50),
    _fashion("lenet", 0.0007, optimizer="adamw", batch=48),
    _fashion("lenet", 0.004, epochs=45),
    _fashion("lenet", 0.04, width=1.5, samples=9000, epochs=50),
    _fashion("lenet", 0.4, epochs=50),
    _fashion("lenet", 0.07, judged=180),
    _fashion("lenet", 0.07, wrong=0.4),
    _fashion("lenet", 0.04, change="turned"),
    _fashion("lenet", 0.03, change="classes", epochs=50),
    _fashion("mlp", 0.03),
    _fashion("mlp", 0.002, epochs=50),
    _fashion("mlp", 0.0005, optimizer="adamw", judged=250),
    _fashion("mlp", 0.03, change="dimmed"),
    _fashion("resnet8", 0.03, momentum=0.9, width=0.4, samples=3000, epochs=40),
    _digits("mlp", 0.1),
    _digits("mlp", 0.01, epochs=70),
    _digits("lenet", 0.05),
    _digits("mlp", 0.15, change="classes"),
    _caltech("resnet8", 0.03, momentum=0.9, width=0.4, epochs=50),
    _caltech("resnet8", 0.002, optimizer="adamw", width=0.4, epochs=45),
    _caltech("lenet", 0.01, epochs=70),
    _caltech("mlp", 0.005),
    _fashion("mlp", 0.07, wrong=0.3, epochs=50),
    _fashion("mlp", 0.08, judged=150, samples=4000),
    _fashion("mlp", 0.04, change="turned", samples=5000),
    _fashion("mlp", 0.02, change="classes", samples=5000, epochs=70),
    _fashion("mlp", 0.15, samples=3000, epochs=50),
    _fashion("mlp", 0.0004, optimizer="adamw", samples=2000, epochs=50),
    _caltech("mlp", 0.0002, optimizer="adamw", width=0.5, epochs=50),
    _caltech("mlp", 0.01, change="classes", epochs=50),
    _digits("mlp", 0.05, wrong=0.3, epochs=70),
    _digits("mlp", 0.15, wrong=0.5),
    _digits("mlp", 0.04, change="turned", epochs=70),
    _digits("mlp", 0.03, momentum=0.9),
    _digits("lenet", 0.0005, optimizer="adamw", epochs=50),
    _digits("lenet", 0.03, change="classes"),
)


# -- training -----------------------------------------------------------------------------------------------------


def record(key: str, *, folders: dict[str, str], device: str) -> Row:
    """Train a setting; after every epoch: seconds, samples, validation accuracy, training loss, held-out accuracy."""
    import torch

    torch.set_num_threads(1)
    setting = Setting(**json.loads(key))
    torch.manual_seed(setting.seed)
    task, began = _task(setting, folders), time.time()
    old, new, judged, held_out = (_on(device, part) for part in _parts(task, setting))
    model = task.model().to(device)
    if setting.change:
        for _ in _epochs(model, old, setting, WARM_EPOCHS):
            pass
    curve = []
    for epoch, loss in enumerate(_epochs(model, new, setting, setting.epochs), start=1):
        accuracies = [_accuracy(model, *part) for part in (judged, held_out)]
        seconds = round(time.time() - began, 3)
        curve.append([seconds, epoch * len(new[0]), accuracies[0], loss, accuracies[1]])
    took = time.time() - began
    return {"curve": curve, "reason": "epochs", "time_s": took, "took_s": took, "judged": len(judged[0])}


def work(setting: Setting, folders: dict[str, str]) -> float:
    """FLOPs, about."""
    footprint = _task(setting, folders).footprint()
    return float(footprint.flops_per_sample * min(setting.samples, footprint.samples) * setting.epochs)


def _task(setting: Setting, folders: dict[str, str]) -> ImageTask:
    from littoral.tasks.caltech101 import Caltech101
    from littoral.tasks.digits import Digits
    from littoral.tasks.fashion_mnist import FashionMnist

    named: dict[str, Any] = {"model": setting.model, "width": setting.width}
    if setting.task == "digits":
        return Digits(**named)
    kind = FashionMnist if setting.task == "fashion_mnist" else Caltech101
    return kind(folder=folders[setting.task], **named)


Part = tuple["Tensor", "Tensor"]


def _parts(task: ImageTask, setting: Setting) -> tuple[Part, Part, Part, Part]:
    """What a warm start learns first, what is trained on, validation, and samples that nothing looks at."""
    import torch

    data, rng = task.data(), torch.Generator().manual_seed(setting.seed)
    train = (data.train_x[: setting.samples], _mislabelled(data.train_y[: setting.samples], setting, task, rng))
    half = len(train[0]) // 2 if setting.change else 0
    old, new = (train[0][:half], train[1][:half]), (train[0][half:], train[1][half:])
    if setting.change == "classes":
        known = old[1] < task.samples.classes - NEW_CLASSES
        old = (old[0][known], old[1][known])
    others = min(len(data.test_x), TEST_SAMPLES)
    order = torch.randperm(others, generator=rng)
    judged = min(setting.judged, others // 2)
    validation, held_out = order[:judged], order[others // 2 :]
    rest = [(_changed(data.test_x[part], setting.change), data.test_y[part]) for part in (validation, held_out)]
    return old, (_changed(new[0], setting.change), new[1]), rest[0], rest[1]


def _mislabelled(labels: Tensor, setting: Setting, task: ImageTask, rng: Any) -> Tensor:
    import torch

    chosen = torch.rand(len(labels), generator=rng) < setting.wrong
    return torch.where(chosen, torch.randint(task.samples.classes, labels.shape, generator=rng), labels)


def _changed(images: Tensor, change: str) -> Tensor:
    import torch
    from torch.nn import functional

    if change == "dimmed":
        return 0.4 * images
    if change != "turned":
        return images
    cosine, sine = math.cos(math.pi / 5), math.sin(math.pi / 5)
    turn = torch.tensor([[cosine, -sine, 0.0], [sine, cosine, 0.0]]).expand(len(images), 2, 3)
    grid = functional.affine_grid(turn, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _on(device: str, part: Part) -> Part:
    return part[0].to(device), part[1].to(device)


def _epochs(model: nn.Module, data: Part, setting: Setting, epochs: int) -> Iterator[float | None]:
    """The mean loss of each epoch of training; None where it is no number."""
    import torch
    from torch.nn.functional import cross_entropy

    if setting.optimizer == "adamw":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=setting.lr)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=setting.lr, momentum=setting.momentum)
    x, y = data
    for _ in range(epochs):
        model.train()
        total = torch.zeros((), device=x.device)
        for rows in torch.randperm(len(x)).to(x.device).split(setting.batch):
            if len(rows) == 1:
                continue  # which no norm can be trained on
            optimizer.zero_grad()
            loss = cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows)
        mean = float(total) / len(x)
        yield mean if math.isfinite(mean) else None


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    import torch

    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(part).argmax(dim=1) == truth).sum())
            for part, truth in zip(x.split(500), y.split(500), strict=True)
        )
    return right / len(x)
