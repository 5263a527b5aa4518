"""Tokens: who may do what. A secret is shown once, on the page that made it, and kept nowhere."""

from __future__ import annotations

from html import escape

from littoral import units
from littoral.errors import InputError
from littoral.manager.page.pieces import ago, badge, button, heading, section, table
from littoral.manager.page.view import Fields, Said, View, Visit
from littoral.manager.paging import LARGEST, Window
from littoral.manager.tokens import Role, Token

_ROLES = {
    Role.VIEWER: "sees everything",
    Role.INGEST: "sends samples, asks for predictions",
    Role.OPERATOR: "may do all",
}


def show(visit: Visit) -> str:
    """All of them, and a form for one more."""
    found = visit.manager.tokens.listed(Window(limit=LARGEST)).items
    rows = (_row(visit, token) for token in sorted(found, key=lambda token: (token.revoked is not None, token.name)))
    listed = table("Tokens", ["name", "role", "state", "made", "expires", ""], rows)
    return heading("Tokens") + _secret(visit) + section("New token", _form()) + section("All tokens", listed)


def _secret(visit: Visit) -> str:
    secret = visit.kept.get("secret")
    if secret is None:
        return ""
    return (
        '<div class="said" role="status"><p>Copy it now: it is shown this once.</p>'
        f'<pre tabindex="0" id="secret"><code>{escape(secret)}</code></pre>{button("I have it", "hide")}</div>'
    )


def _row(visit: Visit, token: Token) -> list[str]:
    revoke = ""
    if token.revoked is None and token.id != visit.token.id:
        ask = f"Revoke {token.name}? It opens nothing from then on."
        revoke = button("Revoke", "revoke", ask=ask, label=f"Revoke {token.name}", token=token.name)
    elif token.id == visit.token.id:
        revoke = '<span class="soft">yours</span>'
    expires = "never" if token.expires is None else ago(token.expires, visit.now)
    return [escape(token.name), token.role, _state(visit, token), ago(token.created, visit.now), expires, revoke]


def _state(visit: Visit, token: Token) -> str:
    if token.revoked is not None:
        return badge("revoked", "failed")
    return badge("expired", "stopped") if token.expires and token.expires < visit.now else badge("valid", "finished")


def _form() -> str:
    roles = "".join(f'<option value="{role}">{role}: {what}</option>' for role, what in _ROLES.items())
    return (
        '<form data-act="create" class="row"><div><label for="name">Name</label>'
        '<input id="name" name="name" required maxlength="100" autocomplete="off"></div>'
        f'<div><label for="role">Role</label><select id="role" name="role">{roles}</select></div>'
        '<div><label for="lasts">Lasts</label><input id="lasts" name="lasts" placeholder="for good, or 12 h" '
        'autocomplete="off"></div><button class="main">Make it</button></form>'
    )


# -- acts -------------------------------------------------------------------------------------------------------------


def create(visit: Visit, fields: Fields) -> Said:
    """A new one; its secret is kept by this visit only, until it is hidden or left."""
    role, lasts, name = fields.get("role", ""), fields.get("lasts", "").strip(), fields.get("name", "")
    if role not in list(Role):
        raise InputError(f"unknown role {role[:40]!r}", remedy=f"choose one of {', '.join(Role)}")
    lasts_s = units.duration(lasts) if lasts else None
    with visit.manager.database.write() as connection:
        made = visit.manager.tokens.create(connection, name, Role(role), lasts_s)
        told = {"role": role, "by": visit.token.name}
        visit.manager.events.append(connection, "token.created", f"tokens/{name}", told)
    visit.kept["secret"] = made.secret
    return Said(f"Token {name} is made.")


def hide(visit: Visit, fields: Fields) -> Said:
    """The secret was copied."""
    visit.kept.pop("secret", None)
    return Said("")


def revoke(visit: Visit, fields: Fields) -> Said:
    """From now on it opens nothing."""
    name = fields.get("token", "")[:200]
    with visit.manager.database.write() as connection:
        visit.manager.tokens.revoke(connection, name)
        visit.manager.events.append(connection, "token.revoked", f"tokens/{name}", {"by": visit.token.name})
    return Said(f"Token {name} is revoked.")


VIEW = View(
    path="/tokens", title="Tokens", show=show, acts={"create": create, "hide": hide, "revoke": revoke},
    operators=True, under="tokens", every_s=3.0,
)  # fmt: skip
