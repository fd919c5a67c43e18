"""Options that several commands share, and functions that read inputs and write results for these
commands.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from petsync._files import write_atomically
from petsync.cli.context import must_be_writable
from petsync.errors import ConflictError, GuardError, PlanError, SheetError
from petsync.settings import MAPPED, checked_encoding, column_named
from petsync.table.columns import COLUMNS, Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from petsync.client.loaders import Lookups
    from petsync.plan.change import Snapshot
    from petsync.plan.explain import Explanations
    from petsync.plan.guard import Guard
    from petsync.plan.plan import Plan
    from petsync.plan.report import PastRun, Report, RoundReport
    from petsync.plan.rounds import Round
    from petsync.plan.uploads import UploadReport
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = [
    "ENCODING",
    "PENDING",
    "SOME_FAILED",
    "CompareOptions",
    "Rate",
    "as_usage_error",
    "build_guard",
    "check_page",
    "explain_round_names",
    "explain_sheet",
    "find_round",
    "find_rounds",
    "plan_from_sheet",
    "plan_options",
    "read_inputs",
    "read_plan",
    "run_options",
    "save_history",
    "save_report",
    "save_results",
    "save_uploaded",
    "sheet_options",
    "verdict_code",
    "without_missing_files",
]


# Rounds of `petsync reconcile`, which `petsync runs` lists with the runs.


_MAX_LISTED = 5
_PAGES = (".html", ".htm")


def find_rounds(state: Path, job: str = "", store: str | None = None) -> list[Round]:
    """Return the rounds in a state folder, or only those of a job or on a store, the oldest first.

    Raises PlanError if the job has no round.
    """
    from petsync.reconcile.state import History

    rounds = History(state).rounds()
    found = [each for each in rounds if store in (None, each.store)]
    job_rounds = [each for each in found if job in ("", each.job)]
    if job and not job_rounds:
        names = ", ".join(dict.fromkeys(each.job for each in found))
        raise PlanError(
            f"no round of a job {job!r} is known",
            hint=f"There are rounds of: {names}." if names else "No round of any job is known.",
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


@contextmanager
def explain_round_names(state: Path, name: str) -> Iterator[None]:
    """In the block, replace a PlanError about an unknown run if `name` is the id of a round: the
    new error names the runs of the round.
    """
    try:
        yield
    except PlanError:
        found = _find_rounds_by_id(state, name)
        if len(found) != 1:
            raise
        (round_,) = found
        runs = ", ".join(round_.runs)
        hint = f"What it sent is in {runs}." if runs else "It sent nothing to the store."
        raise PlanError(f"{round_.id} is a round, not a run in the journal", hint=hint) from None


def without_missing_files(round_: Round) -> Round:
    """Return the round, without its plan if the plan no longer waits, and without its report if the
    report no longer exists.
    """
    from msgspec.structs import replace

    if round_.waiting and not Path(round_.waiting).exists():
        hint = "It no longer waits: it was released, or the reason for it no longer applies."
        round_ = replace(round_, waiting="", hint=hint)
    if round_.report and not Path(round_.report).exists():
        round_ = replace(round_, report="")
    return round_


def check_page(path: Path | None) -> None:
    """Raise UsageError if the page cannot be written, or its extension is not .html or .htm."""
    if path is None:
        return
    must_be_writable(path)
    if path.suffix.lower() not in _PAGES:
        raise click.UsageError(f"--html {path}: the file extension must be .html or .htm.")


def save_history(
    rounds: Sequence[Round], runs: Sequence[PastRun], path: Path, limit: int | None
) -> None:
    """Write the history page. Raises SheetError."""
    from petsync.report.history import history_page

    shown = [without_missing_files(each) for each in rounds]
    page = history_page(shown, runs, now=datetime.now(UTC), limit=limit)
    write_atomically(path, page.encode(), error=SheetError)


# The files of a run: the results and the report.


def save_results(report: Report, sheet: Sheet | None, path: Path, *, is_named: bool = True) -> None:
    """Write the sheet with the outcome of each row, or, without a sheet, a workbook of the results.

    A symbolic link is followed only if the user has named the path. Raises SheetError.
    """
    if sheet is None:
        from petsync.report.workbook import report_workbook

        report_workbook(report, path)
    else:
        from petsync.sheets import write_results

        write_results(sheet, report, path, follow=is_named)


def save_report(report: Report, path: Path) -> None:
    """Write the report as an HTML page. Raises SheetError."""
    from petsync.report.html import page
    from petsync.report.run import report_html

    title = f"Report on {Path(report.plan.source).name}"
    html = page(report_html(report, limit=None), title)
    write_atomically(path, html.encode(), like=report.plan.source, error=SheetError)


def save_uploaded(report: UploadReport, path: Path) -> None:
    """Write an upload's report as an HTML page. Raises SheetError."""
    from petsync.report.html import page
    from petsync.report.images import uploaded_html

    title = f"Pictures of {Path(report.source).name}"
    html = page(uploaded_html(report, limit=None), title)
    write_atomically(path, html.encode(), error=SheetError)


