"""A model from the document of a form, with the checks and refusals of ``POST /models``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from littoral.document import suggest
from littoral.errors import InputError
from littoral.manager.manager import Manager
from littoral.manager.model_files import KEYS
from littoral.manager.model_records import Model
from littoral.manager.routes.models import ModelAsked, new_model

_ASKED = TypeAdapter(ModelAsked)


def make_model(manager: Manager, document: Mapping[str, Any], by: str) -> Model:
    """Keep a model without a version, and its store if it names none."""
    keep = new_model(manager, _asked(document), by)
    with manager.database.write() as connection:
        return keep(connection)


def _asked(document: Mapping[str, Any]) -> ModelAsked:
    for key in sorted(document.keys() - set(KEYS)):
        raise InputError(f"unknown key {key!r}", remedy=suggest(key, list(KEYS)), key=key)
    try:
        return _ASKED.validate_python(dict(document))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise InputError(f"{key}: {first['msg']}", remedy="see /openapi.json for what is expected", key=key) from error
