"""Submit a job: its YAML is checked, planned if one likes, and run. What is wrong is shown at its line."""

from __future__ import annotations

from html import escape

from littoral.errors import InputError, LittoralError
from littoral.manager.documents import Given
from littoral.manager.jobs import RunOptions
from littoral.manager.page.frame import refusal
from littoral.manager.page.pieces import empty, heading, section
from littoral.manager.page.view import Fields, Said, View, Visit
from littoral.manager.page.written import excerpt, line_of, plain
from littoral.manager.paging import LARGEST, Window
from littoral.manager.planning import Wish

_WORLDS = {"processes": "real processes on this machine", "simulated": "virtual time", "ray": "a Ray cluster"}


def show(visit: Visit) -> str:
    """The form, and what was wrong with what it had."""
    names = [found.name for found in visit.manager.continuums.listed(Window(limit=LARGEST)).items]
    if not names:
        todo = empty("A job names a continuum, and there is none. Add one under Devices first.")
        return heading("Submit a job") + section("The job", todo)
    return heading("Submit a job", note="Plan first to see what it should take, or run it at once.") + section(
        "The job", _form(visit, names)
    )


def _form(visit: Visit, names: list[str]) -> str:
    wrong: LittoralError | None = visit.kept.get("wrong")
    line = f' data-line="{visit.kept.get("line") or 1}" aria-invalid="true" aria-describedby="wrong"' if wrong else ""
    worlds = "".join(f'<option value="{world}">{world}: {what}</option>' for world, what in _WORLDS.items())
    return (
        f'<form data-act="run" class="stack">{_complaint(visit, wrong)}'
        f'<label for="document">YAML</label><textarea id="document" name="document" rows="18" spellcheck="false" '
        f'required maxlength="300000"{line}>{escape(_example(names[0]))}</textarea>'
        '<label for="file">or take it from a file</label>'
        '<input id="file" type="file" accept=".yaml,.yml,.json" data-into="document">'
        f'<div class="row"><div><label for="world">Where to run</label>'
        f'<select id="world" name="world">{worlds}</select></div>'
        '<div><label for="seed">Seed</label><input id="seed" name="seed" inputmode="numeric" pattern="[0-9]*" '
        'placeholder="the job\'s"></div></div>'
        '<div class="actions"><button type="button" data-act="plan">Plan first</button>'
        '<button type="button" data-act="front">Plans between quick, cheap and fair</button>'
        '<button class="main">Run</button></div></form>'
    )


def _complaint(visit: Visit, wrong: LittoralError | None) -> str:
    if wrong is None:
        return ""
    line = visit.kept.get("line")
    place = f"Line {line}: " if line else ""
    shown = f"<pre><code>{escape(visit.kept['excerpt'])}</code></pre>" if visit.kept.get("excerpt") else ""
    return f'<div class="said bad" role="alert" id="wrong">{place}{escape(refusal(wrong))}{shown}</div>'


def _example(continuum: str) -> str:
    return (
        f"name: digits\ncontinuum: {continuum}\ntask: littoral.tasks.digits\ntarget:\n  epochs: 10\n"
        "strategy: auto\nplanner: auto\n"
    )


# -- acts -------------------------------------------------------------------------------------------------------------


def run(visit: Visit, fields: Fields) -> Said:
    """Keep the job and queue its run."""
    manager = visit.manager
    given, options = _given(visit, fields), _options(fields)
    if given is None:
        return Said("")
    with manager.database.write() as connection:
        _, made = manager.jobs.submit(connection, given, options)
    manager.launcher.wake()
    return Said("", go=f"/runs/{made.number}")


def plan(visit: Visit, fields: Fields) -> Said:
    """One plan, tried in virtual time."""
    return _plan(visit, fields, Wish(simulate=True))


def front(visit: Visit, fields: Fields) -> Said:
    """All plans worth a thought."""
    return _plan(visit, fields, Wish(pareto=True))


def _plan(visit: Visit, fields: Fields, wish: Wish) -> Said:
    given = _given(visit, fields)
    if given is None:
        return Said("")
    try:
        made = visit.manager.plans.make(given, wish)
    except LittoralError as error:
        _blame(visit, error, fields.get("document", ""))
        return Said("")
    with visit.manager.database.write() as connection:
        kept = visit.manager.plans.keep(connection, given, made)
    one = f"/plans/{kept[0].number}"
    return Said("", go=f"{one}/to/{kept[-1].number}" if len(kept) > 1 else one)


def _given(visit: Visit, fields: Fields) -> Given | None:
    """The job that was written, if it is right; otherwise what is wrong is kept for the form."""
    text = fields.get("document", "")
    visit.kept.clear()
    try:
        return visit.manager.jobs.check(plain(text))
    except InputError as error:
        _blame(visit, error, text)
        return None


def _options(fields: Fields) -> RunOptions:
    seed = fields.get("seed", "").strip()
    if seed and not (seed.isascii() and seed.isdigit() and int(seed) < 2**32):
        raise InputError(f"the seed is {seed[:20]!r}", remedy="give a whole number below 4294967296, or leave it out")
    world = fields.get("world", "processes")
    if world not in _WORLDS:
        raise InputError(f"unknown world {world[:20]!r}", remedy=f"choose one of {', '.join(_WORLDS)}")
    return RunOptions(world=world, seed=int(seed) if seed else None)  # type: ignore[arg-type]


def _blame(visit: Visit, error: LittoralError, text: str) -> None:
    line = line_of(error, text)
    visit.kept.update(wrong=error, line=line, excerpt=excerpt(text, line) if line else "")


VIEW = View(
    path="/submit", title="Submit a job", show=show, acts={"run": run, "plan": plan, "front": front}, operators=True,
    under="submit", every_s=5.0,
)  # fmt: skip
