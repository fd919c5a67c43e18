"""Rounds as lines: one with all that it left, and several as a table with what needs a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from petsync.diff.round import Open, Round
from petsync.diff.round_report import RoundReport
from petsync.render import lines, words
from petsync.render import round_words as said
from petsync.render.digest import first
from petsync.render.round_opens import about, gathered, sentence
from petsync.render.visible import shorten, visible

__all__ = ["list_lines", "round_lines", "rounds_lines"]

_FEW = 20
_JOB = 12
_ID = 22
"""Of an id, the moment: rounds are found by their beginning."""
_HEADS = ("status", "job", "to store", "to sheet", "took")
_UNMADE = "(in brackets: planned, and not made)"
_ALL = "All of it: `--limit 0`, or as a page with `--report FILE.html`."
_WELL = "Nothing needs a person."


def round_lines(told: RoundReport, width: int = 80, *, limit: int | None = 20) -> Iterator[Text]:
    """The round, and the first `limit` of each kind of difference that it left."""
    round_ = told.round
    yield Text(f"petsync round of {shorten(visible(round_.name), width - 17)}", "bold")
    yield from lines.facts(said.facts(told), width)
    yield lines.BLANK
    yield from lines.facts(said.sides_said(round_), width)
    yield from _opens(told, limit, width)
    yield from _commands(round_, width)
    yield lines.BLANK
    yield from _ended(round_, width)
    yield from _kept([told], width)


def rounds_lines(
    rounds: Sequence[RoundReport], width: int = 80, *, limit: int | None = 5
) -> Iterator[Text]:
    """A table of the rounds, and of each that left anything the first `limit` of each kind.

    A command to be typed is one line, however long it is.
    """
    yield from list_lines([told.round for told in rounds], width)
    for told in rounds:
        if told.round.is_well and not told.open:
            continue
        yield from lines.heading(visible(told.round.name), width)
        yield from _ended(told.round, width, indent=2)
        yield from _opens(told, limit, width)
        if not told.round.is_well:
            yield from _commands(told.round, width)
    if rounds and all(told.round.is_well for told in rounds):
        yield lines.BLANK
        yield Text(_WELL)
    if any(told.round.dry_run and _is_long(told, limit) for told in rounds):
        yield from lines.heading(_ALL, width, style="dim")
    yield from _kept(rounds, width)


def _is_long(told: RoundReport, limit: int | None) -> bool:
    groups = said.by_kind(told.open).values()
    return limit is not None and any(len(found) > limit for found in groups)


def _kept(rounds: Sequence[RoundReport], width: int) -> Iterator[Text]:
    """What was written into sheets, where they are as they were before, and the reports."""
    for told in rounds:
        if told.round.backup:
            taken = f"The sheet of {visible(told.round.name)}: {said.written(told)}. Before it was:"
            yield from lines.heading(taken, width, style="")
            yield from lines.unbroken(visible(told.round.backup), width, indent=2)
    if pages := [told.round.report for told in rounds if told.round.report]:
        yield from lines.heading(f"Report{'' if len(pages) == 1 else 's'}:", width, style="")
    for page in pages[:_FEW]:
        yield from lines.unbroken(visible(page), width, indent=2)
    yield from lines.more(len(pages[_FEW:]))


def list_lines(rounds: Sequence[Round], width: int = 80, *, begun: bool = False) -> Iterator[Text]:
    """A table of the rounds, a line each; with `begun`, with the moment at which each began, and
    the beginning of its id.
    """
    if not rounds:
        yield Text("No round was made.")
        return
    rows = [_cells(round_, begun=begun) for round_ in rounds]
    heads = (*(["round (begun, UTC)"] if begun else []), *_HEADS)
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    job = heads.index("job")
    spare = width - 2 * len(heads) - (sum(widths) - widths[job])
    widths[job] = min(widths[job], max(spare, _JOB))
    yield _line(heads, widths, "dim")
    for round_, row in zip(rounds, rows, strict=True):
        yield _line(row, widths, _style(round_))
    if any(cell.startswith("(") for row in rows for cell in row[-3:-1]):
        yield Text(f"  {_UNMADE}", "dim")


def _cells(round_: Round, *, begun: bool) -> tuple[str, ...]:
    end = said.ENDS[round_.status]
    return (
        *([shorten(visible(round_.id[:_ID]), _ID)] if begun else []),
        f"{end.sign} {end.title}{' (dry run)' if round_.dry_run else ''}",
        visible(round_.name),
        said.planned(round_, round_.to_store),
        said.planned(round_, round_.to_sheet),
        words.duration(round_.seconds),
    )


def _line(cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    fitted = [shorten(text, width) for text, width in zip(cells, widths, strict=True)]
    padded = (t + " " * (w - cell_len(t)) for t, w in zip(fitted, widths, strict=True))
    return Text(f"  {'  '.join(padded)}".rstrip(), style)


def _style(round_: Round) -> str:
    return lines.STYLE[said.LEVELS[said.ENDS[round_.status].level]]


def _ended(round_: Round, width: int, *, indent: int = 0) -> Iterator[Text]:
    style = "bold" if round_.is_well else f"bold {_style(round_)}"
    yield from lines.paragraph(said.headline(round_), width, indent=indent, style=style)
    if why := said.reason(round_):
        for line in why.splitlines():
            yield from lines.unbroken(line, width, indent=indent)


def _opens(told: RoundReport, limit: int | None, width: int) -> Iterator[Text]:
    for kind, found in said.by_kind(told.open).items():
        title = f"{said.open_title(kind, len(found))}: {said.kept_title(kind)}"
        yield from lines.heading(title, width)
        yield from lines.paragraph(said.way_out(kind, told.round), width, indent=2, style="dim")
        many, few = gathered(found, _FEW if limit is None else limit)
        for problem, group in many:
            yield from lines.item(said.MARKS[kind], f"{sentence(problem, group)}.", width)
        listing = first(few, limit)
        for each in listing.shown:
            yield from lines.item(said.MARKS[kind], visible(_said(each)), width)
        yield from lines.more(listing.more)


def _said(each: Open) -> str:
    """`Pets!B18, pet 17 (Bella), name: what is the matter. What to do`."""
    whole = [each.address, about(each), said.fields_of(each)]
    place = ", ".join(dict.fromkeys(filter(None, whole)))
    return ": ".join(filter(None, (place, words.sentences(each.problem, each.hint))))


def _commands(round_: Round, width: int) -> Iterator[Text]:
    found = list(said.commands(round_))
    if not found:
        return
    yield from lines.heading(said.TYPED, width, style="")
    for command in found:
        yield Text(f"  {command.line}", "bold")
        yield from lines.paragraph(command.purpose, width, indent=6, style="dim")
