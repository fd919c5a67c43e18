"""What a sheet is to take from the store, as lines, and as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rich.text import Text

from petsync.diff.intake import Inbound
from petsync.diff.released import release_of
from petsync.diff.round import SheetChange
from petsync.render import lines
from petsync.render.visible import quoted, visible

__all__ = ["intake_lines", "intake_text"]

_ALL = "All of them: `petsync apply` with `--limit 0`; the report of the round has them, too."
_SAID = {"add": "new row", "update": "", "delete": "row goes"}


def intake_lines(inbound: Inbound, *, width: int = 80, limit: int | None = 20) -> Iterator[Text]:
    """How many rows come, change and go in which sheet, and the first `limit` of them."""
    counts, rows = inbound.counts, inbound.changes
    yield from lines.paragraph(f"For the sheet {inbound.source}", width, style="bold")
    yield from lines.paragraph(f"from {inbound.store}", width)
    said = f"{counts.update:,} rows change, {counts.add:,} come, {counts.delete:,} go."
    yield from lines.heading(said, width)
    if release := release_of([note.problem for note in inbound.notes[:1]]):
        yield from lines.paragraph(release, width, style=f"bold {lines.STYLE['warning']}")
    for change in islice(rows, limit):
        yield from lines.item(change.kind, _line(change), width)
    left = 0 if limit is None else max(0, len(rows) - limit)
    yield from lines.more(left)
    if left:
        yield from lines.paragraph(_ALL, width, style="dim")


def intake_text(inbound: Inbound, *, width: int = 80) -> str:
    """The same as plain text."""
    return "\n".join(line.plain.rstrip() for line in intake_lines(inbound, width=width))


def _line(change: SheetChange) -> str:
    place = change.address or _SAID[change.kind]
    head = f"{place}: pet {change.pet_id} {visible(change.name)}".rstrip()
    if change.kind == "update":
        each = [f"{c} {quoted(a)} -> {quoted(b)}" for c, (a, b) in change.values.items()]
        return f"{head}: {', '.join(each)}"
    return f"{head} ({_SAID[change.kind]})" if change.address else head
