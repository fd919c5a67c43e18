"""Sources of a job: files, folders, URLs and databases."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from petsync import sheets
from petsync.errors import SettingsError, SheetError
from petsync.reconcile.config.model import Job
from petsync.redact import Redactor
from petsync.settings import Secret, Settings
from petsync.store import Store, store_of
from petsync.table.base import Base
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

__all__ = ["Source", "check_apart", "connected", "sources_of"]


# The store of a job: what the configuration says of it, and nothing else.


def connected(job: Job, state: Path) -> Store:
    """The job's store; nothing is sent yet. Raises SettingsError."""
    if not job.url:
        raise SettingsError(
            f"job {job.name} names no service",
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
        auth=job.auth,
    )
    return store_of(settings)


# Sources: where the rows of a job come from: a sheet, the sheets of a folder, or a database.


_ENDINGS = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm")
_MADE = re.compile(r"\.(backup-\d{8}-\d{6}(-\d+)?|results(-\d+)?)$")
"""What petsync itself leaves beside a sheet."""
_LISTED = 5
_READ_ONLY = {
    "sqlite": "PRAGMA query_only = ON",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "oracle": "SET TRANSACTION READ ONLY",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One sheet of a job: `part` is its file's name where the job has a folder, else "". `name`
    tells a person what it is, without secrets; `path` is None for a query. `last` gives the base
    of the last round, which knows the worksheet that was read.
    """

    job: Job
    name: str
    part: str = ""
    path: Path | None = None
    last: Callable[[], Base | None] | None = None

    def read(self, store: Store, known_statuses: Collection[str] = ()) -> Sheet:
        """What it says now, as it is read for the store; a status that the store has is known.

        Raises SheetError, and SettingsError where a package for a database is missing.
        """
        if self.path is None:
            return self._asked(store, known_statuses)
        try:
            return store.aio.read(
                self.path,
                tab=self.job.tab or self._last_tab(self.path, store),
                known_statuses=known_statuses,
                encoding=self.job.encoding and sheets.encoding_of(self.path, self.job.encoding),
            )
        except SheetError as error:
            if self.path.exists():
                raise
            cure = f"If there never was one, `petsync export {self.path}` makes it of the store's"
            raise SheetError(error.message, hint=f"{error.hint} {cure} pets.".strip()) from None

    def _last_tab(self, path: Path, store: Store) -> str | None:
        """The worksheet of the last round, None where there was none, or it is not known. Raises
        SheetError where it is not certain which one that is now.
        """
        base = None if self.last is None else self.last()
        return None if base is None else sheets.worksheet_of(path, base, store.aio.settings.columns)

    def _asked(self, store: Store, known_statuses: Collection[str]) -> Sheet:
        if self.job.database is None:
            raise SettingsError(f"job {self.job.name}: it has a query, and no database is named")
        frame = _queried(self.job.database, self.job.query, self.name)
        sheet = sheets.sheet_from_frame(
            frame,
            defaults=self.job.columns,
            statuses=store.api.aio.session.profile.statuses,
            known_statuses=known_statuses,
            first=1,
        )
        return replace(sheet, source=self.name)


def sources_of(job: Job) -> tuple[Source, ...]:
    """The job's sheets; of a folder by their names. Raises SheetError for a folder that is not
    there, or in which no file is a sheet of the job: it may have been emptied, or not be mounted.
    """
    if job.sheet is not None:
        return (Source(job, str(job.sheet), path=job.sheet),)
    if job.folder is not None:
        return tuple(Source(job, str(path), path.name, path) for path in _files(job, job.folder))
    return (Source(job, _named(job)),)


def check_apart(read: Mapping[str, Sheet]) -> None:
    """Raise SheetError where a pet's id is in several sheets of a folder (by their parts): what
    one of them says, the other would take back.
    """
    named = [(pet_id, part, row) for part, sheet in read.items() for row, pet_id in _ids(sheet)]
    parts: dict[int, dict[str, int]] = {}
    for pet_id, part, row in named:
        parts.setdefault(pet_id, {}).setdefault(part, row)
    twice = {pet_id: rows for pet_id, rows in sorted(parts.items()) if len(rows) > 1}
    if not twice:
        return
    some = "; ".join(_said(pet_id, rows, read) for pet_id, rows in islice(twice.items(), _LISTED))
    more = f"; and {len(twice) - _LISTED:,} more" if len(twice) > _LISTED else ""
    raise SheetError(
        f"the same pet is in several sheets of the folder: {some}{more}",
        hint="Leave it in one of them. Nothing was changed.",
    )


def _ids(sheet: Sheet) -> Iterator[tuple[int, int]]:
    """Each row with the id that it names, blocked ones too."""
    if "id" in sheet.rows:
        known = sheet.rows["id"].dropna()
        yield from zip(known.index.tolist(), known.tolist(), strict=True)
    yield from sheet.blocked_pets.items()


def _said(pet_id: int, rows: Mapping[str, int], read: Mapping[str, Sheet]) -> str:
    at = " and ".join(f"{part} ({read[part].address(row)})" for part, row in rows.items())
    return f"pet {pet_id} in {at}"


def _files(job: Job, folder: Path) -> list[Path]:
    try:
        there = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise SheetError(
            f"the folder {folder} of job {job.name} cannot be read: {error.strerror}",
            hint="Is it the right one, and is the drive that it is on connected?",
        ) from None
    found = [path for path in there if fnmatch(path.name, job.files) and _is_sheet(path)]
    if not found:
        raise SheetError(
            f"no sheet in {folder} is called {job.files}, as job {job.name} asks for",
            hint=f"Sheets end in {', '.join(_ENDINGS)}. Nothing was changed.",
        )
    for path in found:
        _check_name(path, folder)
    return found


def _check_name(path: Path, folder: Path) -> None:
    """Raise SheetError for a name that is no text: no report and no history could hold it."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path.name).decode("ascii", "backslashreplace")
        raise SheetError(
            f"{folder}: the file {shown} has a name that is not UTF-8",
            hint="Give it another name. Nothing was changed.",
        ) from None


def _is_sheet(path: Path) -> bool:
    """Whether it is a person's sheet: no program's lock, no backup and no results."""
    is_hidden = path.name.startswith((".", "~$"))
    return not is_hidden and path.suffix.casefold() in _ENDINGS and _MADE.search(path.stem) is None


def _named(job: Job) -> str:
    """`query of postgresql://host/catalogue`: nothing of a password, wherever it may stand."""
    if job.database is None:
        return "query"
    url = _url(job.database)
    if url is None:
        return "query of a database"
    if "@" in f"{url.host}{url.database}":  # it may be of a password that has an @ of its own
        return "query of a database"
    host = f"{url.host}/" if url.host else "/" if url.database else ""
    return f"query of {url.get_backend_name()}://{host}{url.database or ''}"


def _url(database: Secret) -> URL | None:
    """The address taken apart; None where it cannot be. The error may have it, and is not told."""
    try:
        from sqlalchemy.engine import make_url

        return make_url(database.reveal())
    except Exception:  # noqa: BLE001 - whatever it is, there is no address to speak of
        return None


def _queried(database: Secret, query: str, name: str) -> pd.DataFrame:
    """The rows; whole numbers stay whole, and nothing that the query does is kept."""
    try:
        import sqlalchemy
    except ImportError:
        raise SettingsError(
            "SQL queries need SQLAlchemy, which is not installed",
            hint="pip install 'petsync[sql]', and the driver of your database.",
        ) from None
    try:
        engine = sqlalchemy.create_engine(database.reveal(), hide_parameters=True)
        try:
            with engine.connect() as connection:
                _make_read_only(connection)
                result = connection.execute(sqlalchemy.text(query))
                columns = list(result.keys())
                rows = [tuple(row) for row in result]
        finally:
            engine.dispose()
    except Exception as error:  # noqa: BLE001 - any driver may be at work here
        raise _unanswered(error, name, database) from None
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    # Built column by column of Python's own values: pandas would make floats of ids beside a NULL.
    own = [pd.Series(list(column), dtype=object) for column in values]
    return pd.concat(own, axis=1, keys=columns) if own else pd.DataFrame()


def _make_read_only(connection: Connection) -> None:
    """Have the database refuse to change anything, where it knows such connections."""
    kind = connection.dialect.name
    if kind == "postgresql":
        connection.execution_options(postgresql_readonly=True)
    if kind in _READ_ONLY:
        connection.exec_driver_sql(_READ_ONLY[kind])
    if kind in ("mysql", "mariadb"):
        connection.commit()  # It counts for the next transaction.


def _unanswered(error: Exception, name: str, database: Secret) -> SheetError:
    told = str(getattr(error, "orig", None) or error).strip().splitlines()
    reason = told[0] if told else type(error).__name__
    reason = Redactor((database, *map(Secret, _passwords(database))))(reason)
    return SheetError(
        f"the {name} failed: {reason[:300]}",
        hint="Try it in the database's own program, and look at the address and its rights. "
        "Nothing was changed.",
    )


def _passwords(database: Secret) -> list[str]:
    """What of the address may be secret: the password, and every value behind the `?`."""
    url = _url(database)
    if url is None:
        return []
    inside = [str(url.password)] if url.password else []
    inside += [text for value in url.query.values() for text in _texts(value)]
    return [text for text in inside if text]


def _texts(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value
