from __future__ import annotations

import pytest
from synthetic import Machine, app_rows, training_rows

from littoral.profiling.automl import Budget
from littoral.profiling.estimators import Estimators, estimators, fit
from littoral.profiling.profile import Profile


@pytest.fixture(scope="session")
def fitted() -> Profile:
    """A profile of one device, one task and one app, with models chosen on a small budget."""
    rows = training_rows(60, machine=Machine(sample_share=0.008))
    return fit(Profile(training=rows, apps=app_rows(60)), budget=Budget(trials=12))


@pytest.fixture(scope="session")
def nano(fitted: Profile) -> Estimators:
    return estimators(fitted, "jetson-nano", "digits")
