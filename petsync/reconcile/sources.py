"""The store of a job, and its sources: files, folders and database queries."""

from __future__ import annotations

import os
import sqlite3
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pandas as pd

from petsync import sheets
from petsync._display import quote
from petsync._extras import needs_extra
from petsync._files import EDITABLE, READABLE, ending_of, is_address, is_byproduct
from petsync.config.model import Job
from petsync.errors import SettingsError, SheetError
from petsync.models import Pet
from petsync.plan.fields import find_filled_columns, is_as_expected, normalize
from petsync.plan.match import Row, build_pet, iter_rows, key_of
from petsync.redact import Redactor
from petsync.settings import Secret, Settings, checked_address
from petsync.store import Store, store_of
from petsync.table.arrow import PetTable
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.frame import has_action, has_id_in, join_rows, lacks_id, select
from petsync.table.sheet import Finding, Sheet

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

__all__ = ["Folder", "Source", "connect_store", "sources_of"]


# The store of a job: its settings come from the configuration only.


def connect_store(job: Job, state: Path) -> Store:
    """Return the job's store, without sending a request. Raises SettingsError if the job has no
    URL.
    """
    if not job.url:
        raise SettingsError(
            f"job {job.name} has no service",
            hint=f"Write url at the top of the configuration, or in [jobs.{job.name}].",
        )
    settings = Settings(
        url=job.url,
        profile=job.profile,
        state=state,
        token=job.token,
        api_key=job.api_key,
        client_id=job.client_id,
        client_secret=job.client_secret,
        allow_http=job.allow_http,
        timeout=job.timeout,
        service=job.service,
        columns=job.columns,
        rules=job.rules,
        auth=job.auth,
        refused_hint=f"Job {job.name} signs in with its {job.sign_in}: correct it."
        if job.sign_in
        else "",
    )
    return store_of(settings)


# Sources of a job's rows: a sheet, the sheets of a folder, or a database query.


_LISTED = 5
_READ_ONLY = {
    "sqlite": "PRAGMA query_only = ON",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "oracle": "SET TRANSACTION READ ONLY",
}
_SQLITE_ALLOWED = frozenset(
    (
        *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE),
        # The read-only connection rejects these with a clear message.
        *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
        sqlite3.SQLITE_TRANSACTION,
    )
)
_SQLITE_PRAGMAS = frozenset(
    (
        *("table_info", "table_xinfo", "table_list", "database_list", "foreign_key_list"),
        *("index_list", "index_info", "index_xinfo", "collation_list", "data_version"),
    )
)
"""SQLite's pragmas that only read.

With an argument, most others change a setting, even on a read-only connection.
"""