# Options for runs, which `apply`, `resume` and `undo` share.


class Rate(click.ParamType[float]):
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


_NAMES = ("concurrency", "rate", "verify", "recheck", "max_failures", "settle")
_PACING_OPTIONS = (
    click.option(
        "--concurrency",
        type=click.IntRange(1, 128),
        metavar="N",
        help="The maximum number of changes at the same time; fewer while the service is slow or "
        "refuses requests.  [16]",
    ),
    click.option(
        "--rate", type=Rate(), metavar="N", help="The maximum number of requests per second."
    ),
    click.option(
        "--verify", is_flag=True, default=None, help="Read every changed pet again and compare it."
    ),
    click.option(
        "--recheck",
        type=click.Choice(("each", "bulk")),
        help="Read each pet again just before its change, or all pets once at the start, "
        "which is faster.  [each]",
    ),
    click.option(
        "--max-failures",
        type=click.IntRange(0),
        metavar="N",
        help="Stop the run after more failed changes than this; it can be resumed.  [no limit]",
    ),
    click.option(
        "--settle",
        type=click.FloatRange(0, 3600),
        metavar="SECONDS",
        help="How long to wait before an add without an id is sent again, if it got no answer and "
        "its pet is not in the store.  [the timeout, 30]",
    ),
)


def run_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for runs to a command; its function gets, as `pacing`, the options that the
    user gives.
    """

    @functools.wraps(function)
    def call_with_pacing(*args: Any, **options: Any) -> int:
        given = {name: options.pop(name) for name in _NAMES}
        pacing = {name: value for name, value in given.items() if value is not None}
        return function(*args, pacing=pacing, **options)

    for option in reversed(_PACING_OPTIONS):
        call_with_pacing = option(call_with_pacing)
    return call_with_pacing


# Options for plans, which `plan`, `apply` and `rehearse` share.


PENDING = 2
SOME_FAILED = 3
_MATCHABLE = [column for column in COLUMNS if column != "id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """The options for the comparison of a sheet with the store."""

    tab: str | None
    columns: tuple[tuple[str, str], ...]
    encoding: str | None
    strict: bool
    two_way: bool
    delete_missing: bool
    match_on: tuple[Column, ...]
    max_delete: str | None
    max_update: str | None
    max_add: str | None
    allow_empty: bool
    allow_shifted: bool
    on_conflict: Literal["store", "sheet"] | None
    sentinels: tuple[int, ...]

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def guard(self) -> Guard:
        """The guard with the given limits. Raises SettingsError for an invalid limit."""
        return build_guard(
            self.max_delete,
            self.max_update,
            self.max_add,
            allow_empty=self.allow_empty,
            allow_shifted=self.allow_shifted,
            sentinels=self.sentinels,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `Store.plan` and `Store.why`. Raises SettingsError."""
        return {
            "delete_missing": self.delete_missing,
            "match_on": self.match_on,
            "strict": self.strict,
            "two_way": self.two_way,
            "on_conflict": self.on_conflict or "store",
            "guard": self.guard,
        }


def build_guard(
    max_delete: str | None,
    max_update: str | None,
    max_add: str | None,
    *,
    allow_empty: bool,
    allow_shifted: bool = False,
    sentinels: tuple[int, ...] = (),
) -> Guard:
    """Return a guard with these limits, and defaults for missing limits. Raises SettingsError for
    an invalid limit.
    """
    from petsync.plan.guard import Guard, Limit

    texts = {"max_delete": max_delete, "max_update": max_update, "max_add": max_add}
    given: dict[str, Any] = {
        name: Limit.parse(text, f"--{name.replace('_', '-')}")
        for name, text in texts.items()
        if text is not None
    }
    return Guard(**given, allow_empty=allow_empty, allow_shifted=allow_shifted, sentinels=sentinels)


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


