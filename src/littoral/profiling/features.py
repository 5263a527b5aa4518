"""Which columns each learned function sees, and which way it is known to go with them.

Batches of all workers come in as summaries that no order or number of workers changes: how many, their mean, their
largest. Their sum is workers times mean; as a column of its own it would rise with the workers as well as with the
batches, and update time goes up with the ones and down with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from littoral.document import suggest
from littoral.errors import InputError, brief
from littoral.profiling.rows import AppRow, State, TrainingRow

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Columns = Mapping[str, ArrayLike]
States = State | Sequence[State] | Columns

STATE = tuple(field.name for field in fields(State))
OPTIONAL = frozenset({"celsius", "pace", "server_pace"})  # of a state: not a number where nobody told
SHARES = frozenset({"cpu", "memory", "gpu", "gpu_memory", "pressure", "stalled", "server_cpu", "server_pressure"})
SIZES = frozenset({"batch", "batch_mean", "batch_max"})
SERVER = ("cpu", "pressure", "load", "network_bytes_per_s", "pace")
FORETOLD = ("cpu", "gpu", "memory", "gpu_memory", "pressure", "load")  # of the state during training
TRAINING = ("compute", "update", *FORETOLD)
APP = ("exec", "tail")  # before a colon and an app's name: the mean of its latencies, and their 95th percentile
_UPDATE = (*STATE, "batch", *(f"server_{name}" for name in SERVER), "workers", "batch_mean", "batch_max")
_SHARE_FLOOR = 0.01  # of full scale: errors of smaller shares are taken relative to this
_TIME_FLOOR = 1e-6  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A quantity to learn: its columns, and the sign it is known to go with some of them.

    Relative errors are taken against the value or ``floor``, whichever is larger; ``most`` is the largest value.
    ``physics`` are the columns that ought to matter, should a few rows not show which do.
    """

    name: str
    columns: tuple[str, ...]
    signs: Mapping[str, int]
    floor: float = _TIME_FLOOR
    most: float = np.inf
    physics: tuple[str, ...] = ()


_BUSY = ("cpu", "gpu", "load", "memory_bytes_per_s")
COMPUTE = Function(
    name="compute",
    columns=(*STATE, "batch"),
    signs={"cpu": 1, "gpu": 1, "pace": 1, "batch": -1},
    physics=(*_BUSY, "batch"),
)
UPDATE = Function(
    name="update",
    columns=_UPDATE,
    signs={"server_cpu": 1, "workers": 1, "batch": -1, "batch_mean": -1, "batch_max": -1},
    physics=("load", "batch", "server_cpu", "server_load", "workers"),
)


def state_function(metric: str) -> Function:
    """A metric of the state during training, from the state before and the batch."""
    room = metric in {"memory", "gpu_memory"}
    return Function(
        name=metric,
        columns=(*STATE, "batch"),
        signs={"batch": 1} if room else {},
        floor=_SHARE_FLOOR,
        most=1.0 if metric in SHARES else np.inf,
        physics=(metric, "batch") if room else (*_BUSY, "batch"),
    )


def app_function(name: str) -> Function:
    """A latency of an app, from the state without training and the batch of the training beside it, 0 for none."""
    physics = (*_BUSY, "beside")
    return Function(name=name, columns=(*STATE, "beside"), signs={}, physics=physics)


def app_of(name: str) -> str:
    """The app that a function is of, if any.

    >>> app_of("tail:sift"), app_of("cpu")
    ('sift', '')
    """
    prefix, _, app = name.partition(":")
    return app if prefix in APP else ""


