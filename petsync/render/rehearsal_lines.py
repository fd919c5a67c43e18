"""A rehearsal as lines: what came of the rows, how the store would look, and a second plan."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.rehearsal import Rehearsal
from petsync.render import lines, words
from petsync.render import rehearsal_words as said
from petsync.render.digest import first
from petsync.render.report_lines import outcome_lines
from petsync.render.visible import shorten, visible

__all__ = ["rehearsal_lines"]

_COLUMNS = ("before", "added", "deleted", "moved_in", "moved_out", "after")
_STATUS = 18


def rehearsal_lines(
    rehearsal: Rehearsal, *, limit: int | None = 5, width: int = 80
) -> Iterator[Text]:
    """The rehearsal with the first `limit` rows of each sort, in lines of at most `width` cells."""
    yield Text(said.NOTHING_SENT, "bold")
    yield from lines.facts(said.rehearsal_facts(rehearsal), width)
    yield from _refused(rehearsal, width)
    yield from lines.heading(said.ROWS, width)
    yield from outcome_lines(rehearsal.report, limit=limit, width=width, is_over=True)
    yield from _look(rehearsal, width)
    yield from _new(rehearsal, limit, width)
    yield from _surprises(rehearsal, limit, width)
    yield from _again(rehearsal, limit, width)
    yield from _notes(rehearsal, width)
    yield lines.BLANK
    style = "bold green" if rehearsal.ok else "bold"
    yield from lines.paragraph(said.rehearsal_summary(rehearsal), width, style=style)


def _refused(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    if not rehearsal.plan.verdict.ok:
        yield from lines.heading(said.REFUSED, width, style="bold red")
        for refusal in said.refusals(rehearsal):
            yield from lines.item("conflict", refusal, width)


def _look(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    table = rehearsal.by_status()
    yield from lines.heading(said.LOOK, width)
    names = [visible(str(status)) or said.NO_STATUS for status in table.index]
    column = min(_STATUS, max(map(cell_len, [*names, "all"])))
    yield Text(f"  {'':<{column}}{''.join(map(_titled, _COLUMNS))}", "dim")
    for name, row in zip(names, table[list(_COLUMNS)].to_numpy().tolist(), strict=True):
        yield _status(name, row, column)
    yield _status("all", table[list(_COLUMNS)].sum().tolist(), column, style="bold")


def _status(name: str, numbers: list[int], column: int, *, style: str = "") -> Text:
    fitted = shorten(name, column)
    pad = " " * (column - cell_len(fitted))
    shown = (words.number(n) if n or at in (0, 5) else "" for at, n in enumerate(numbers))
    told = "".join(f"{text:>10}" for text in shown)
    return Text(f"  {fitted}{pad}{told}", style)


def _titled(column: str) -> str:
    return f"{column.replace('_', ' '):>10}"


def _new(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    listing = first(rehearsal.assigned(), limit)
    if not listing.total:
        return
    yield from lines.heading(said.new_title(listing.total), width)
    column = max(len(str(pet_id)) for _, pet_id in listing.shown)
    for change, pet_id in listing.shown:
        number = f"{pet_id:>{column}}"
        yield lines.spread("add", number, words.name_of(change.after), change.source, width)
    yield from lines.more(listing.more)


def _surprises(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    listing = first(said.surprises(rehearsal), limit)
    if listing.total:
        yield from lines.heading(said.surprise_title(listing.total), width)
    for each in listing.shown:
        where = f"{each.where}, {each.pet}" if each.where else each.pet
        yield from lines.item("conflict", visible(f"{where}: {each.said}"), width)
    yield from lines.more(listing.more)
    if missed := said.unapplied(rehearsal):
        yield lines.BLANK
        yield from lines.paragraph(missed, width)


def _again(rehearsal: Rehearsal, limit: int | None, width: int) -> Iterator[Text]:
    yield from lines.heading(said.AGAIN, width)
    yield from lines.paragraph(said.again_said(rehearsal), width, indent=2)
    for why, listing in said.left_by_reason(rehearsal, limit).items():
        title = said.left_title(why, listing.total)
        yield from lines.paragraph(title, width, indent=2)
        for left in listing.shown:
            yield from lines.item(left.change.kind, visible(said.left_where(left)), width)
        yield from lines.more(listing.more)


def _notes(rehearsal: Rehearsal, width: int) -> Iterator[Text]:
    if rehearsal.notes:
        yield from lines.heading("Notes", width)
    for note in rehearsal.notes:
        yield from lines.item("note", visible(note), width)
