"""Write the pages of docs/ that are made from the code: `python docs/make.py`.

tests/test_docs.py fails if a page differs from what this program writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from petsync.plan.plan import PLAN_FORMAT, Plan
from petsync.plan.report import Cause
from petsync.report.words import CAUSES
from petsync.sheets.validate.rules import KINDS, Rule

__all__ = [
    "CAUSES_PAGE",
    "FINDINGS",
    "SCHEMA",
    "causes_page",
    "findings_page",
    "main",
    "plan_schema",
]

CAUSES_PAGE = Path(__file__).parent / "causes.md"
FINDINGS = Path(__file__).parent / "findings.md"
SCHEMA = Path(__file__).parent / "plan.schema.json"

_HEAD = """\
<!-- Made by docs/make.py from petsync/sheets/validate/rules.py. -->

# Findings: what can be wrong with a sheet

`petsync check SHEET` and `store.read(path).findings` list every problem of a sheet with its cell,
its rule and a suggestion. `check` groups them by rule (`Pets!C2:C241 (240 cells)`).

An **error** blocks its row: petsync sends nothing for the row, and neither changes nor deletes its
pet. A **warning** says how petsync read a cell; the row is used. A row with the action `ignore` has
no findings. [sheets.md](sheets.md#cells) explains how to write each cell. A code that begins with
`rule:` is that of a [rule of your own](rules.md).

The codes are stable, for use in scripts. Problems that only the store can show, such as an id that
no pet has, are [conflicts](plan.md#conflicts) of a plan.

## All rules
"""

_CAUSES_HEAD = """\
<!-- Made by docs/make.py from petsync/report/words.py. -->

# Outcomes and causes

Each result of a run has an outcome and a cause. Reports show the cause in words; programs find its
code as `cause` in a report's JSON and in the [journal](journal.md). The codes are stable. RUN is
the id of the run.

| outcome | meaning |
|---|---|
| `applied` | the change is in the store |
| `unchanged` | nothing was to be done |
| `not sent` | nothing was sent: not yet, or never; the cause says which |
| `conflict` | sheet and store contradict each other; nothing was sent |
| `needs fixing` | an error in the sheet blocks the row; nothing was sent |
| `failed` | the store shows that the change was not made |
| `unknown` | it is not known yet whether the change was made |

`petsync resume` tries failed and unknown changes again, and sends those that were not started or
held back. All other results stay unchanged.

| code | outcome | in a report | meaning | what to do |
|---|---|---|---|---|
"""
_NO_CODE = '""'
_OPTIONAL = (
    *(("Plan", name) for name in ("files", "labels", "moved_ids", "warnings")),
    *(("Plan", name) for name in ("source_rows", "namesakes", "selected_ids")),
    ("Slot", "fixed_in"),
)
"""The types and the fields of a saved plan that may be absent."""
_OUTCOMES: Mapping[Cause, str] = {
    "": "applied",
    "confirmed": "applied",
    "another-id": "applied",
    "named-id": "applied",
    "already-so": "unchanged",
    "already-gone": "unchanged",
    "not-begun": "not sent",
    "held-back": "not sent",
    "changed-since": "conflict",
    "gone": "conflict",
    "came-meanwhile": "conflict",
    "superseded": "conflict",
    "undone": "not sent",
    "replanned": "not sent",
    "from-plan": "conflict",
    "not-looked-up": "failed",
    "refused": "failed",
    "no-permission": "failed",
    "too-many": "failed",
    "service-error": "failed, unknown",
    "no-answer": "failed, unknown",
    "bad-answer": "failed, unknown",
    "not-as-sent": "failed, conflict",
    "unverified": "unknown",
    "same-id": "failed, unknown",
    "overwrote": "failed",
    "unsafe-id": "failed",
    "blocked": "needs fixing",
    "cut-off": "unknown",
    "may-be-there": "unknown",
    "unexpected": "unknown",
}


def causes_page() -> str:
    """Return the page about the causes of results, in the words of the reports."""
    rows = (
        (f"`{code or _NO_CODE}`", _OUTCOMES[code], words.title, words.meaning, words.cure)
        for code, words in CAUSES.items()
    )
    return _CAUSES_HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def findings_page() -> str:
    """Return the page about the rules: an index, and a section for each rule under its code."""
    return "\n".join([_HEAD, *_index(), *_sections()])


def main() -> None:
    """Write every page."""
    CAUSES_PAGE.write_text(causes_page(), encoding="utf-8")
    FINDINGS.write_text(findings_page(), encoding="utf-8")
    SCHEMA.write_text(plan_schema(), encoding="utf-8")


def plan_schema() -> str:
    """Return the JSON Schema of a saved plan, from the plan's types."""
    types = msgspec.json.schema(Plan)["$defs"]
    # A saved plan has every field, except those of `_OPTIONAL`; and an unknown field is not allowed
    # in this format.
    for name, type_ in types.items():
        fields: dict[str, Any] = type_["properties"]
        types[name] = _closed(
            {each: _without_defaults(field) for each, field in fields.items()},
            title=name,
        )
    for name, field in _OPTIONAL:
        types[name]["required"].remove(field)
    types["Plan"]["properties"]["format"] = {"const": PLAN_FORMAT}
    fingerprint = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_closed(
            {"fingerprint": fingerprint, "plan": {"$ref": "#/$defs/Plan"}},
            title="A saved plan of petsync",
            description="Made by docs/make.py; docs/plan-format.md explains it.",
        ),
        "$defs": types,
    }
    return json.dumps(schema, indent=2) + "\n"


def _closed(fields: dict[str, Any], **about: str) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields."""
    return {
        **about,
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _without_defaults(field: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in field.items() if key != "default"}


def _index() -> Iterator[str]:
    for title, rules in KINDS.items():
        links = (f"[`{rule.code}`](#{rule.code})" for rule in rules)
        yield from (f"**{title}**: {', '.join(links)}.", "")


def _sections() -> Iterator[str]:
    for title, rules in KINDS.items():
        yield from (f"## {title}", "")
        for rule in rules:
            yield from _section(rule)


def _section(rule: Rule) -> Iterator[str]:
    yield from (f"### {rule.code}", "")
    yield from (f"**{rule.severity.capitalize()}.** {_plain(rule.meaning)}", "")
    if rule.more:
        yield from (rule.more, "")
    instead = f"Instead of *{_plain(rule.example)}*, write *{_plain(rule.fixed)}*."
    yield from (f"{instead} {_plain(rule.cure)}", "")


def _plain(text: str) -> str:
    """Return the text with Markdown's special characters escaped."""
    return "".join(f"\\{mark}" if mark in "\\`*_<>[]|#" else mark for mark in text)


if __name__ == "__main__":
    main()
