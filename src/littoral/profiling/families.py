"""Model families for a few hundred rows, each with the settings worth trying.

All learn positive values and care for relative errors: the physical family by its weights, the others by learning
logarithms. Columns of known sign are obeyed by every family, each by its own means or through a lattice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from littoral.errors import MissingExtra
from littoral.profiling.lattice import LARGEST, Ordered, Regressor
from littoral.profiling.regressors import Corrected, Logarithmic, Nearest, Silent
from littoral.profiling.shapes import Physical, coordinates

Settings = Mapping[str, float]
_PROCESS_ROWS = 600  # a Gaussian process on more takes too long
_LENGTHS_ROWS = 120  # that its length scales are sought with


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One way to learn; ``space`` lists the values of each setting, ``obeys`` whether it keeps signs by itself."""

    build: Callable[[Sequence[str], Sequence[int], Settings, int], Regressor]
    space: Mapping[str, tuple[float, ...]]
    obeys: bool = True


def build(name: str, columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Regressor:
    """An unfitted model of a family, monotone in the columns of known sign."""
    try:
        import lightgbm  # noqa: F401
        import scipy  # noqa: F401
        import sklearn  # noqa: F401
    except ModuleNotFoundError as error:
        package = {"sklearn": "scikit-learn"}.get(error.name or "", error.name or "a package")
        raise MissingExtra(package, "profile", "learning from a profile") from error
    return FAMILIES[name].build(columns, signs, settings, seed)


def offered(signs: Sequence[int]) -> list[str]:
    """The families that can keep these signs of so many columns."""
    free = not any(signs) or len(signs) <= LARGEST
    return [name for name, family in FAMILIES.items() if free or family.obeys]


def _physical(columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Physical:
    return Physical(columns, signs, degree=int(settings["degree"]), ridge=settings["ridge"])


def _boosting(columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Logarithmic:
    from lightgbm import LGBMRegressor

    constraints: dict[str, Any] = {"monotone_constraints": list(signs), "monotone_constraints_method": "advanced"}
    return Logarithmic(
        Silent(
            LGBMRegressor(
                n_estimators=int(settings["trees"]),
                learning_rate=settings["rate"],
                num_leaves=int(settings["leaves"]),
                min_child_samples=int(settings["least"]),
                random_state=seed,
                n_jobs=1,
                verbose=-1,
                deterministic=True,
                force_row_wise=True,
                **(constraints if any(signs) else {}),
            )
        )
    )


def _corrected(columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Corrected:
    return Corrected(_physical(columns, signs, settings, seed), _boosting(columns, signs, settings, seed))


def _forest(columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Logarithmic:
    """Through the lattice: scikit-learn's own constraints triple the error of forests of so few rows."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    kind = ExtraTreesRegressor if settings["extra"] else RandomForestRegressor
    inner = kind(
        n_estimators=60,
        min_samples_leaf=int(settings["least"]),
        max_features=settings["columns"],
        random_state=seed,
    )
    return Logarithmic(_kept(inner, signs), lambda X: coordinates(columns, X))


def _neighbours(columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Logarithmic:
    inner = Nearest(int(settings["count"]))
    return Logarithmic(_kept(inner, signs), lambda X: coordinates(columns, X))


def _process(columns: Sequence[str], signs: Sequence[int], settings: Settings, seed: int) -> Logarithmic:
    from littoral.profiling.process import Process

    inner = Process(smoothness=settings["smoothness"], trend=bool(settings.get("trend")), search_rows=_LENGTHS_ROWS)
    return Logarithmic(_kept(inner, signs), lambda X: coordinates(columns, X), _PROCESS_ROWS)


def _kept(inner: Regressor, signs: Sequence[int]) -> Regressor:
    """Coordinates rise with their columns, so that signs hold for both."""
    return Ordered(inner, signs) if any(signs) else inner


_TREES: Mapping[str, tuple[float, ...]] = {
    "trees": (80, 150, 300),
    "rate": (0.05, 0.1, 0.2),
    "leaves": (4, 8, 16),
    "least": (3, 6, 12),
}
_SHAPES: Mapping[str, tuple[float, ...]] = {"degree": (1, 2, 3), "ridge": (1e-6, 1e-4, 1e-2)}
FAMILIES: dict[str, Family] = {
    "physical": Family(build=_physical, space=_SHAPES),
    "boosting": Family(build=_boosting, space=_TREES),
    "corrected": Family(
        build=_corrected,
        space={"degree": (2, 3), "ridge": (1e-4, 1e-2), "trees": (30, 80), "rate": (0.05, 0.1), "leaves": (4,),
               "least": (6, 12, 24)},
    ),
    "process": Family(build=_process, space={"smoothness": (1.5, 2.5), "trend": (0, 1)}, obeys=False),
    "forest": Family(build=_forest, space={"extra": (0, 1), "least": (1, 2, 4), "columns": (0.6, 1.0)}, obeys=False),
    "neighbours": Family(build=_neighbours, space={"count": (3, 5, 9)}, obeys=False),
}  # fmt: skip
