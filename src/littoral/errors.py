"""The exceptions of Littoral, one tree.

LittoralError                 anything Littoral raises on purpose; carries an exit code
├── InputError                a file or option the user gave is wrong (exit 2): file, line, remedy
├── MissingExtra              an optional dependency is needed and absent (exit 2): its install line
├── Infeasible                no plan can keep a constraint (exit 3): the binding one is named
└── RunFailed                 a run ended without finishing its work (exit 4): the reason

A lost node, a late transfer or a full mailbox is an *event*, not an exception: the supervisor decides.
"""

from __future__ import annotations

import reprlib
from pathlib import Path

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60
_REPR.maxlevel = 2  # of lists within lists


def brief(value: object) -> str:
    """A value as messages show it: never long, however large the value.

    >>> brief("20 Mbit/s")
    "'20 Mbit/s'"
    """
    try:
        return _REPR.repr(value)
    except ValueError:  # Python refuses to write whole numbers of thousands of digits
        return "a huge number"


class LittoralError(Exception):
    """Base of everything Littoral raises on purpose."""

    exit_code = 1

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes whatever their constructors ask for."""
        return _revived, (type(self), self.args, self.__dict__)


def _revived(kind: type[LittoralError], args: tuple[object, ...], state: dict[str, object]) -> LittoralError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(LittoralError):
    """What the user wrote is wrong; says where, what was found, and what to do.

    >>> str(InputError("unknown key 'bandwith'", file="c.yaml", line=7, remedy="did you mean 'bandwidth'?"))
    "c.yaml:7: unknown key 'bandwith'; did you mean 'bandwidth'?"
    """

    exit_code = 2

    def __init__(
        self,
        found: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        remedy: str = "",
        key: str | None = None,  # the key of the job file to blame, where the place is not known yet
    ) -> None:
        self.found, self.file, self.line, self.remedy, self.key = found, file, line, remedy, key
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        text = f"{place}{found}" + (f"; {remedy}" if remedy else "")
        super().__init__(" ".join(text.splitlines()))

    def at(self, file: str | Path, line: int | None = None) -> InputError:
        """The same complaint, placed in a file (what already has a place keeps it)."""
        if self.file is not None:
            return self
        return InputError(self.found, file=file, line=line, remedy=self.remedy)


class MissingExtra(LittoralError):
    """An optional dependency is needed for what was asked."""

    exit_code = 2

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        remedy = f"install it with: pip install 'littoral[{extra}]'"
        super().__init__(f"{purpose} needs {package}, which is not installed; {remedy}")


class Infeasible(LittoralError):
    """No plan keeps every constraint; the message names the one that binds."""

    exit_code = 3


class RunFailed(LittoralError):
    """A run ended before its work was done."""

    exit_code = 4
