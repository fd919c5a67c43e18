"""Images and uploads as text and HTML."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from petsync.plan.report import OUTCOMES, Outcome
from petsync.plan.uploads import (
    Picture,
    PictureProblem,
    Pictures,
    UploadDecision,
    UploadedFile,
    UploadReport,
    treatment,
)
from petsync.report import html, text, words
from petsync.report.html import element, table_cell
from petsync.report.words import (
    Mark,
    count,
    count_beyond,
    first,
    format_timestamp,
    group_by_text,
    number,
    shorten,
)
from petsync.table.cells import make_visible

__all__ = [
    "DECISIONS_OF_RUNS",
    "DECISION_TITLES",
    "LEFT_OUT_TITLE",
    "PROBLEMS_TITLE",
    "describe_image",
    "describe_picture",
    "describe_problem",
    "file_place",
    "format_pet",
    "group_mark",
    "outcome_name",
    "outcome_title",
    "pictures_facts",
    "pictures_html",
    "pictures_lines",
    "pictures_summary",
    "pictures_text",
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


# The words of images: sizes, decisions, and the summary of an upload.


DECISION_TITLES: Mapping[UploadDecision, str] = {
    "unknown": "sent before without an answer, and nothing shows whether the upload arrived: "
    "--again repeats it",
    "new": "to upload",
    "retry": "to upload, as an earlier upload has not arrived",
    "again": "to upload once more",
    "confirm": "uploaded in an earlier run that could not confirm it: only recorded",
    "uploaded": "uploaded before: not sent again",
    "duplicate": "listed twice for the same pet: one copy is enough",
}
"""The titles of the decisions; those that need attention come first."""
DECISIONS_OF_RUNS: frozenset[UploadDecision] = frozenset(("uploaded", "confirm", "unknown"))
"""Decisions that depend on an earlier run, which is shown."""
PROBLEMS_TITLE = "not uploaded"
LEFT_OUT_TITLE = "left out"

_MARKS: Mapping[UploadDecision, Mark] = {
    "unknown": "conflict",
    "new": "add",
    "retry": "add",
    "again": "add",
    "confirm": "applied",
    "uploaded": "note",
    "duplicate": "note",
}
_OUTCOME_WORDS: Mapping[Outcome, str] = {
    "unknown": "unknown: no answer arrived, and the store does not show whether the upload "
    "happened",
    "conflict": "in conflict",
    "applied": "uploaded",
}


def size(value: int) -> str:
    """Format a size: `512 bytes`, `34.1 KiB`, `2.3 MiB`."""
    if value < 1024:
        return count(value, "byte")
    for unit in ("KiB", "MiB"):
        value_in = value / (1024 if unit == "KiB" else 1024**2)
        if value_in < 1023.95:
            return f"{value_in:.1f} {unit}"
    return f"{value / 1024**3:,.1f} GiB"


def group_mark(decision: UploadDecision) -> Mark:
    """Return the mark of pictures with this decision."""
    return _MARKS[decision]


def format_pet(pet_id: int | None, name: str) -> str:
    """Format a pet: `pet 7 (Bella)`."""
    if pet_id is None:
        return ""
    return f"pet {pet_id} ({make_visible(name)})" if name else f"pet {pet_id}"


def describe_image(picture: Picture) -> str:
    """Describe an image: `JPEG, 3,000 × 2,000, 2.3 MiB; metadata removed: 2.2 MiB`."""
    frames = f", {number(picture.frames)} frames" if picture.frames > 1 else ""
    description = (
        f"{picture.format}, {number(picture.width)} × {number(picture.height)}{frames}, "
        f"{size(picture.size)}"
    )
    if not picture.done:
        return f"{description}; unchanged"
    return f"{description}; {treatment(picture)}: {size(picture.sent_size)}"


def describe_picture(picture: Picture) -> str:
    """Return the description of a picture, the earlier run that sent it, or both, and the picture's
    metadata. Views show this text after the pet and the file.
    """
    description = describe_image(picture)
    if picture.decision in ("uploaded", "confirm", "retry", "unknown") and picture.run:
        description = (
            f"run {picture.run}"
            if picture.decision != "retry"
            else f"{description} (run {picture.run})"
        )
    return (
        f"{description}; metadata: {make_visible(picture.metadata)}"
        if picture.metadata
        else description
    )


def file_place(entry: Picture | PictureProblem | UploadedFile) -> str:
    """Return the file, and the cell that names it."""
    file = make_visible(entry.file)
    return (
        f"{make_visible(entry.source)}, {file}"
        if entry.source and file
        else make_visible(entry.source) or file
    )


def subject_words(entry: PictureProblem | UploadedFile) -> str:
    """Return the file, its cell and its pet."""
    name = entry.pet if isinstance(entry, UploadedFile) else ""
    return ", ".join(part for part in (file_place(entry), format_pet(entry.pet_id, name)) if part)


def describe_problem(entry: PictureProblem | UploadedFile) -> str:
    """Return the problem of the file, and what to do about it."""
    problem = entry.problem if isinstance(entry, PictureProblem) else entry.message
    return make_visible(words.sentences(problem, entry.cure))


def outcome_name(outcome: Outcome) -> str:
    """Return the outcome in one word."""
    return "uploaded" if outcome == "applied" else outcome


def outcome_title(outcome: Outcome, total: int) -> str:
    """Return the heading of `total` files with this outcome."""
    return f"{number(total)} {_OUTCOME_WORDS.get(outcome) or words.inflect_outcome(outcome, total)}"


def pictures_facts(pictures: Pictures) -> Iterator[tuple[str, str]]:
    """Yield the store, the source of the pictures, the time of the inspection, and the options."""
    yield "store", make_visible(pictures.store)
    yield "pictures", make_visible(pictures.source)
    yield "inspected", format_timestamp(pictures.created)
    options = pictures.options
    options_text = ["metadata kept"] if options.keep_metadata else []
    options_text += [f"no side over {number(options.max_side)} pixels"] if options.max_side else []
    if options_text:
        yield "options", ", ".join(options_text)


def pictures_summary(pictures: Pictures) -> str:
    """Return one sentence: the number of pictures to send, of their pets, and of the pictures not
    to send.
    """
    sent = pictures.to_send
    pets = len({picture.pet_id for picture in sent})
    decisions = Counter(picture.decision for picture in pictures.pictures)
    other_counts = [
        (decisions["uploaded"], "uploaded before"),
        (decisions["confirm"], "to record as uploaded"),
        (decisions["duplicate"], "listed twice"),
        (decisions["unknown"], "unknown"),
        (len(pictures.blocked), "not uploaded"),
        (len(pictures.problems) - len(pictures.blocked), "left out"),
        (pictures.ignored, "ignored"),
    ]
    others = [f"{number(total)} {what}" for total, what in other_counts if total]
    if not sent:
        return f"Nothing to upload: {', '.join(others) or 'there is no picture'}."
    sentence = f"To upload: {count(len(sent), 'picture')} of {count(pets, 'pet')}, "
    return (
        "; ".join([sentence + size(pictures.total_bytes), *([", ".join(others)] if others else [])])
        + "."
    )


def uploaded_facts(report: UploadReport) -> Iterator[tuple[str, str]]:
    """Yield the store, the source of the pictures, and the time of the upload."""
    yield "store", make_visible(report.store)
    yield "pictures", make_visible(report.source)
    yield "begun", f"{format_timestamp(report.started)}, took {words.duration(report.seconds)}"


def uploaded_summary(report: UploadReport) -> str:
    """Return one sentence: how the upload ended, and the number of files with each outcome."""
    counts = report.counts
    outcome_counts = ", ".join(
        f"{number(counts[outcome])} {words.inflect_outcome(outcome_name(outcome), counts[outcome])}"
        for outcome in OUTCOMES
        if counts[outcome] or outcome == "applied"
    )
    sent = f" ({size(report.total_bytes)})" if report.total_bytes else ""
    if report.stopped:
        return (
            f"Stopped early: {outcome_counts}{sent}. Run the same command again to upload the rest."
        )
    return f"{'Done with problems' if report.exit_code else 'Done'}: {outcome_counts}{sent}."


# Images to upload, and upload reports, as HTML.


_PICTURES = ("", "File", "Id", "Pet", "Picture", "Metadata")
_PROBLEMS = ("", "File", "Id", "Why, and what to do")
File = PictureProblem | UploadedFile
_REASON_COLUMNS = ("Why, and what to do", "What happened")
_FILES = ("", "File", "Id", "Pet", "What happened", "Address")


def pictures_html(pictures: Pictures, *, limit: int | None = 20) -> str:
    """Return the pictures as HTML, with the first `limit` of each kind, problems first."""
    return html.fragment(_pictures_html(pictures, limit))


def uploaded_html(report: UploadReport, *, limit: int | None = 20) -> str:
    """Return the report as HTML, with the first `limit` files of each outcome, failures first."""
    return html.fragment(_report(report, limit))


def _pictures_html(pictures: Pictures, limit: int | None) -> Iterator[str]:
    fold_over = html.fold_limit(limit)
    yield html.summary(pictures_summary(pictures))
    yield html.facts(pictures_facts(pictures))
    yield _problems_html(PROBLEMS_TITLE, pictures.blocked, limit)
    groups = defaultdict[UploadDecision, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.decision].append(picture)
    for decision, title in DECISION_TITLES.items():
        heading = f"{words.count(len(groups[decision]), 'picture')} {title}"
        shown = first(groups[decision], limit)
        yield html.listing(heading, shown, _PICTURES, _picture_row, fold_over=fold_over)
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    yield _problems_html(LEFT_OUT_TITLE, left_out, limit)


def _problems_html(title: str, problems: Sequence[PictureProblem], limit: int | None) -> str:
    if not problems:
        return ""
    return _grouped_files_html(
        f"{words.count(len(problems), 'file')} {title}", problems, _PROBLEMS, limit
    )


def _grouped_files_html(
    title: str, files: Sequence[File], columns: Sequence[str], limit: int | None
) -> str:
    """Return a collapsible part with files; a problem that several files share is shown once."""
    groups = group_by_text(files, describe_problem)
    shared = [(text, members) for text, members in groups if len(members) > 1 and text]
    singles = [
        entry for text, members in groups if len(members) == 1 or not text for entry in members
    ]
    inner = [
        element("p", f"{words.count(len(members), 'file')}: {html.text(text)}")
        + _table(
            [name for name in columns if name not in _REASON_COLUMNS], members, limit, short=True
        )
        for text, members in shared[:limit]
    ]
    inner += [_more(count_beyond(shared, limit)), _table(columns, singles, limit, short=False)]
    shown = sum(min(len(members), limit or len(members)) for _, members in groups)
    parts = "\n".join(filter(None, inner))
    return html.collapsible(title, parts, open_=shown <= html.fold_limit(limit))


def _table(columns: Sequence[str], files: Sequence[File], limit: int | None, *, short: bool) -> str:
    if not files:
        return ""
    listing = first(files, limit)
    rows = (_file_row(entry, short=short) for entry in listing.shown)
    return f"{html.table(columns, rows)}{_more(listing.more)}"


def _more(total: int) -> str:
    return f"\n<p>... and {words.number(total)} more</p>" if total else ""


def _report(report: UploadReport, limit: int | None) -> Iterator[str]:
    yield html.summary(uploaded_summary(report))
    run = [("run", report.run_id)] if report.run_id else []
    yield html.facts([*run, *uploaded_facts(report)])
    if report.stopped:
        yield html.alert(words.STOPPED_TITLE, map(html.text, report.stopped.splitlines()))
    yield _totals_html(report)
    for outcome in (
        *words.OUTCOMES_TO_SHOW,
        *(o for o in OUTCOMES if o not in words.OUTCOMES_TO_SHOW),
    ):
        files = [result for result in report.results if result.outcome == outcome]
        title = outcome_title(outcome, len(files))
        if outcome == "applied":
            line = partial(_file_row, short=False)
            yield html.listing(title, first(files, limit), _FILES, line, fold_over=0)
        elif files:
            yield _grouped_files_html(title, files, _FILES, limit)


def _totals_html(report: UploadReport) -> str:
    totals = [(outcome_name(outcome), total) for outcome, total in report.counts.items()]
    rows = [_total_row(name, value) for name, value in (*totals, ("total", len(report.results)))]
    return html.table(("Outcome", "Files"), rows, small=True)


def _total_row(name: str, value: int) -> str:
    number = element("td", words.number(value), class_="ps-number")
    return element("tr", html.row_head(name) + number)


def _picture_row(picture: Picture) -> str:
    return html.row(
        group_mark(picture.decision),
        table_cell(file_place(picture), kind="ps-where"),
        table_cell(str(picture.pet_id), kind="ps-number"),
        table_cell(picture.pet),
        table_cell(describe_image(picture)),
        table_cell(picture.metadata or ""),
    )


def _file_row(entry: File, *, short: bool) -> str:
    """Return a file's row; a short row omits the problem."""
    problem_cells = [] if short else [table_cell(describe_problem(entry))]
    where = table_cell(file_place(entry), kind="ps-where")
    pet = table_cell("" if entry.pet_id is None else str(entry.pet_id), kind="ps-number")
    if isinstance(entry, PictureProblem):
        return html.row("blocked" if entry.blocks else "note", where, pet, *problem_cells)
    mark, urls = words.OUTCOME_MARK[entry.outcome], table_cell(" ".join(entry.urls))
    return html.row(mark, where, pet, table_cell(entry.pet), *problem_cells, urls)


