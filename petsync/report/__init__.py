"""Plans, reports, sheets and snapshots as text, HTML, Markdown, workbooks and JSON.

Importing this package registers how each type is displayed. The modules for a display are imported
when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from petsync._display import as_html, as_text
from petsync._terms import in_python
from petsync.models import Account
from petsync.plan.change import Snapshot
from petsync.plan.differences import Differences
from petsync.plan.explain import Explanation, Explanations
from petsync.plan.plan import Plan, Summary
from petsync.plan.rehearsal import Rehearsal
from petsync.plan.report import Report, RoundReport, Rounds
from petsync.plan.uploads import Pictures, UploadReport
from petsync.table.sheet import Findings, Sheet

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


_VIEWS: dict[type[Any], _View] = {
    Account: _View("account", "account_view"),
    Differences: _View("diff", "diff_view"),
    Explanation: _View("explain", "explanation_view"),
    Explanations: _View("explain", "explanations_view"),
    Plan: _View("plan", "plan_view"),
    Summary: _View("explain", "summary_view"),
    Findings: _View("sheet", "findings_view", rows=5),
    Sheet: _View("sheet", "sheet_view", rows=5),
    Snapshot: _View("sheet", "snapshot_view"),
    Rehearsal: _View("rehearsal", "rehearsal_view", rows=5),
    Report: _View("run", "report_view"),
    RoundReport: _View("round", "round_view"),
    Rounds: _View("round", "rounds_view"),
    Pictures: _View("images", "pictures_view"),
    UploadReport: _View("images", "uploaded_view"),
}

for _type, _view in _VIEWS.items():
    as_text.register(_type, _view.text)
    as_html.register(_type, _view.html)
