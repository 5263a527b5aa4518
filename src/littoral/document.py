"""YAML read key by key, so that every complaint names file, line and remedy.

A ``Section`` is one mapping of the file. Its readers take a key, check it and mark it as read; ``close``
rejects what nobody read and suggests the nearest valid key. Nothing is built before everything is checked.
Files may come from strangers: tags that name code, alias bombs and bottomless nesting are refused first.
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from littoral.errors import InputError, brief

T = TypeVar("T")
_REQUIRED: Any = object()
_DEEPEST = 50  # levels of nesting; ours need 6
_MOST_REPEATED = 1_000_000  # values that aliases may add to those written
_SHOWN = 12  # names in a list of known ones
_TAGS = {f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "seq", "map", "timestamp")}
_NAME = re.compile(r"\w[\w.-]*")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values only; 1e-3 is a number, as YAML 1.2 and everybody else has it."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z"), list("-+.0123456789")
)


def suggest(word: str, known: list[str]) -> str:
    """A remedy naming the nearest known word, or all of them when none is near."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    names = sorted(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"known: {', '.join(names[:_SHOWN]) or 'none'}{more}"


def read_document(path: Path) -> Section:
    """The top mapping of a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError("there is no such file", file=path, remedy="check the path") from error
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", file=path, remedy="give a YAML file") from error
    except UnicodeDecodeError as error:
        raise InputError("not a text file", file=path, line=1, remedy="give a YAML file in UTF-8") from error
    return parse_document(text, path)


def parse_document(text: str, path: Path) -> Section:
    """The top mapping of YAML text; ``path`` is only for messages and relative files."""
    try:
        _refuse_depth(text, path)
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _syntax_error(error, path) from error
    if not isinstance(node, yaml.MappingNode):
        found = "the file is empty" if node is None else "no mapping here"
        raise InputError(found, file=path, line=1, remedy="write 'key: value' lines")
    sizes: dict[int, int] = {}
    if _inspect(node, path, sizes) - len(sizes) > _MOST_REPEATED:
        found = f"aliases repeat more than {_MOST_REPEATED} values"
        raise InputError(found, file=path, line=1, remedy="write out what is meant, without aliases")
    return Section(node, path, loader)


def _syntax_error(error: yaml.YAMLError, path: Path) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    remedy = "check the indentation, brackets and quotes on this line and the one before"
    return InputError(f"YAML syntax: {problem}", file=path, line=mark.line + 1 if mark else 1, remedy=remedy)


def _refuse_depth(text: str, path: Path) -> None:
    """Composing nodes recurses, in C without a limit; parsing events does not."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark else 1
                found = f"more than {_DEEPEST} levels of nesting"
                raise InputError(found, file=path, line=line, remedy="check the brackets and the indentation")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _inspect(node: yaml.Node, file: Path, sizes: dict[int, int]) -> int:
    """How many values a node unfolds to, once found plain: no odd tags or keys, no node inside itself."""

    def refuse(found: str, remedy: str, at: yaml.Node = node) -> InputError:
        return InputError(found, file=file, line=at.start_mark.line + 1, remedy=remedy)

    if id(node) in sizes:
        if sizes[id(node)] == 0:
            raise refuse("an alias stands inside what it repeats", "write out what is meant")
        return sizes[id(node)]
    sizes[id(node)] = 0
    if node.tag not in _TAGS:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise refuse(f"the tag {brief(tag)} is not accepted", "use plain text, numbers, lists and mappings only")
    children: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise refuse("a key is not text", "write 'key: value'; a name in braces needs quotes", key)
            if key.tag == "tag:yaml.org,2002:merge":
                raise refuse("'<<' is not understood here", "write the keys out", key)
            if key.value in seen:
                raise refuse(f"key {brief(key.value)} is given twice", "keep one of them", key)
            seen.add(key.value)
            children.append(child)
    sizes[id(node)] = 1 + sum(_inspect(child, file, sizes) for child in children)
    return sizes[id(node)]