# Images to upload, and upload reports, as lines of a terminal.


_NARROW, _WIDE = 60, 100
_FILE = 60
_SUBJECT_INDENT = 6


def pictures_lines(
    pictures: Pictures, *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """Yield the pictures as lines, with the first `limit` of each kind, problems first."""
    yield Text("petsync upload", "bold")
    yield from text.facts(pictures_facts(pictures), width)
    blocked = pictures.blocked
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    yield from _problems_text(PROBLEMS_TITLE, blocked, limit, width)
    groups = defaultdict[UploadDecision, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.decision].append(picture)
    for decision, title in DECISION_TITLES.items():
        yield from _pictures_text(decision, title, groups[decision], limit, width)
    yield from _problems_text(LEFT_OUT_TITLE, left_out, limit, width)
    for note in pictures.notes:
        yield from text.item("note", make_visible(note), width)
    yield text.BLANK
    yield from text.paragraph(pictures_summary(pictures), width, style="bold")


def uploaded_lines(
    report: UploadReport, *, limit: int | None = 20, width: int = 80
) -> Iterator[Text]:
    """Yield the report as lines, with the first `limit` files of each outcome except `applied`,
    failures first.
    """
    head = f"petsync upload {make_visible(report.run_id)}".rstrip()
    yield Text(head, "bold")
    yield from text.facts(uploaded_facts(report), width)
    yield text.BLANK
    yield from _totals_text(report)
    for outcome in words.OUTCOMES_TO_SHOW:
        files = [result for result in report.results if result.outcome == outcome]
        if files:
            yield from text.heading(outcome_title(outcome, len(files)), width)
            yield from _grouped_file_lines(files, words.OUTCOME_MARK[outcome], limit, width)
    if report.stopped:
        yield from text.heading(words.STOPPED_TITLE, width)
        for line in report.stopped.splitlines():
            yield from text.paragraph(make_visible(line), width, indent=2)
    yield text.BLANK
    yield from text.paragraph(uploaded_summary(report), width, style="bold")


def pictures_text(pictures: Pictures, *, limit: int | None = 20, width: int = 80) -> str:
    """Return the lines of the pictures as plain text."""
    return _join_lines(pictures_lines(pictures, limit=limit, width=width))


def uploaded_text(report: UploadReport, *, limit: int | None = 20, width: int = 80) -> str:
    """Return the lines of the report as plain text."""
    return _join_lines(uploaded_lines(report, limit=limit, width=width))


def show_pictures(pictures: Pictures, console: Console, *, limit: int | None = 20) -> None:
    """Print the pictures to upload."""
    _show(pictures_lines(pictures, limit=limit, width=_width(console)), console)


def show_uploaded(report: UploadReport, console: Console, *, limit: int | None = 20) -> None:
    """Print the upload report."""
    _show(uploaded_lines(report, limit=limit, width=_width(console)), console)


def _problems_text(
    title: str, problems: Sequence[PictureProblem], limit: int | None, width: int
) -> Iterator[Text]:
    if problems:
        yield from text.heading(f"{words.count(len(problems), 'file')} {title}", width)
    mark: words.Mark = "blocked" if problems and problems[0].blocks else "note"
    yield from _grouped_file_lines(problems, mark, limit, width)


def _grouped_file_lines(
    files: Sequence[PictureProblem | UploadedFile], mark: words.Mark, limit: int | None, width: int
) -> Iterator[Text]:
    """Yield the files; a problem that several files share is shown once above them."""
    groups = group_by_text(files, describe_problem)
    for problem, members in groups[:limit]:
        if len(members) == 1 or not problem:
            listing = first(members, limit)
            for entry in listing.shown:
                subject = shorten(subject_words(entry), _FILE)
                yield from text.item(mark, f"{subject}: {problem}", width)
        else:
            yield from text.item(mark, f"{words.count(len(members), 'file')}: {problem}", width)
            listing = first(members, limit)
            for entry in listing.shown:
                subject = shorten(subject_words(entry), _FILE)
                yield from text.paragraph(subject, width, indent=_SUBJECT_INDENT)
        yield from text.more(listing.more)
    yield from text.more(count_beyond(groups, limit))


def _pictures_text(
    decision: UploadDecision, title: str, pictures: Sequence[Picture], limit: int | None, width: int
) -> Iterator[Text]:
    if not pictures:
        return
    yield from text.heading(f"{words.count(len(pictures), 'picture')} {title}", width)
    if decision not in DECISIONS_OF_RUNS:
        yield from _render_pictures(pictures, limit, width, each=True)
        return
    groups = group_by_text(pictures, describe_picture)
    for description, members in groups[:limit]:
        if len(members) > 1:
            yield from text.paragraph(description, width, indent=2, style="dim")
        yield from _render_pictures(members, limit, width, each=len(members) == 1)
    yield from text.more(count_beyond(groups, limit))


def _render_pictures(
    pictures: Sequence[Picture], limit: int | None, width: int, *, each: bool
) -> Iterator[Text]:
    listing = first(pictures, limit)
    for picture in listing.shown:
        identity, name = f"pet {picture.pet_id}", make_visible(picture.pet)
        yield text.spread_item(
            group_mark(picture.decision), identity, name, file_place(picture), width
        )
        if each:
            yield from text.paragraph(
                describe_picture(picture), width, indent=_SUBJECT_INDENT, style="dim"
            )
    yield from text.more(listing.more)


def _totals_text(report: UploadReport) -> Iterator[Text]:
    counts = report.counts
    totals = [(outcome_name(outcome), counts[outcome]) for outcome in OUTCOMES]
    totals += [("total", len(report.results))]
    column = max(len(words.number(value)) for _, value in totals)
    for name, value in totals:
        style = "bold" if name == "total" else "" if value else "dim"
        yield Text(f"  {name:<13}{words.number(value):>{column}}", style)


def _join_lines(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)


def _width(console: Console) -> int:
    return min(max(console.width, _NARROW), _WIDE)


def _show(lines: Iterable[Text], console: Console) -> None:
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
