"""Images that would be uploaded, and what became of them, as lines of a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from petsync.diff.pictures import Fate, Picture, PictureProblem, Pictures
from petsync.diff.report import OUTCOMES
from petsync.diff.uploaded import Uploaded, UploadedFile
from petsync.render import lines, words
from petsync.render import pictures_words as said
from petsync.render.alike import alike, beyond
from petsync.render.digest import first
from petsync.render.visible import shorten, visible

__all__ = [
    "pictures_lines",
    "pictures_text",
    "show_pictures",
    "show_uploaded",
    "uploaded_lines",
    "uploaded_text",
]

_NARROW, _WIDE = 60, 100
_FILE = 60
_UNDER = 6


def pictures_lines(
    pictures: Pictures, *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """The pictures with the first `limit` of each sort, what is not uploaded first."""
    yield Text("petsync upload", "bold")
    yield from lines.facts(said.pictures_facts(pictures), width)
    blocked = pictures.blocked
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    yield from _problems(said.PROBLEMS, blocked, limit, width)
    groups = defaultdict[Fate, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.fate].append(picture)
    for fate, title in said.GROUPS.items():
        yield from _pictures(fate, title, groups[fate], limit, width)
    yield from _problems(said.LEFT_OUT, left_out, limit, width)
    for note in pictures.notes:
        yield from lines.item("note", visible(note), width)
    yield lines.BLANK
    yield from lines.paragraph(said.pictures_summary(pictures), width, style="bold")


def uploaded_lines(report: Uploaded, *, limit: int | None = 20, width: int = 80) -> Iterator[Text]:
    """The report with the first `limit` files of each outcome, failures first."""
    head = f"petsync upload {visible(report.run_id)}".rstrip()
    yield Text(head, "bold")
    yield from lines.facts(said.uploaded_facts(report), width)
    yield lines.BLANK
    yield from _totals(report)
    for outcome in words.TO_LOOK_AT:
        files = [result for result in report.results if result.outcome == outcome]
        if files:
            yield from lines.heading(said.outcome_title(outcome, len(files)), width)
            yield from _alike(files, words.OUTCOME_MARK[outcome], limit, width)
    if report.stopped:
        yield from lines.heading(words.STOPPED, width)
        for line in report.stopped.splitlines():
            yield from lines.paragraph(visible(line), width, indent=2)
    yield lines.BLANK
    yield from lines.paragraph(said.uploaded_summary(report), width, style="bold")


def pictures_text(pictures: Pictures, *, limit: int | None = 20, width: int = 80) -> str:
    """The lines as plain text."""
    return _joined(pictures_lines(pictures, limit=limit, width=width))


def uploaded_text(report: Uploaded, *, limit: int | None = 20, width: int = 80) -> str:
    """The lines as plain text."""
    return _joined(uploaded_lines(report, limit=limit, width=width))


def show_pictures(pictures: Pictures, console: Console, *, limit: int | None = 20) -> None:
    """Print what would be uploaded."""
    _show(pictures_lines(pictures, limit=limit, width=_width(console)), console)


def show_uploaded(report: Uploaded, console: Console, *, limit: int | None = 20) -> None:
    """Print what became of each file."""
    _show(uploaded_lines(report, limit=limit, width=_width(console)), console)


def _problems(
    title: str, problems: Sequence[PictureProblem], limit: int | None, width: int
) -> Iterator[Text]:
    if problems:
        yield from lines.heading(f"{words.count(len(problems), 'file')} {title}", width)
    mark: words.Mark = "blocked" if problems and problems[0].blocks else "note"
    yield from _alike(problems, mark, limit, width)


def _alike(
    files: Sequence[PictureProblem | UploadedFile], mark: words.Mark, limit: int | None, width: int
) -> Iterator[Text]:
    """The files; where the same is to be said of several, it is said once above them."""
    groups = alike(files, said.said_of_problem)
    for told, members in groups[:limit]:
        if len(members) == 1 or not told:
            listing = first(members, limit)
            for one in listing.shown:
                subject = shorten(said.subject(one), _FILE)
                yield from lines.item(mark, f"{subject}: {told}", width)
        else:
            yield from lines.item(mark, f"{words.count(len(members), 'file')}: {told}", width)
            listing = first(members, limit)
            for one in listing.shown:
                subject = shorten(said.subject(one), _FILE)
                yield from lines.paragraph(subject, width, indent=_UNDER)
        yield from lines.more(listing.more)
    yield from lines.more(beyond(groups, limit))


def _pictures(
    fate: Fate, title: str, pictures: Sequence[Picture], limit: int | None, width: int
) -> Iterator[Text]:
    if not pictures:
        return
    yield from lines.heading(f"{words.count(len(pictures), 'picture')} {title}", width)
    if fate not in said.OF_RUNS:
        yield from _listed(pictures, limit, width, each=True)
        return
    groups = alike(pictures, said.said_of)
    for told, members in groups[:limit]:
        if len(members) > 1:
            yield from lines.paragraph(told, width, indent=2, style="dim")
        yield from _listed(members, limit, width, each=len(members) == 1)
    yield from lines.more(beyond(groups, limit))


def _listed(
    pictures: Sequence[Picture], limit: int | None, width: int, *, each: bool
) -> Iterator[Text]:
    listing = first(pictures, limit)
    for one in listing.shown:
        identity, name = f"pet {one.pet_id}", visible(one.pet)
        yield lines.spread(said.group_mark(one.fate), identity, name, said.where(one), width)
        if each:
            yield from lines.paragraph(said.said_of(one), width, indent=_UNDER, style="dim")
    yield from lines.more(listing.more)


def _totals(report: Uploaded) -> Iterator[Text]:
    counts = report.counts
    totals = [(said.outcome_name(outcome), counts[outcome]) for outcome in OUTCOMES]
    totals += [("total", len(report.results))]
    column = max(len(words.number(value)) for _, value in totals)
    for name, value in totals:
        style = "bold" if name == "total" else "" if value else "dim"
        yield Text(f"  {name:<9}{words.number(value):>{column}}", style)


def _joined(told: Iterable[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in told)


def _width(console: Console) -> int:
    return min(max(console.width, _NARROW), _WIDE)


def _show(told: Iterable[Text], console: Console) -> None:
    for line in told:
        line.rstrip()
        console.print(line, soft_wrap=True)
