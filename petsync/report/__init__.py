"""Plans, reports, sheets and snapshots as text, HTML, Markdown, workbooks and JSON.

The modules of a view are imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from petsync._terms import in_python

if TYPE_CHECKING:
    from petsync.report.document import Document


class _View(NamedTuple):
    """A view, by its module and name. `rows` is the view's `limit` for text; None for the default
    of the view.
    """

    module: str
    name: str
    rows: int | None = None

    def load(self) -> Callable[..., Document]:
        view: Callable[..., Document] = getattr(
            import_module(f"petsync.report.views.{self.module}"), self.name
        )
        return view

    def text(self, value: object) -> str:
        from petsync.report.text import plain_text

        options = {} if self.rows is None else {"limit": self.rows}
        return plain_text(_in_python(self.load()(value, **options)))

    def html(self, value: object) -> str:
        from petsync.report.html import document_html

        return document_html(_in_python(self.load()(value)))


def _in_python(document: Document) -> Document:
    from petsync.report.document import reword

    return reword(document, in_python)


_VIEWS = {
    "petsync.models.Account": _View("account", "account_view"),
    "petsync.plan.change.Snapshot": _View("sheet", "snapshot_view"),
    "petsync.plan.differences.Differences": _View("diff", "diff_view"),
    "petsync.plan.explain.Explanation": _View("explain", "explanation_view"),
    "petsync.plan.explain.Explanations": _View("explain", "explanations_view"),
    "petsync.plan.plan.Plan": _View("plan", "plan_view"),
    "petsync.plan.plan.Summary": _View("explain", "summary_view"),
    "petsync.plan.rehearsal.Rehearsal": _View("rehearsal", "rehearsal_view", rows=5),
    "petsync.plan.report.Report": _View("run", "report_view"),
    "petsync.plan.report.RoundReport": _View("round", "round_view"),
    "petsync.plan.report.Rounds": _View("round", "rounds_view"),
    "petsync.plan.uploads.Pictures": _View("images", "pictures_view"),
    "petsync.plan.uploads.UploadReport": _View("images", "uploaded_view"),
    "petsync.table.sheet.Findings": _View("sheet", "findings_view", rows=5),
    "petsync.table.sheet.Sheet": _View("sheet", "sheet_view", rows=5),
}
"""The view of each type, by the name of the type: a display imports only its own modules."""


def view_of(value: object) -> _View:
    """Return the view for a value whose type has one."""
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__)
    return next(_VIEWS[name] for name in names if name in _VIEWS)
