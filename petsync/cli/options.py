"""Options that several commands share, and functions that read inputs and write results for these
commands.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, Union, get_args, get_origin

import click

from petsync._display import quote
from petsync._files import has_wildcards, is_folder, is_in_parts, write_atomically
from petsync._options import Keyword, Option, iter_keywords
from petsync.apply.options import ApplyKeywords
from petsync.errors import GuardError, PlanError, SheetError
from petsync.plan.guard import Limit
from petsync.plan.options import OWNABLE, OWNERS, PlanKeywords, PlanOptions, Scope
from petsync.settings import MAPPED, checked_encoding, column_named
from petsync.table.columns import COLUMNS, Column
from petsync.table.options import ReadKeywords

if TYPE_CHECKING:
    import pandas as pd

    from petsync.cli.context import Context
    from petsync.client.loaders import Lookups
    from petsync.plan.change import Snapshot
    from petsync.plan.explain import Explanations
    from petsync.plan.plan import Plan
    from petsync.plan.report import PastRun, Report, RoundReport
    from petsync.plan.rounds import Round
    from petsync.plan.uploads import UploadReport
    from petsync.report.document import Document
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = [
    "COMPARING",
    "PENDING",
    "READING",
    "SOME_FAILED",
    "CompareOptions",
    "PetName",
    "Selection",
    "as_usage_error",
    "begins_with",
    "check_page",
    "dask_option",
    "explain_round_names",
    "explain_sheet",
    "file_option",
    "find_job_of_file",
    "find_job_of_run",
    "find_pet_ids",
    "find_round",
    "find_round_of",
    "find_rounds",
    "find_url_of",
    "is_saved_plan",
    "keyword_options",
    "limit_option",
    "memory_option",
    "must_not_replace_work",
    "must_still_wait",
    "plan_from_sheet",
    "plan_options",
    "read_inputs",
    "read_plan",
    "run_options",
    "save_history",
    "save_page",
    "save_report",
    "save_results",
    "save_uploaded",
    "select_options",
    "sheet_options",
    "verdict_code",
    "without_missing_files",
]


# Rounds of `petsync reconcile`, which `petsync runs` lists with the runs.


_MAX_LISTED = 5
_PAGES = (".html", ".htm")


def find_rounds(state: Path, job: str = "", store: str | None = None) -> list[Round]:
    """Return the rounds in a state folder, the oldest first: all, or those of a job or a store.

    Raises PlanError if the job has no round.
    """
    from petsync.reconcile.state import History

    rounds = History(state).rounds()
    found = [each for each in rounds if store in (None, each.store)]
    job_rounds = [each for each in found if job in ("", each.job)]
    if job and not job_rounds:
        names = ", ".join(dict.fromkeys(each.job for each in found))
        raise PlanError(
            f"there are no rounds of a job {job!r}",
            hint=f"There are rounds of: {names}." if names else "There are no rounds at all.",
        )
    return job_rounds


def find_round(state: Path, name: str) -> RoundReport | None:
    """Return the round whose id is the name or begins with it, with its report; None if there is
    none.

    Raises PlanError if there are several.
    """
    from petsync.reconcile.state import load_report

    found = _find_rounds_by_id(state, name)
    if len(found) > 1:
        ids = ", ".join(each.id for each in found[: -_MAX_LISTED - 1 : -1])
        raise PlanError(f"{len(found)} rounds begin with {name}", hint=f"The newest are: {ids}.")
    if not found:
        return None
    return load_report(without_missing_files(found[0]))


def _find_rounds_by_id(state: Path, name: str) -> list[Round]:
    from petsync.reconcile.state import History

    rounds = History(state).rounds()
    return [each for each in rounds if each.id == name] or [
        each for each in rounds if name and each.id.startswith(name)
    ]


def find_round_of(state: Path, run_id: str) -> Round | None:
    """Return the newest round that made the run or finished it; None if there is none."""
    from petsync.reconcile.state import History

    rounds = reversed(History(state).rounds())
    return next((each for each in rounds if run_id in each.runs), None)


def find_job_of_file(state: Path, path: Path | str) -> str:
    """Return the job whose plan waits, or waited, in the file, or whose sheet it is; "" if there is
    none.
    """
    own = os.path.realpath(path)
    for round_ in _iter_rounds_of(path, state):
        if own in [os.path.realpath(each) for each in (round_.waiting, round_.source) if each]:
            return round_.job
    return ""


def _iter_rounds_of(path: Path | str, state: Path) -> Iterator[Round]:
    """Yield the rounds, the newest first, of the state folder that has the file among its waiting
    plans, else those of `state`.
    """
    from petsync.reconcile.state import History, StatePaths

    paths = StatePaths.of_waiting(Path(path))
    yield from reversed(History(state if paths is None else paths.state).rounds())


def must_still_wait(context: Context, path: Path | str | None) -> None:
    """Raise PlanError if the file is missing, and a round stored a plan in it that waited for
    release. The error names the round that replaced or removed the plan, and the file that waits
    now.
    """
    if not isinstance(path, Path) or path.suffix != ".json" or path.exists():
        return
    own = os.path.realpath(path)
    later: list[Round] = []
    for round_ in _iter_rounds_of(path, context.settings.state):
        if round_.waiting and os.path.realpath(round_.waiting) == own:
            raise _build_ended_error(path, round_, later[::-1])
        later.append(round_)


_ENDED_EARLY = frozenset({"error", "locked", "interrupted"})
"""The statuses of rounds that may have ended before they removed a waiting plan."""


def _build_ended_error(path: Path, last: Round, later: Sequence[Round]) -> PlanError:
    """Return the error for a plan that no longer waits in its file. `last` is the round that stored
    it last; `later` has all rounds since then, the oldest first.
    """
    problem = f"{path}: the plan of job {last.name} no longer waits"
    sides = {(last.job, last.part), (last.store, last.source or last.id)}
    own = [each for each in later if sides & {(each.job, each.part), (each.store, each.source)}]
    if not own:
        return PlanError(
            f"{problem}: it was released, or the file was removed",
            hint=f"No round of the job has ended since {_format_start(last)}. The next one "
            "compares sheet and store again.",
        )
    first = next((each for each in own if each.status not in _ENDED_EARLY), own[0])
    did = "replaced it" if first.waiting else "removed it: it was released, or is no longer needed"
    newest = next((each for each in reversed(own) if each.waiting), None)
    hint = "No plan of this job waits now."
    if newest is not None and Path(newest.waiting).exists():
        from petsync.report.round import complete

        hint = f"`petsync apply {quote(newest.waiting)}` shows the plan that waits now."
        hint = complete(newest, hint)
    return PlanError(
        f"{problem}: the round of {_format_start(first)} ({first.id}) {did}", hint=hint
    )


def _format_start(round_: Round) -> str:
    return f"{datetime.fromisoformat(round_.started).astimezone():%Y-%m-%d %H:%M}"


def find_job_of_run(state: Path, name: str) -> str:
    """Return the job of the newest run whose id begins with `name` ("last": of all runs), or of the
    run's sheet; "" if there is none.
    """
    from petsync.reconcile.state import History
    from petsync.store.runs import RunHistory

    runs = RunHistory(state).runs()
    run = next((each for each in runs if each.run_id.startswith(name) or name == "last"), None)
    if run is None:
        return ""
    rounds = History(state).rounds()[::-1]
    side = run.store, run.source
    of_run = (each.job for each in rounds if run.run_id in each.runs)
    of_sheet = (each.job for each in rounds if (each.store, each.source) == side)
    return next(chain(of_run, of_sheet), "")


@contextmanager
def explain_round_names(state: Path, name: str) -> Iterator[None]:
    """In the block, replace a PlanError about an unknown run if `name` identifies a round: the new
    error names the runs of the round.
    """
    try:
        yield
    except PlanError:
        found = _find_rounds_by_id(state, name)
        if len(found) != 1:
            raise
        (round_,) = found
        runs = ", ".join(round_.runs)
        hint = f"Its runs are: {runs}." if runs else "It sent nothing to the store."
        raise PlanError(f"{round_.id} is a round, not a run in the journal", hint=hint) from None


def without_missing_files(round_: Round) -> Round:
    """Return the round, without its plan if the plan no longer waits, and without its report if the
    report no longer exists.
    """
    from msgspec.structs import replace

    if round_.waiting and not Path(round_.waiting).exists():
        hint = "The plan no longer waits: it was released, or is no longer needed."
        round_ = replace(round_, waiting="", hint=hint)
    if round_.report and not Path(round_.report).exists():
        round_ = replace(round_, report="")
    return round_


def save_history(
    rounds: Sequence[Round], runs: Sequence[PastRun], path: Path, limit: int | None
) -> None:
    """Write the history page. Raises SheetError."""
    from petsync.report.views.history import history_view

    shown = [without_missing_files(each) for each in rounds]
    history = history_view(shown, runs, now=datetime.now(UTC), limit=limit)
    save_page(path, history, "Reconciliation history")


# The files that commands write: none replaces the work of a user.


def check_page(path: Path | None, option: str = "--report") -> None:
    """Raise UsageError if the extension of the page is not .html or .htm, or if it would replace
    another file than a page of petsync.
    """
    if path is None:
        return
    if path.suffix.lower() not in _PAGES:
        raise click.UsageError(f"{option} {path}: the file extension must be .html or .htm.")
    must_not_replace_work(path, "html")


def must_not_replace_work(path: Path, form: str | None) -> None:
    """Raise UsageError if the file, which gets this format, is an export, or if it is a workbook, a
    page or a text that petsync did not write as it is now: the user may have edited it.
    """
    if not path.is_file() or not path.stat().st_size:
        return
    if form == "xlsx":
        _must_not_replace_workbook(path)
    elif (form == "html" and not begins_with(path, _PAGE_HEAD)) or (
        form in ("md", "text") and not _has_facts(path)
    ):
        raise click.UsageError(_OF_OTHERS.format(path=path, what="a file"))


_OF_OTHERS = (
    "{path} is not {what} that petsync wrote, or it was changed since: it would be overwritten. "
    "Name another file, or remove this one."
)
_PAGE_HEAD = (
    rb'<!doctype html>\s<html lang="en">\s<head>\s<meta charset="utf-8">\s<meta http-equiv="Content'
    rb"""-Security-Policy" content="default-src 'none'; style-src 'sha256-"""
)
_FACTS = re.compile(rb"^(  |\| )(store|A) ", re.MULTILINE)
_HEAD_SIZE = 256
_TEXT_SIZE = 1 << 16


