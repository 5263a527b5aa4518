"""Forms with one YAML document: where it is written or taken from a file, and what is wrong with it, at its line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from html import escape

from littoral.errors import LittoralError
from littoral.manager.page.frame import refusal
from littoral.manager.page.view import Act, Fields, Said, Visit
from littoral.manager.page.written import excerpt, line_of

_WRONG = "wrong"  # where a visit keeps it


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a document was refused; ``line`` is 0 where no line is to blame."""

    text: str
    line: int = 0
    excerpt: str = ""


def blaming(act: Act) -> Act:
    """An act on a form's document: a refusal is kept, for the form to show."""

    @wraps(act)
    def careful(visit: Visit, fields: Fields) -> Said:
        visit.kept.pop(_WRONG, None)
        try:
            return act(visit, fields)
        except LittoralError as error:
            visit.kept[_WRONG] = _wrong(error, fields.get("document", ""))
            return Said("")

    return careful


def wrong_of(visit: Visit) -> Wrong | None:
    """What was wrong last time."""
    found: Wrong | None = visit.kept.get(_WRONG)
    return found


def _wrong(error: LittoralError, text: str) -> Wrong:
    line = line_of(error, text)
    return Wrong(refusal(error), line, excerpt(text, line)) if line else Wrong(refusal(error))


def complaint(visit: Visit) -> str:
    """For the top of a form: what was wrong, if anything."""
    wrong = wrong_of(visit)
    if wrong is None:
        return ""
    place = f"Line {wrong.line}: " if wrong.line else ""
    shown = f"<pre><code>{escape(wrong.excerpt)}</code></pre>" if wrong.excerpt else ""
    return f'<div class="said bad" role="alert" tabindex="-1" id="wrong">{place}{escape(wrong.text)}{shown}</div>'


def document_field(visit: Visit, label: str, text: str, rows: int) -> str:
    """Where the document is written, or taken from a file."""
    wrong = wrong_of(visit)
    blamed = f' data-line="{wrong.line}" aria-invalid="true" aria-describedby="wrong"' if wrong and wrong.line else ""
    return (
        f'<label for="document">{escape(label)}</label><textarea id="document" name="document" rows="{rows}" '
        f'spellcheck="false" required maxlength="300000"{blamed}>{escape(text)}</textarea>'
        '<label for="file">or take it from a file</label>'
        '<input id="file" type="file" accept=".yaml,.yml,.json" data-into="document">'
    )