class _Version(NamedTuple):
    """What the result of reading a file depends on."""

    digest: str
    sidecar: str
    tab: str | None
    statuses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Source:
    """One sheet of a job, or its query."""

    job: Job
    name: str
    """The path of the sheet, or a description of the query; without secrets, for messages."""
    part: str = ""
    """The file name if the job has a folder, else ""."""
    path: Path | None = None
    """None for a query, and for an address."""
    last: Callable[[], Base | None] | None = None
    """Returns the base of the last round, which records the worksheet that was read."""
    _last_read: dict[_Version, Sheet] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The sheet that was read last, by its version."""

    def read(self, store: Store, known_statuses: Collection[str] = ()) -> Sheet:
        """Return the sheet; statuses in `known_statuses` are valid, too. An unchanged file is not
        validated again, because a round reads it several times.

        Raises SheetError, and SettingsError if a query has no database or SQLAlchemy is missing.
        """
        if self.job.is_in_parts:
            raise SheetError(
                f"{self.name} is compared in parts: its rows cannot be read one by one"
            )
        if self.path is None:
            return self._query(store, known_statuses)
        try:
            with sheets.reading_once(self.path):
                return self._read_file(self.path, store, known_statuses)
        except SheetError as error:
            if not _is_missing(self.path):
                raise
            path = quote(str(self.path))
            cure = f"To create the sheet from the store's pets: `petsync export {path}`."
            raise SheetError(error.problem, hint=f"{error.cure} {cure}".strip()) from None

    def _read_file(self, path: Path, store: Store, known_statuses: Collection[str]) -> Sheet:
        tab = self.job.tab or self._last_tab(path, store)
        # The tab of a folder is that of its workbooks.
        if tab and self.part and not sheets.has_worksheets(path):
            tab = None
        version = _Version(
            sheets.digest_of(path),
            sheets.sidecar_digest(path),
            tab,
            frozenset(known_statuses),
        )
        if version in self._last_read:
            return self._last_read[version]
        sheet = store.aio.read(
            path,
            tab=tab,
            known_statuses=known_statuses,
            encoding=self.job.encoding and sheets.encoding_of(path, self.job.encoding),
        )
        self._last_read.clear()
        if sheet.digest == version.digest:
            self._last_read[version] = sheet
        return sheet

    def _last_tab(self, path: Path, store: Store) -> str | None:
        """Return the worksheet of the last round, None if it is unknown.

        Raises SheetError if several worksheets may be the one of the last round.
        """
        # Only a workbook has worksheets.
        base = self.last() if self.last is not None and zipfile.is_zipfile(path) else None
        return None if base is None else sheets.worksheet_of(path, base, store.aio.settings.columns)

    def _query(self, store: Store, known_statuses: Collection[str]) -> Sheet:
        if self.job.database is None:
            raise SettingsError(f"job {self.job.name} has a query, but no database")
        frame = _run_query(self.job.database, self.job.query, self.name)
        sheet = sheets.sheet_from_frame(
            frame,
            defaults=self.job.columns,
            statuses=store.api.aio.session.profile.statuses,
            known_statuses=known_statuses,
            first=1,
            rules=self.job.rules,
        )
        return replace(sheet, source=self.name)


def sources_of(job: Job) -> tuple[Source, ...]:
    """Return the sources of the job; those of a folder are sorted by name.

    Raises SheetError if a folder is missing or has no matching sheet: it may have been emptied, or
    its drive may not be mounted.
    """
    if job.sheet is not None:
        if is_address(job.sheet):
            return (Source(job, checked_address(job.sheet)),)
        return (Source(job, str(job.sheet), path=Path(job.sheet)),)
    if job.folder is not None:
        return tuple(Source(job, str(path), path.name, path) for path in _files(job, job.folder))
    return (Source(job, _describe_query(job)),)


class _NewRow(NamedTuple):
    """A row without an id that may add a pet."""

    place: str
    """The file and the address of the row."""
    row_pet: Pet
    keys: tuple[Hashable, ...]
    """Keys of the row; a row of another file with an equal key may be for the same pet."""


class Folder:
    """The ids and the new rows of a folder's files, as each file was last read.

    A row is blocked if a row of another file may be for the same pet: in each round, one row would
    revert the other. `unnumbered` has the pets whose rows lacked their ids in the last round.
    """

    def __init__(self, match_on: Sequence[Column] = ()) -> None:
        self._match_on = tuple(match_on)
        self.unnumbered = frozenset[int]()
        self._named: dict[str, dict[int, str]] = {}
        self._new: dict[str, dict[int, _NewRow]] = {}
        self._seen: dict[str, tuple[str, str]] = {}
        self._sheets: dict[str, Sheet] = {}

    def read_at(self, part: str) -> str:
        """Return when the file was first read with its current content."""
        return self._seen[part][1]

    def find_other_ids(self, part: str) -> frozenset[int]:
        """Return the ids in all other files."""
        others = (ids for other, ids in self._named.items() if other != part)
        return frozenset[int]().union(*others)

    def with_moved_rows(self, part: str, sheet: Sheet, ids: Collection[int]) -> Sheet:
        """Return the sheet, extended by the rows of other files that have these ids."""
        missing = {*ids} - sheet.named_ids
        own = sheet.content.rows
        others = [
            other.content.rows
            for name, other in self._sheets.items()
            if name != part and missing and "id" in other.rows and "id" in own
        ]
        frames = [rows[has_id_in(rows, missing)] for rows in others]
        frames = [_with_columns_of(own, frame) for frame in frames if len(frame)]
        if not frames:
            return sheet
        last = int(own.index.max()) if len(own) else 0
        moved = join_rows(frames)
        numbers = pd.RangeIndex(last + 1, last + 1 + len(moved), name=own.index.name)
        rows = join_rows([own, moved.set_axis(numbers)], ignore_index=False)
        return sheet.with_rows(rows)

    @property
    def has_new_rows(self) -> bool:
        """True if any file has a new row."""
        return any(self._new.values())

    def new_names(self, part: str) -> frozenset[str]:
        """Return the names of the new rows in all other files."""
        others = (rows.values() for other, rows in self._new.items() if other != part)
        return frozenset(normalize(new.row_pet.name) for rows in others for new in rows)

    def note(self, part: str, sheet: Sheet) -> None:
        """Record the ids and the new rows of a file."""
        self._sheets[part] = sheet
        places = {pet_id: sheet.address(row) for row, pet_id in _ids(sheet)}
        self._named[part] = {i: f"{part} ({place})" for i, place in places.items()}
        self._new[part] = {
            row.number: self._describe_row(part, sheet, row) for row in _new_rows(sheet)
        }
        if self._seen.get(part, ("",))[0] != sheet.digest:
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            self._seen[part] = (sheet.digest, now)

    def block_twins(self, part: str, sheet: Sheet) -> Sheet:
        """Record the sheet, and return it with an error in each row whose pet may also be in a row
        of another file.
        """
        self.note(part, sheet)
        found = {
            row: _error_of_repeated_id(sheet, row, i, at)
            for row, i, at in self._iter_repeated_ids(part, sheet)
        }
        found |= {
            row: _error_of_repeated_row(sheet, row, *each)
            for row, each in self._iter_repeated_rows(part)
        }
        blocked = _with_errors(sheet, found) if found else sheet
        if sheet.validate_again is None:
            return blocked
        validate_again = sheet.validate_again
        return replace(
            blocked,
            validate_again=lambda statuses: self.block_twins(part, validate_again(statuses)),
        )

    def _describe_row(self, part: str, sheet: Sheet, row: Row) -> _NewRow:
        row_pet = build_pet(row.values)
        keys: list[Hashable] = [("name", normalize(row_pet.name))]
        if self._match_on and (key := key_of(row.values, self._match_on)) is not None:
            keys.append(key)
        return _NewRow(f"{part} ({sheet.address(row.number)})", row_pet, tuple(keys))

    def _iter_repeated_ids(self, part: str, sheet: Sheet) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the rows whose id is also in other files, with the id and its places there."""
        twice = self.find_other_ids(part)
        others = [ids for other, ids in self._named.items() if other != part]
        for row, pet_id in _ids(sheet):
            if pet_id in twice:
                yield row, pet_id, [ids[pet_id] for ids in others if pet_id in ids]

    def _iter_repeated_rows(self, part: str) -> Iterator[tuple[int, tuple[_NewRow, list[str]]]]:
        """Yield the rows without an id that may repeat rows of other files, with their places."""
        others = defaultdict[Hashable, list[_NewRow]](list)
        for other, rows in self._new.items():
            for each in rows.values() if other != part else ():
                for key in each.keys:
                    others[key].append(each)
        for row, new in self._new[part].items():
            places = [
                each.place
                for key in new.keys
                for each in others.get(key, ())
                if key != new.keys[0] or _may_be_one(new.row_pet, each.row_pet)
            ]
            if places:
                yield row, (new, [*dict.fromkeys(places)])


