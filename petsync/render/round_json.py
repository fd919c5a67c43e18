"""Rounds as JSON, for machines: docs/round-report.md says what each key means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from petsync.diff.plan import Plan
from petsync.diff.released import broken
from petsync.diff.round import exit_code_of
from petsync.diff.round_report import RoundReport
from petsync.render import round_words as said
from petsync.render.machine import told_of_report

__all__ = ["FORMAT", "round_json", "rounds_json"]

FORMAT = 1
"""Counted up where a key goes or comes to mean something else; not where one is added."""


def round_json(told: RoundReport) -> bytes:
    """One JSON object: `format`, and the keys of a round."""
    return _json({"format": FORMAT, **_told(told)})


def rounds_json(rounds: Sequence[RoundReport]) -> bytes:
    """One JSON object: `format`, `exit_code`, and `rounds`."""
    code = exit_code_of(told.round.exit_code for told in rounds)
    return _json({"format": FORMAT, "exit_code": code, "rounds": [_told(told) for told in rounds]})


def _told(told: RoundReport) -> dict[str, Any]:
    return {
        "round": told.round,
        "said": said.headline(told.round),
        "commands": [command.line for command in said.commands(told.round)],
        "open": told.open,
        "plan": None if told.plan is None else _plan(told.plan),
        "sheet": told.sheet,
        "report": None if told.report is None else told_of_report(told.report),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "fingerprint": plan.fingerprint,
        "created": plan.created,
        "rows": plan.rows,
        "pets": plan.pets,
        "refusals": [broken([refusal]) for refusal in plan.verdict.refusals],
        "notes": plan.notes,
        "changes": plan.changes,
    }


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
