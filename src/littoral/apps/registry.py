"""Real background apps, found by the ``run`` of their description.

``littoral.apps.sift`` names a module whose ``APP`` is the class, ``my_package.my_app:MyApp`` the class itself; an app
that says nothing keeps the processor busy for as long as its ``work`` says.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, cast

from littoral.continuum.app import App
from littoral.document import suggest
from littoral.errors import InputError

Address = tuple[str, int]  # host and port
BUILT_IN = ("littoral.apps.busy", "littoral.apps.inference", "littoral.apps.sift")
_METHODS = ("prepare", "work", "close")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an app is told. ``cores`` is how much of a core the device has; ``sink`` where results go, if anywhere."""

    app: App
    device: str
    seed: int = 0
    cores: float = 1.0
    sink: Address | None = None


class RealApp(Protocol):
    """Latency-critical work. All three are called in one thread, which is the app's own.

    A class with ``needs_sink = True`` is always given the address of a sink for its datagrams.
    """

    def __init__(self, setting: Setting) -> None: ...

    def prepare(self) -> None:
        """Load and warm up what ``work`` needs; not counted against any deadline."""
        ...

    def work(self) -> None:
        """One period's work, until its result has left."""
        ...

    def close(self) -> None:
        """Give back what ``prepare`` took; also called when that failed half-way."""
        ...


def find_app(run: str) -> type[RealApp]:
    """The class that a description's ``run`` names; raises InputError unless it is one."""
    spec = run or "littoral.apps.busy"
    module_name, _, attribute = spec.partition(":")
    kind = getattr(_import(spec, module_name), attribute or "APP", None)
    missing = [method for method in _METHODS if not callable(getattr(kind, method, None))]
    if not isinstance(kind, type) or missing:
        found = f"lacks {', '.join(missing)}" if isinstance(kind, type) else "is not a class"
        raise InputError(
            f"app {spec}: {attribute or 'APP'} of {module_name} {found}",
            remedy="name a class with the members of littoral.apps.registry.RealApp",
        )
    return cast(type[RealApp], kind)


def _import(spec: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(
                f"app {spec}: there is no module {error.name}",
                remedy=f"{suggest(module_name, list(BUILT_IN))} A module of yours must be on PYTHONPATH",
            ) from error
        raise InputError(f"app {spec} needs {error.name}, which is not installed", remedy="install it") from error
    except (ImportError, SyntaxError, TypeError, ValueError) as error:
        raise InputError(
            f"app {spec}: importing {module_name} failed: {error}", remedy="correct the module, or name another"
        ) from error
