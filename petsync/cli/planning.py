"""A sheet becomes a plan: the options that `plan` and `apply` share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from petsync.errors import ConflictError, GuardError
from petsync.settings import MAPPED, checked_encoding, column_named
from petsync.table.columns import COLUMNS, Column

if TYPE_CHECKING:
    from petsync.client.lookup import Lookups
    from petsync.diff.explain import Explanations
    from petsync.diff.guard import Guard
    from petsync.diff.plan import Plan
    from petsync.diff.snapshot import Snapshot
    from petsync.store import Store
    from petsync.table.sheet import Sheet

__all__ = [
    "ENCODING",
    "PENDING",
    "SOME_FAILED",
    "Asked",
    "as_usage_error",
    "guard_of",
    "of_sheet",
    "plan_options",
    "read",
    "sheet_options",
    "verdict_code",
    "why_of_sheet",
]

PENDING = 2
SOME_FAILED = 3
_MATCHABLE = [column for column in COLUMNS if column != "id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a sheet is to be compared with the store."""

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
        """The limits. Raises SettingsError for one that cannot be read."""
        return guard_of(
            self.max_delete,
            self.max_update,
            self.max_add,
            allow_empty=self.allow_empty,
            allow_shifted=self.allow_shifted,
            sentinels=self.sentinels,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as `Store.plan` and `Store.why` take them. Raises SettingsError."""
        return {
            "delete_missing": self.delete_missing,
            "match_on": self.match_on,
            "strict": self.strict,
            "two_way": self.two_way,
            "on_conflict": self.on_conflict or "store",
            "guard": self.guard,
        }


def guard_of(
    max_delete: str | None,
    max_update: str | None,
    max_add: str | None,
    *,
    allow_empty: bool,
    allow_shifted: bool = False,
    sentinels: tuple[int, ...] = (),
) -> Guard:
    """The limits, the usual ones where none is given. Raises SettingsError for one that cannot be
    read.
    """
    from petsync.diff.guard import Guard, Limit

    texts = {"max_delete": max_delete, "max_update": max_update, "max_add": max_add}
    given: dict[str, Any] = {
        name: Limit.parse(text, f"--{name.replace('_', '-')}")
        for name, text in texts.items()
        if text is not None
    }
    return Guard(**given, allow_empty=allow_empty, allow_shifted=allow_shifted, sentinels=sentinels)


class _Mapped(click.ParamType[tuple[str, str]]):
    name = "HEADER=COLUMN"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The header, and petsync's column that it means."""
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


def _encoding(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    return None if value is None else checked_encoding(value)


ENCODING = click.option(
    "--encoding",
    metavar="NAME",
    callback=_encoding,
    help="The encoding of a CSV file, such as cp1252.  [utf-8]",
)
_SHEET_OPTIONS = (
    click.option("--sheet", "tab", metavar="TAB", help="The worksheet to read, if not the first."),
    click.option(
        "--column",
        "columns",
        multiple=True,
        type=_Mapped(),
        metavar="HEADER=COLUMN",
        help="What a header of the sheet's own means, such as Tiername=name; repeatable.",
    ),
    ENCODING,
)
_OPTIONS = (
    *_SHEET_OPTIONS,
    click.option("--strict", is_flag=True, help="Plan nothing if the sheet has any finding."),
    click.option(
        "--two-way",
        is_flag=True,
        help="Compare with the store alone: leave out what the sheet carries of its export.",
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
    click.option("--max-delete", metavar="N|P%", help="The most deletes.  [10%, or 1; never all]"),
    click.option("--max-update", metavar="N|P%", help="The most updates.  [30%, or 10]"),
    click.option(
        "--max-add",
        metavar="N|P%",
        help="The most adds.  [50%, or 100; any number into an empty store]",
    ),
    click.option(
        "--allow-empty", is_flag=True, help="Let an empty sheet, or a plan to delete all, pass."
    ),
    click.option(
        "--allow-shifted",
        is_flag=True,
        help="Let a column pass that was sorted or shifted without its rows.",
    ),
    click.option(
        "--on-conflict",
        type=click.Choice(("store", "sheet")),
        help="Whose value a field takes that both changed since the export.  [store]",
    ),
    click.option(
        "--sentinel",
        "sentinels",
        multiple=True,
        type=int,
        metavar="ID",
        help="Do nothing unless this pet is there, and nobody changes it; repeatable.",
    ),
)


def plan_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give the command these options, and its function an `Asked` as `asked`."""

    @functools.wraps(function)
    def gathered(*args: Any, **options: Any) -> int:
        asked = Asked(**{field.name: options.pop(field.name) for field in fields(Asked)})
        return function(*args, asked=asked, **options)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


def sheet_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give the command the options by which a sheet is read, `tab`, `columns` and `encoding`."""
    for option in reversed(_SHEET_OPTIONS):
        function = option(function)
    return function


def of_sheet(
    store: Store,
    path: Path,
    asked: Asked,
    on_progress: Callable[[Lookups], None] | None = None,
) -> tuple[Plan, Sheet]:
    """The plan that brings the store to what the sheet says, and the sheet as it was read."""
    arguments = asked.arguments
    snapshot, sheet = read(store, path, asked)
    plan = store.plan(sheet, **arguments, snapshot=snapshot, on_progress=on_progress)
    return plan, sheet


def why_of_sheet(
    store: Store,
    path: Path,
    asked: Asked,
    ids: Iterable[int],
    on_progress: Callable[[Lookups], None] | None = None,
) -> Explanations:
    """Why the plan that `of_sheet` makes does with these pets what it does."""
    arguments = asked.arguments
    snapshot, sheet = read(store, path, asked)
    return store.why(sheet, ids, **arguments, snapshot=snapshot, on_progress=on_progress)


def read(store: Store, path: Path, asked: Asked) -> tuple[Snapshot, Sheet]:
    """The store as it is now, and the sheet as it is read for it."""
    snapshot = store.snapshot()
    known = frozenset(snapshot.frame["status"].dropna().unique())
    mapping = dict(asked.columns)
    with as_usage_error(mapping):
        sheet = store.aio.read(
            path,
            tab=asked.tab,
            mapping=mapping,
            known_statuses=known,
            encoding=asked.encoding,
        )
    return snapshot, sheet


@contextmanager
def as_usage_error(mapping: Mapping[str, str]) -> Iterator[None]:
    """Raise UsageError for a header that was mapped by an option and is not there."""
    # What reads sheets is loaded when one is read.
    from petsync.sheets import HeaderNotFoundError

    try:
        yield
    except HeaderNotFoundError as error:
        header = error.missing[0]
        raise click.UsageError(
            f"--column {header}={mapping[header]}: {error.message}. {error.hint}"
        ) from None


def verdict_code(plan: Plan) -> int:
    """4 refused, 2 changes pending, else 5 for conflicts, 3 for rows that are blocked or whose pets
    could not be looked up, 0 in sync.
    """
    if not plan.verdict.ok:
        return GuardError.exit_code
    if plan.changes:
        return PENDING
    if not all(conflict.is_unanswered for conflict in plan.open_conflicts):
        return ConflictError.exit_code
    return SOME_FAILED if plan.blocked or plan.open_conflicts else 0