def function(name: str) -> Function:
    """The function of that name."""
    if app_of(name):
        return app_function(name)
    return {"compute": COMPUTE, "update": UPDATE}.get(name) or state_function(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Rows of one function as arrays; rows of one stress point share its number in ``points``."""

    columns: tuple[str, ...]
    signs: tuple[int, ...]
    X: Floats
    y: Floats
    points: NDArray[np.int64]
    settings: NDArray[np.int64]  # rows that differ by nothing that was set share a number
    floor: float = _TIME_FLOOR
    most: float = np.inf
    physics: tuple[str, ...] = ()

    def rows(self, chosen: Mask) -> Data:
        """Some of the rows."""
        parts = {name: getattr(self, name)[chosen] for name in ("X", "y", "points", "settings")}
        return replace(self, **parts)

    def merged(self) -> Data:
        """One row for each setting: the mean over its visits, which a machine's moods trouble less than any of them."""
        _, first, groups, visits = np.unique(self.settings, return_index=True, return_inverse=True, return_counts=True)
        if len(first) == len(self.y):
            return self
        told = ~np.isnan(self.X)
        X, known = np.zeros((len(first), self.X.shape[1])), np.zeros((len(first), self.X.shape[1]))
        np.add.at(X, groups, np.where(told, self.X, 0.0))
        np.add.at(known, groups, told)
        X = np.divide(X, known, out=np.full_like(X, np.nan), where=known > 0)
        y = np.bincount(groups, self.y) / visits
        return replace(self, X=X, y=y, points=self.points[first], settings=self.settings[first])

    def only(self, columns: Sequence[str]) -> Data:
        """Some of the columns."""
        at = [self.columns.index(name) for name in columns]
        return replace(self, columns=tuple(columns), signs=tuple(self.signs[i] for i in at), X=self.X[:, at])


def training_data(asked: Function, rows: Sequence[TrainingRow]) -> Data:
    """What training rows say about a function."""
    company = [np.array([getattr(row, name) for row in rows]) for name in ("workers", "batch_sum", "batch_max")]
    X = matrix(
        asked,
        state_columns([row.before for row in rows]),
        batch=[row.batch for row in rows],
        server=state_columns([row.server for row in rows]),
        workers=company[0],
        batch_mean=company[1] / company[0],
        batch_max=company[2],
    )
    return _data(asked, X, [_target(asked.name, row) for row in rows], rows, [row.batch for row in rows])


def app_data(asked: Function, rows: Sequence[AppRow]) -> Data:
    """What app rows say about one of its latencies."""
    X = matrix(asked, state_columns([row.state for row in rows]), beside=[row.beside for row in rows])
    latencies = [row.tail_s if asked.name.startswith("tail:") else row.mean_s for row in rows]
    return _data(asked, X, latencies, rows, [row.beside for row in rows])


def matrix(asked: Function, state: States, *, server: States | None = None, **others: ArrayLike) -> Floats:
    """The columns of a function side by side; single values are repeated as often as the others need."""
    known = dict(state_columns(state)) | {name: np.asarray(value, float) for name, value in others.items()}
    if server is not None:
        known |= {f"server_{name}": state_columns(server)[name] for name in SERVER}
    for name, values in known.items():
        if name not in OPTIONAL and not np.isfinite(values).all():
            raise InputError(f"{name} is not a finite number", remedy="measure it, or leave the device out")
    picked = np.broadcast_arrays(*(np.atleast_1d(known[name]) for name in asked.columns))
    return np.stack(picked, axis=1).astype(float)


def state_columns(states: States) -> dict[str, Floats]:
    """States as columns; what was not taken is not a number."""
    if isinstance(states, Mapping):
        for name in states.keys() - set(STATE):
            raise InputError(f"a state has no {brief(name)}", remedy=suggest(name, list(STATE)))
        return {name: np.asarray(states.get(name, np.nan if name in OPTIONAL else 0.0), float) for name in STATE}
    listed = [states] if isinstance(states, State) else states
    return {name: np.array([getattr(state, name) for state in listed], dtype=float) for name in STATE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """All workers that train at once, this one included, whatever their order."""

    workers: int
    batch_mean: float
    batch_max: float

    @classmethod
    def of(cls, batches: Sequence[int]) -> Company:
        """The company of workers with these batches."""
        return cls(workers=len(batches), batch_mean=sum(batches) / len(batches), batch_max=max(batches))


def _target(name: str, row: TrainingRow) -> float:
    if name == "compute":
        return row.compute_s
    return row.update_s if name == "update" else float(getattr(row.during, name))


def _data(
    asked: Function, X: Floats, y: Sequence[float], rows: Sequence[TrainingRow | AppRow], batches: Sequence[int]
) -> Data:
    signs = tuple(asked.signs.get(name, 0) for name in asked.columns)
    names = [f"{row.point}/{row.device}/{batch}" for row, batch in zip(rows, batches, strict=True)]
    return Data(
        columns=asked.columns,
        signs=signs,
        X=X,
        y=np.asarray(y, float),
        points=np.array([row.point for row in rows], np.int64),
        settings=np.unique(names, return_inverse=True)[1],
        floor=asked.floor,
        most=asked.most,
        physics=asked.physics,
    )
