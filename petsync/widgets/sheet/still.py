"""The sheet form without a live kernel, and the sentences that it says with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from petsync import _show
from petsync.diff.plan import Plan
from petsync.errors import PetsyncError
from petsync.render import markup
from petsync.render.words import count
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.diff.report import Report
    from petsync.widgets.review import ReviewForm

__all__ = ["html", "planned", "text", "told"]

_HOW = (
    "No sheet is open. With a live kernel one can be dropped or picked here; in a script:",
    'sheet = store.read("catalogue.xlsx")',
    "plan = store.plan(sheet)",
)
_NEXT = (
    "To go on in a script:",
    "sheet = store.read(sheet, corrections=sheet.suggested())",
    "plan = store.plan(sheet)",
)


def html(
    title: str,
    sheet: Sheet | None,
    problem: PetsyncError | None,
    plan: Plan | None,
    review: ReviewForm | None = None,
) -> str:
    """The form as it stands, as HTML."""
    parts = _parts(sheet, problem, _outcome(plan, review))
    return markup.element("h3", markup.text(title)) + "\n".join(parts)


def text(
    sheet: Sheet | None,
    problem: PetsyncError | None,
    plan: Plan | None,
    review: ReviewForm | None = None,
) -> str:
    """The form as it stands, as plain text."""
    if problem is not None:
        return f"{problem.message}\n{problem.hint}".rstrip()
    if sheet is None:
        return _as_lines(_HOW)
    made = _outcome(plan, review)
    shown = _show.as_text(sheet if made is None else made)
    return shown if made is not None else f"{shown.rstrip()}\n\n{_as_lines(_NEXT)}"


def told(sheet: Sheet) -> str:
    """What is said when a sheet was read."""
    rows = count(len(sheet) + len(sheet.blocked), "row")
    if not sheet.problems:
        return f"Read: {rows}, no findings."
    blocked = f", which keep {count(len(sheet.blocked), 'row')} out" if sheet.blocked else ""
    warnings = len(sheet.problems) - sheet.errors
    return f"Read: {rows}; {count(sheet.errors, 'error')}{blocked}; {count(warnings, 'warning')}."


def planned(plan: Plan) -> str:
    """What is said when a plan was made."""
    changes = count(len(plan.changes), "change")
    return f"Compared: {changes} would be made. Nothing has been sent; look at the plan first."


def _outcome(plan: Plan | None, review: ReviewForm | None) -> Plan | Report | None:
    report = None if review is None else review.report
    return plan if report is None else report


def _parts(
    sheet: Sheet | None, problem: PetsyncError | None, made: Plan | Report | None
) -> list[str]:
    if problem is not None:
        said = markup.alert(problem.message, [markup.text(problem.hint)], kind="ps-bad")
        return [markup.fragment([said])]
    if sheet is None:
        return [_as_html(_HOW)]
    if made is not None:
        return [_show.as_html(sheet), _show.as_html(made)]
    return [_show.as_html(sheet), _as_html(_NEXT)]


def _as_lines(said: tuple[str, ...]) -> str:
    words, *code = said
    return "\n".join([words, *(f"    {line}" for line in code)])


def _as_html(said: tuple[str, ...]) -> str:
    words, *code = said
    lines = markup.element("code", "<br>".join(map(markup.text, code)))
    return markup.element("p", markup.text(words)) + markup.element("p", lines)
