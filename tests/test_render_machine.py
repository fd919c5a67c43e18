"""Reports and findings as JSON."""

from __future__ import annotations

import json

from render_samples import finding, sheet_with, small_report

from petsync.render.machine import findings_json, report_json


def test_a_report_as_json() -> None:
    """The JSON holds the run, its totals and each result, with ids exact."""
    saved = json.loads(report_json(small_report()))
    assert saved["run_id"] == "20261120-093100-4f2a"
    assert saved["exit_code"] == 3
    assert sum(saved["counts"].values()) == 878
    assert [result["outcome"] for result in saved["results"]] == [
        "applied",
        "failed",
        "unknown",
        "skipped",
        "conflict",
    ]
    assert saved["results"][0]["assigned_id"] == 1201


def test_findings_as_json() -> None:
    """The JSON holds the sheet's size and each finding with all of its fields."""
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
        "problem": "The store has no such status.",
        "suggestion": "Write available if that is meant.",
    }