def _with_columns_of(own: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the frame with the columns of `own`. A column that the frame lacks has the
    type that it has in `own`: pandas would add one of floats.
    """
    there = own.columns.intersection(frame.columns)
    return own.iloc[:0].reindex(frame.index).assign(**frame[there])


def _ids(sheet: Sheet) -> Iterator[tuple[int, int]]:
    """Yield each row that has an id, with the id; blocked rows too."""
    if "id" in sheet.rows:
        known = sheet.rows["id"].dropna()
        yield from zip(known.index.tolist(), known.tolist(), strict=True)
    yield from sheet.blocked_pets.items()


def _new_rows(sheet: Sheet) -> Iterator[Row]:
    """Yield the rows with a name and no id, except those with the action ignore or add-another."""
    frame = sheet.rows
    rows = select(frame, lacks_id(frame) & ~has_action(frame, "ignore", "add-another"))
    if "name" in rows and len(rows):
        rows = rows[rows["name"].notna()]
        yield from iter_rows(rows)


def _may_be_one(one: Pet, other: Pet) -> bool:
    """Return true if two rows with the same name agree in all columns in which both have a
    value.
    """
    columns = {*find_filled_columns(one)} & {*find_filled_columns(other)}
    return all(
        is_as_expected(one, other, each) or is_as_expected(other, one, each) for each in columns
    )


def _error_of_repeated_id(sheet: Sheet, row: int, pet_id: int, places: Sequence[str]) -> Finding:
    return _error(
        sheet,
        row,
        ("id", "duplicate-id", str(pet_id)),
        f"The pet also has a row in {_list_places(places)}.",
        "Keep the row in one of the files, and remove it from the others.",
    )


def _error_of_repeated_row(sheet: Sheet, row: int, new: _NewRow, places: Sequence[str]) -> Finding:
    return _error(
        sheet,
        row,
        ("name", "row-repeated", new.row_pet.name or ""),
        f"The row has no id, and may describe the same new pet as {_list_places(places)}.",
        "If they are the same pet, keep the row in one of the files. If not, write add-another "
        "into the action column of all these rows except one.",
    )


def _error(
    sheet: Sheet, row: int, what: tuple[str, str, str], problem: str, suggestion: str
) -> Finding:
    """Return an error of a row; `what` has its column, rule and value."""
    column, rule, value = what
    return Finding(
        address=sheet.address(row),
        row=row,
        column=column,
        severity="error",
        rule=rule,
        value=value,
        problem=problem,
        suggestion=suggestion,
    )


def _list_places(places: Sequence[str]) -> str:
    more = f" and {len(places) - _LISTED:,} more places" if len(places) > _LISTED else ""
    return ", ".join(places[:_LISTED]) + more


def _with_errors(sheet: Sheet, found: Mapping[int, Finding]) -> Sheet:
    """Return the sheet with these errors; their rows are blocked."""
    blocked = {*sheet.blocked, *found}
    frame = sheet.content.rows
    rows = frame.index.intersection([*found])
    ids = frame.loc[rows, "id"].dropna() if "id" in frame else pd.Series(dtype="Int64")
    pets = {**sheet.blocked_pets, **dict(zip(ids.index.tolist(), ids.tolist(), strict=True))}
    return replace(
        sheet,
        content=PetTable(frame=frame.drop(index=rows)),
        others=sheet.others.drop(index=rows),
        problems=(*sheet.problems, *found.values()),
        blocked=tuple(sorted(blocked)),
        blocked_ids=sheet.blocked_ids.union(ids.tolist()),
        blocked_pets=pets,
        unidentified=tuple(sorted({*sheet.unidentified, *rows} - pets.keys())),
    )


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def _files(job: Job, folder: Path) -> list[Path]:
    try:
        there = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise SheetError(
            f"the folder {folder} of job {job.name} cannot be read: {error.strerror}",
            hint="Check that it is the right folder, and that its drive is connected.",
        ) from None
    endings = (*EDITABLE, *(each for each in READABLE if job.files.casefold().endswith(each)))
    found = [path for path in there if fnmatch(path.name, job.files) and _is_sheet(path, endings)]
    if not found:
        raise SheetError(
            f"no sheet in {folder} matches {job.files}, the pattern of job {job.name}",
            hint=f"The names of sheets end in {', '.join(EDITABLE)}. For another format, write its "
            'ending into `files`, such as "*.ods".',
        )
    for path in found:
        _check_name(path, folder)
    return found


def _check_name(path: Path, folder: Path) -> None:
    """Raise SheetError if the name is not valid UTF-8: neither a report nor the history could store
    it.
    """
    try:
        path.name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path.name).decode("ascii", "backslashreplace")
        raise SheetError(
            f"{folder}: the file {shown} has a name that is not UTF-8",
            hint="Give it another name.",
        ) from None


def _is_sheet(path: Path, endings: Collection[str]) -> bool:
    """Return true if the file has one of the endings, unless it is hidden, or a lock, backup or
    results file.
    """
    return not path.name.startswith(".") and not is_byproduct(path) and ending_of(path) in endings


def _describe_query(job: Job) -> str:
    """Return a description such as `query of postgresql://host/catalogue`, without any password."""
    if job.database is None:
        return "query"
    url = _url(job.database)
    if url is None:
        return "query of a database"
    if "@" in f"{url.host}{url.database}":  # this part may belong to a password with an @
        return "query of a database"
    host = f"{url.host}/" if url.host else "/" if url.database else ""
    return f"query of {url.get_backend_name()}://{host}{url.database or ''}"


def _url(database: Secret) -> URL | None:
    """Return the parsed URL; None if it is invalid. The error is hidden: it may contain the URL."""
    try:
        from sqlalchemy.engine import make_url

        return make_url(database.reveal())
    except Exception:  # noqa: BLE001 - any error means an invalid URL
        return None


def _run_query(database: Secret, query: str, name: str) -> pd.DataFrame:
    """Return the rows of the query. Integers stay integers. Nothing is committed."""
    with needs_extra("sql", "a job with a query"):
        import sqlalchemy
    try:
        engine = sqlalchemy.create_engine(database.reveal(), hide_parameters=True)
        try:
            if engine.dialect.name == "sqlite":
                _check_sqlite_file(*engine.dialect.create_connect_args(engine.url))
            with engine.connect() as connection:
                _make_read_only(connection)
                result = connection.execute(sqlalchemy.text(query))
                columns = list(result.keys())
                rows = [tuple(row) for row in result]
        finally:
            engine.dispose()
    except Exception as error:  # noqa: BLE001 - each driver has its own errors
        raise _query_error(error, name, database) from None
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    # Built by column from Python values: pandas would turn ids beside a NULL into floats.
    own = [pd.Series(list(column), dtype=object) for column in values]
    return pd.concat(own, axis=1, keys=columns) if own else pd.DataFrame()


def _make_read_only(connection: Connection) -> None:
    """Make the connection read-only, if its database supports that."""
    kind = connection.dialect.name
    if kind == "postgresql":
        connection.execution_options(postgresql_readonly=True)
    if kind in _READ_ONLY:
        connection.exec_driver_sql(_READ_ONLY[kind])
    if kind in ("mysql", "mariadb"):
        connection.commit()  # It takes effect in the next transaction.
    if kind == "sqlite":
        driver: Any = connection.connection.driver_connection
        driver.set_authorizer(_authorize)


def _authorize(action: int, name: str | None, argument: str | None, *_: str | None) -> int:
    """Return SQLITE_OK for reads, for function calls except load_extension, and for changes of
    rows, which the connection itself rejects; else SQLITE_DENY.

    Even a read-only connection can attach databases, copy one into a file (VACUUM INTO) and set
    pragmas.
    """
    if action == sqlite3.SQLITE_PRAGMA:
        is_allowed = (name or "").lower() in _SQLITE_PRAGMAS
    elif action == sqlite3.SQLITE_FUNCTION:
        is_allowed = (argument or "").lower() != "load_extension"
    else:
        is_allowed = action in _SQLITE_ALLOWED
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _check_sqlite_file(arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise FileNotFoundError if the database file is missing: SQLite would create it."""
    name = str(arguments[0])
    if options.get("uri") and name.startswith("file:"):
        parts = urlsplit(name)
        is_memory = parse_qs(parts.query).get("mode") == ["memory"]
        name = ":memory:" if is_memory else unquote(parts.path)
    if name not in ("", ":memory:") and not Path(name).exists():
        raise FileNotFoundError("there is no such file")


def _query_error(error: Exception, name: str, database: Secret) -> SheetError:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    if reason.startswith(("not authorized", "authorization denied")):
        reason = "the query may only read: it may not attach a database or write a file"
    reason = Redactor((database, *map(Secret, _passwords(database))))(reason)
    return SheetError(
        f"the {name} failed: {reason[:300]}",
        hint="Try the query in a program for the database, and check the address and the user's "
        "permissions.",
    )


def _passwords(database: Secret) -> list[str]:
    """Return the parts of the URL that may be secret: the password, and all query values."""
    url = _url(database)
    if url is None:
        return []
    inside = [str(url.password)] if url.password else []
    inside += [text for value in url.query.values() for text in _texts(value)]
    return [text for text in inside if text]


def _texts(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value
