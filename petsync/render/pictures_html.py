"""Images that would be uploaded, and what became of them, as HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from petsync.diff.pictures import Fate, Picture, PictureProblem, Pictures
from petsync.diff.report import OUTCOMES
from petsync.diff.uploaded import Uploaded, UploadedFile
from petsync.render import markup, words
from petsync.render import pictures_words as said
from petsync.render.digest import first
from petsync.render.markup import cell, element

__all__ = ["pictures_html", "uploaded_html"]

_PICTURES = ("", "File", "Id", "Pet", "Picture", "Metadata")
_PROBLEMS = ("", "File", "Id", "Why, and what to do")
_FILES = ("", "File", "Id", "Pet", "What happened", "Address")


def pictures_html(pictures: Pictures, *, limit: int | None = 20) -> str:
    """The pictures with the first `limit` of each sort, what is not uploaded first."""
    return markup.fragment(_pictures(pictures, limit))


def uploaded_html(report: Uploaded, *, limit: int | None = 20) -> str:
    """The report with the first `limit` files of each outcome, failures first."""
    return markup.fragment(_report(report, limit))


def _pictures(pictures: Pictures, limit: int | None) -> Iterator[str]:
    fold_over = markup.fold_over(limit)
    yield markup.summary(said.pictures_summary(pictures))
    yield markup.facts(said.pictures_facts(pictures))
    yield _problems(said.PROBLEMS, pictures.blocked, limit)
    groups = defaultdict[Fate, list[Picture]](list)
    for picture in pictures.pictures:
        groups[picture.fate].append(picture)
    for fate, title in said.GROUPS.items():
        told = f"{words.count(len(groups[fate]), 'picture')} {title}"
        shown = first(groups[fate], limit)
        yield markup.listing(told, shown, _PICTURES, _picture, fold_over=fold_over)
    left_out = [problem for problem in pictures.problems if not problem.blocks]
    yield _problems(said.LEFT_OUT, left_out, limit)


def _problems(title: str, problems: Sequence[PictureProblem], limit: int | None) -> str:
    told = f"{words.count(len(problems), 'file')} {title}"
    fold_over = markup.fold_over(limit)
    return markup.listing(told, first(problems, limit), _PROBLEMS, _problem, fold_over=fold_over)


def _report(report: Uploaded, limit: int | None) -> Iterator[str]:
    yield markup.summary(said.uploaded_summary(report))
    run = [("run", report.run_id)] if report.run_id else []
    yield markup.facts([*run, *said.uploaded_facts(report)])
    if report.stopped:
        yield markup.alert(words.STOPPED, map(markup.text, report.stopped.splitlines()))
    yield _totals(report)
    for outcome in (*words.TO_LOOK_AT, *(o for o in OUTCOMES if o not in words.TO_LOOK_AT)):
        files = [result for result in report.results if result.outcome == outcome]
        title = said.outcome_title(outcome, len(files))
        fold_over = 0 if outcome == "applied" else markup.fold_over(limit)
        yield markup.listing(title, first(files, limit), _FILES, _file, fold_over=fold_over)


def _totals(report: Uploaded) -> str:
    told = [(said.outcome_name(outcome), total) for outcome, total in report.counts.items()]
    rows = [_total(name, value) for name, value in (*told, ("total", len(report.results)))]
    return markup.table(("Outcome", "Files"), rows, small=True)


def _total(name: str, value: int) -> str:
    number = element("td", words.number(value), class_="ps-number")
    return element("tr", markup.row_head(name) + number)


def _picture(one: Picture) -> str:
    return markup.row(
        said.group_mark(one.fate),
        cell(said.where(one), kind="ps-where"),
        cell(str(one.pet_id), kind="ps-number"),
        cell(one.pet),
        cell(said.about(one)),
        cell(one.metadata or ""),
    )


def _problem(one: PictureProblem) -> str:
    return markup.row(
        "blocked" if one.blocks else "note",
        cell(said.where(one), kind="ps-where"),
        cell("" if one.pet_id is None else str(one.pet_id), kind="ps-number"),
        cell(said.said_of_problem(one)),
    )


def _file(one: UploadedFile) -> str:
    return markup.row(
        words.OUTCOME_MARK[one.outcome],
        cell(said.where(one), kind="ps-where"),
        cell("" if one.pet_id is None else str(one.pet_id), kind="ps-number"),
        cell(one.pet),
        cell(said.said_of_problem(one)),
        cell(" ".join(one.urls)),
    )
