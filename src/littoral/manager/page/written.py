"""YAML that somebody wrote into a form: as plain values, and the line to blame when something is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from littoral.document import parse_document
from littoral.errors import InputError, LittoralError

FILE = Path("text")


class _Loader(yaml.SafeLoader):
    """Keys are text, whatever they look like ('on' is no truth value here); 1e-3 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # type: ignore[override]
        return {str(key.value): self.construct_object(value, deep=True) for key, value in node.value}


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z"), list("-+.0123456789")
)


def plain(text: str) -> dict[str, Any]:
    """A mapping as plain values; what is odd is refused as it is in files."""
    parse_document(text, FILE)
    loader = _Loader(text)
    try:
        found: dict[str, Any] = loader.construct_document(loader.get_single_node())
    except (yaml.YAMLError, ValueError) as error:
        remedy = "use text, numbers, lists and mappings only"
        raise InputError("not a plain value", file=FILE, line=1, remedy=remedy) from error
    finally:
        loader.dispose()
    return found


def line_of(error: LittoralError, text: str) -> int | None:
    """The line to blame: the error's own if it is about this text, or that of the key or word that it names.

    >>> line_of(InputError("unknown key 'epoch'"), "name: a\\ntarget: {epoch: 3}")
    2
    """
    if not isinstance(error, InputError):
        return None
    if error.line is not None and error.file == FILE:
        return error.line
    words = re.findall(r"'([^']+)'", error.found)
    words += [error.key] if error.key else []
    return next((line for word in words for line in _lines_with(word, text)), None)


def _lines_with(word: str, text: str) -> list[int]:
    pattern = re.compile(rf"(^|[\s{{,\[\"']){re.escape(word)}($|[\s:,}}\]\"'])")
    return [number for number, line in enumerate(text.splitlines(), start=1) if pattern.search(line)]


def excerpt(text: str, line: int) -> str:
    """The line and its neighbours, numbered."""
    first = max(0, line - 2)
    shown = enumerate(text.splitlines()[first : line + 1], start=first + 1)
    return "\n".join(f"{'>' if number == line else ' '} {number:>3}  {row}" for number, row in shown)
