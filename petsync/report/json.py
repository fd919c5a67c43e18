"""Reports as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pandas as pd

from petsync.plan.change import describe_limits
from petsync.plan.differences import Differences
from petsync.plan.explain import Explanation
from petsync.plan.plan import Plan
from petsync.plan.rehearsal import Rehearsal
from petsync.plan.report import Report, RoundReport
from petsync.plan.rounds import exit_code_of
from petsync.report import words
from petsync.report.round import commands, headline
from petsync.report.views.sheet import refusal_of
from petsync.report.words import results_by_cause
from petsync.table.sheet import Sheet

__all__ = [
    "FORMAT",
    "diff_json",
    "explanations_json",
    "findings_json",
    "rehearsal_json",
    "report_json",
    "report_values",
    "round_json",
    "rounds_json",
]


# Reports, findings and explanations as JSON.


def report_json(report: Report, *, exit_code: int | None = None) -> bytes:
    """Return the report as one JSON object, with the report's exit code unless `exit_code` is
    given.

    Its keys are `run_id, store, source, started, seconds, stopped, exit_code, counts`; `left`, the
    number of changes that a resume would make or repeat; the commands `resume` and `undo`, ""
    where they do not apply; `causes`, each with `outcome, cause, rows, title, meaning, cure`, those
    that need attention first; and `results`, one for each change, conflict and blocked row, with
    the fields of `Result`.
    """
    code = report.exit_code if exit_code is None else exit_code
    return _json_report({**report_values(report), "exit_code": code})


def report_values(report: Report) -> dict[str, Any]:
    """Return the keys of `report_json` with their values; `exit_code` is that of the report."""
    left_count = words.count_left(report)
    return {
        "run_id": report.run_id,
        "store": report.plan.store,
        "source": report.plan.source,
        "started": report.started,
        "seconds": report.seconds,
        "stopped": report.stopped,
        "exit_code": report.exit_code,
        "counts": report.counts,
        "left": left_count,
        "resume": f"petsync resume {report.run_id}" if report.stopped or left_count else "",
        "undo": f"petsync undo {report.run_id}" if words.undo_hint(report) else "",
        "causes": [
            {
                "outcome": group.outcome,
                "cause": group.cause,
                "rows": group.listing.total,
                **group.text._asdict(),
            }
            for group in results_by_cause(report, 0)
        ],
        "results": tuple(report.results),
    }


def diff_json(found: Differences) -> bytes:
    """Return the differences as one JSON object, with the fields of `Differences`, and `counts` and
    `exit_code`. Each item of `rows` has the fields of `RowDifference`.
    """
    values = {**msgspec.structs.asdict(found), "rows": [*found.rows]}
    return _json_report({**values, "counts": found.counts, "exit_code": found.exit_code})


def findings_json(sheet: Sheet) -> bytes:
    """Return the findings as one JSON object: `source, tab, rows, blocked, refused, errors,
    warnings`, `findings`, each with the fields of `Finding`, and `rules`, each with those of
    `RuleResult`.

    `rows` is the number of usable rows; `blocked` has the numbers of the rows that cannot be used;
    `refused` says why no plan of the sheet is made, "" if one is made; `rules` are the user's own.
    """
    refusal = refusal_of(sheet)
    return _json_report(
        {
            "source": sheet.source,
            "tab": sheet.tab,
            "rows": 0 if refusal else len(sheet) + sheet.agreeing,
            "blocked": sheet.blocked,
            "refused": refusal.problem if refusal else "",
            "errors": sheet.errors,
            "warnings": len(sheet.problems) - sheet.errors,
            "findings": sheet.problems,
            "rules": sheet.rules,
        }
    )


def explanations_json(explanations: Sequence[Explanation]) -> bytes:
    """Return one JSON object: `explanations`, each with the fields of `Explanation`; its `fields`
    have the fields of `Reason`.
    """
    return _json_report({"explanations": explanations})


def _json_report(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


# A rehearsal as JSON.


def rehearsal_json(rehearsal: Rehearsal) -> bytes:
    """Return the rehearsal as one JSON object, which docs/rehearse.md describes."""
    plan, report = rehearsal.plan, rehearsal.report
    value = {
        "rehearsal": True,
        "ok": rehearsal.ok,
        "exit_code": rehearsal.exit_code,
        "store": plan.store,
        "source": plan.source,
        "fingerprint": plan.fingerprint,
        "profile": rehearsal.profile,
        "taken_at": rehearsal.taken_at,
        "seconds": report.seconds,
        "pets": {"before": len(rehearsal.before), "after": len(rehearsal.after)},
        "refusals": plan.verdict.refusals,
        "faults": rehearsal.broken,
        "stopped": report.stopped,
        "counts": report.counts,
        "statuses": rehearsal.by_status().to_dict("index"),
        "results": tuple(report.results),
        "unexpected": _records(rehearsal.unexpected),
        "again": _second_plan(rehearsal.again, rehearsal),
        "why_not_again": rehearsal.why_not_again,
        "notes": rehearsal.notes,
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): frame[name].tolist() for name in frame}
    columns["id"] = [None if number is pd.NA else number for number in columns["id"]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _second_plan(again: Plan | None, rehearsal: Rehearsal) -> dict[str, Any] | None:
    if again is None:
        return None
    summary = again.summary()
    names = ("adds", "updates", "deletes", "conflicts", "open_conflicts", "blocked")
    counts = {name: getattr(summary, name) for name in names}
    left = [
        {
            "source": each.change.source,
            "kind": each.change.kind,
            "id": each.change.pet_id,
            "why": each.why,
            "message": each.message,
        }
        for each in rehearsal.remaining_changes()
    ]
    return {"in_sync": again.in_sync, **counts, "left": left}


# Rounds as JSON: docs/history.md explains the keys.


FORMAT = 1
"""The version of the JSON format. It is increased when a key is removed or changes its meaning, not
when a key is added.
"""


def round_json(round_report: RoundReport) -> bytes:
    """Return one JSON object: `format`, and the round's keys."""
    return _json_round({"format": FORMAT, **_describe_round(round_report)})


def rounds_json(rounds: Sequence[RoundReport]) -> bytes:
    """Return one JSON object: `format`, `exit_code`, and `rounds`."""
    code = exit_code_of(round_report.round.exit_code for round_report in rounds)
    return _json_round(
        {
            "format": FORMAT,
            "exit_code": code,
            "rounds": [_describe_round(round_report) for round_report in rounds],
        }
    )


def _describe_round(round_report: RoundReport) -> dict[str, Any]:
    return {
        "round": round_report.round,
        "said": headline(round_report.round),
        "commands": [command.line for command in commands(round_report.round)],
        "open": round_report.open,
        "plan": None if round_report.plan is None else _plan(round_report.plan),
        "sheet": round_report.sheet,
        "report": None if round_report.report is None else report_values(round_report.report),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "fingerprint": plan.fingerprint,
        "created": plan.created,
        "rows": plan.rows,
        "pets": plan.pets,
        "refusals": [describe_limits([refusal]) for refusal in plan.verdict.refusals],
        "notes": plan.raw_notes,
        "changes": tuple(plan.changes),
    }


def _json_round(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
