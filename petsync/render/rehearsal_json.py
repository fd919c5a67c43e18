"""A rehearsal as JSON, for machines."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd

from petsync.diff.plan import Plan
from petsync.diff.rehearsal import Rehearsal

__all__ = ["rehearsal_json"]


def rehearsal_json(rehearsal: Rehearsal) -> bytes:
    """One JSON object, described in docs/rehearse.md; `results` has the fields of `Result`."""
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
        "results": report.results,
        "unexpected": _records(rehearsal.unexpected),
        "again": _again(rehearsal.again, rehearsal),
        "why_not_again": rehearsal.why_not_again,
        "notes": rehearsal.notes,
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): frame[name].tolist() for name in frame}
    columns["id"] = [None if number is pd.NA else number for number in columns["id"]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _again(again: Plan | None, rehearsal: Rehearsal) -> dict[str, Any] | None:
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
        for each in rehearsal.left()
    ]
    return {"in_sync": again.in_sync, **counts, "left": left}
