"""How images are said: sizes, what becomes of each, and the sentence that sums an upload up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from petsync.diff.pictures import Fate, Picture, PictureProblem, Pictures, treatment
from petsync.diff.report import OUTCOMES, Outcome
from petsync.diff.uploaded import Uploaded, UploadedFile
from petsync.render import words
from petsync.render.visible import visible
from petsync.render.words import Mark, count, moment, number

__all__ = [
    "GROUPS",
    "LEFT_OUT",
    "OF_RUNS",
    "PROBLEMS",
    "about",
    "group_mark",
    "of_pet",
    "outcome_name",
    "outcome_title",
    "pictures_facts",
    "pictures_summary",
    "said_of",
    "said_of_problem",
    "size",
    "subject",
    "uploaded_facts",
    "uploaded_summary",
    "where",
]

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
    "failed": "failed",
    "unknown": "unknown: no answer came, and the store does not show whether it happened",
    "conflict": "in conflict",
    "skipped": "skipped",
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
    """`JPEG, 3,000 × 2,000, 2.3 MiB; EXIF removed: 2.2 MiB`."""
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


def where(one: Picture | PictureProblem | UploadedFile) -> str:
    """The file, and the cell that names it."""
    file = visible(one.file)
    return f"{visible(one.source)}, {file}" if one.source and file else visible(one.source) or file


def subject(one: PictureProblem | UploadedFile) -> str:
    """The file, its cell and its pet."""
    name = one.pet if isinstance(one, UploadedFile) else ""
    return ", ".join(part for part in (where(one), of_pet(one.pet_id, name)) if part)


def said_of_problem(one: PictureProblem | UploadedFile) -> str:
    """Why, and what to do about it."""
    why = one.problem if isinstance(one, PictureProblem) else one.message
    return visible(words.sentences(why, one.cure))


def outcome_name(outcome: Outcome) -> str:
    """The outcome in one word."""
    return "uploaded" if outcome == "applied" else outcome


def outcome_title(outcome: Outcome, total: int) -> str:
    """The heading of so many files with this outcome."""
    return f"{number(total)} {_TITLES[outcome]}"


def pictures_facts(pictures: Pictures) -> Iterator[tuple[str, str]]:
    """What was looked at, for which store, and how it is made ready."""
    yield "store", visible(pictures.store)
    yield "pictures", visible(pictures.source)
    yield "looked at", moment(pictures.created)
    options = pictures.options
    asked = ["EXIF removed"] if options.strip_exif else []
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


def uploaded_facts(report: Uploaded) -> Iterator[tuple[str, str]]:
    """What was uploaded, where to, and when."""
    yield "store", visible(report.store)
    yield "pictures", visible(report.source)
    yield "begun", f"{moment(report.started)}, took {words.duration(report.seconds)}"


def uploaded_summary(report: Uploaded) -> str:
    """One sentence: how it ended, and how many files had each outcome."""
    counts = report.counts
    said = ", ".join(
        f"{number(counts[outcome])} {outcome_name(outcome)}"
        for outcome in OUTCOMES
        if counts[outcome] or outcome == "applied"
    )
    sent = f" ({size(report.total_bytes)})" if report.total_bytes else ""
    if report.stopped:
        return f"Stopped early: {said}{sent}. The same command again does the rest."
    return f"{'Done with problems' if report.exit_code else 'Done'}: {said}{sent}."
