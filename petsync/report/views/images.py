"""The views of pictures to upload, and of the report of an upload."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

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
from petsync.report import words
from petsync.report.document import (
    Block,
    Column,
    Details,
    Document,
    Facts,
    Note,
    Record,
    Records,
    Row,
    RowKind,
    Summary,
    Table,
    fold_limit,
    format_more,
)
from petsync.report.plan import record_text
from petsync.report.views.run import stop_alert, totals_table
from petsync.report.words import (
    Mark,
    count,
    count_beyond,
    first,
    format_timestamp,
    group_by_text,
    number,
)
from petsync.table.cells import make_visible

__all__ = ["DECISION_TITLES", "format_pet", "pictures_view", "size", "uploaded_view"]


DECISION_TITLES: Mapping[UploadDecision, str] = {
    "unknown": "sent before without an answer, and nothing shows whether the upload arrived: "
    "--again, in Python again=True, repeats it",
    "new": "to upload",
    "retry": "to upload, because an earlier upload has not arrived",
    "again": "to upload once more",
    "confirm": "uploaded in an earlier run that could not confirm it: only recorded",
    "uploaded": "uploaded before: not sent again",
    "duplicate": "listed twice for the same pet: one copy is enough",
}
"""The titles of the decisions; those that need attention come first."""
_DECISIONS_OF_RUNS: frozenset[UploadDecision] = frozenset(("uploaded", "confirm", "unknown"))
"""Decisions that depend on an earlier run, which is shown."""

_MARKS: Mapping[UploadDecision, Mark] = {
    "unknown": "conflict",
    "new": "add",
    "retry": "add",
    "again": "add",
    "confirm": "applied",
    "uploaded": "note",
    "duplicate": "note",
}
_OUTCOME_NAMES: Mapping[Outcome, str] = {"applied": "uploaded"}
_OUTCOME_WORDS: Mapping[Outcome, str] = {
    "unknown": "unknown: no answer arrived, and the store does not show whether the upload "
    "happened",
    "conflict": "in conflict",
    "applied": "uploaded",
}


_FILE_COLUMNS = (Column("File", "where"), Column("Id", "id"), Column("Pet", "name"))
_PROBLEM_COLUMNS = (*_FILE_COLUMNS, Column("What happened"), Column("Address", "extra"))
_File = PictureProblem | UploadedFile


def pictures_view(pictures: Pictures, *, limit: int | None = 20) -> Document:
    """Return the pictures, with the first `limit` of each kind, problems first."""
    return Document("petsync upload", _picture_blocks(pictures, limit))


def uploaded_view(report: UploadReport, *, limit: int | None = 20) -> Document:
    """Return the report, with the first `limit` files of each outcome, failures first."""
    return Document(f"petsync upload {report.run_id}".rstrip(), _report_blocks(report, limit))


def _picture_blocks(pictures: Pictures, limit: int | None) -> Iterator[Block]:
    yield Facts(list(_pictures_facts(pictures)))
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    if blocked := pictures.blocked:
        yield _files(f"{count(len(blocked), 'file')} not uploaded", blocked, "blocked", limit)
    groups = defaultdict[UploadDecision, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.decision].append(picture)
    for decision in DECISION_TITLES:
        if groups[decision]:
            yield _decision_details(decision, groups[decision], limit)
    if left_out:
        yield _files(f"{count(len(left_out), 'file')} left out", left_out, "note", limit)
    if pictures.notes:
        yield Details("Notes", [Note(note, mark="note") for note in pictures.notes])
    yield Summary(_summarize_pictures(pictures))


def _report_blocks(report: UploadReport, limit: int | None) -> Iterator[Block]:
    yield Facts(list(_uploaded_facts(report)))
    yield totals_table(report.counts, "Files", _OUTCOME_NAMES)
    for outcome in words.RANK:
        files = [result for result in report.results if result.outcome == outcome]
        if files:
            mark = words.OUTCOME_MARK[outcome]
            yield _files(_outcome_title(outcome, len(files)), files, mark, limit)
    yield from stop_alert(report.stopped)
    yield Summary(_summarize_upload(report))


def _files(title: str, files: Sequence[_File], mark: Mark, limit: int | None) -> Details:
    """Return files under a title; a problem that several of them share is shown once."""
    groups = group_by_text(files, _describe_problem)
    shared = [(text, members) for text, members in groups if len(members) > 1 and text]
    singles = [
        file for text, members in groups if len(members) == 1 or not text for file in members
    ]
    parts: list[Block] = [
        Details(
            f"{count(len(members), 'file')}: {text}",
            [_file_table(members, mark, limit, has_problem=False)],
            mark=mark,
        )
        for text, members in shared[:limit]
    ]
    if more := count_beyond(shared, limit):
        parts.append(Note(format_more(more), "quiet"))
    if singles:
        parts.append(_file_table(singles, mark, limit))
    shown = sum(min(len(members), limit or len(members)) for _, members in groups)
    is_applied = mark == "applied"
    is_open = not is_applied and shown <= fold_limit(limit)
    return Details(title, parts, is_open=is_open, is_extra=is_applied)


def _file_table(
    files: Sequence[_File], mark: Mark, limit: int | None, *, has_problem: bool = True
) -> Table:
    listing = first(files, limit)
    rows = [
        _file_row(file, mark, _describe_problem(file) if has_problem else "")
        for file in listing.shown
    ]
    return Table(_PROBLEM_COLUMNS, rows, more=format_more(listing.more))


def _file_row(file: _File, mark: Mark, problem: str) -> Row:
    pet, urls = (file.pet, file.urls) if isinstance(file, UploadedFile) else ("", ())
    pet_id = "" if file.pet_id is None else str(file.pet_id)
    return Row((_format_place(file), pet_id, pet, problem, " ".join(urls)), mark)


def _decision_details(
    decision: UploadDecision, pictures: Sequence[Picture], limit: int | None
) -> Details:
    """Return the pictures of one decision; an earlier run that several of them share is shown
    once.
    """
    title = f"{count(len(pictures), 'picture')} {DECISION_TITLES[decision]}"
    groups = [("", list(pictures))]
    if decision in _DECISIONS_OF_RUNS:
        groups = group_by_text(pictures, _describe_picture)
    parts: list[Block] = []
    for description, members in groups[:limit]:
        is_shared = bool(description) and len(members) > 1
        listing = first(members, limit)
        kinds = [RowKind(decision, DECISION_TITLES[decision], _MARKS[decision])]
        rows = [_record_picture(picture, is_brief=is_shared) for picture in listing.shown]
        records = Records(rows, kinds, listing.more)
        parts.append(Details(description, [records]) if is_shared else records)
    if more := count_beyond(groups, limit):
        parts.append(Note(format_more(more), "quiet"))
    shown = sum(min(len(members), limit or len(members)) for _, members in groups)
    return Details(title, parts, is_open=shown <= fold_limit(limit))


def _record_picture(picture: Picture, *, is_brief: bool) -> Record:
    description = "" if is_brief else _describe_picture(picture)
    texts = (picture.pet, _format_place(picture), description)
    name, where, cure = map(record_text, texts)
    return Record(0, str(picture.pet_id), name, where, cure=cure)


def _format_place(file: Picture | PictureProblem | UploadedFile) -> str:
    """Return the cell that names the file, if there is one, and the file."""
    return ", ".join(filter(None, (file.source, file.file)))


def _describe_problem(file: _File) -> str:
    problem = file.problem if isinstance(file, PictureProblem) else file.message
    return words.sentences(problem, file.cure)


def size(value: int) -> str:
    """Format a size: `512 bytes`, `34.1 KiB`, `2.3 MiB`."""
    if value < 1024:
        return count(value, "byte")
    for unit in ("KiB", "MiB"):
        value_in = value / (1024 if unit == "KiB" else 1024**2)
        if value_in < 1023.95:
            return f"{value_in:.1f} {unit}"
    return f"{value / 1024**3:,.1f} GiB"


def format_pet(pet_id: int | None, name: str) -> str:
    """Format a pet: `pet 7 (Bella)`; "" without an id."""
    if pet_id is None:
        return ""
    return f"pet {pet_id} ({make_visible(name)})" if name else f"pet {pet_id}"


def _describe_image(picture: Picture) -> str:
    """Describe an image: `JPEG, 3,000 × 2,000, 2.3 MiB; metadata removed: 2.2 MiB`."""
    frames = f", {number(picture.frames)} frames" if picture.frames > 1 else ""
    description = (
        f"{picture.format}, {number(picture.width)} × {number(picture.height)}{frames}, "
        f"{size(picture.size)}"
    )
    if not picture.done:
        return f"{description}; unchanged"
    return f"{description}; {treatment(picture)}: {size(picture.sent_size)}"


def _describe_picture(picture: Picture) -> str:
    """Describe the picture, or name the earlier run that sent it, or both; then add the picture's
    metadata.
    """
    description = _describe_image(picture)
    if picture.decision in ("uploaded", "confirm", "retry", "unknown") and picture.run:
        description = (
            f"run {picture.run}"
            if picture.decision != "retry"
            else f"{description} (run {picture.run})"
        )
    return f"{description}; metadata: {picture.metadata}" if picture.metadata else description


def _outcome_title(outcome: Outcome, total: int) -> str:
    return f"{number(total)} {_OUTCOME_WORDS.get(outcome) or words.inflect_outcome(outcome, total)}"


def _pictures_facts(pictures: Pictures) -> Iterator[tuple[str, str]]:
    yield "store", pictures.store
    yield "pictures", pictures.source
    yield "inspected", format_timestamp(pictures.created)
    options = pictures.options
    options_text = ["metadata kept"] if options.keep_metadata else []
    options_text += [f"no side over {number(options.max_side)} pixels"] if options.max_side else []
    if options_text:
        yield "options", ", ".join(options_text)


def _summarize_pictures(pictures: Pictures) -> str:
    """Return the numbers of pictures to send, of their pets and of other pictures, in one
    sentence.
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


def _uploaded_facts(report: UploadReport) -> Iterator[tuple[str, str]]:
    yield "store", report.store
    yield "pictures", report.source
    yield "started", f"{format_timestamp(report.started)}, took {words.duration(report.seconds)}"


def _summarize_upload(report: UploadReport) -> str:
    """Return how the upload ended, and the number of files with each outcome."""
    counts = report.counts
    outcome_counts = ", ".join(
        f"{number(total)} {words.inflect_outcome(_OUTCOME_NAMES.get(outcome, outcome), total)}"
        for outcome in OUTCOMES
        if (total := counts[outcome]) or outcome == "applied"
    )
    sent = f" ({size(report.total_bytes)})" if report.total_bytes else ""
    if report.stopped:
        return (
            f"Stopped early: {outcome_counts}{sent}. "
            "Run the same command again to upload the remaining pictures."
        )
    return f"{'Done with problems' if report.exit_code else 'Done'}: {outcome_counts}{sent}."
