"""The service's resources, one file each: ``router(manager)`` gives its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from littoral.manager.routes import (
    continuums,
    devices,
    events,
    health,
    jobs,
    metrics,
    models,
    plans,
    predictions,
    profiles,
    runs,
    samples,
    stores,
    tokens,
    triggers,
    updates,
    versions,
)

if TYPE_CHECKING:
    from fastapi import APIRouter

    from littoral.manager.manager import Manager

LIFE = (stores, samples, models, versions, updates, predictions, triggers)
RESOURCES = (health, metrics, tokens, continuums, devices, profiles, plans, jobs, runs, events, *LIFE)


def routers(manager: Manager) -> list[APIRouter]:
    """The routes of all resources."""
    return [resource.router(manager) for resource in RESOURCES]
