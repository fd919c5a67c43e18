"""What is said of a sheet, its findings and a snapshot, whatever the format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petsync.diff.snapshot import Snapshot
from petsync.render.corrected import corrections_fact
from petsync.render.visible import visible
from petsync.render.words import count, moment, number
from petsync.table.sheet import Finding, Sheet

__all__ = [
    "coverage",
    "next_step",
    "sheet_facts",
    "sheet_summary",
    "snapshot_facts",
    "status_counts",
]

_STATUSES = 12
_TABS = 5


def sheet_facts(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """The file, its tabs that are not read, and its columns: the known ones, and those kept."""
    tab = f", tab {sheet.tab}" if sheet.tab else ""
    yield "file", visible(f"{sheet.source}{tab}")
    if sheet.tabs:
        more = f" and {len(sheet.tabs) - _TABS} more" if len(sheet.tabs) > _TABS else ""
        yield "not read", visible(f"{_named(sheet.tabs[:_TABS])}{more}")
    yield from corrections_fact(sheet)
    # The frame has the column `action` even where the file has not.
    known = (str(name) for name in sheet.frame.columns if str(name) in sheet.columns)
    yield "columns", ", ".join(map(visible, known))
    if len(sheet.others.columns):
        yield "kept", ", ".join(visible(str(name)) for name in sheet.others.columns)


def _named(tabs: Sequence[str]) -> str:
    return f"{'tab' if len(tabs) == 1 else 'tabs'} {', '.join(tabs)}"


def sheet_summary(sheet: Sheet) -> str:
    """One sentence: how many rows can be used, and what was found."""
    if not sheet.problems:
        return f"Checked: {count(len(sheet), 'row')}, no findings."
    warnings = len(sheet.problems) - sheet.errors
    return (
        f"Checked: {count(len(sheet), 'row')} can be used, {number(len(sheet.blocked))} blocked; "
        f"{count(sheet.errors, 'error')}, {count(warnings, 'warning')}."
    )


def next_step(findings: Sequence[Finding]) -> str:
    """What to do about findings, and where each code is explained."""
    where = "docs/findings.md explains each code."
    if any(finding.severity == "error" for finding in findings):
        return (
            "A plan leaves the blocked rows and their pets alone: mend the cells, and check again. "
            f"{where}"
        )
    return f"No row is blocked: warnings tell how cells were read. {where}"


def snapshot_facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The store, the moment, and how many pets it listed in copies that differ."""
    yield "store", visible(snapshot.source)
    yield "taken", moment(snapshot.taken_at)
    if snapshot.reread:
        pets = count(len(snapshot.reread), "pet")
        yield "read again", f"{pets} by id, listed in copies that differ"


def status_counts(snapshot: Snapshot) -> list[tuple[str, int]]:
    """The pets by visible status, the most frequent first, few enough to look at."""
    counts = snapshot.frame["status"].value_counts(dropna=False)
    pairs = [(_status(status), int(total)) for status, total in counts.items()]
    rest = sum(total for _, total in pairs[_STATUSES:])
    return [*pairs[:_STATUSES], *([("(other statuses)", rest)] if rest else [])]


def coverage(snapshot: Snapshot) -> str:
    """What the snapshot is the union of, and so what its silence does not prove."""
    asked = ", ".join(visible(status) for status in snapshot.coverage.statuses) or "none"
    lacks = (
        f" The pets of the status {visible(query.asked)} are missing: {visible(query.problem)}."
        for query in snapshot.coverage.failed
    )
    return (
        f"{count(len(snapshot), 'pet')}. Covers the statuses {asked}; a pet of another status "
        f"may exist without being here.{''.join(lacks)}"
    )


def _status(status: object) -> str:
    return (visible(status) or "(empty)") if isinstance(status, str) else "(no status)"
