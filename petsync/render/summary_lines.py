"""A plan's numbers as a few aligned lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.summary import Summary
from petsync.render import lines, words

__all__ = ["summary_lines", "summary_rows"]


def summary_lines(summary: Summary, *, width: int = 80) -> Iterator[Text]:
    """The numbers, each with what it counts, and what they are made up of."""
    rows = [(name, words.number(total), said) for name, total, said in summary_rows(summary)]
    names = max(cell_len(name) for name, _, _ in rows)
    column = max(len(total) for _, total, _ in rows)
    yield Text("petsync plan, in numbers", "bold")
    for name, total, said in rows:
        start = f"  {name:<{names}}  {total:>{column}}"
        style = "dim" if total == "0" else ""
        room = width - len(start) - 2
        for n, line in enumerate(lines.paragraph(said, room) if said else [Text()]):
            yield Text.assemble((start if n == 0 else " " * len(start), style), "  ", line)
    yield lines.BLANK
    yield Text(words.KEPT if summary.ok else f"{words.REFUSED}.", "" if summary.ok else "bold red")


def summary_rows(summary: Summary) -> Iterator[tuple[str, int, str]]:
    """What is counted, how often, and what of that there is to say."""
    yield "to add", summary.adds, ""
    yield "to change", summary.updates, words.fields_changed(summary)
    yield "to delete", summary.deletes, ""
    decided = summary.conflicts - summary.open_conflicts
    won = f"{words.number(decided)} that the sheet wins" if decided else ""
    yield "conflicts", summary.conflicts, won
    yield "blocked", summary.blocked, "by errors in the sheet" if summary.blocked else ""
    agreeing = "as before" if summary.undoes else "in agreement"
    yield agreeing, summary.unchanged - summary.older - summary.gone, ""
    older = "not edited since the export, and the store has something newer"
    own = summary.older - summary.set_back
    yield "older", own, older if own else ""
    if summary.set_back:
        yield "set back", summary.set_back, "not edited since the export, and as an undo left them"
    gone = "not edited since the export, and the pet is not there any more"
    own = summary.gone - summary.taken_away
    yield "gone", own, gone if own else ""
    if summary.taken_away:
        away = "not edited since the export, and an undo took the pets away"
        yield "taken away", summary.taken_away, away
    yield "ignored", summary.ignored, ""
    yield "left out", summary.left_out, "by a selection" if summary.left_out else ""
    rows = f"that run {summary.undoes} changed" if summary.undoes else "of the sheet"
    yield "pets" if summary.undoes else "rows", summary.rows, rows
    yield "pets", summary.pets, "in the store"
