"""The views, one file each."""

from __future__ import annotations

from littoral.manager.page.views import (
    devices,
    events,
    front,
    model,
    models,
    overview,
    plan,
    plans,
    run,
    runs,
    submit,
    tokens,
    triggers,
)

VIEWS = (
    overview.VIEW,
    runs.VIEW,
    run.VIEW,
    submit.VIEW,
    plans.VIEW,
    front.VIEW,
    plan.VIEW,
    models.VIEW,
    model.VIEW,
    triggers.VIEW,
    devices.VIEW,
    events.VIEW,
    tokens.VIEW,
)
