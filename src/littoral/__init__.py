"""Littoral plans, runs, watches and adapts deep-learning training over the edge-to-cloud continuum.

>>> import littoral
>>> text = "sites: [{name: lab}]\\ndevices: [{name: pi, site: lab, kind: raspberry-pi-4b}]"
>>> littoral.parse_continuum(text).device_names
('pi',)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from littoral.async_client import AsyncClient as AsyncClient
    from littoral.client import Client as Client
    from littoral.compare import compare_jobs as compare_jobs
    from littoral.continuum.catalogue import catalogue as catalogue
    from littoral.continuum.continuum import Continuum as Continuum
    from littoral.continuum.load import load_continuum as load_continuum
    from littoral.continuum.load import parse_continuum as parse_continuum
    from littoral.continuum.signal import Constant as Constant
    from littoral.continuum.signal import Scaled as Scaled
    from littoral.continuum.signal import Signal as Signal
    from littoral.continuum.signal import Steps as Steps
    from littoral.continuum.signal import read_trace as read_trace
    from littoral.deciding import decide as decide
    from littoral.errors import Infeasible as Infeasible
    from littoral.errors import InputError as InputError
    from littoral.errors import LittoralError as LittoralError
    from littoral.errors import MissingExtra as MissingExtra
    from littoral.errors import RunFailed as RunFailed
    from littoral.job import Fault as Fault
    from littoral.job import Job as Job
    from littoral.job import load_job as load_job
    from littoral.journal import read_journal as read_journal
    from littoral.learning.task import Footprint as Footprint
    from littoral.learning.task import Recipe as Recipe
    from littoral.learning.task import Task as Task
    from littoral.learning.task import load_task as load_task
    from littoral.planning.plan import Plan as Plan
    from littoral.planning.planner import make_plan as make_plan
    from littoral.reports.page import write_report as write_report
    from littoral.run import Options as Options
    from littoral.run import run_job as run_job
    from littoral.run import run_plan as run_plan
    from littoral.strategies.strategy import Strategy as Strategy
    from littoral.strategies.strategy import make_strategy as make_strategy
    from littoral.supervisor import Supervisor as Supervisor
    from littoral.worlds.node import Node as Node

# Names by stage, loaded on first use so that importing littoral costs nothing.
_PLACES = {
    "littoral.continuum.continuum": ["Continuum"],
    "littoral.continuum.load": ["load_continuum", "parse_continuum"],
    "littoral.continuum.catalogue": ["catalogue"],
    "littoral.continuum.signal": ["Signal", "Constant", "Steps", "Scaled", "read_trace"],
    "littoral.job": ["Job", "Fault", "load_job"],
    "littoral.learning.task": ["Task", "Footprint", "Recipe", "load_task"],
    "littoral.planning.plan": ["Plan"],
    "littoral.planning.planner": ["make_plan"],
    "littoral.deciding": ["decide"],
    "littoral.strategies.strategy": ["Strategy", "make_strategy"],
    "littoral.worlds.node": ["Node"],
    "littoral.supervisor": ["Supervisor"],
    "littoral.run": ["run_job", "run_plan", "Options"],
    "littoral.compare": ["compare_jobs"],
    "littoral.journal": ["read_journal"],
    "littoral.reports.page": ["write_report"],
    "littoral.client": ["Client"],
    "littoral.async_client": ["AsyncClient"],
    "littoral.errors": ["LittoralError", "InputError", "MissingExtra", "Infeasible", "RunFailed"],
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'littoral' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
