"""Plans, reports, sheets and snapshots as text, HTML, Markdown, workbooks and JSON.

Importing this package registers the display functions; each loads its modules when it is called.
"""

from __future__ import annotations

from petsync._display import as_html, as_text
from petsync.models import Account
from petsync.plan.change import Snapshot
from petsync.plan.explain import Explanation, Explanations
from petsync.plan.plan import Plan, Summary
from petsync.plan.rehearsal import Rehearsal
from petsync.plan.report import Report, RoundReport, Rounds
from petsync.plan.uploads import Pictures, UploadReport
from petsync.table.sheet import Findings, Sheet


@as_text.register
def _plan_text(value: Plan) -> str:
    from petsync.report.show import plan_text

    return plan_text(value)


@as_text.register
def _report_text(value: Report) -> str:
    from petsync.report.show import report_text

    return report_text(value)


@as_text.register
def _rehearsal_text(value: Rehearsal) -> str:
    from petsync.report.show import rehearsal_text

    return rehearsal_text(value)


@as_text.register
def _sheet_text(value: Sheet) -> str:
    from petsync.report.show import findings_text

    return findings_text(value)


@as_text.register
def _table_text(value: Findings) -> str:
    from petsync.report.show import table_text

    return table_text(value)


@as_text.register
def _snapshot_text(value: Snapshot) -> str:
    from petsync.report.show import snapshot_text

    return snapshot_text(value)


@as_text.register
def _summary_text(value: Summary) -> str:
    from petsync.report.show import summary_text

    return summary_text(value)


@as_text.register
def _explanation_text(value: Explanation) -> str:
    from petsync.report.show import explanations_text

    return explanations_text([value])


@as_text.register
def _explanations_text(value: Explanations) -> str:
    from petsync.report.show import explanations_text

    return explanations_text(value)


@as_html.register
def _plan_html(value: Plan) -> str:
    from petsync.report.plan import plan_html

    return plan_html(value)


@as_html.register
def _report_html(value: Report) -> str:
    from petsync.report.run import report_html

    return report_html(value)


@as_html.register
def _rehearsal_html(value: Rehearsal) -> str:
    from petsync.report.rehearsal import rehearsal_html

    return rehearsal_html(value)


@as_html.register
def _sheet_html(value: Sheet) -> str:
    from petsync.report.sheet import sheet_html

    return sheet_html(value)


@as_html.register
def _table_html(value: Findings) -> str:
    from petsync.report.sheet import findings_html

    return findings_html(value)


@as_html.register
def _snapshot_html(value: Snapshot) -> str:
    from petsync.report.sheet import snapshot_html

    return snapshot_html(value)


@as_html.register
def _summary_html(value: Summary) -> str:
    from petsync.report.explain import summary_html

    return summary_html(value)


@as_html.register
def _explanation_html(value: Explanation) -> str:
    from petsync.report.explain import explanations_html

    return explanations_html([value])


@as_html.register
def _explanations_html(value: Explanations) -> str:
    from petsync.report.explain import explanations_html

    return explanations_html(value)


@as_text.register
def _pictures_text(value: Pictures) -> str:
    from petsync.report.images import pictures_text

    return pictures_text(value)


@as_text.register
def _uploaded_text(value: UploadReport) -> str:
    from petsync.report.images import uploaded_text

    return uploaded_text(value)


@as_html.register
def _pictures_html(value: Pictures) -> str:
    from petsync.report.images import pictures_html

    return pictures_html(value)


@as_html.register
def _uploaded_html(value: UploadReport) -> str:
    from petsync.report.images import uploaded_html

    return uploaded_html(value)


@as_text.register
def _account_text(value: Account) -> str:
    from petsync.report.account import account_text

    return account_text(value)


@as_html.register
def _account_html(value: Account) -> str:
    from petsync.report.account import account_html

    return account_html(value)


@as_text.register
def _round_text(value: RoundReport) -> str:
    from petsync.report.show import round_text

    return round_text(value)


@as_text.register
def _rounds_text(value: Rounds) -> str:
    from petsync.report.show import rounds_text

    return rounds_text(value)


@as_html.register
def _round_html(value: RoundReport) -> str:
    from petsync.report.round import round_html

    return round_html(value)


@as_html.register
def _rounds_html(value: Rounds) -> str:
    from petsync.report.round import rounds_html

    return rounds_html(value)