def begins_with(path: Path, pattern: bytes) -> bool:
    """Return true if the file matches the pattern at its beginning, is empty, or cannot be read."""
    head = _read_head(path, _HEAD_SIZE)
    return not head or re.match(pattern, head) is not None


def _read_head(path: Path, size: int) -> bytes:
    """Return the first bytes of the file; none if it is not a regular file or cannot be read."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _has_facts(path: Path) -> bool:
    """Return true if the text has the sides of a plan or of differences, as all of petsync have."""
    head = _read_head(path, _TEXT_SIZE)
    return not head or _FACTS.search(head) is not None


def _must_not_replace_workbook(path: Path) -> None:
    if not _has_seal(path):
        raise click.UsageError(_OF_OTHERS.format(path=path, what="a workbook"))
    from petsync.sheets.base import find_base
    from petsync.sheets.load import load

    base, refused = find_base(load(path))
    if base is not None or refused:
        raise click.UsageError(f"{path} is an export of petsync: it would be overwritten.")


def _has_seal(path: Path) -> bool:
    import zipfile

    from petsync.workbook import is_sealed

    try:
        with zipfile.ZipFile(path) as book:
            return is_sealed(book)
    except (OSError, zipfile.BadZipFile):
        return False


def save_results(
    report: Report, sheet: Sheet | None, path: Path, *, is_named: bool = True
) -> Path | None:
    """Write the sheet with the outcome of each row, or, without a sheet, a workbook of the results.
    Without a sheet, return the path of the backup of a file that petsync did not write as it was;
    None if there was none.

    A symbolic link is followed only if the user has named the path. Raises SheetError.
    """
    from petsync.sheets.results import back_up, build_results

    if sheet is not None:
        build_results(sheet, report, path).write(follow=is_named)
        return None
    from petsync.report.workbook import report_workbook

    backup = None if _has_seal(path) else back_up(path)
    report_workbook(report, path)
    return backup


def save_report(report: Report, path: Path) -> None:
    """Write the report as an HTML page. Raises SheetError."""
    from petsync.report.views.run import report_page_view

    source = report.plan.source
    save_page(path, report_page_view(report), f"Report on {Path(source).name}", like=source)


def save_uploaded(report: UploadReport, path: Path) -> None:
    """Write an upload's report as an HTML page. Raises SheetError."""
    from petsync.report.views.images import uploaded_view

    save_page(path, uploaded_view(report, limit=None), f"Pictures of {Path(report.source).name}")


