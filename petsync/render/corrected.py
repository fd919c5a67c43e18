"""That cells were corrected as their sheet was read, wherever sheet, plan or report is shown."""

from __future__ import annotations

from collections.abc import Iterator

from petsync.diff.plan import Plan
from petsync.render.visible import visible
from petsync.table.sheet import Sheet

__all__ = ["corrections_fact"]

_CELLS = 2


def corrections_fact(read: Plan | Sheet) -> Iterator[tuple[str, str]]:
    """Which cells say something else than in the file, if any do."""
    cells = [visible(each.address) for each in read.corrections]
    if cells:
        more = f" and {len(cells) - _CELLS:,} more" if len(cells) > _CELLS else ""
        total = "1 cell" if len(cells) == 1 else f"{len(cells):,} cells"
        yield "corrected", f"{total}, not in the file: {', '.join(cells[:_CELLS])}{more}"
