"""Reports, findings and explanations as JSON, for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from petsync.diff.explain import Explanation
from petsync.diff.report import Report
from petsync.render import words
from petsync.render.digest import results_by_cause
from petsync.table.sheet import Sheet

__all__ = ["explanations_json", "findings_json", "report_json", "told_of_report"]


def report_json(report: Report) -> bytes:
    """One JSON object: `run_id, store, source, started, seconds, stopped, exit_code, counts`;
    `left`, the number of changes that a resume would do, and `resume` and `undo`, the commands for
    what can be done now ("" for what cannot); `causes`, each with `outcome, cause, rows, title,
    meaning, cure`, what needs a person first; and `results`, one for each change, conflict and
    blocked row, with the fields of `Result`.
    """
    return _json(told_of_report(report))


def told_of_report(report: Report) -> dict[str, Any]:
    """What `report_json` tells."""
    left = words.left_to_do(report)
    return {
        "run_id": report.run_id,
        "store": report.plan.store,
        "source": report.plan.source,
        "started": report.started,
        "seconds": report.seconds,
        "stopped": report.stopped,
        "exit_code": report.exit_code,
        "counts": report.counts,
        "left": left,
        "resume": f"petsync resume {report.run_id}" if report.stopped or left else "",
        "undo": f"petsync undo {report.run_id}" if words.way_back(report) else "",
        "causes": [
            {
                "outcome": group.outcome,
                "cause": group.cause,
                "rows": group.listing.total,
                **group.told._asdict(),
            }
            for group in results_by_cause(report, 0)
        ],
        "results": report.results,
    }


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
