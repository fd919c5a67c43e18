"""The rules a sheet is read by: a stable code for each, what it means, an example and the cure."""

from __future__ import annotations

from collections.abc import Mapping

from petsync.sheets.rules.cells import CHARACTERS, PROGRAM
from petsync.sheets.rules.fields import FIELDS, LISTS
from petsync.sheets.rules.ids import IDS
from petsync.sheets.rules.rows import ROWS, SHEET
from petsync.sheets.rules.rule import Rule

__all__ = ["KINDS", "RULES", "Rule"]

KINDS: Mapping[str, tuple[Rule, ...]] = {
    "What the spreadsheet program did to a cell": PROGRAM,
    "Characters": CHARACTERS,
    "Ids": IDS,
    "Names, statuses, categories and actions": FIELDS,
    "Tags and photo addresses": LISTS,
    "Rows": ROWS,
    "The sheet": SHEET,
}
"""The rules by kind, in the order in which they are documented."""

RULES: Mapping[str, Rule] = {rule.code: rule for kind in KINDS.values() for rule in kind}
"""Every rule by its code, in the same order."""
