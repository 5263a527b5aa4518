"""``/tokens``: make, list and revoke. A secret is told once and kept nowhere, so no idempotency key helps here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from littoral.manager.manager import Manager
from littoral.manager.paging import Page
from littoral.manager.refusals import Conflict
from littoral.manager.requests import STRICT, Name, Operator, Wanted, resource
from littoral.manager.tokens import NAME, NewToken, Role, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAsked:
    """A token to make; ``lasts_s`` in seconds, null: for good."""

    __pydantic_config__ = STRICT
    name: Annotated[str, Field(pattern=NAME)]
    role: Role
    lasts_s: Annotated[float | None, Field(gt=0, le=1e10, allow_inf_nan=False, strict=True)] = None


def router(manager: Manager) -> APIRouter:
    """The routes."""
    routes = resource("tokens", "/tokens")

    @routes.get("")
    def list_tokens(window: Wanted, by: Operator) -> Page[Token]:
        """All tokens, without their secrets."""
        return manager.tokens.listed(window)

    @routes.post("", status_code=201)
    def create_token(asked: TokenAsked, by: Operator) -> NewToken:
        """A new token. Its secret is in this answer and nowhere else."""
        with manager.database.write() as connection:
            made = manager.tokens.create(connection, asked.name, asked.role, asked.lasts_s)
            manager.events.append(
                connection, "token.created", f"tokens/{asked.name}", {"role": asked.role, "by": by.name}
            )
        return made

    @routes.delete("/{name}")
    def revoke_token(name: Name, by: Operator) -> Token:
        """Let a token open nothing from now on; not the one that asks, lest nobody be left who can."""
        if name == by.name:
            raise Conflict(f"{name!r} is the token you use", remedy="revoke it with another operator's")
        with manager.database.write() as connection:
            revoked = manager.tokens.revoke(connection, name)
            manager.events.append(connection, "token.revoked", f"tokens/{name}", {"by": by.name})
        return revoked

    return routes
