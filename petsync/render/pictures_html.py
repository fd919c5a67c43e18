"""Images that would be uploaded, and what became of them, as HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from petsync.diff.pictures import Fate, Picture, PictureProblem, Pictures
from petsync.diff.report import OUTCOMES
from petsync.diff.uploaded import Uploaded, UploadedFile
from petsync.render import markup, words
from petsync.render import pictures_words as said
from petsync.render.alike import alike, beyond
from petsync.render.digest import first
from petsync.render.markup import cell, element

__all__ = ["pictures_html", "uploaded_html"]

_PICTURES = ("", "File", "Id", "Pet", "Picture", "Metadata")
_PROBLEMS = ("", "File", "Id", "Why, and what to do")
File = PictureProblem | UploadedFile
_SAID = ("Why, and what to do", "What happened")
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
    if not problems:
        return ""
    return _alike(f"{words.count(len(problems), 'file')} {title}", problems, _PROBLEMS, limit)


def _alike(title: str, files: Sequence[File], columns: Sequence[str], limit: int | None) -> str:
    """A part that folds, of files; what is to be said of several is said once above them."""
    groups = alike(files, said.said_of_problem)
    several = [(told, members) for told, members in groups if len(members) > 1 and told]
    rest = [one for told, members in groups if len(members) == 1 or not told for one in members]
    inner = [
        element("p", f"{words.count(len(members), 'file')}: {markup.text(told)}")
        + _table([name for name in columns if name not in _SAID], members, limit, short=True)
        for told, members in several[:limit]
    ]
    inner += [_more(beyond(several, limit)), _table(columns, rest, limit, short=False)]
    shown = sum(min(len(members), limit or len(members)) for _, members in groups)
    parts = "\n".join(filter(None, inner))
    return markup.folding(title, parts, open_=shown <= markup.fold_over(limit))


def _table(columns: Sequence[str], files: Sequence[File], limit: int | None, *, short: bool) -> str:
    if not files:
        return ""
    listing = first(files, limit)
    rows = (_line(one, short=short) for one in listing.shown)
    return f"{markup.table(columns, rows)}{_more(listing.more)}"


def _more(total: int) -> str:
    return f"\n<p>... and {words.number(total)} more</p>" if total else ""


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
        if outcome == "applied":
            line = partial(_line, short=False)
            yield markup.listing(title, first(files, limit), _FILES, line, fold_over=0)
        elif files:
            yield _alike(title, files, _FILES, limit)


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


def _line(one: File, *, short: bool) -> str:
    """A file's row; a short one does not say why."""
    why = [] if short else [cell(said.said_of_problem(one))]
    where = cell(said.where(one), kind="ps-where")
    pet = cell("" if one.pet_id is None else str(one.pet_id), kind="ps-number")
    if isinstance(one, PictureProblem):
        return markup.row("blocked" if one.blocks else "note", where, pet, *why)
    mark, urls = words.OUTCOME_MARK[one.outcome], cell(" ".join(one.urls))
    return markup.row(mark, where, pet, cell(one.pet), *why, urls)