class Section:
    """One YAML mapping with its place in the file."""

    def __init__(self, node: yaml.MappingNode, file: Path, loader: Any) -> None:
        self.file, self.line, self._loader = file, node.start_mark.line + 1, loader
        self._nodes: dict[str, yaml.Node] = {}
        self._lines: dict[str, int] = {}
        self._known: list[str] = []
        for key, value in node.value:
            self._nodes[key.value], self._lines[key.value] = value, key.start_mark.line + 1

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def keys(self) -> list[str]:
        """The keys as written, for mappings whose keys are free names."""
        return list(self._nodes)

    def line_of(self, key: str) -> int:
        """The line of a key, or of the section if the key is absent."""
        return self._lines.get(key, self.line)

    def error(self, found: str, *, key: str | None = None, remedy: str = "") -> InputError:
        """A complaint placed at this section, or at one of its keys."""
        line = self.line_of(key) if key else self.line
        return InputError(found, file=self.file, line=line, remedy=remedy)

    def missing(self, found: str, keys: list[str], remedy: str) -> InputError:
        """A complaint that none of ``keys`` is there, or about the misspelt one that is."""
        for name in self._nodes:
            near = difflib.get_close_matches(name, keys, n=1, cutoff=0.7)
            if near and name not in self._known:
                return self.error(f"unknown key {brief(name)}", key=name, remedy=f"did you mean {near[0]!r}?")
        return self.error(found, remedy=remedy)

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
            if error.line is not None:
                raise
            other = "" if error.file is None else f"{error.file}: "  # named here, and could not be read
            raise self.error(f"{key}: {other}{error.found}", key=key, remedy=error.remedy) from error

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """A string."""
        return self.read(key, _text, default)

    def name(self, key: str, default: Any = _REQUIRED) -> str:
        """What something is called: usable in patterns, file names and messages."""
        return self.read(key, _name, default)

    def texts(self, key: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A list of strings (a single string counts as a list of one)."""
        return self.read(key, _texts, default)

    def choice(self, key: str, options: list[str], default: Any = _REQUIRED) -> str:
        """One of the given words."""
        word = self.text(key, default)
        if word not in options:
            raise self.error(f"{key}: {brief(word)} is unknown", key=key, remedy=suggest(word, options))
        return word

    def number(self, key: str, default: Any = _REQUIRED, *, least: float = 0.0, most: float = math.inf) -> float:
        """A finite number between ``least`` and ``most``."""
        return self.read(key, lambda value: _number(value, least, most), default)

    def integer(self, key: str, default: Any = _REQUIRED, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A whole number between ``least`` and ``most``."""
        return self.read(key, lambda value: _integer(value, least, most), default)

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

    def only(self, known: list[str]) -> None:
        """Reject a key that is none of these, before its absence is mistaken for something else."""
        for key in self._nodes:
            if key not in known:
                raise self.error(f"unknown key {key!r}", key=key, remedy=suggest(key, known))

    def close(self) -> None:
        """Reject the first key that nobody read."""
        for key in self._nodes:
            if key not in self._known:
                raise self.error(f"unknown key {brief(key)}", key=key, remedy=suggest(key, self._known))

    def _take(self, key: str, default: Any) -> yaml.Node | None:
        if key not in self._known:
            self._known.append(key)
        node = self._nodes.get(key)
        if node is None and default is _REQUIRED:
            raise self.missing(f"key {key!r} is missing", [key], f"add '{key}: ...'")
        return node

    def _section(self, node: yaml.Node, key: str) -> Section:
        if not isinstance(node, yaml.MappingNode):
            line = node.start_mark.line + 1
            raise InputError(f"{key}: expected a mapping", file=self.file, line=line, remedy="write {name: value}")
        return Section(node, self.file, self._loader)

    def _plain(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_document(node)
        except (yaml.YAMLError, ValueError) as error:
            line = node.start_mark.line + 1
            raise InputError("not a plain value", file=self.file, line=line, remedy="use text, numbers, "
                             "lists and mappings only") from error  # fmt: skip


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        simple = isinstance(value, bool | int | float) or type(value).__name__ in ("date", "datetime")
        raise InputError(f"expected text, found {brief(value)}", remedy="put it in quotes" if simple else "give text")
    return value


def _name(value: Any) -> str:
    name = _text(value)
    if not _NAME.fullmatch(name):
        remedy = "use letters, digits, '-', '_' and '.', beginning with a letter or digit"
        raise InputError(f"{brief(name)} cannot be a name", remedy=remedy)
    if re.fullmatch(r"[\d_.]+(?:[eE]-?\d+)?", name):
        raise InputError(f"{brief(name)} reads as a number", remedy="add a letter")
    return name


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in (value if isinstance(value, list) else [value]))


def _number(value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"expected a number, found {brief(value)}", remedy="write a plain number")
    if not least <= value <= min(most, sys.float_info.max):
        bounds = f"at least {least:g}" if math.isinf(most) else f"between {least:g} and {most:g}"
        raise InputError(f"{brief(value)} is out of range", remedy=f"give a number {bounds}")
    return float(value)


def _integer(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"expected a whole number, found {brief(value)}", remedy=f"give at least {least}")
    if not least <= value <= most:
        remedy = f"give at least {least}" if value < least else f"give at most {most}"
        raise InputError(f"{brief(value)} is too {'small' if value < least else 'large'}", remedy=remedy)
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"expected true or false, found {brief(value)}", remedy="write true or false")
    return value


def _unsigned(number: float, value: object, positive: bool) -> float:
    if number < 0 or (positive and number == 0):
        remedy = "give more than zero" if positive else "give zero or more"
        raise InputError(f"{brief(value)} is {'negative' if number < 0 else 'zero'}", remedy=remedy)
    return number
