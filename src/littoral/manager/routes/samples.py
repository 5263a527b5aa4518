"""``/stores/{name}/samples``: samples arrive, with what was predicted, and what was true as soon as it is known."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from littoral.manager.manager import Manager
from littoral.manager.paging import Page, page
from littoral.manager.parcels import BINARY, named, read_samples
from littoral.manager.problems import told_as
from littoral.manager.requests import STRICT, Ingest, Name, Once, Viewer, Wanted, resource
from littoral.manager.sample_rows import LARGEST_BATCH
from littoral.manager.samples import Added

_BUSY = told_as(503, "More arrives than the disk takes; come back after Retry-After seconds")
_ON_THE_LOOP = 65_536  # bytes of a body that are read without leaving the event loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What was true of a sample."""

    __pydantic_config__ = STRICT
    id: Annotated[str, Field(max_length=100)]
    actual: Annotated[int, Field(ge=0, lt=2**31, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Truths that arrived later."""

    __pydantic_config__ = STRICT
    labels: Annotated[list[Label], Field(min_length=1, max_length=LARGEST_BATCH)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """``unknown`` are ids that the store does not have, or no longer."""

    labelled: int
    unknown: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A sample without its input."""

    number: int
    id: str
    at: float
    predicted: int | None
    actual: int | None
    version: int | None
    held_out: bool


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("stores", "/stores")
    samples, stores = manager.life.samples, manager.life.stores

    @routes.get("/{name}/samples")
    def list_samples(name: Name, window: Wanted, by: Viewer) -> Page[SampleRecord]:
        """The samples that are kept, the oldest first, without their inputs."""
        rows = samples.listed(name, window.after_number, window.limit + 1)
        return page(rows, window, lambda row: row["number"], lambda row: SampleRecord(**row))

    @routes.post(
        "/{name}/samples", status_code=201, response_model=Added, responses=_BUSY,
        openapi_extra={"requestBody": _SAMPLES},
    )  # fmt: skip
    async def add_samples(name: Name, request: Request, by: Ingest, asked: Once) -> Any:
        """Keep samples; they are on the disk when this answers. An id that is there already is accepted once."""
        body, binary = await request.body(), is_binary(request)

        def submit() -> Any:
            batch = read_samples(stores.get(name).kind, body, binary)
            if asked.key is not None:
                batch = named(batch, f"{asked.owner} {asked.key} {asked.digest}")
            return samples.submit(name, batch)

        future = submit() if len(body) <= _ON_THE_LOOP else await run_in_threadpool(submit)
        return asdict(await asyncio.wrap_future(future))

    @routes.patch("/{name}/samples", responses=_BUSY)
    async def label_samples(name: Name, body: Labels, by: Ingest) -> Labelled:
        """Tell what was true of samples that were sent before; a second time corrects the first."""
        future = samples.label(name, [(label.id, label.actual) for label in body.labels])
        unknown = await asyncio.wrap_future(future)
        return Labelled(labelled=len(body.labels) - len(unknown), unknown=unknown)

    return routes


def is_binary(request: Request) -> bool:
    """Whether a body is raw bytes."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == BINARY


INPUT: dict[str, Any] = {
    "description": "Nested lists of numbers, or base64 of the bytes (little-endian).",
    "anyOf": [{"type": "array", "items": {}}, {"type": "string"}],
}
ANNOUNCED: dict[str, Any] = {
    "dtype": {"anyOf": [{"type": "string", "maxLength": 20}, {"type": "null"}], "description": "Of the bytes."},
    "shape": {
        "anyOf": [{"type": "array", "items": {"type": "integer"}, "maxItems": 8}, {"type": "null"}],
        "description": "Of one input.",
    },
}
_WHOLE = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, {"type": "null"}]}
_SAMPLE = {
    "type": "object",
    "properties": {
        "input": INPUT,
        "id": {"anyOf": [{"type": "string", "pattern": "^[!-~]{1,100}$"}, {"type": "null"}]},
        "predicted": _WHOLE,
        "actual": _WHOLE,
        "version": _WHOLE,
        "at": {"anyOf": [{"type": "number", "description": "Seconds since 1970."}, {"type": "null"}]},
    },
    "required": ["input"],
    "additionalProperties": False,
}
_SAMPLES = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "samples": {"type": "array", "items": _SAMPLE, "minItems": 1, "maxItems": LARGEST_BATCH}
                },
                "required": ["samples"],
                "additionalProperties": False,
            }
        },
        BINARY: {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "The length of the head in 4 bytes, little-endian; the head as JSON, with dtype "
                "and shape of an input and lists ids, predicted, actual, versions, times, each optional; then the "
                "inputs.",
            }
        },
    },
}
