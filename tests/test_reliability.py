"""docs/reliability.md: each fault has a promise, and each named test exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")


def _rows(title: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table below a title."""
    below = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert below, title
    for line in below.splitlines():
        if line.startswith("| ") and not line.startswith("| code"):
            yield line.strip("| ").split(" | ")


def test_every_named_test_is_there() -> None:
    """Each test that the page names by file and function exists."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len({name for _, name in named if name}) > 40
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        there = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
        assert not name or name in there, f"{file}::{name}"


def test_every_fault_has_a_promise_and_a_test() -> None:
    """Each fault has a promise and a test that shows it."""
    faults = [row for row in _rows("The faults") if row[0] != "fault"]
    assert len(faults) > 25
    for fault, promise, shown in faults:
        assert promise, fault
        assert "::test_" in shown, fault
