"""Images and uploads as text and HTML."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from petsync.plan.report import OUTCOMES, Outcome
from petsync.plan.uploads import (
    Fate,
    Picture,
    PictureProblem,
    Pictures,
    UploadedFile,
    UploadReport,
    treatment,
)
from petsync.report import html, text, words
from petsync.report.html import element, table_cell
from petsync.report.words import Mark, alike, beyond, count, first, moment, number, shorten
from petsync.table.cells import visible

__all__ = [
    "GROUPS",
    "LEFT_OUT",
    "OF_RUNS",
    "PROBLEMS",
    "about",
    "file_place",
    "group_mark",
    "of_pet",
    "outcome_name",
    "outcome_title",
    "pictures_facts",
    "pictures_html",
    "pictures_lines",
    "pictures_summary",
    "pictures_text",
    "said_of",
    "said_of_problem",
    "show_pictures",
    "show_uploaded",
    "size",
    "subject_words",
    "uploaded_facts",
    "uploaded_html",
    "uploaded_lines",
    "uploaded_summary",
    "uploaded_text",
]


# How images are said: sizes, what becomes of each, and the sentence that sums an upload up.


GROUPS: Mapping[Fate, str] = {
    "doubtful": "sent before without an answer, and nothing shows whether they came through: "
    "--again sends them once more",
    "new": "to upload",
    "retry": "to upload, as an earlier upload did not come through",
    "again": "to upload once more",
    "confirm": "came through in an earlier run that did not see it: only noted",
    "already": "uploaded before: left alone",
    "twice": "there twice for the same pet: one of each is enough",
}
"""What becomes of pictures, what a person has to look at first."""
OF_RUNS: frozenset[Fate] = frozenset(("already", "confirm", "doubtful"))
"""Pictures of which there is to say which run had to do with them."""
PROBLEMS = "not uploaded"
LEFT_OUT = "beside the pictures, and left out"

_MARKS: Mapping[Fate, Mark] = {
    "doubtful": "conflict",
    "new": "add",
    "retry": "add",
    "again": "add",
    "confirm": "applied",
    "already": "note",
    "twice": "note",
}
_TITLES: Mapping[Outcome, str] = {
    "unknown": "unknown: no answer came, and the store does not show whether it happened",
    "conflict": "in conflict",
    "applied": "uploaded",
}


def size(value: int) -> str:
    """`512 bytes`, `34.1 KiB`, `2.3 MiB`."""
    if value < 1024:
        return count(value, "byte")
    for unit in ("KiB", "MiB"):
        value_in = value / (1024 if unit == "KiB" else 1024**2)
        if value_in < 1023.95:
            return f"{value_in:.1f} {unit}"
    return f"{value / 1024**3:,.1f} GiB"


def group_mark(fate: Fate) -> Mark:
    """The symbol of pictures that this becomes of."""
    return _MARKS[fate]


def of_pet(pet_id: int | None, name: str) -> str:
    """`pet 7 (Bella)`."""
    if pet_id is None:
        return ""
    return f"pet {pet_id} ({visible(name)})" if name else f"pet {pet_id}"


def about(picture: Picture) -> str:
    """`JPEG, 3,000 × 2,000, 2.3 MiB; metadata removed: 2.2 MiB`."""
    frames = f", {number(picture.frames)} frames" if picture.frames > 1 else ""
    said = (
        f"{picture.format}, {number(picture.width)} × {number(picture.height)}{frames}, "
        f"{size(picture.size)}"
    )
    if not picture.done:
        return f"{said}; as it is"
    return f"{said}; {treatment(picture)}: {size(picture.sent_size)}"


def said_of(picture: Picture) -> str:
    """What there is to say of a picture behind its pet and file, with its metadata."""
    said = about(picture)
    if picture.fate in ("already", "confirm", "retry", "doubtful") and picture.run:
        said = f"run {picture.run}" if picture.fate != "retry" else f"{said} (run {picture.run})"
    return f"{said}; metadata: {visible(picture.metadata)}" if picture.metadata else said


def file_place(one: Picture | PictureProblem | UploadedFile) -> str:
    """The file, and the cell that names it."""
    file = visible(one.file)
    return f"{visible(one.source)}, {file}" if one.source and file else visible(one.source) or file


def subject_words(one: PictureProblem | UploadedFile) -> str:
    """The file, its cell and its pet."""
    name = one.pet if isinstance(one, UploadedFile) else ""
    return ", ".join(part for part in (file_place(one), of_pet(one.pet_id, name)) if part)


def said_of_problem(one: PictureProblem | UploadedFile) -> str:
    """Why, and what to do about it."""
    why = one.problem if isinstance(one, PictureProblem) else one.message
    return visible(words.sentences(why, one.cure))


def outcome_name(outcome: Outcome) -> str:
    """The outcome in one word."""
    return "uploaded" if outcome == "applied" else outcome


def outcome_title(outcome: Outcome, total: int) -> str:
    """The heading of so many files with this outcome."""
    return f"{number(total)} {_TITLES.get(outcome) or words.inflect_outcome(outcome, total)}"


def pictures_facts(pictures: Pictures) -> Iterator[tuple[str, str]]:
    """What was looked at, for which store, and how it is made ready."""
    yield "store", visible(pictures.store)
    yield "pictures", visible(pictures.source)
    yield "looked at", moment(pictures.created)
    options = pictures.options
    asked = ["metadata kept"] if options.keep_metadata else []
    asked += [f"no side over {number(options.max_side)} pixels"] if options.max_side else []
    if asked:
        yield "made ready", ", ".join(asked)


def pictures_summary(pictures: Pictures) -> str:
    """One sentence: how much is sent to how many pets, and what is not."""
    sent = pictures.to_send
    pets = len({picture.pet_id for picture in sent})
    fates = Counter(picture.fate for picture in pictures.pictures)
    rest = [
        (fates["already"], "uploaded before"),
        (fates["confirm"], "to note as uploaded"),
        (fates["twice"], "there twice"),
        (fates["doubtful"], "in doubt"),
        (len(pictures.blocked), "not uploaded"),
        (len(pictures.problems) - len(pictures.blocked), "left out"),
        (pictures.ignored, "ignored"),
    ]
    told = [f"{number(total)} {what}" for total, what in rest if total]
    if not sent:
        return f"Nothing to upload: {', '.join(told) or 'there is no picture'}."
    said = f"To upload: {count(len(sent), 'picture')} of {count(pets, 'pet')}, "
    return (
        "; ".join([said + size(pictures.total_bytes), *([", ".join(told)] if told else [])]) + "."
    )


def uploaded_facts(report: UploadReport) -> Iterator[tuple[str, str]]:
    """What was uploaded, where to, and when."""
    yield "store", visible(report.store)
    yield "pictures", visible(report.source)
    yield "begun", f"{moment(report.started)}, took {words.duration(report.seconds)}"


def uploaded_summary(report: UploadReport) -> str:
    """One sentence: how it ended, and how many files had each outcome."""
    counts = report.counts
    said = ", ".join(
        f"{number(counts[outcome])} {words.inflect_outcome(outcome_name(outcome), counts[outcome])}"
        for outcome in OUTCOMES
        if counts[outcome] or outcome == "applied"
    )
    sent = f" ({size(report.total_bytes)})" if report.total_bytes else ""
    if report.stopped:
        return f"Stopped early: {said}{sent}. The same command again does the rest."
    return f"{'Done with problems' if report.exit_code else 'Done'}: {said}{sent}."


# Images that would be uploaded, and what became of them, as HTML.


_PICTURES = ("", "File", "Id", "Pet", "Picture", "Metadata")
_PROBLEMS = ("", "File", "Id", "Why, and what to do")
File = PictureProblem | UploadedFile
_SAID = ("Why, and what to do", "What happened")
_FILES = ("", "File", "Id", "Pet", "What happened", "Address")


def pictures_html(pictures: Pictures, *, limit: int | None = 20) -> str:
    """The pictures with the first `limit` of each sort, what is not uploaded first."""
    return html.fragment(_pictures_html(pictures, limit))


def uploaded_html(report: UploadReport, *, limit: int | None = 20) -> str:
    """The report with the first `limit` files of each outcome, failures first."""
    return html.fragment(_report(report, limit))


def _pictures_html(pictures: Pictures, limit: int | None) -> Iterator[str]:
    fold_over = html.fold_over(limit)
    yield html.summary(pictures_summary(pictures))
    yield html.facts(pictures_facts(pictures))
    yield _problems_html(PROBLEMS, pictures.blocked, limit)
    groups = defaultdict[Fate, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.fate].append(picture)
    for fate, title in GROUPS.items():
        told = f"{words.count(len(groups[fate]), 'picture')} {title}"
        shown = first(groups[fate], limit)
        yield html.listing(told, shown, _PICTURES, _picture, fold_over=fold_over)
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    yield _problems_html(LEFT_OUT, left_out, limit)


def _problems_html(title: str, problems: Sequence[PictureProblem], limit: int | None) -> str:
    if not problems:
        return ""
    return _alike_html(f"{words.count(len(problems), 'file')} {title}", problems, _PROBLEMS, limit)


def _alike_html(
    title: str, files: Sequence[File], columns: Sequence[str], limit: int | None
) -> str:
    """A part that folds, of files; what is to be said of several is said once above them."""
    groups = alike(files, said_of_problem)
    several = [(told, members) for told, members in groups if len(members) > 1 and told]
    rest = [one for told, members in groups if len(members) == 1 or not told for one in members]
    inner = [
        element("p", f"{words.count(len(members), 'file')}: {html.text(told)}")
        + _table([name for name in columns if name not in _SAID], members, limit, short=True)
        for told, members in several[:limit]
    ]
    inner += [_more(beyond(several, limit)), _table(columns, rest, limit, short=False)]
    shown = sum(min(len(members), limit or len(members)) for _, members in groups)
    parts = "\n".join(filter(None, inner))
    return html.folding(title, parts, open_=shown <= html.fold_over(limit))


def _table(columns: Sequence[str], files: Sequence[File], limit: int | None, *, short: bool) -> str:
    if not files:
        return ""
    listing = first(files, limit)
    rows = (_line(one, short=short) for one in listing.shown)
    return f"{html.table(columns, rows)}{_more(listing.more)}"


def _more(total: int) -> str:
    return f"\n<p>... and {words.number(total)} more</p>" if total else ""


def _report(report: UploadReport, limit: int | None) -> Iterator[str]:
    yield html.summary(uploaded_summary(report))
    run = [("run", report.run_id)] if report.run_id else []
    yield html.facts([*run, *uploaded_facts(report)])
    if report.stopped:
        yield html.alert(words.STOPPED, map(html.text, report.stopped.splitlines()))
    yield _totals_html(report)
    for outcome in (*words.TO_LOOK_AT, *(o for o in OUTCOMES if o not in words.TO_LOOK_AT)):
        files = [result for result in report.results if result.outcome == outcome]
        title = outcome_title(outcome, len(files))
        if outcome == "applied":
            line = partial(_line, short=False)
            yield html.listing(title, first(files, limit), _FILES, line, fold_over=0)
        elif files:
            yield _alike_html(title, files, _FILES, limit)


def _totals_html(report: UploadReport) -> str:
    told = [(outcome_name(outcome), total) for outcome, total in report.counts.items()]
    rows = [_total(name, value) for name, value in (*told, ("total", len(report.results)))]
    return html.table(("Outcome", "Files"), rows, small=True)


def _total(name: str, value: int) -> str:
    number = element("td", words.number(value), class_="ps-number")
    return element("tr", html.row_head(name) + number)


def _picture(one: Picture) -> str:
    return html.row(
        group_mark(one.fate),
        table_cell(file_place(one), kind="ps-where"),
        table_cell(str(one.pet_id), kind="ps-number"),
        table_cell(one.pet),
        table_cell(about(one)),
        table_cell(one.metadata or ""),
    )


def _line(one: File, *, short: bool) -> str:
    """A file's row; a short one does not say why."""
    why = [] if short else [table_cell(said_of_problem(one))]
    where = table_cell(file_place(one), kind="ps-where")
    pet = table_cell("" if one.pet_id is None else str(one.pet_id), kind="ps-number")
    if isinstance(one, PictureProblem):
        return html.row("blocked" if one.blocks else "note", where, pet, *why)
    mark, urls = words.OUTCOME_MARK[one.outcome], table_cell(" ".join(one.urls))
    return html.row(mark, where, pet, table_cell(one.pet), *why, urls)