def save_page(path: Path, document: Document, title: str, *, like: str | None = None) -> None:
    """Write the document as a page; with `like`, with the permissions of that sheet. Raises
    SheetError.
    """
    from petsync.report.html import document_page

    write_atomically(path, document_page(document, title).encode(), like=like, error=SheetError)


# Options of several commands.


def file_option(*names: str, **more: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds an option for a file to a command, as `click.option` does."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option(*names, type=kind, metavar="FILE", **more)


def limit_option(**more: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds the option for the number of rows to show to a command."""
    return click.option("--limit", type=click.IntRange(min=0), metavar="N", **more)


# Options that are the keywords of a function, with their documentation.


def keyword_options(
    keywords: type, argument: str, **other_help: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds the keywords of a TypedDict to a command as options.

    The command's function gets the given options as a dict, in the parameter `argument`. With
    `other_help`, only the keywords that it names become options; its texts replace the documented
    help, unless they are empty.
    """
    known = [each for each in iter_keywords(keywords) if not other_help or each.name in other_help]

    def add(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> int:
            values = {each.name: options.pop(each.name) for each in known}
            given = {name: value for name, value in values.items() if value not in (None, ())}
            given |= {
                each.name: _pairs(_flag(each), given[each.name])
                for each in known
                if each.name in _PAIRS and each.name in given
            }
            return function(*args, **{argument: given}, **options)

        for each in reversed(known):
            call = _option(each, other_help.get(each.name))(call)
        return call

    return add


def _pairs(flag: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values of a repeated option as one mapping. Raises UsageError for a key that has
    two values.
    """
    found: dict[str, str] = {}
    for key, value in pairs:
        if (before := found.setdefault(key, value)) != value:
            raise click.UsageError(
                f"{flag} {key}={before} and {flag} {key}={value} contradict each other: leave out "
                "one of them."
            )
    return found


def _option(keyword: Keyword, other_help: str | None) -> Callable[[Any], Any]:
    name, kind, option = keyword
    flag = _flag(keyword)
    kinds = {*(get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind])} - {NoneType}
    is_many = any(get_origin(each) in (Iterable, Mapping) for each in kinds)
    text = other_help or option.help
    text = f"{text.removesuffix('.')}; repeatable." if is_many else text
    text = f"{text}  [{option.default}]" if option.default else text
    if kinds == {bool}:
        return click.option(flag, name, is_flag=True, default=None, help=text)
    more: dict[str, Any] = {"metavar": option.metavar} if option.metavar else {}
    if Limit in kinds:
        more["callback"] = _parse_limit
    elif name == "encoding":
        more["callback"] = _check_encoding
    else:
        more["type"] = _value_type(name, kinds, option)
    return click.option(flag, name, multiple=is_many, help=text, **more)


def _flag(keyword: Keyword) -> str:
    return f"--{keyword.option.flag or keyword.name.replace('_', '-')}"


def _value_type(name: str, kinds: Collection[Any], option: Option) -> Any:
    if name in _TYPES:
        return _TYPES[name]()
    literals = [value for each in kinds if get_origin(each) is Literal for value in get_args(each)]
    if literals or option.choices:
        return click.Choice(literals or option.choices)
    if option.least is None:
        return str if str in kinds else int
    return (click.IntRange if int in kinds else click.FloatRange)(option.least, option.most)


class _Rate(click.ParamType[float]):
    """The type of an option for requests per second, given as `20` or `20/s`."""

    name = "N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of requests per second in a text such as `20` or `20/s`."""
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(?:/s)?", str(value), re.ASCII)
        if match is None or not float(match[1]):
            self.fail(f"{value!r} is not a number of requests a second, such as 20.", param, ctx)
        return float(match[1])


_SIZES = {"": 1, "B": 1, "K": 1024, "KB": 1024, "KIB": 1024, "M": 1024**2, "MB": 1024**2}
_SIZES |= {"MIB": 1024**2}


class _Size(click.ParamType[int]):
    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return a number of bytes, from `500000`, `800K` or `10M`."""
        text = str(value).strip().upper()
        digits = text.rstrip("BKMI")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            self.fail(f"{value!r} is not a size such as 500000, 800K or 10M.", param, ctx)
        factor = _SIZES.get(text[len(digits) :])
        if not factor or not int(digits):
            self.fail(f"{value!r} is not a size such as 500000, 800K or 10M.", param, ctx)
        return int(digits) * factor


class PetName(click.ParamType[int | str]):
    """The id of a pet, a whole number, or the pet's name; see `find_pet_ids`."""

    name = "id"

    def convert(self, value: Any, _: click.Parameter | None, __: click.Context | None) -> int | str:
        """Return the id, or the text if it is not an id."""
        with suppress(ValueError):
            return int(value)
        return str(value)


def find_pet_ids(
    option: str,
    given: Collection[int | str],
    known: Iterable[tuple[int | str, str]],
    no_pet: str = "no pet",
    others: Sequence[Iterable[tuple[int | str, str]]] = (),
) -> tuple[int, ...]:
    """Return the ids of the pets that are given by id or by name; `known` has the ids and names of
    pets, a pet with several names more than once, with the address of a row without an id instead
    of one. A pet in one of the `others` is meant only if no pet in `known`, or in an earlier one,
    has the name. `no_pet` is the subject of an error about an unknown name, such as "no pet".

    Raises UsageError for a name that no pet or several pets have, or only rows without an id.
    """
    wanted = {_fold_name(each) for each in given if isinstance(each, str)}
    ids_by_name: dict[str, set[int | str]] = {}
    spellings: dict[str, str] = {}
    for pets in (known, *others):
        if wanted.difference(ids_by_name):
            more_ids, more_spellings = _index_names(pets)
            ids_by_name, spellings = {**more_ids, **ids_by_name}, {**more_spellings, **spellings}
    found: dict[int, None] = {}
    for each in given:
        if isinstance(each, int):
            found[each] = None
            continue
        named = ids_by_name.get(_fold_name(each), set())
        ids = sorted(pet_id for pet_id in named if isinstance(pet_id, int))
        if named and not ids:
            places = sorted(map(str, named))
            more = ", …" if len(places) > _MAX_LISTED else ""
            raise click.UsageError(
                f"{option}: {each!r} is the name of a row without an id "
                f"({', '.join(places[:_MAX_LISTED])}{more}): {option} needs an id."
            )
        if len(ids) > 1:
            shown = ", ".join(map(str, ids[:_MAX_LISTED]))
            more = ", …" if len(ids) > _MAX_LISTED else ""
            raise click.UsageError(
                f"{option}: {len(ids):,} pets are named {each!r}: {shown}{more}. "
                "Give the id of one."
            )
        if not ids:
            near = difflib.get_close_matches(_fold_name(each), spellings, n=1)
            hint = f" Is it {spellings[near[0]]!r}?" if near else ""
            raise click.UsageError(
                f"{option}: {each!r} is not the id of a pet, and {no_pet} has this name.{hint} An "
                "id is a whole number, such as 1001: the column id of the sheet has it."
            )
        found[ids[0]] = None
    return tuple(found)


def _index_names(
    pets: Iterable[tuple[int | str, str]],
) -> tuple[dict[str, set[int | str]], dict[str, str]]:
    """Return the ids of the pets by folded name, and the spelling of each folded name."""
    ids_by_name: dict[str, set[int | str]] = {}
    spellings: dict[str, str] = {}
    for pet_id, name in pets:
        if not (folded := _fold_name(name)):
            continue
        ids_by_name.setdefault(folded, set()).add(pet_id)
        spellings.setdefault(folded, name)
    return ids_by_name, spellings


def _fold_name(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip().casefold()


class _ColumnMapping(click.ParamType[tuple[str, str]]):
    name = "HEADER=COLUMN"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return the header, and petsync's column for it."""
        if isinstance(value, tuple):
            return value
        header, mark, column = str(value).rpartition("=")
        named = column_named(column)
        if not mark or not header.strip() or named is None:
            self.fail(
                f"{value!r} must be HEADER=COLUMN, such as Tiername=name. The columns are "
                f"{', '.join(MAPPED)}.",
                param,
                ctx,
            )
        return header.strip(), named


class _CellCorrection(click.ParamType[tuple[str, str]]):
    name = "CELL=TEXT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return the cell's address, or the column and the text of cells, and the new text."""
        if isinstance(value, tuple):
            return value
        cell, mark, text = str(value).partition("=")
        if not mark or not cell.strip():
            self.fail(
                f"{value!r} must be CELL=TEXT, such as Pets!C107=sold or status:reserved=pending.",
                param,
                ctx,
            )
        return cell.strip(), text


class _ColumnOwner(click.ParamType[tuple[str, str]]):
    name = "COLUMN=OWNER"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return the field of the column, and its owner."""
        if isinstance(value, tuple):
            return value
        column, mark, owner = (part.strip().casefold() for part in str(value).partition("="))
        unit = OWNABLE.get(column.replace(" ", "_").replace("-", "_"))
        if not mark or unit is None or owner not in OWNERS:
            self.fail(
                f"{value!r} must be COLUMN=OWNER, such as status=store. The columns are "
                f"{', '.join(OWNABLE)}; the owners are {', '.join(OWNERS)}.",
                param,
                ctx,
            )
        return unit, owner


_PAIRS = ("mapping", "corrections", "owners")
"""The options whose values are pairs, which become one mapping."""
_TYPES: Mapping[str, type[click.ParamType[Any]]] = {
    "rate": _Rate,
    "mapping": _ColumnMapping,
    "corrections": _CellCorrection,
    "owners": _ColumnOwner,
    "max_bytes": _Size,
}
"""The types of options whose texts need a special parser."""


def _check_encoding(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    return None if value is None else checked_encoding(value)


def _parse_limit(_: click.Context, parameter: click.Parameter, value: str | None) -> Limit | None:
    return None if value is None else Limit.parse(value, parameter.opts[0])


# Options for runs, which `apply`, `resume` and `undo` share.


def run_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for runs to a command; its function gets the given options as `pacing`."""
    return keyword_options(ApplyKeywords, "pacing")(function)


# Options for plans, which `plan`, `apply` and `rehearse` share.


_OF_PLAN = frozenset(PlanOptions.__struct_fields__)
PENDING = 2
SOME_FAILED = 3
_CONFLICTS = 5


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The user's options for the comparison of a sheet with the store."""

    reading: Mapping[str, Any]
    """Keywords of `Store.read`."""
    planning: Mapping[str, Any]
    """Keywords of `Store.plan` and `Store.why`."""
    dask: str | None = None
    """The Dask cluster that compares the parts of a folder."""
    memory: str | None = None
    """The memory of the processes that compare the parts of a folder."""

    def __bool__(self) -> bool:
        return bool(self.reading or self.planning or self.dask)

    @property
    def plan_options(self) -> PlanOptions:
        """The options of the comparison. Raises SettingsError for an invalid combination."""
        own = {name: each for name, each in self.planning.items() if name in _OF_PLAN}
        return PlanOptions(**own)

    def with_scope(self, scope: Scope) -> CompareOptions:
        """Return the options with another scope."""
        return replace(self, planning={**self.planning, "scope": scope})

    @property
    def flags(self) -> str:
        """The names of the options on the command line, separated by commas."""
        keywords = (*iter_keywords(ReadKeywords), *iter_keywords(PlanKeywords))
        flags = {each.name: _flag(each) for each in keywords} | {"strict": "--strict"}
        dask = ["--dask"] if self.dask else []
        return ", ".join([flags[name] for name in (*self.reading, *self.planning)] + dask)


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a plan that the user wants; the whole plan, if both fields are empty."""

    pets: tuple[int | str, ...]
    """Ids or names of pets."""
    columns: tuple[Column, ...]

    def __bool__(self) -> bool:
        return bool(self.pets or self.columns)

    def of(self, plan: Plan, sheet: Sheet | None, snapshot: Snapshot | None = None) -> Plan:
        """Return the selected part of the plan. A name is that of a pet that the plan changes, else
        that of a pet in conflict, blocked or unchanged. Raises UsageError for a name that no pet or
        several pets have.
        """
        if not self:
            return plan
        ids = self._find_ids(plan, sheet, snapshot) if self.pets else None
        return plan.select(ids=ids, fields=self.columns or None)

    def _find_ids(
        self, plan: Plan, sheet: Sheet | None, snapshot: Snapshot | None
    ) -> tuple[int, ...]:
        known = (
            (change.pet_id, pet.name)
            for change in plan.changes
            for pet in (change.before, change.after)
            if change.pet_id is not None and pet is not None and pet.name
        )
        rows = [
            *((add.pet_id, add.source, add.after.name or "") for add in plan.adds),
            *((conflict.pet_id, conflict.source, conflict.name) for conflict in plan.conflicts),
            *((row.pet_id, row.source, row.name) for row in plan.blocked),
        ]
        # The sheet has the names and the addresses of its rows without an id.
        others = (
            (source if pet_id is None else pet_id, name)
            for pet_id, source, name in rows
            if sheet is None or pet_id is not None
        )
        in_sheet = () if sheet is None else _names_in_sheet(sheet)
        in_store = () if snapshot is None else _names_in_store(snapshot)
        no_pet = "no pet in the plan" if sheet is None else "no pet in the plan or the sheet"
        return find_pet_ids("--only", self.pets, known, no_pet, (chain(others, in_sheet), in_store))


def select_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for a part of a plan to a command; its function gets them as `selection`."""

    @click.option(
        "--only",
        type=PetName(),
        multiple=True,
        metavar="ID|NAME",
        help="Leave out the changes of all other pets, and new pets; repeatable.",
    )
    @click.option(
        "--only-field",
        "only_fields",
        type=click.Choice(COLUMNS[1:]),
        multiple=True,
        metavar="COLUMN",
        help="Leave out the changes of all other columns, adds and deletes; repeatable.",
    )
    @functools.wraps(function)
    def call(
        *args: Any, only: tuple[int | str, ...], only_fields: tuple[Column, ...], **options: Any
    ) -> int:
        return function(*args, selection=Selection(only, only_fields), **options)

    return call


READING = frozenset(each.name for each in iter_keywords(ReadKeywords))
"""The parameters of the options for reading a sheet."""
COMPARING = READING.union(
    (each.name for each in iter_keywords(PlanKeywords)), ("strict", "dask", "only", "only_fields")
)
"""The parameters of the options for comparing it, which the next command must repeat."""


_STRICT = click.option(
    "--strict", is_flag=True, default=None, help="Make no plan if the sheet has errors or warnings."
)


dask_option = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Compare the parts of a folder on this Dask cluster: the scheduler's address, such as "
    "tcp://host:8786, or its scheduler file. The workers must see the temporary files (TMPDIR) and "
    "the sheet under the same paths.",
)


memory_option = click.option(
    "--memory",
    metavar="SIZE",
    help="Compare the parts of a folder in as many processes as fit into this memory: 2GiB.",
)


def plan_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for plans to a command; its function gets a `CompareOptions` as
    `compare_options`.
    """

    @functools.wraps(function)
    def call_with_asked(
        *args: Any, reading: dict[str, Any], planning: dict[str, Any], **options: Any
    ) -> int:
        if options.pop("strict"):
            planning["strict"] = True
        places = options.pop("dask", None), options.pop("memory", None)
        compare_options = CompareOptions(reading, planning, *places)
        return function(*args, compare_options=compare_options, **options)

    return sheet_options(_STRICT(keyword_options(PlanKeywords, "planning")(call_with_asked)))


def sheet_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for reading a sheet to a command; its function gets the given options as
    `reading`, the keywords of `Store.read`.
    """
    return keyword_options(
        ReadKeywords, "reading", tab="", mapping="", encoding="", corrections=""
    )(function)


def plan_from_sheet(
    store: Store,
    path: Path | str,
    compare_options: CompareOptions,
    on_progress: Callable[[Lookups], None] | None = None,
    selection: Selection | None = None,
) -> tuple[Plan, Sheet]:
    """Return the plan that brings the store into agreement with the sheet, or the selected part of
    it, and the sheet.
    """
    sentinels = compare_options.planning.get("sentinels", ())
    snapshot, sheet = read_inputs(store, path, compare_options, sentinels, on_progress)
    plan = store.plan(sheet, snapshot=snapshot, on_progress=on_progress, **compare_options.planning)
    return (plan if selection is None else selection.of(plan, sheet, snapshot)), sheet


def explain_sheet(
    store: Store,
    path: Path | str,
    compare_options: CompareOptions,
    given: Sequence[int | str],
    on_progress: Callable[[Lookups], None] | None = None,
) -> Explanations:
    """Return the reasons for the decisions about these pets, given by id or by name, in the plan
    that `plan_from_sheet` makes.

    Raises UsageError for a name that no pet or several pets have, and for a name in a folder.
    """
    names = [each for each in given if isinstance(each, str)]
    if names and is_in_parts(path):
        raise click.UsageError(
            f"--why {names[0]}: pets in a folder are found by their id, such as 1001."
        )
    numbers = [each for each in given if isinstance(each, int)]
    if names and compare_options.plan_options.scope == "auto":
        # Any pet may have the name.
        compare_options = compare_options.with_scope("all")
    snapshot, sheet = read_inputs(store, path, compare_options, numbers, on_progress)
    known = (*_names_in_store(snapshot), *_names_in_sheet(sheet)) if names else ()
    ids = find_pet_ids("--why", given, known)
    return store.why(
        sheet, ids, snapshot=snapshot, on_progress=on_progress, **compare_options.planning
    )


def _names_in_sheet(sheet: Sheet) -> Iterator[tuple[int | str, str]]:
    """Yield the id, or the address of a row without one, and the name of each row with a name."""
    for row, pet_id, name in _iter_named(sheet.rows):
        yield sheet.address(row) if pet_id is None else pet_id, name
    for row, name in sheet.blocked_names.items():
        yield sheet.blocked_pets.get(row, sheet.address(row)), name


def _names_in_store(snapshot: Snapshot) -> Iterator[tuple[int | str, str]]:
    """Yield the id and the name of each pet that has a name."""
    return ((pet_id, name) for _, pet_id, name in _iter_named(snapshot.rows) if pet_id is not None)


def _iter_named(frame: pd.DataFrame) -> Iterator[tuple[int, int | None, str]]:
    """Yield the row, the id and the name of each row with a name."""
    if {"id", "name"} <= set(frame.columns):
        named = frame.loc[frame["name"].notna(), ["id", "name"]]
        ids = (
            int(each) if has else None
            for each, has in zip(named["id"], named["id"].notna(), strict=True)
        )
        yield from zip(named.index, ids, map(str, named["name"]), strict=True)


def read_inputs(
    store: Store,
    path: Path | str,
    compare_options: CompareOptions,
    keep: Iterable[int] = (),
    on_progress: Callable[[Lookups], None] | None = None,
) -> tuple[Snapshot, Sheet]:
    """Return the current snapshot of the store, and the sheet as read for this store. If the sheet
    is a folder, or only single pets are read, the snapshot has at least the pets with the ids in
    `keep`. `on_progress` reports the look-ups of single pets.
    """
    reading, planning = compare_options.reading, compare_options.plan_options
    with as_usage_error(reading), _find_workers(path, compare_options) as executor:
        return store.read_with_snapshot(
            path,
            keep=keep,
            with_unnamed=planning.delete_missing,
            executor=executor,
            planning=planning,
            on_progress=on_progress,
            **reading,
        )


def _find_workers(
    path: Path | str, options: CompareOptions
) -> AbstractContextManager[Executor | None]:
    dask, memory = options.dask, options.memory
    if dask is None and memory is None:
        return nullcontext()
    # Most sheets are in one file.
    from petsync.scale.executors import LocalProcesses, connect_dask

    name = "--memory" if dask is None else "--dask"
    if not is_in_parts(path):
        raise click.UsageError(f"{name} needs a folder or a pattern of files as the sheet.")
    if dask is None:
        return nullcontext(LocalProcesses(memory or ""))
    if memory is not None:
        raise click.UsageError("--memory is for processes on this machine: leave out --dask.")
    return connect_dask(dask)


@contextmanager
def as_usage_error(reading: Mapping[str, Any]) -> Iterator[None]:
    """In the block, raise UsageError if the sheet lacks a header that --column maps."""
    # Import the sheet reader only when it is needed.
    from petsync.sheets import HeaderNotFoundError

    try:
        yield
    except HeaderNotFoundError as error:
        header = error.missing[0]
        raise click.UsageError(
            f"--column {header}={reading['mapping'][header]}: {error.problem}. {error.cure}"
        ) from None


def verdict_code(plan: Plan) -> int:
    """Return the exit code: 4 if the plan is refused, 2 for pending changes, else 5 for conflicts,
    3 for rows that are blocked or whose pets could not be looked up, 0 if sheet and store agree.
    """
    if not plan.verdict.ok:
        return GuardError.exit_code
    if plan.changes:
        return PENDING
    if not all(conflict.is_unanswered for conflict in plan.open_conflicts):
        return _CONFLICTS
    return SOME_FAILED if plan.blocked or plan.open_conflicts else 0


# The store that an input names.


def find_url_of(path: Path | str) -> tuple[str, str]:
    """Return the address of the store that a plan or the base of an exported sheet names, and the
    path; "" for both if it names none. Raises PlanError or SheetError if it cannot be read.
    """
    if isinstance(path, str) or has_wildcards(path):
        return "", ""
    if is_saved_plan(path):
        from petsync.apply.planfile import read_store

        return read_store(path), str(path)
    if is_folder(path):
        from petsync.scale.parts import BASE_FOLDER, PartFolder

        folder = path / BASE_FOLDER
        return (PartFolder.open(folder).manifest.store if folder.is_dir() else ""), str(path)
    if is_in_parts(path):
        return "", ""
    from petsync.sheets.base import find_store

    return find_store(path), str(path)


# Saved plans.


def is_saved_plan(path: Path | str) -> TypeGuard[Path]:
    """Return true if the path is that of a saved plan, not of a sheet."""
    if isinstance(path, str):
        return False
    if path.suffix.lower() not in (".json", ".parquet"):
        return False
    from petsync.apply.planfile import is_plan_file

    return is_plan_file(path)


def read_plan(store: Store, path: Path, selection: Selection) -> tuple[Plan, Sheet | None]:
    """Return the selected part of the plan in the file, and its sheet, with None for a sheet that
    is missing or was changed.

    Raises PlanError if the plan cannot be read, belongs to another store, or was already applied.
    """
    from petsync.apply.planfile import load_plan
    from petsync.sheets.read import reading_sheet_once, sheet_of

    plan = load_plan(path)
    with reading_sheet_once(plan):
        store.check(plan)
        sheet = sheet_of(plan, statuses=store.api.aio.session.profile.statuses)
        return selection.of(plan, sheet), sheet
