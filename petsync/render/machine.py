"""Reports, findings and explanations as JSON, for machines."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from petsync.diff.explain import Explanation
from petsync.diff.report import Report
from petsync.table.sheet import Sheet

__all__ = ["explanations_json", "findings_json", "report_json"]


def report_json(report: Report) -> bytes:
    """One JSON object: `run_id, store, source, started, seconds, stopped, exit_code, counts`, and
    `results`, one for each change, conflict and blocked row, with the fields of `Result`.
    """
    return _json(
        {
            "run_id": report.run_id,
            "store": report.plan.store,
            "source": report.plan.source,
            "started": report.started,
            "seconds": report.seconds,
            "stopped": report.stopped,
            "exit_code": report.exit_code,
            "counts": report.counts,
            "results": report.results,
        }
    )


def findings_json(sheet: Sheet) -> bytes:
    """One JSON object: `source, tab, rows, blocked, errors, warnings`, and `findings`, each with
    the fields of `Finding`. `rows` can be used; `blocked` are the numbers of those that cannot.
    """
    return _json(
        {
            "source": sheet.source,
            "tab": sheet.tab,
            "rows": len(sheet),
            "blocked": sheet.blocked,
            "errors": sheet.errors,
            "warnings": len(sheet.problems) - sheet.errors,
            "findings": sheet.problems,
        }
    )


def explanations_json(explanations: Sequence[Explanation]) -> bytes:
    """One JSON object: `explanations`, each with the fields of `Explanation`, and in its `fields`
    those of `Reason`.
    """
    return _json({"explanations": explanations})


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
