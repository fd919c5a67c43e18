"""Plans, reports, sheets and snapshots as text, HTML, Markdown, workbooks and JSON.

Importing this package lets these values show themselves; what that takes is loaded when one does.
"""

from __future__ import annotations

from petsync._show import as_html, as_text
from petsync.diff.explain import Explanation, Explanations
from petsync.diff.pictures import Pictures
from petsync.diff.plan import Plan
from petsync.diff.rehearsal import Rehearsal
from petsync.diff.report import Report
from petsync.diff.round_report import RoundReport
from petsync.diff.rounds import Rounds
from petsync.diff.snapshot import Snapshot
from petsync.diff.summary import Summary
from petsync.diff.uploaded import Uploaded
from petsync.table.findings import Findings
from petsync.table.sheet import Sheet
from petsync.wire.account import Account


@as_text.register
def _plan_text(value: Plan) -> str:
    from petsync.render.text import plan_text

    return plan_text(value)


@as_text.register
def _report_text(value: Report) -> str:
    from petsync.render.text import report_text

    return report_text(value)


@as_text.register
def _rehearsal_text(value: Rehearsal) -> str:
    from petsync.render.text import rehearsal_text

    return rehearsal_text(value)


@as_text.register
def _sheet_text(value: Sheet) -> str:
    from petsync.render.text import findings_text

    return findings_text(value)


@as_text.register
def _table_text(value: Findings) -> str:
    from petsync.render.text import table_text

    return table_text(value)


@as_text.register
def _snapshot_text(value: Snapshot) -> str:
    from petsync.render.text import snapshot_text

    return snapshot_text(value)


@as_text.register
def _summary_text(value: Summary) -> str:
    from petsync.render.text import summary_text

    return summary_text(value)


@as_text.register
def _explanation_text(value: Explanation) -> str:
    from petsync.render.text import explanations_text

    return explanations_text([value])


@as_text.register
def _explanations_text(value: Explanations) -> str:
    from petsync.render.text import explanations_text

    return explanations_text(value)


@as_html.register
def _plan_html(value: Plan) -> str:
    from petsync.render.html import plan_html

    return plan_html(value)


@as_html.register
def _report_html(value: Report) -> str:
    from petsync.render.html import report_html

    return report_html(value)


@as_html.register
def _rehearsal_html(value: Rehearsal) -> str:
    from petsync.render.rehearsal_html import rehearsal_html

    return rehearsal_html(value)


@as_html.register
def _sheet_html(value: Sheet) -> str:
    from petsync.render.html import sheet_html

    return sheet_html(value)


@as_html.register
def _table_html(value: Findings) -> str:
    from petsync.render.html import findings_html

    return findings_html(value)


@as_html.register
def _snapshot_html(value: Snapshot) -> str:
    from petsync.render.html import snapshot_html

    return snapshot_html(value)


@as_html.register
def _summary_html(value: Summary) -> str:
    from petsync.render.explain_html import summary_html

    return summary_html(value)


@as_html.register
def _explanation_html(value: Explanation) -> str:
    from petsync.render.explain_html import explanations_html

    return explanations_html([value])


@as_html.register
def _explanations_html(value: Explanations) -> str:
    from petsync.render.explain_html import explanations_html

    return explanations_html(value)


@as_text.register
def _pictures_text(value: Pictures) -> str:
    from petsync.render.pictures_lines import pictures_text

    return pictures_text(value)


@as_text.register
def _uploaded_text(value: Uploaded) -> str:
    from petsync.render.pictures_lines import uploaded_text

    return uploaded_text(value)


@as_html.register
def _pictures_html(value: Pictures) -> str:
    from petsync.render.pictures_html import pictures_html

    return pictures_html(value)


@as_html.register
def _uploaded_html(value: Uploaded) -> str:
    from petsync.render.pictures_html import uploaded_html

    return uploaded_html(value)


@as_text.register
def _account_text(value: Account) -> str:
    from petsync.render.account_lines import account_text

    return account_text(value)


@as_html.register
def _account_html(value: Account) -> str:
    from petsync.render.account_html import account_html

    return account_html(value)


@as_text.register
def _round_text(value: RoundReport) -> str:
    from petsync.render.text import round_text

    return round_text(value)


@as_text.register
def _rounds_text(value: Rounds) -> str:
    from petsync.render.text import rounds_text

    return rounds_text(value)


@as_html.register
def _round_html(value: RoundReport) -> str:
    from petsync.render.round_html import round_html

    return round_html(value)


@as_html.register
def _rounds_html(value: Rounds) -> str:
    from petsync.render.round_html import rounds_html

    return rounds_html(value)