# Images that would be uploaded, and what became of them, as lines of a terminal.


_NARROW, _WIDE = 60, 100
_FILE = 60
_UNDER = 6


def pictures_lines(
    pictures: Pictures, *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """The pictures with the first `limit` of each sort, what is not uploaded first."""
    yield Text("petsync upload", "bold")
    yield from text.facts(pictures_facts(pictures), width)
    blocked = pictures.blocked
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    yield from _problems_text(PROBLEMS, blocked, limit, width)
    groups = defaultdict[Fate, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.fate].append(picture)
    for fate, title in GROUPS.items():
        yield from _pictures_text(fate, title, groups[fate], limit, width)
    yield from _problems_text(LEFT_OUT, left_out, limit, width)
    for note in pictures.notes:
        yield from text.item("note", visible(note), width)
    yield text.BLANK
    yield from text.paragraph(pictures_summary(pictures), width, style="bold")


def uploaded_lines(
    report: UploadReport, *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """The report with the first `limit` files of each outcome, failures first."""
    head = f"petsync upload {visible(report.run_id)}".rstrip()
    yield Text(head, "bold")
    yield from text.facts(uploaded_facts(report), width)
    yield text.BLANK
    yield from _totals_text(report)
    for outcome in words.TO_LOOK_AT:
        files = [result for result in report.results if result.outcome == outcome]
        if files:
            yield from text.heading(outcome_title(outcome, len(files)), width)
            yield from _alike_text(files, words.OUTCOME_MARK[outcome], limit, width)
    if report.stopped:
        yield from text.heading(words.STOPPED, width)
        for line in report.stopped.splitlines():
            yield from text.paragraph(visible(line), width, indent=2)
    yield text.BLANK
    yield from text.paragraph(uploaded_summary(report), width, style="bold")


def pictures_text(pictures: Pictures, *, limit: int | None = 20, width: int = 80) -> str:
    """The lines as plain text."""
    return _join_lines(pictures_lines(pictures, limit=limit, width=width))


def uploaded_text(report: UploadReport, *, limit: int | None = 20, width: int = 80) -> str:
    """The lines as plain text."""
    return _join_lines(uploaded_lines(report, limit=limit, width=width))


def show_pictures(pictures: Pictures, console: Console, *, limit: int | None = 20) -> None:
    """Print what would be uploaded."""
    _show(pictures_lines(pictures, limit=limit, width=_width(console)), console)


def show_uploaded(report: UploadReport, console: Console, *, limit: int | None = 20) -> None:
    """Print what became of each file."""
    _show(uploaded_lines(report, limit=limit, width=_width(console)), console)


def _problems_text(
    title: str, problems: Sequence[PictureProblem], limit: int | None, width: int
) -> Iterator[Text]:
    if problems:
        yield from text.heading(f"{words.count(len(problems), 'file')} {title}", width)
    mark: words.Mark = "blocked" if problems and problems[0].blocks else "note"
    yield from _alike_text(problems, mark, limit, width)


def _alike_text(
    files: Sequence[PictureProblem | UploadedFile], mark: words.Mark, limit: int | None, width: int
) -> Iterator[Text]:
    """The files; where the same is to be said of several, it is said once above them."""
    groups = alike(files, said_of_problem)
    for told, members in groups[:limit]:
        if len(members) == 1 or not told:
            listing = first(members, limit)
            for one in listing.shown:
                subject = shorten(subject_words(one), _FILE)
                yield from text.item(mark, f"{subject}: {told}", width)
        else:
            yield from text.item(mark, f"{words.count(len(members), 'file')}: {told}", width)
            listing = first(members, limit)
            for one in listing.shown:
                subject = shorten(subject_words(one), _FILE)
                yield from text.paragraph(subject, width, indent=_UNDER)
        yield from text.more(listing.more)
    yield from text.more(beyond(groups, limit))


def _pictures_text(
    fate: Fate, title: str, pictures: Sequence[Picture], limit: int | None, width: int
) -> Iterator[Text]:
    if not pictures:
        return
    yield from text.heading(f"{words.count(len(pictures), 'picture')} {title}", width)
    if fate not in OF_RUNS:
        yield from _render_pictures(pictures, limit, width, each=True)
        return
    groups = alike(pictures, said_of)
    for told, members in groups[:limit]:
        if len(members) > 1:
            yield from text.paragraph(told, width, indent=2, style="dim")
        yield from _render_pictures(members, limit, width, each=len(members) == 1)
    yield from text.more(beyond(groups, limit))


def _render_pictures(
    pictures: Sequence[Picture], limit: int | None, width: int, *, each: bool
) -> Iterator[Text]:
    listing = first(pictures, limit)
    for one in listing.shown:
        identity, name = f"pet {one.pet_id}", visible(one.pet)
        yield text.spread_item(group_mark(one.fate), identity, name, file_place(one), width)
        if each:
            yield from text.paragraph(said_of(one), width, indent=_UNDER, style="dim")
    yield from text.more(listing.more)


def _totals_text(report: UploadReport) -> Iterator[Text]:
    counts = report.counts
    totals = [(outcome_name(outcome), counts[outcome]) for outcome in OUTCOMES]
    totals += [("total", len(report.results))]
    column = max(len(words.number(value)) for _, value in totals)
    for name, value in totals:
        style = "bold" if name == "total" else "" if value else "dim"
        yield Text(f"  {name:<13}{words.number(value):>{column}}", style)


def _join_lines(told: Iterable[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in told)


def _width(console: Console) -> int:
    return min(max(console.width, _NARROW), _WIDE)


def _show(told: Iterable[Text], console: Console) -> None:
    for line in told:
        line.rstrip()
        console.print(line, soft_wrap=True)
