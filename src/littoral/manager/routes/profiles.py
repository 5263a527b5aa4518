"""``/profiles``: measurements that jobs name, uploaded as the text of their files."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.profiles import ProfileRecord
from littoral.manager.requests import STRICT, Name, Operator, Viewer, Wanted, resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFiles:
    """The text of ``training.csv``, ``apps.csv`` and, once fitted, ``choices.json``."""

    __pydantic_config__ = STRICT
    files: dict[str, str]


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("profiles", "/profiles")

    @routes.get("")
    def list_profiles(window: Wanted, by: Viewer) -> Page[ProfileRecord]:
        """All profiles, in outline."""
        return manager.profiles.listed(window)

    @routes.get("/{name}")
    def get_profile(name: Name, by: Viewer) -> ProfileRecord:
        """One profile, in outline."""
        return manager.profiles.get(name)

    @routes.get("/{name}/files")
    def get_profile_files(name: Name, by: Viewer) -> ProfileFiles:
        """The files of a profile."""
        return ProfileFiles(files=manager.profiles.files(name))

    @routes.put("/{name}")
    def put_profile(name: Name, body: ProfileFiles, by: Operator) -> ProfileRecord:
        """Keep a profile: what 'littoral profile sweep' and 'fit' have written."""
        summary = manager.profiles.check(body.files, manager.jobs.drafts)
        with manager.database.write() as connection:
            return manager.profiles.put(connection, name, body.files, summary)

    @routes.delete("/{name}", status_code=204)
    def delete_profile(name: Name, by: Operator) -> None:
        """Forget a profile; jobs that exist have copies."""
        with manager.database.write() as connection:
            manager.profiles.delete(connection, name)

    return routes
