"""Reports and findings as JSON."""

from __future__ import annotations

import json

from render_samples import finding, sheet_with, small_report, stopped_report

from petsync.report.json import findings_json, report_json


def test_a_report_as_json() -> None:
    """The JSON of a report has the run, its totals and each result, with exact ids."""
    saved = json.loads(report_json(small_report()))
    assert saved["run_id"] == "20261120-093100-4f2a"
    assert saved["exit_code"] == 3
    assert sum(saved["counts"].values()) == 878
    assert [result["outcome"] for result in saved["results"]] == [
        "applied",
        "failed",
        "unknown",
        "not sent",
        "conflict",
    ]
    assert saved["results"][0]["assigned_id"] == 1201
    assert saved["results"][1]["cause"] == "service-error"


def test_json_groups_by_cause() -> None:
    """The JSON has each cause with its number of rows, its words and its cure, the most urgent
    first.
    """
    saved = json.loads(report_json(small_report()))
    assert [(each["outcome"], each["cause"], each["rows"]) for each in saved["causes"]] == [
        ("failed", "service-error", 1),
        ("unknown", "no-answer", 1),
        ("conflict", "from-plan", 1),
        ("not sent", "held-back", 1),
        ("applied", "", 1),
    ]
    assert all(each["title"] and each["meaning"] and each["cure"] for each in saved["causes"])


def test_json_says_what_can_be_done_now() -> None:
    """The JSON has the number of changes that are left, and the commands to resume and to undo the
    run.
    """
    done, stopped = (json.loads(report_json(r)) for r in (small_report(), stopped_report()))
    assert (done["left"], stopped["left"]) == (3, 3)
    assert done["resume"] == stopped["resume"] == "petsync resume 20261120-093100-4f2a"
    assert done["undo"] == "petsync undo 20261120-093100-4f2a"
    assert stopped["undo"] == ""


def test_findings_as_json() -> None:
    """The JSON of findings has the sheet's size and each finding with all its fields."""
    warning = finding("no-break-space", 9, severity="warning")
    saved = json.loads(findings_json(sheet_with(finding("unknown-status", 4), warning)))
    assert (saved["rows"], saved["errors"], saved["warnings"]) == (2, 1, 1)
    assert saved["blocked"] == [4]
    assert saved["findings"][0] == {
        "address": "Pets!C4",
        "row": 4,
        "column": "status",
        "severity": "error",
        "rule": "unknown-status",
        "value": "availabel",
        "problem": "petsync knows no such status.",
        "suggestion": "Write available if you mean that.",
        "meant": None,
        "is_sure": False,
    }
