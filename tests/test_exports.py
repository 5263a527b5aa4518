from __future__ import annotations

import littoral

PUBLIC = {
    "AsyncClient",
    "Client",
    "Constant",
    "Continuum",
    "Fault",
    "Footprint",
    "Infeasible",
    "InputError",
    "Job",
    "LittoralError",
    "MissingExtra",
    "Node",
    "Options",
    "Plan",
    "Recipe",
    "RunFailed",
    "Scaled",
    "Signal",
    "Steps",
    "Strategy",
    "Supervisor",
    "Task",
    "__version__",
    "catalogue",
    "compare_jobs",
    "load_continuum",
    "load_job",
    "load_task",
    "decide",
    "make_plan",
    "make_strategy",
    "parse_continuum",
    "read_journal",
    "read_trace",
    "run_job",
    "run_plan",
    "write_report",
}


def test_the_public_names_are_these() -> None:
    assert set(littoral.__all__) == PUBLIC


def test_every_public_name_is_there() -> None:
    for name in littoral.__all__:
        assert getattr(littoral, name) is not None
