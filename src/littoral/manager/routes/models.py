"""``/models``: what is served, by which rules, fed by which store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from sqlite3 import Connection
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import Field, WithJsonSchema

from littoral.manager.gate import Gate
from littoral.manager.inputs import kind_of
from littoral.manager.jobs import RunOptions
from littoral.manager.manager import Manager
from littoral.manager.model_checks import check_update_job, checked_task, made_task
from littoral.manager.model_records import Model, Training
from littoral.manager.paging import Page, page_by_name
from littoral.manager.requests import STRICT, Document, Name, Once, Operator, Viewer, Wanted, resource
from littoral.manager.routes.stores import KindGiven, RetentionGiven, schema_of, settings
from littoral.manager.stores import Retention
from littoral.manager.tokens import NAME

GateGiven = Annotated[Document, WithJsonSchema(schema_of(Gate))]
TrainingGiven = Annotated[Document, WithJsonSchema(schema_of(Training))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAsked:
    """A model to make. ``task`` is a task's name, or a mapping with its name and options, as in a job.

    ``store`` names the store that feeds it; null: a new one of the model's name, for inputs as the task takes them.
    """

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(pattern=NAME)]
    task: Annotated[str, Field(max_length=200)] | Document
    store: Annotated[str, Field(pattern=NAME)] | None = None
    input: KindGiven = field(default_factory=dict)
    retention: RetentionGiven = field(default_factory=dict)
    gate: GateGiven = field(default_factory=dict)
    training: TrainingGiven = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What to change; null: as it is."""

    __pydantic_config__ = STRICT
    gate: GateGiven | None = None
    training: TrainingGiven | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model; ``current`` is the number of the version that is served, null before the first."""

    name: str
    task: str
    options: dict[str, Any]
    store: str
    gate: dict[str, Any]
    training: dict[str, Any]
    current: int | None
    created: float


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("models")
    life = manager.life
    registry = life.registry

    @routes.get("/models")
    def list_models(window: Wanted, by: Viewer) -> Page[ModelRecord]:
        """All models."""
        return page_by_name(registry.all(), window, lambda model: model.name, record)

    @routes.post("/models", status_code=201, response_model=ModelRecord)
    def create_model(body: ModelAsked, by: Operator, asked: Once) -> Any:
        """A model without a version, and its store if it has none."""
        known = manager.idempotency.known(asked)
        if known is not None:
            return known
        keep = new_model(manager, body, by.name)
        return manager.idempotency.once(asked, lambda connection: asdict(record(keep(connection))))

    @routes.get("/models/{name}")
    def get_model(name: Name, by: Viewer) -> ModelRecord:
        """One model."""
        return record(registry.get(name))

    @routes.patch("/models/{name}")
    def change_model(name: Name, body: Rules, by: Operator) -> ModelRecord:
        """Other rules for its gate or its training."""
        model = registry.get(name)
        gate = model.gate if body.gate is None else settings(body.gate, Gate, "gate")
        training = model.training if body.training is None else _training(manager, body.training)
        with manager.database.write() as connection:
            changed = registry.change(connection, name, gate, training)
            manager.events.append(connection, "model.changed", f"models/{name}", {"by": by.name})
        return record(changed)

    @routes.delete("/models/{name}", status_code=204)
    def delete_model(name: Name, by: Operator) -> None:
        """Delete a model with its versions and triggers; its store stays. Refused while an update runs."""
        with manager.database.write() as connection:
            registry.delete(connection, name)
            manager.events.append(connection, "model.deleted", f"models/{name}", {"by": by.name})
        life.serving.forget(name)
        registry.weights.forget(name)

    return routes


def record(model: Model) -> ModelRecord:
    """As it is shown."""
    return ModelRecord(
        name=model.name, task=model.task, options=model.options, store=model.store,
        gate=msgspec.to_builtins(model.gate), training=msgspec.to_builtins(model.training), current=model.current,
        created=model.created,
    )  # fmt: skip


def new_model(manager: Manager, asked: ModelAsked, by: str) -> Callable[[Connection], Model]:
    """Check what is asked for; what is returned keeps the model, without a version, and its store if it names none."""
    life, now = manager.life, manager.now()
    gate, training = settings(asked.gate, Gate, "gate"), _training(manager, asked.training)
    task, options = checked_task(manager, asked.task)
    retention = settings(asked.retention, Retention, "retention")
    kind = None if asked.store else kind_of(made_task(task, options), asked.input)

    def keep(connection: Connection) -> Model:
        if kind is not None:
            life.stores.create(connection, asked.name, kind, retention, now)
        model = life.registry.create(
            connection, asked.name, task, options, store=asked.store or asked.name, gate=gate, training=training,
            now=now,
        )  # fmt: skip
        manager.events.append(connection, "model.created", f"models/{asked.name}", {"by": by})
        return model

    return keep


def _training(manager: Manager, given: Document) -> Training:
    training: Training = settings(given, Training, "training")
    settings(training.options, RunOptions, "training.options")
    check_update_job(manager, training.job)
    return training
