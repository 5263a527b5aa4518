"""Submit a job: its YAML is checked, planned if one likes, and run. What is wrong is shown at its line."""

from __future__ import annotations

from littoral.manager.documents import Given
from littoral.manager.page.documents import blaming, complaint, document_field
from littoral.manager.page.pieces import empty, heading, section
from littoral.manager.page.run_options import option_fields, options_of
from littoral.manager.page.view import Fields, Said, View, Visit
from littoral.manager.page.written import plain
from littoral.manager.paging import LARGEST, Window
from littoral.manager.planning import Wish


def show(visit: Visit) -> str:
    """The form, and what was wrong with what it had."""
    names = [found.name for found in visit.manager.continuums.listed(Window(limit=LARGEST)).items]
    if not names:
        todo = empty("A job names a continuum, and there is none. Add one under Devices first.")
        return heading("Submit a job") + section("The job", todo)
    note = "Plan first to see what it should take, or run it at once."
    return heading("Submit a job", note=note) + section("The job", _form(visit, names[0]))


def _form(visit: Visit, continuum: str) -> str:
    return (
        f'<form data-act="run" class="stack">{complaint(visit)}'
        f"{document_field(visit, 'YAML', _example(continuum), rows=18)}{option_fields()}"
        '<div class="actions"><button type="button" data-act="plan">Plan first</button>'
        '<button type="button" data-act="front">Plans between quick, cheap and fair</button>'
        '<button class="main">Run</button></div></form>'
    )


def _example(continuum: str) -> str:
    return (
        f"name: digits\ncontinuum: {continuum}\ntask: littoral.tasks.digits\ntarget:\n  epochs: 10\n"
        "strategy: auto\nplanner: auto\n"
    )


# -- acts -------------------------------------------------------------------------------------------------------------


def run(visit: Visit, fields: Fields) -> Said:
    """Keep the job and queue its run."""
    manager, given, options = visit.manager, _given(visit, fields), options_of(fields)
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
    made = visit.manager.plans.make(given, wish)
    with visit.manager.database.write() as connection:
        kept = visit.manager.plans.keep(connection, given, made)
    one = f"/plans/{kept[0].number}"
    return Said("", go=f"{one}/to/{kept[-1].number}" if len(kept) > 1 else one)


def _given(visit: Visit, fields: Fields) -> Given:
    return visit.manager.jobs.check(plain(fields.get("document", "")))


VIEW = View(
    path="/submit", title="Submit a job", show=show, operators=True, under="submit", every_s=5.0,
    acts={"run": blaming(run), "plan": blaming(plan), "front": blaming(front)},
)  # fmt: skip
