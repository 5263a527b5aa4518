"""What is trained: a task gives the model, the data, the loss and the metric, and says what they weigh.

Describing and planning need only :class:`Footprint` and :class:`Recipe`, so nothing here imports torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from littoral.document import suggest
from littoral.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from torch import Tensor, nn

OptimizerName = Literal["sgd", "adamw"]
_TRAINING_PACKAGES = {"torch": "torch", "sklearn": "scikit-learn", "safetensors": "safetensors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a task costs a device, a disk and a link; known before anything is trained."""

    samples: int
    test_samples: int
    classes: int
    parameters: int
    buffers: int  # floats that travel with the parameters but are not trained
    flops_per_sample: int  # forward and backward: three times the forward pass
    sample_bytes: int  # as stored and transferred, with its label
    activation_bytes: int  # held per sample between forward and backward

    @property
    def vector_bytes(self) -> int:
        """One full copy of the model, as a message."""
        return 4 * (self.parameters + self.buffers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one device alone trains the task well; ``lr`` is tuned for ``batch`` samples a step.

    ``warmup`` is over how many such batches the steps of larger ones grow to their full length.
    """

    lr: float
    optimizer: OptimizerName = "sgd"
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    batch: int = 32
    warmup: int = 100

    def __post_init__(self) -> None:
        names = get_args(OptimizerName)
        if self.optimizer not in names:
            raise InputError(f"unknown optimizer {self.optimizer!r}", remedy=suggest(str(self.optimizer), list(names)))
        _check(self.lr > 0, f"lr is {self.lr}", "it must be positive")
        _check(0 <= self.momentum < 1, f"momentum is {self.momentum}", "it must be at least 0 and below 1")
        _check(self.weight_decay >= 0, f"weight_decay is {self.weight_decay}", "it cannot be negative")
        _check(
            isinstance(self.batch, int) and self.batch > 0,
            f"batch is {self.batch}",
            "give a positive whole number",
        )
        _check(
            isinstance(self.warmup, int) and self.warmup >= 0,
            f"warmup is {self.warmup}",
            "give a whole number of batches; 0 for none",
        )
        _check(self.momentum > 0 or not self.nesterov, "nesterov without momentum", "set a momentum, such as 0.9")


def _check(holds: bool, found: str, remedy: str) -> None:
    if not holds:
        raise InputError(found, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Inputs and targets, the first dimension counting samples."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            if not len(x) or len(x) != len(y):
                raise InputError(
                    f"the {part} set has {len(x)} inputs and {len(y)} targets",
                    remedy="give one target per input, and at least one of each",
                )


class Task(Protocol):
    """The seam between Littoral and a learning problem.

    A task of your own may be any class with these members. Pictures with class labels are least work by
    subclassing ``littoral.learning.image_task.ImageTask``; otherwise ``footprint`` may be one line,
    ``return measure_footprint(self.model(), self.data())``, from ``littoral.learning.models``.
    """

    @property
    def name(self) -> str: ...

    @property
    def recipe(self) -> Recipe: ...

    def footprint(self) -> Footprint:
        """What the task weighs; of a built-in task, without torch."""
        ...

    def model(self) -> nn.Module:
        """A fresh model with float32 parameters, initialised from torch's generator."""
        ...

    def data(self) -> Dataset:
        """The same tensors, in the same order, on every node."""
        ...

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a batch."""
        ...

    def metric(self, output: Tensor, target: Tensor) -> float:
        """Between 0 and 1; higher is better."""
        ...


_METHODS = ("footprint", "model", "data", "loss", "metric")


def load_task(spec: str, options: Mapping[str, object], recipe: Mapping[str, object] | None = None) -> Task:
    """The task a job names: ``littoral.tasks.digits``, or ``my_package.my_task:MyTask``.

    ``recipe`` replaces parts of the task's own.
    """
    make = _find(spec)
    _check_options(spec, make, options)
    try:
        task = make(**options)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"task {spec} refused its options {dict(options)}: {error}", remedy="check their types and values"
        ) from error
    if missing := [member for member in ("name", "recipe") if not hasattr(task, member)]:
        raise InputError(
            f"task {spec} lacks {', '.join(missing)}",
            remedy="give it the members of littoral.learning.task.Task",
        )
    if recipe:
        task.recipe = _changed(task.recipe, recipe)  # type: ignore[attr-defined]
    return cast(Task, task)


def _changed(recipe: Recipe, changes: Mapping[str, object]) -> Recipe:
    names = [field.name for field in dataclasses.fields(Recipe)]
    for name in changes:
        if name not in names:
            raise InputError(f"a recipe has no {name!r}", remedy=suggest(name, names), key="recipe")
    try:
        return dataclasses.replace(recipe, **cast(dict[str, Any], dict(changes)))
    except TypeError as error:
        raise InputError(
            f"a recipe of {dict(changes)}", remedy="check the types of its values", key="recipe"
        ) from error
    except InputError as error:
        raise InputError(error.found, remedy=error.remedy, key="recipe") from error


def require_torch(purpose: str) -> None:
    """Raise unless torch can be imported."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtra("torch", "train", purpose) from error


def _find(spec: str) -> Callable[..., object]:
    module_name, _, attribute = spec.partition(":")
    attribute = attribute or "TASK"
    module = _import(spec, module_name)
    try:
        make = getattr(module, attribute)
    except AttributeError:
        raise InputError(
            f"task {spec}: module {module_name} has no attribute {attribute!r}",
            remedy=suggest(attribute, _public(module)),
        ) from None
    _check_class(spec, make)
    return cast(Callable[..., object], make)


def _check_class(spec: str, make: object) -> None:
    """Before anything is called: a job file may name tasks, not whatever else can be imported."""
    missing = [method for method in _METHODS if not callable(getattr(make, method, None))]
    if not isinstance(make, type) or missing:
        raise InputError(
            f"task {spec} is no task: " + (f"it lacks {', '.join(missing)}" if missing else "it is not a class"),
            remedy="name a class with the members of littoral.learning.task.Task",
        )


def _import(spec: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _TRAINING_PACKAGES:
            raise MissingExtra(_TRAINING_PACKAGES[missing], "train", f"task {spec}") from error
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(
                f"task {spec}: tried to import {module_name}, and found no module {error.name}",
                remedy=f"{suggest(module_name, _built_in())} A module of yours must be on PYTHONPATH",
            ) from error
        raise InputError(
            f"task {spec}: {module_name} imports {error.name}, which is not installed",
            remedy=f"install {error.name}",
        ) from error
    except (ImportError, SyntaxError, TypeError, ValueError) as error:
        raise InputError(
            f"task {spec}: importing {module_name} failed: {error}",
            remedy="correct the module, or name another",
        ) from error


def _public(module: ModuleType) -> list[str]:
    return [name for name in vars(module) if not name.startswith("_")]


def _built_in() -> list[str]:
    package = importlib.import_module("littoral.tasks")
    return [f"littoral.tasks.{module.name}" for module in pkgutil.iter_modules(package.__path__)]


def _check_options(spec: str, make: Callable[..., object], options: Mapping[str, object]) -> None:
    parameters = inspect.signature(make).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for option in options:
        if option not in names and not takes_any:
            raise InputError(f"task {spec} has no option {option!r}", remedy=suggest(option, names))
    for p in parameters:
        if p.name in names and p.default is p.empty and p.name not in options:
            raise InputError(f"task {spec} needs the option {p.name!r}", remedy="add it to the task's options")