def _check_encoding(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    return None if value is None else checked_encoding(value)


ENCODING = click.option(
    "--encoding",
    metavar="NAME",
    callback=_check_encoding,
    help="The encoding of a CSV file, such as cp1252.  [utf-8]",
)
_SHEET_OPTIONS = (
    click.option(
        "--sheet",
        "tab",
        metavar="TAB",
        help="The worksheet to read.  [the exported one, else the first]",
    ),
    click.option(
        "--column",
        "columns",
        multiple=True,
        type=_ColumnMapping(),
        metavar="HEADER=COLUMN",
        help="Map a header of the sheet to a column, such as Tiername=name; repeatable.",
    ),
    ENCODING,
)
_PLANNING_OPTIONS = (
    *_SHEET_OPTIONS,
    click.option("--strict", is_flag=True, help="Make no plan if the sheet has any finding."),
    click.option(
        "--two-way",
        is_flag=True,
        help="Compare with the store alone: ignore the base of an exported sheet.",
    ),
    click.option(
        "--delete-missing", is_flag=True, help="Delete the pets that no row of the sheet names."
    ),
    click.option(
        "--match-on",
        multiple=True,
        type=click.Choice(_MATCHABLE),
        metavar="COLUMN",
        help="Find the pet of a row without an id by this column, such as name; repeatable.",
    ),
    click.option(
        "--max-delete",
        metavar="N|P%",
        help="The maximum number of deletes.  [10%, or 1; never all]",
    ),
    click.option(
        "--max-update", metavar="N|P%", help="The maximum number of updates.  [30%, or 10]"
    ),
    click.option(
        "--max-add",
        metavar="N|P%",
        help="The maximum number of adds.  [50%, or 100; any number into an empty store]",
    ),
    click.option(
        "--allow-empty",
        is_flag=True,
        help="Permit an empty sheet, or a plan that deletes every pet.",
    ),
    click.option(
        "--allow-shifted",
        is_flag=True,
        help="Permit a column that was sorted or shifted without its rows.",
    ),
    click.option(
        "--on-conflict",
        type=click.Choice(("store", "sheet")),
        help="Whose value to use for a field that both sides changed since the export.  [store]",
    ),
    click.option(
        "--sentinel",
        "sentinels",
        multiple=True,
        type=int,
        metavar="ID",
        help="Refuse the plan if this pet is missing or would change; repeatable.",
    ),
)


def plan_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for plans to a command; its function gets a `CompareOptions` as
    `compare_options`.
    """

    @functools.wraps(function)
    def call_with_asked(*args: Any, **options: Any) -> int:
        compare_options = CompareOptions(
            **{field.name: options.pop(field.name) for field in fields(CompareOptions)}
        )
        return function(*args, compare_options=compare_options, **options)

    for option in reversed(_PLANNING_OPTIONS):
        call_with_asked = option(call_with_asked)
    return call_with_asked


def sheet_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for reading a sheet to a command: `tab`, `columns` and `encoding`."""
    for option in reversed(_SHEET_OPTIONS):
        function = option(function)
    return function


def plan_from_sheet(
    store: Store,
    path: Path,
    compare_options: CompareOptions,
    on_progress: Callable[[Lookups], None] | None = None,
) -> tuple[Plan, Sheet]:
    """Return the plan that brings the store into agreement with the sheet, and the sheet."""
    arguments = compare_options.arguments
    snapshot, sheet = read_inputs(store, path, compare_options)
    plan = store.plan(sheet, **arguments, snapshot=snapshot, on_progress=on_progress)
    return plan, sheet


def explain_sheet(
    store: Store,
    path: Path,
    compare_options: CompareOptions,
    ids: Iterable[int],
    on_progress: Callable[[Lookups], None] | None = None,
) -> Explanations:
    """Return the reasons for the decisions about these pets in the plan that `plan_from_sheet`
    makes.
    """
    arguments = compare_options.arguments
    snapshot, sheet = read_inputs(store, path, compare_options)
    return store.why(sheet, ids, **arguments, snapshot=snapshot, on_progress=on_progress)


def read_inputs(
    store: Store, path: Path, compare_options: CompareOptions
) -> tuple[Snapshot, Sheet]:
    """Return the current snapshot of the store, and the sheet as read for this store."""
    snapshot = store.snapshot()
    known = frozenset(snapshot.frame["status"].dropna().unique())
    mapping = dict(compare_options.columns)
    with as_usage_error(mapping):
        sheet = store.aio.read(
            path,
            tab=compare_options.tab,
            mapping=mapping,
            known_statuses=known,
            encoding=compare_options.encoding,
        )
    return snapshot, sheet


@contextmanager
def as_usage_error(mapping: Mapping[str, str]) -> Iterator[None]:
    """In the block, raise UsageError for a header that --column maps and the sheet lacks."""
    # Import the sheet reader only when it is needed.
    from petsync.sheets import HeaderNotFoundError

    try:
        yield
    except HeaderNotFoundError as error:
        header = error.missing[0]
        raise click.UsageError(
            f"--column {header}={mapping[header]}: {error.message}. {error.hint}"
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
        return ConflictError.exit_code
    return SOME_FAILED if plan.blocked or plan.open_conflicts else 0


# Saved plans.


def read_plan(store: Store, path: Path) -> tuple[Plan, Sheet | None]:
    """Return the plan in the file and its sheet, with None for a sheet that is missing or was
    changed.

    Raises PlanError, also for a plan of another store, or one that was already applied.
    """
    from petsync.apply.planfile import load_plan
    from petsync.sheets.read import sheet_of

    plan = load_plan(path)
    store.check(plan)
    return plan, sheet_of(plan, statuses=store.api.aio.session.profile.statuses)
