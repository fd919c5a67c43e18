"""Write the pages of docs/ that are made from the code: `python docs/make.py`.

tests/test_docs.py fails where a page is not as this would write it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from petsync.sheets.rules import RULES, Rule

__all__ = ["FINDINGS", "findings_page", "main"]

FINDINGS = Path(__file__).parent / "findings.md"

_HEAD = """\
<!-- Made by docs/make.py from petsync/sheets/rules.py. -->

# Findings: what can be wrong with a sheet

`petsync check SHEET` and `store.read(path).findings` list every problem of a sheet at once, each
with its cell, the rule that it breaks, and a suggestion. An **error** keeps its row out of a
plan: nothing is sent for it, and no missing pet is deleted on its account. A **warning** tells
how a cell was read; the row is used. A row with the action `ignore` has no findings.

The codes are stable: a script can rely on them. Problems that only the store can show, such as an
id that no pet has, are conflicts of a plan and not in this list ([safety.md](safety.md)). The
grammar of cells is in [sheets.md](sheets.md).
"""


def findings_page() -> str:
    """The page on the rules: one table of errors, one of warnings, in the rules' order."""
    return "\n".join([_HEAD, *_section("Errors", "error"), *_section("Warnings", "warning")])


def main() -> None:
    """Write every page."""
    FINDINGS.write_text(findings_page(), encoding="utf-8")


def _section(title: str, severity: str) -> Iterable[str]:
    yield from (f"## {title}", "")
    yield "| code | what it means | for example | what to do |"
    yield "|---|---|---|---|"
    yield from (_row(rule) for rule in RULES.values() if rule.severity == severity)
    yield ""


def _row(rule: Rule) -> str:
    cells = map(_plain, (rule.meaning, rule.example, rule.cure))
    return f"| `{rule.code}` | {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """The text with nothing in it that Markdown gives a meaning."""
    return "".join(f"\\{mark}" if mark in "\\`*_<>[]|#" else mark for mark in text)


if __name__ == "__main__":
    main()
