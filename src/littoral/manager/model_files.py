"""Models and samples in files, as the command line takes them.

A model's file is the document of ``POST /models`` in YAML; its ``training.job.continuum`` may be a continuum's file,
which is sent along. Samples are NumPy's ``.npz`` with ``inputs`` and, as far as known, ``actual``, ``predicted``,
``ids``, ``versions`` and ``times``; a ``.npy`` holds inputs alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import yaml
from numpy.typing import NDArray

from littoral.continuum.load import load_continuum
from littoral.continuum.write import continuum_document
from littoral.document import read_document, suggest
from littoral.errors import InputError
from littoral.manager.model_calls import Known

if TYPE_CHECKING:
    from littoral.client import Client
    from littoral.manager.model_records import Model

COLUMNS = ("actual", "predicted", "ids", "versions", "times")
KEYS = ("name", "task", "store", "input", "retention", "gate", "training")
AT_ONCE = 1_000  # samples in a request


def send_model(client: Client, file: Path) -> Model:
    """Keep the model that a file describes, and its continuum if that is a file too."""
    read_document(file)  # for its complaints, which name the line
    document: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    for key in document.keys() - set(KEYS):
        raise InputError(f"unknown key {key!r}", file=file, remedy=suggest(str(key), list(KEYS)), key=str(key))
    training = document.get("training")
    job = training.get("job") if isinstance(training, dict) else None
    named = job.get("continuum") if isinstance(job, dict) else None
    if isinstance(job, dict) and isinstance(named, str) and Path(named).suffix in (".yaml", ".yml"):
        continuum = load_continuum(file.parent / named)
        client.put_continuum(continuum.name, continuum_document(continuum))
        job["continuum"] = continuum.name
    return client.create_model(document)


def read_samples(file: Path) -> tuple[NDArray[Any], Known]:
    """Inputs and what is known of them."""
    found = _arrays(file)
    if "inputs" not in found:
        raise InputError("there is no array 'inputs'", file=file, remedy=f"it has: {', '.join(found) or 'nothing'}")
    for name in found.keys() - {"inputs", *COLUMNS}:
        raise InputError(f"unknown array {name!r}", file=file, remedy=suggest(name, ["inputs", *COLUMNS]))
    columns = {name: found[name].tolist() for name in COLUMNS if name in found}
    for name, values in columns.items():
        if not isinstance(values, list) or len(values) != len(found["inputs"]):
            raise InputError(f"{name!r} is not as long as 'inputs'", file=file, remedy="give one for each input")
    return found["inputs"], Known(**columns)


def part(known: Known, start: int, stop: int) -> dict[str, Any]:
    """What is known of some of the samples, for ``Client.ingest``."""
    return {name: values[start:stop] for name in COLUMNS if len(values := getattr(known, name))}


def _arrays(file: Path) -> dict[str, NDArray[Any]]:
    try:
        with file.open("rb") as opened:  # NumPy leaves what it opened itself open where it fails
            content = np.load(opened, allow_pickle=False)
            return {"inputs": content} if isinstance(content, np.ndarray) else dict(content)
    except FileNotFoundError as error:
        raise InputError("there is no such file", file=file, remedy="check the path") from error
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"not NumPy's file: {error}", file=file, remedy="write it with numpy.savez") from error
