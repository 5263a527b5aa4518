"""A model from the document of a form, with the checks and refusals of ``POST /models``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from littoral.document import suggest
from littoral.errors import InputError
from littoral.manager.gate import Gate
from littoral.manager.inputs import kind_of
from littoral.manager.jobs import RunOptions
from littoral.manager.manager import Manager
from littoral.manager.model_checks import check_update_job, checked_task, made_task
from littoral.manager.model_files import KEYS
from littoral.manager.model_records import Model, Training
from littoral.manager.routes.models import ModelAsked
from littoral.manager.routes.stores import settings
from littoral.manager.stores import Retention

_ASKED = TypeAdapter(ModelAsked)


def make_model(manager: Manager, document: Mapping[str, Any], by: str) -> Model:
    """Keep a model without a version, and its store if it names none."""
    asked, life, now = _asked(document), manager.life, manager.now()
    gate, training = settings(asked.gate, Gate, "gate"), _training(manager, asked)
    task, options = checked_task(manager, asked.task)
    retention = settings(asked.retention, Retention, "retention")
    kind = None if asked.store else kind_of(made_task(task, options), asked.input)
    with manager.database.write() as connection:
        if kind is not None:
            life.stores.create(connection, asked.name, kind, retention, now)
        model = life.registry.create(
            connection, asked.name, task, options, store=asked.store or asked.name, gate=gate, training=training,
            now=now,
        )  # fmt: skip
        manager.events.append(connection, "model.created", f"models/{asked.name}", {"by": by})
    return model


def _asked(document: Mapping[str, Any]) -> ModelAsked:
    for key in sorted(document.keys() - set(KEYS)):
        raise InputError(f"unknown key {key!r}", remedy=suggest(key, list(KEYS)), key=key)
    try:
        return _ASKED.validate_python(dict(document))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise InputError(f"{key}: {first['msg']}", remedy="see /openapi.json for what is expected", key=key) from error


def _training(manager: Manager, asked: ModelAsked) -> Training:
    training: Training = settings(asked.training, Training, "training")
    settings(training.options, RunOptions, "training.options")
    check_update_job(manager, training.job)
    return training
