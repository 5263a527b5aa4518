"""YAML read key by key, so that every complaint names file, line and remedy.

A ``Section`` is one mapping of the file. Its readers take a key, check it and mark it as read; ``close`` rejects
what nobody read and suggests the nearest valid key. Nothing is built before everything has been checked.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from littoral.errors import InputError

T = TypeVar("T")
_REQUIRED: Any = object()
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def suggest(word: str, known: list[str]) -> str:
    """A remedy naming the nearest known word, or all of them when none is near."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def read_document(path: Path) -> Section:
    """The top mapping of a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        remedy = "check the path" if not path.exists() else "give a readable YAML file"
        raise InputError(f"cannot read it: {error.strerror}", file=path, remedy=remedy) from error
    except UnicodeDecodeError as error:
        raise InputError("not a text file", file=path, remedy="give a YAML file in UTF-8") from error
    return parse_document(text, path)


def parse_document(text: str, path: Path) -> Section:
    """The top mapping of YAML text; ``path`` is only for messages and relative files."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise InputError("no mapping here", file=path, line=1, remedy="write 'key: value' lines")
        return Section(node, path, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = mark.line + 1 if mark else None
        raise InputError(f"YAML syntax: {problem}", file=path, line=line, remedy="check the indentation, "
                         "brackets and quotes on this line and the one before") from error  # fmt: skip
    finally:
        loader.dispose()


class Section:
    """One YAML mapping with its place in the file."""

    def __init__(self, node: yaml.MappingNode, file: Path, loader: Any) -> None:
        self.file, self.line, self._loader = file, node.start_mark.line + 1, loader
        self._nodes: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        self._known: list[str] = []
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in self._nodes:
                raise InputError(f"key {name!r} is given twice", file=file, line=line, remedy="keep one of them")
            self._nodes[name], self._lines[name] = value, line

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def keys(self) -> list[str]:
        """The keys as written, for mappings whose keys are free names."""
        return list(self._nodes)

    def error(self, found: str, *, key: str | None = None, remedy: str = "") -> InputError:
        """A complaint placed at this section, or at one of its keys."""
        line = self._lines.get(key, self.line) if key else self.line
        return InputError(found, file=self.file, line=line, remedy=remedy)

    def value(self, key: str, default: Any = _REQUIRED) -> Any:
        """The plain Python value of a key."""
        node = self._take(key, default)
        return default if node is None else self._plain(node)

    def read(self, key: str, parser: Callable[[Any], T], default: Any = _REQUIRED) -> T:
        """The value of a key through ``parser``; its complaints get their place."""
        node = self._take(key, default)
        if node is None:
            return default  # type: ignore[no-any-return]
        try:
            return parser(self._plain(node))
        except InputError as error:
            text = InputError(f"{key}: {error.found}", remedy=error.remedy) if error.file is None else error
            raise text.at(self.file, self._lines[key]) from error

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """A string."""
        return self.read(key, _text, default)

    def texts(self, key: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A list of strings (a single string counts as a list of one)."""
        return self.read(key, _texts, default)

    def choice(self, key: str, options: list[str], default: Any = _REQUIRED) -> str:
        """One of the given words."""
        word = self.text(key, default)
        if word not in options:
            raise self.error(f"{key}: {word!r} is not one of them", key=key, remedy=suggest(word, options))
        return word

    def number(self, key: str, default: Any = _REQUIRED, *, least: float = 0.0, most: float = math.inf) -> float:
        """A finite number between ``least`` and ``most``."""
        return self.read(key, lambda value: _number(value, least, most), default)

    def integer(self, key: str, default: Any = _REQUIRED, *, least: int = 0) -> int:
        """A whole number, at least ``least``."""
        return self.read(key, lambda value: _integer(value, least), default)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """true or false."""
        return self.read(key, _flag, default)

    def quantity(
        self, key: str, parser: Callable[[object], float], default: Any = _REQUIRED, *, positive: bool = False
    ) -> float:
        """A quantity with a unit, never negative; above zero if ``positive``."""
        return self.read(key, lambda value: _unsigned(parser(value), value, positive), default)

    def section(self, key: str) -> Section | None:
        """A nested mapping, or None if the key is absent."""
        node = self._take(key, None)
        if node is None:
            return None
        return self._section(node, key)

    def sections(self, key: str) -> Iterator[Section]:
        """The mappings of a list; an absent key is an empty list."""
        node = self._take(key, None)
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(f"{key}: expected a list", key=key, remedy="start each entry with '- '")
        for item in node.value:
            yield self._section(item, key)

    def is_mapping(self, key: str) -> bool:
        """Whether the key holds a nested mapping."""
        return isinstance(self._nodes.get(key), yaml.MappingNode)

    def close(self) -> None:
        """Reject the first key that nobody read."""
        for key in self._nodes:
            if key not in self._known:
                raise self.error(f"unknown key {key!r}", key=key, remedy=suggest(key, self._known))

    def _take(self, key: str, default: Any) -> yaml.Node | None:
        if key not in self._known:
            self._known.append(key)
        node = self._nodes.get(key)
        if node is None and default is _REQUIRED:
            known = [name for name in self._nodes if name not in self._known]
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            remedy = f"rename {near[0]!r}?" if near else f"add '{key}: ...'"
            raise self.error(f"key {key!r} is missing", key=near[0] if near else None, remedy=remedy)
        return node

    def _section(self, node: yaml.Node, key: str) -> Section:
        if not isinstance(node, yaml.MappingNode):
            line = node.start_mark.line + 1
            raise InputError(f"{key}: expected a mapping", file=self.file, line=line, remedy="write {key: value}")
        return Section(node, self.file, self._loader)

    def _plain(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_document(node)
        except (yaml.YAMLError, ValueError) as error:
            line = node.start_mark.line + 1
            raise InputError("not a plain value", file=self.file, line=line, remedy="use text, numbers, "
                             "lists and mappings only") from error  # fmt: skip


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"expected text, found {value!r}", remedy="put it in quotes")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in (value if isinstance(value, list) else [value]))


def _number(value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"expected a finite number, found {value!r}", remedy="write a plain number")
    if not least <= value <= most:
        bounds = f"at least {least:g}" if math.isinf(most) else f"between {least:g} and {most:g}"
        raise InputError(f"{value!r} is out of range", remedy=f"give a number {bounds}")
    return float(value)


def _integer(value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"expected a whole number, found {value!r}", remedy=f"give at least {least}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"expected true or false, found {value!r}", remedy="write true or false")
    return value


def _unsigned(number: float, value: object, positive: bool) -> float:
    if number < 0 or (positive and number == 0):
        remedy = "give more than zero" if positive else "give zero or more"
        raise InputError(f"{value!r} is {'negative' if number < 0 else 'zero'}", remedy=remedy)
    return number
