"""docs/plan.md describes every rule that a plan or an explanation can give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from petsync.plan.explain import FIELD_RULES, PET_RULES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "plan.md").read_text("utf-8")


def conflict_rules() -> set[str]:
    """Return the rules of conflicts, read from the code that gives them."""
    names = ("decide", "compare")
    files = (ROOT / "petsync" / "plan" / f"{name}.py" for name in names)
    code = "\n".join(file.read_text("utf-8") for file in files)
    return set(re.findall(r'(?:_RowConflict\(\s*|rule=)"([a-z-]+)"', code))


def test_conflict_rules_are_found() -> None:
    """The expression above finds all rules: some known ones, and the expected number."""
    rules = conflict_rules()
    assert {"both-changed", "gone-edited", "removed-changed", "not-looked-up", "no-id"} <= rules
    assert len(rules) == 30


@pytest.mark.parametrize("rule", sorted({*FIELD_RULES, *PET_RULES, *conflict_rules()}))
def test_every_rule_is_described(rule: str) -> None:
    """Every rule is in a table of the page, by its code."""
    lines = [line for line in PAGE.splitlines() if line.startswith(("| `", "A clash (`"))]
    assert any(f"`{rule}`" in line for line in lines)
