"""What operators say of a model, checked before it is believed: its task, and the job that its updates run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from littoral.errors import InputError
from littoral.learning.image_task import ImageTask
from littoral.learning.task import Task, load_task
from littoral.manager.documents import check_job, place_options

if TYPE_CHECKING:
    from littoral.manager.manager import Manager

LARGEST_MODEL = 1_000_000_000  # parameters
_ANY_TASK = "littoral.tasks.digits"  # stands for the update's own, which is not made yet


def checked_task(manager: Manager, given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A task's name and options, with a folder of ``datasets`` spelled out, once it can be made."""
    named = {"name": given} if isinstance(given, str) else dict(given)
    if not isinstance(named.get("name"), str):
        raise InputError("the task has no name", remedy="such as {name: littoral.tasks.digits}", key="task")
    options = place_options(check_job({"task": named}, manager.options.allowed)["task"], manager.folder)
    name = options.pop("name")
    made_task(name, options)
    return name, options


def made_task(name: str, options: Mapping[str, Any]) -> Task:
    """The task; refuses options it cannot be made with, and models that no memory holds."""
    try:
        task = load_task(name, options)
        size = task.weigh(1, 1).parameters if isinstance(task, ImageTask) else 0
    except ArithmeticError as error:
        raise InputError(
            f"task {name} refused its options: {error}", remedy="check their values", key="task"
        ) from error
    if size > LARGEST_MODEL:
        raise InputError(f"a model of {size} parameters", remedy=f"make it at most {LARGEST_MODEL}", key="task")
    return task


def check_update_job(manager: Manager, job: Mapping[str, Any]) -> None:
    """The job without its task that updates are to run; a model that is only served needs none."""
    if not job:
        return
    if "task" in job:
        remedy = "leave it out: an update trains the model's own task on its samples"
        raise InputError("training.job has a task", remedy=remedy, key="training.job")
    manager.jobs.check({**job, "task": _ANY_TASK})
