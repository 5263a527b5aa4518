"""A job's files as a manager takes them: traces spelled out, the continuum and the profile under names of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from littoral.continuum.write import continuum_document
from littoral.errors import InputError
from littoral.job import Job, job_document, load_job
from littoral.manager.calls import Submitted
from littoral.manager.jobs import RunOptions
from littoral.manager.profiles import FILES

if TYPE_CHECKING:
    from littoral.client import Client


def send(client: Client, file: Path, options: RunOptions) -> Submitted:
    """Keep what a job's file needs, and submit the job."""
    job = load_job(file)
    client.put_continuum(job.continuum.name, continuum_document(job.continuum))
    if job.profile is not None:
        client.put_profile(_profile_name(job), _profile_files(Path(job.profile)))
    return client.submit(document_of(job), options)


def document_of(job: Job) -> dict[str, Any]:
    """A job's document, with names in the place of files."""
    document = {**job_document(job), "continuum": job.continuum.name}
    folder = document["task"].get("folder")
    if isinstance(folder, str):
        document["task"] = {**document["task"], "folder": Path(folder).name}
    if job.profile is not None:
        document["profile"] = _profile_name(job)
    return document


def _profile_name(job: Job) -> str:
    return Path(job.profile or "").name


def _profile_files(folder: Path) -> dict[str, str]:
    found = {name: (folder / name).read_text(encoding="utf-8") for name in FILES if (folder / name).exists()}
    if not found:
        raise InputError("there is no profile", file=folder, remedy="make one with: littoral profile sweep")
    return found
