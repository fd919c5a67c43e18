"""The files that jobs store: bases, versions, waiting plans, reports and history."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, unquote

import msgspec
import numpy as np

from petsync._files import (
    check_state_folder,
    checked_path,
    make_folder,
    make_private_folder,
    must_not_be_link,
    open_private,
    write_atomically,
)
from petsync._json import decoder_of
from petsync.apply.planfile import load_plan, save_plan
from petsync.errors import PetsyncError, PlanError, SettingsError
from petsync.models import Pet
from petsync.plan.base import find_changed_units
from petsync.plan.change import Coverage, describe_limits, released_note
from petsync.plan.fields import (
    COLUMNS_OF,
    UNITS,
    Unit,
    cell,
    equal,
    normalize,
    photo_keys,
    tag_names,
)
from petsync.plan.guard import Guard, Limit, Refusal
from petsync.plan.match import any_unit, build_pet, edited_units, iter_rows, pets_of
from petsync.plan.plan import Inbound, Plan
from petsync.plan.report import Report, RoundReport, find_undoing_runs
from petsync.plan.rounds import Difference, Round, SheetChange
from petsync.report.html import document_page
from petsync.report.json import round_json
from petsync.report.views.round import round_page_view
from petsync.sheets import load_edits, save_edits
from petsync.store import Store
from petsync.table.arrow import PetTable
from petsync.table.base import Base, ParcelError, verify
from petsync.table.columns import LISTS, Column
from petsync.table.frame import has_id_in, ids_of, lacks_id, select, unique_texts
from petsync.table.sheet import Sheet

if TYPE_CHECKING:
    from petsync.config.model import Reports

__all__ = [
    "BaseFile",
    "CellKey",
    "History",
    "OlderCopy",
    "PendingRuns",
    "RecentRun",
    "SheetWaiting",
    "StartedRun",
    "StatePaths",
    "StoredBase",
    "Version",
    "Versions",
    "Waiting",
    "digest_of",
    "file_name",
    "find_changed_pets",
    "find_doubtful_versions",
    "find_noted_backup",
    "find_numbered_pets",
    "find_older_copy",
    "find_pets_added_since",
    "find_pets_lacking_id",
    "find_pets_lacking_id_again",
    "find_replaced_texts",
    "find_reverted",
    "find_traces",
    "find_written_cells",
    "has_arrived",
    "is_final",
    "judge_by_bytes",
    "judge_by_sent_values",
    "load_report",
    "mark_of",
    "mark_of_release",
    "path_of",
    "report_of",
    "save",
    "with_raised_limits",
    "write",
]


# Paths: the files of a reconciliation below the state folder.


_LONGEST = 120
_SAFE = " -_."


@dataclass(frozen=True, slots=True)
class StatePaths:
    """The paths below a state folder."""

    state: Path
    formers: Mapping[str, str] = field(default_factory=dict)
    """Former names of jobs, by current name: the files are still stored under the former ones."""

    @classmethod
    def of_waiting(cls, path: Path) -> StatePaths | None:
        """Return the paths below the state folder that has this file among its waiting plans; None
        if the file is in no such folder.
        """
        folder = Path(os.path.realpath(path)).parent
        paths = cls(folder.parent.parent)
        return paths if folder == paths.join("waiting") else None

    def check(self) -> None:
        """Raise PetsyncError if the state folder contains a symbolic link, a pipe or a device, or
        is a link with the name `.petsync`.
        """
        try:
            check_state_folder(self.state)
        except OSError as error:
            what = "link" if error.errno == errno.ELOOP else "file"
            raise PetsyncError(
                f"the state folder {self.state} cannot be used: {error.strerror}",
                hint=f"Remove the {what}, or name another folder: --state, or state in "
                "petsync.toml.",
            ) from None

    @property
    def history(self) -> Path:
        """The file with every round, one per line."""
        return self.join("history.jsonl")

    def lock(self, job: str) -> Path:
        """Return the lock file of the job, locked during its rounds."""
        return self.join("locks", f"{file_name(job)}.lock")

    def store_lock(self, store: str) -> Path:
        """Return the lock file of a store, locked by the job that sends to it."""
        digest = hashlib.sha256(store.encode()).hexdigest()[:16]
        return self.join("locks", f"store.{digest}.lock")

    def base(self, job: str, part: str = "") -> Path:
        """Return the file of the base: the values that both sides last agreed on."""
        return self.join("bases", f"{self._name(job, part)}.base")

    def versions(self, job: str, part: str = "") -> Path:
        """Return the folder with the sheet's versions."""
        return self.join("versions", self._name(job, part))

    def bases(self, job: str) -> dict[Path, str]:
        """Return the base files of the sheets in the job's folder, each with the sheet's name,
        including those of sheets that no longer exist. Raises PetsyncError if the history cannot be
        read.
        """
        # `file_name` cuts off long names; the history has the whole names.
        name = self.formers.get(job, job)
        start = _cut(quote(f"{name}--", safe=_SAFE))
        found, is_cut = dict[Path, str](), False
        for path in sorted(self.join("bases").glob("*.base")):
            if path.name.startswith(start):
                part = unquote(path.stem).removeprefix(f"{name}--")
                is_cut |= self.base(job, part) != path
                found[path] = part
        if is_cut:
            rounds = {(each.job, each.part) for each in History(self.state).rounds()}
            known = {self.base(job, part): part for _, part in rounds if part}
            others = {self.base(*each) for each in rounds} - known.keys()
            found = {
                path: known.get(path, part) for path, part in found.items() if path not in others
            }
        return found

    def pending(self, job: str, part: str = "") -> Path:
        """Return the file that names the plans that the job is applying, or was applying before a
        crash.
        """
        return self.join("begun", f"{self._name(job, part)}.json")

    def waiting_path(self, job: str, part: str = "", *, side: str = "") -> Path:
        """Return the file of the plan that waits for approval; each `side` has its own file."""
        ending = f".{side}.json" if side else ".json"
        return self.join("waiting", f"{self._name(job, part)}{ending}")

    def rename(self, former: str, job: str, parts: Iterable[str]) -> None:
        """Rename the files that are stored under the job's former name.

        These are the files of `parts`, and of parts that no longer exist. After a crash the next
        call renames the other files. Raises PetsyncError.
        """
        for part in {*parts, *self.bases(former).values()}:
            both = zip(self._all(former, part), self._all(job, part), strict=True)
            for old, new in both:
                if old.exists() and not new.exists():
                    _rename(old, new)

    def _all(self, job: str, part: str) -> tuple[Path, ...]:
        """Return all paths of one sheet, the base last."""
        base, sheet = self.base(job, part), self.waiting_path(job, part, side="sheet")
        plans = (
            self.pending(job, part),
            self.waiting_path(job, part),
            sheet,
            _released_path(sheet),
            _intended_path(sheet),
        )
        return (*plans, self.versions(job, part), _previous_path(base), base)

    def join(self, *names: str) -> Path:
        """Return a path below the folder of all reconciliations."""
        return self.state.joinpath("reconcile", *names)

    def _name(self, job: str, part: str) -> str:
        return file_name(self.formers.get(job, job), part)


def _rename(old: Path, new: Path) -> None:
    try:
        old.replace(new)
    except OSError as error:
        raise PetsyncError(f"{old} cannot be renamed to {new.name}: {error.strerror}") from None


def _previous_path(base: Path) -> Path:
    return base.with_name(f"{base.name}.previous")


def _released_path(waiting: Path) -> Path:
    return waiting.with_suffix(".released")


def _intended_path(waiting: Path) -> Path:
    return waiting.with_suffix(".intended")


def file_name(job: str, part: str = "") -> str:
    """Return a file name for the job and part: short, and without special characters."""
    name = quote(f"{job}--{part}" if part else job, safe=_SAFE)
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{_cut(name)}-{digest}"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[:_LONGEST].rstrip("%. ")


def write(path: Path, data: bytes, *, private: bool = True) -> None:
    """Write `data` to `path` atomically and create missing folders.

    Only the owner can read the file if it is `private`. No link is followed: petsync itself creates
    all these files. Raises PetsyncError if the file cannot be written; the old content then stays.
    """
    try:
        if private:
            make_private_folder(path.parent)
        else:
            make_folder(path.parent)
            must_not_be_link(path.parent)
        write_atomically(path, data, follow=False, private=private)
    except OSError as error:
        raise _write_error(path, error.strerror or str(error)) from None


def _write_error(path: Path, why: str) -> PetsyncError:
    return PetsyncError(
        f"{path} cannot be written: {why}",
        hint="Check free space and permissions there; the state folder has to be writable.",
    )


# The base of a job: the values that both sides last agreed on, stored between rounds.


_LOG = logging.getLogger(__name__)
_CARRIED = re.compile(r"# carried ([0-9a-f]{64})")
_RUNS = re.compile(r"# runs (.+)")
_CHECKSUM = re.compile(r"# checksum ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class StoredBase:
    """The base that was stored after the last round."""

    base: Base | None = None
    """None before the first round, or if neither the base nor the previous base is intact."""
    carried: str = ""
    """The digest of the base that the sheet itself carried."""
    checksum: str = ""
    """The checksum of the lines of that base, "" if it is not known."""
    problem: str = ""
    """What happened to a damaged base, "" if none was damaged."""
    is_older: bool = False
    """True if this is the previous base."""
    runs: frozenset[str] = frozenset()
    """The marks of what is in the base: of runs, see `mark_of`, and of released changes of the
    sheet, see `mark_of_release`.
    """

    def digest_carried(self, base: Base | None) -> str:
        """Return the digest of the base that the sheet carries now. If its lines have not changed,
        the digest is not computed again, which takes some time for many pets.
        """
        if base is not None and base.checksum and base.checksum == self.checksum:
            return self.carried
        return digest_of(base)


@dataclass(frozen=True, slots=True)
class BaseFile:
    """The file of a base, with the previous base beside it in `….previous`."""

    path: Path

    def load(self, *, set_aside: bool) -> StoredBase:
        """Return the stored base.

        A damaged file is renamed if `set_aside`, and the previous base is used if it is intact.
        Raises PetsyncError if the file cannot be read.
        """
        try:
            return _read_base(self.path)
        except ParcelError as error:
            problem = f"the base {self.path} is damaged, and its records cannot be used: {error}"
        if set_aside:
            problem += f"; the file is kept as {self._set_aside()}"
        _LOG.warning("%s", problem)
        try:
            older = _read_base(self.previous)
        except ParcelError:
            older = StoredBase()
        if older.base is None:
            return StoredBase(problem=f"{problem}. This round is treated as the first one")
        note = (
            f"{problem}. The base of the previous round is used, and nothing is deleted based on it"
        )
        return replace(older, problem=note, is_older=True)

    def keep(
        self,
        base: Base | Sequence[str],
        carried: str,
        runs: Collection[str] = (),
        checksum: str = "",
    ) -> None:
        """Write a base, or its lines; the last base becomes the previous one.

        `carried`, `runs` and `checksum` are as in `StoredBase`. Raises PetsyncError; the last base
        then stays.
        """
        lines = base.to_lines() if isinstance(base, Base) else base
        head = [f"# carried {carried}"] if carried else []
        head += [f"# runs {' '.join(sorted(runs))}"] if runs else []
        head += [f"# checksum {checksum}"] if checksum else []
        data = "\n".join([*head, *lines]).encode("ascii") + b"\n"
        try:
            before = self.path.read_bytes()
        except FileNotFoundError:
            before = b""
        except OSError as error:
            raise _read_error(self.path, error) from None
        if before:
            write(self.previous, before)
        write(self.path, data)

    @property
    def previous(self) -> Path:
        """The path of the previous base."""
        return _previous_path(self.path)

    def _set_aside(self) -> Path:
        now = datetime.now(UTC)
        aside = self.path.with_name(f"{self.path.name}.damaged-{now:%Y%m%d-%H%M%S-%f}")
        try:
            return self.path.replace(aside)
        except OSError as error:
            raise PetsyncError(
                f"{self.path} is damaged, and cannot be moved: {error.strerror}",
                hint="Move it out of the state folder; the next round is then treated as the first "
                "one.",
            ) from None


def digest_of(base: Base | None) -> str:
    """Return the digest of a base that a sheet carries; "" for None."""
    return "" if base is None else base.digest


def _read_base(path: Path) -> StoredBase:
    try:
        lines = path.read_text("ascii").splitlines()
    except FileNotFoundError:
        return StoredBase()
    except UnicodeDecodeError:
        raise ParcelError("they were changed") from None
    except OSError as error:
        raise _read_error(path, error) from None
    carried = next((match[1] for line in lines[:1] if (match := _CARRIED.fullmatch(line))), "")
    runs = next((match[1] for line in lines[:2] if (match := _RUNS.fullmatch(line))), "")
    checksum = next((match[1] for line in lines[:3] if (match := _CHECKSUM.fullmatch(line))), "")
    return StoredBase(Base.from_lines(lines), carried, checksum, runs=frozenset(runs.split()))


def _read_error(path: Path, error: OSError) -> PetsyncError:
    return PetsyncError(
        f"{path} cannot be read: {error.strerror}",
        hint="Make the file readable: it has the values that both sides last agreed on, which the "
        "round needs.",
    )


# Pending runs: notes on the plans that a job applies, to find their results after a crash.
#
# The note is written before the run, and stays until both sides have been compared again and the
# base is stored: both sides agree on what a run has sent, even if something is edited in between.


class _Note(msgspec.Struct, frozen=True):
    """A note on one plan of the job."""

    fingerprint: str
    is_own: bool = True
    """False if the plan needed an approval."""


class _Notes(msgspec.Struct, frozen=True):
    plans: tuple[_Note, ...]


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run of the job's plan."""

    id: str
    is_stopped: bool
    """True if the job made the run, and the run ended early and was not undone."""


CellKey = tuple[int, Column | None]
"""A pet's cell, by id and column; the column is None for the whole row."""


@dataclass(frozen=True, slots=True)
class RecentRun:
    """The results of a run that the stored base may not contain yet."""

    report: Report
    is_by_hand: bool = False
    """True for a manual run of the sheet."""
    other_cells: frozenset[CellKey] = frozenset()
    """Cells with values other than those that the run sent.

    A round wrote them after the run was planned, or the run read them with corrections.
    """

    @property
    def mark(self) -> str:
        """The run's id with the number of its changes that the store has."""
        return mark_of(self.report)


def mark_of(report: Report) -> str:
    """Return the run's id with the number of its changes that the store has."""
    return f"{report.run_id}:{sum(each.is_in_store for each in report.results)}"


def mark_of_release(inbound: Inbound) -> str:
    """Return a mark of released changes of the sheet, which stands beside those of runs."""
    return f"sheet:{inbound.created}"


@dataclass(frozen=True, slots=True)
class PendingRuns:
    """The notes on plans that a job may have started since its base was stored."""

    path: Path

    def remember(self, fingerprint: str, *, is_own: bool = True) -> None:
        """Add a note on a plan and flush it to disk. Does nothing if the plan already has a note.

        Raises PetsyncError.
        """
        notes = self._notes()
        if any(note.fingerprint == fingerprint for note in notes):
            return
        write(self.path, msgspec.json.encode(_Notes((*notes, _Note(fingerprint, is_own)))))

    def forget(self) -> None:
        """Remove the notes: the base contains all their runs. Raises PetsyncError."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise PetsyncError(f"{self.path} cannot be removed: {error.strerror}") from None

    def runs(self, store: Store) -> list[StartedRun]:
        """Return the runs of the plans, in the order of the notes."""
        return [run for note in self._notes() if (run := _load_run(note, store)) is not None]

    def _notes(self) -> tuple[_Note, ...]:
        try:
            body = self.path.read_bytes()
            if b'"plans"' not in body:
                return (decoder_of(_Note).decode(body),)
            return decoder_of(_Notes).decode(body).plans
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError) as error:
            _LOG.warning(
                "%s cannot be read (%s): a new plan makes the remaining changes", self.path, error
            )
            return ()


def _load_run(note: _Note, store: Store) -> StartedRun | None:
    """Return the run of a plan; None if there is none, or if its plan is from another version of
    petsync or for another store.
    """
    run = store.aio.history.journal.find_run_of_plan(note.fingerprint)
    if run is None:
        return None
    try:
        past, _ = store.aio.to_resume(run)
        is_undone = past.run_id in find_undoing_runs(store.aio.history.runs(past.store))
    except PlanError as error:
        # A new plan sends the remaining changes.
        _LOG.warning("run %s is not resumed: %s", run, error.problem)
        return None
    is_stopped = note.is_own and past.state != "done" and not is_undone
    return StartedRun(past.run_id, is_stopped)


def report_of(run_id: str, store: Store) -> Report | None:
    """Return the results of the run's changes so far; None if they are no longer available."""
    try:
        return store.run(run_id)
    except PlanError as error:
        _LOG.warning("run %s is no longer known: %s", run_id, error.problem)
        return None


# History: every round, one per line of a file.


class History:
    """The rounds of the jobs that share a state folder."""

    def __init__(self, state: str | Path) -> None:
        self.path = StatePaths(checked_path(state, ".petsync", SettingsError)).history

    def append(self, round_: Round) -> None:
        """Add a round and flush it to disk. Raises PetsyncError."""
        line = msgspec.json.encode(round_) + b"\n"
        try:
            make_private_folder(self.path.parent)
            with open(self.path, "ab+", opener=open_private) as file:
                file.write(line if _ends_well(file) else b"\n" + line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise PetsyncError(
                f"{self.path} cannot be written: {error.strerror}",
                hint="Check free space and permissions there; the round itself has ended.",
            ) from None

    def rounds(self, job: str = "", limit: int | None = None) -> list[Round]:
        """Return the rounds of a job, or of all jobs, the oldest first; with `limit`, only that
        many of the newest.

        Damaged lines are skipped. Raises PetsyncError if the file cannot be read.
        """
        newest = (round_ for round_ in self._read_backwards() if not job or round_.job == job)
        return [*islice(newest, None if limit is None else max(0, limit))][::-1]

    def _read_backwards(self) -> Iterator[Round]:
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise PetsyncError(
                f"{self.path} cannot be read: {reason}",
                hint="Make sure that you may read the folder and its files, or choose another "
                "folder (--state).",
            ) from None
        torn, decoder = 0, decoder_of(Round)
        for line in filter(None, reversed(lines)):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                torn += 1
        if torn:
            _LOG.warning("%s: %d lines are not rounds, and are skipped", self.path, torn)


def _ends_well(file: BinaryIO) -> bool:
    """Return true if the file is empty or ends with a complete line."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


# The reports of rounds as files: a page for people and JSON for machines, side by side.


_ENDINGS = (".html", ".json")
_ROUND_ID = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{4}")


def path_of(reports: Reports, job: str, round_id: str) -> Path:
    """Return the path of a round's page."""
    return reports.folder / file_name(job) / f"{round_id}.html"


def save(reports: Reports, report: RoundReport) -> None:
    """Write both files of a round, and remove the oldest reports beyond the limit.

    Raises PetsyncError if they cannot be written.
    """
    page = path_of(reports, report.round.job, report.round.id)
    write(page.with_suffix(".json"), round_json(report), private=reports.is_private)
    body = document_page(round_page_view(report), report.round.name)
    write(page, body.encode(), private=reports.is_private)
    if reports.keep is not None:
        _prune(page.parent, reports.keep)


class _SavedReport(msgspec.Struct, frozen=True):
    open: tuple[Difference, ...] = ()
    sheet: tuple[SheetChange, ...] = ()


def load_report(round_: Round) -> RoundReport:
    """Return the round with the differences and the sheet's changes of its report.

    If the report is missing or cannot be read, the result has only the round.
    """
    found = _SavedReport()
    if round_.report:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            body = Path(round_.report).with_suffix(".json").read_bytes()
            found = decoder_of(_SavedReport).decode(body)
    return RoundReport(round=round_, open=found.open, sheet=found.sheet)


def _prune(folder: Path, keep: int) -> None:
    """Remove all reports except the newest `keep`; a report that cannot be removed stays, and so do
    files with other names, which are the user's.
    """
    names = {path.stem for path in folder.iterdir() if path.suffix in _ENDINGS}
    ids = sorted(filter(_ROUND_ID.fullmatch, names))
    for name in ids[: max(0, len(ids) - keep)]:
        for ending in _ENDINGS:
            with suppress(OSError):
                (folder / f"{name}{ending}").unlink(missing_ok=True)


# Versions: the states of a sheet, to recognise a restored older copy.
#
# An older copy is the sheet before petsync wrote into it, or as a round left it. Compared with the
# current base, it looks as if a person had reverted all later changes; compared with the base of
# that time, it has no changes.


_KEPT = 20
_ALWAYS_KEPT = 10
_KEPT_BYTES = 50_000_000
_MIN_OLD_PETS = 2
"""The number of pets with old values that proves an older copy.

A single pet may have been reverted by hand.
"""

_NOWHERE = "\0"

Text = str | None
"""The text of a cell. For a whole row: "" if the row is there, None if it is missing."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A sheet before a round wrote into it, with what was written; or the sheet as a round left it.

    In the second case the digests `before` and `after` are the same.
    """

    number: int = 0
    round: str
    """The id of the round or of the manual run; "of TIME" for released changes, "" for an
    export.
    """
    before: str
    """The digest of the file before it was written."""
    after: str = ""
    """The digest of the file after it was written; "" until then."""
    base: tuple[str, ...]
    """The base from before the file was written, as lines."""
    inbound: Inbound
    is_again: bool = False
    """True if the sheet was, or may have been, a restored backup."""
    is_agreed: bool = False
    """True if the stored base reflects whether the version was written."""
    is_lost: bool = False
    """True if it was not written: its round was killed, or the sheet could not be written."""
    is_left: bool = False
    """True if a later round found a file other than `before`."""
    is_undone: bool = False
    """True if a restored backup is from before the version, so the sheet does not contain it."""
    undone_at: str = ""
    """When the round that set `is_undone` read the sheet."""
    is_back: bool = False
    """True if a round found that the sheet is from before this version, and no round has finished
    with the sheet since.

    This is stored in a separate file.
    """
    is_by_hand: bool = False
    """True if a manual run wrote into the sheet."""
    runs: tuple[str, ...] = ()
    """The marks of what is in `base`, as in `StoredBase`."""
    carried: str = ""
    """The digest of the base that the sheet carried before it was written, "" if none or
    unknown.
    """

    @property
    def is_state(self) -> bool:
        """True if nothing was written: the version is the sheet as a round left it."""
        return self.before == self.after

    @property
    def is_written(self) -> bool:
        """True if the version is known to have been written into the sheet."""
        return bool(self.after) or (self.is_agreed and not self.is_lost)

    @property
    def is_known(self) -> bool:
        """True if the sheet is known to have been the file `before`."""
        return self.is_written or self.is_left

    @property
    def pets(self) -> int:
        """The number of pets whose rows were written, including rows that only got their id."""
        return len(
            {touch[0] for touch in _find_first_and_last_texts([self])[1]}
            | find_numbered_pets([self])
        )


class _VersionHead(msgspec.Struct, frozen=True):
    """A version without the parts that take long to read."""

    before: str
    number: int = 0
    is_agreed: bool = False
    is_lost: bool = False
    is_left: bool = False
    is_undone: bool = False


@dataclass(frozen=True, slots=True)
class Versions:
    """The last versions of a sheet, one file each."""

    folder: Path

    def all(self) -> tuple[Version, ...]:
        """Return the versions, the oldest first; unreadable ones are skipped."""
        found = (self._load(path, is_verified=True) for path in self._paths())
        back = self._read_backup_note()
        return tuple(
            msgspec.structs.replace(each, is_back=each.number in back)
            for each in found
            if each is not None
        )

    def keep(self, version: Version) -> Version:
        """Store a version under a new number, flush it to disk, and return it. If the last version
        has no known write and starts from the same file, it is removed; otherwise the oldest
        versions beyond the limit are removed. Raises PetsyncError.
        """
        last = self._load_last()
        sizes = {int(path.stem): path.stat().st_size for path in self._paths()}
        numbered = msgspec.structs.replace(version, number=max(sizes, default=0) + 1)
        self.put(numbered)
        # For one file, the number of values that both sides agree on only increases.
        if last and last.before == version.before and (last.is_state or not last.is_written):
            self.forget([last.number])
        else:
            self.forget(_select_surplus(sizes))
        return numbered

    def store_state(self, version: Version) -> None:
        """Store the state in which a round leaves the sheet, as the only state of that file.

        Raises PetsyncError.
        """
        last = self._load_last()
        if last and last.is_state and not last.is_undone and last.before == version.before:
            self.put(msgspec.structs.replace(version, number=last.number))
        else:
            self.keep(version)

    def mark_agreed(self, sheet: Sheet, *, has_ids_by_hand: bool = False) -> None:
        """Record that the stored base reflects all versions.

        For a version whose round was killed, the sheet as this round read it shows whether it was
        written; see `has_arrived`. Raises PetsyncError.
        """
        for head in self._heads():
            may_be_left = head.is_lost and not head.is_left and sheet.digest != head.before
            if head.is_agreed and not may_be_left:
                continue
            version = current = self._load(self._path(head.number), is_verified=False)
            if current is None:
                continue
            if not current.is_agreed:
                has_it = bool(current.after) or has_arrived(
                    sheet, current, has_ids_by_hand=has_ids_by_hand
                )
                current = msgspec.structs.replace(current, is_agreed=True, is_lost=not has_it)
            if current.is_lost and not current.is_left and sheet.digest != current.before:
                current = msgspec.structs.replace(current, is_left=True)
            if current is not version:
                self.put(current)

    def note_backup(self, versions: Collection[Version]) -> None:
        """Record that the sheet is from before exactly these versions, and flush the record to
        disk.

        Raises PetsyncError.
        """
        numbers = {each.number for each in versions}
        if numbers != self._read_backup_note():
            # One file has all numbers: a round that is killed here leaves all of them or none.
            write(self._backup_note_path, msgspec.json.encode(sorted(numbers)))

    @property
    def has_backup_note(self) -> bool:
        """True if the sheet is a backup and no round has finished with it since."""
        return bool(self._read_backup_note())

    def undo(self, versions: Iterable[Version], digest: str, at: str) -> None:
        """Mark these versions as undone; `at` is when the sheet that shows this was read.

        Also clear the record of `note_backup`, and remove every undone version that starts from the
        current sheet, which has this digest. Raises PetsyncError.
        """
        self.note_backup(())
        for version in versions:
            undone = msgspec.structs.replace(version, is_undone=True, undone_at=at)
            self.put(undone)
        known = (each for each in self._heads() if each.is_undone)
        self.forget(each.number for each in known if each.before == digest)

    def put(self, version: Version) -> None:
        """Write a version that already has a number. Raises PetsyncError."""
        own = msgspec.structs.replace(version, is_back=False)
        write(self._path(version.number), msgspec.json.encode(own))

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove the versions with these numbers. Raises PetsyncError."""
        for number in numbers:
            path = self._path(number)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise PetsyncError(f"{path} cannot be removed: {error.strerror}") from None

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}.json"

    def _paths(self) -> list[Path]:
        """Return the paths of the versions, the oldest first. Files with other names, such as a
        copy that a program for synchronising folders made, do not count.
        """
        return sorted(self.folder.glob(f"{'[0-9]' * 8}.json"))

    def _heads(self) -> Iterator[_VersionHead]:
        """Yield the heads of the readable versions, the oldest first."""
        for path in self._paths():
            with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                yield decoder_of(_VersionHead).decode(path.read_bytes())

    def _load_last(self) -> Version | None:
        """Return the last readable version, whose base is not verified; None if there is none."""
        found = (self._load(path, is_verified=False) for path in reversed(self._paths()))
        return next((each for each in found if each is not None), None)

    @property
    def _backup_note_path(self) -> Path:
        return self.folder / "back"

    def _read_backup_note(self) -> set[int]:
        try:
            return {*decoder_of(list[int]).decode(self._backup_note_path.read_bytes())}
        except (OSError, msgspec.DecodeError):
            return set()

    def _load(self, path: Path, *, is_verified: bool) -> Version | None:
        try:
            version = decoder_of(Version).decode(path.read_bytes())
            if is_verified:
                verify(version.base)
        except ParcelError as error:
            why = f"the records of its base cannot be used: {error}"
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            why = str(error)
        else:
            return version
        _LOG.warning("%s cannot be read, and is skipped: %s", path, why)
        return None


def _select_surplus(sizes: Mapping[int, int]) -> list[int]:
    """Return the numbers of the oldest versions to remove before one is added.

    There are limits on the number of versions and on their total size; a minimum number is always
    kept. `sizes` are in bytes, by number.
    """
    numbers = sorted(sizes)
    while len(numbers) >= _ALWAYS_KEPT and (
        len(numbers) >= _KEPT or sum(sizes[number] for number in numbers) > _KEPT_BYTES
    ):
        numbers = numbers[1:]
    return sorted(sizes.keys() - {*numbers})


def has_arrived(sheet: Sheet, version: Version, *, has_ids_by_hand: bool = False) -> bool:
    """Return true if the sheet contains what the version was to write.

    Its round may have been killed before it wrote the sheet, or before it recorded the write. The
    sheet is written as a whole, so the majority of the cells decides: a few may have been edited
    since. These do not count: a cell with neither the old nor the new value, a missing column, and
    the id of a row if a manual run may have written it.
    """
    if version.after or sheet.digest == version.before:
        return sheet.digest != version.before
    texts: dict[CellKey, tuple[Text, Text]] = {
        touch: (before, after)
        for touch, before, after in _iter_written(version.inbound)
        if before != after and (touch[1] is None or touch[1] in sheet.rows)
    }
    if not has_ids_by_hand:
        texts |= {(pet_id, None): (None, "") for pet_id in find_numbered_pets([version])}
    row_texts, named = _cell_texts(sheet, [touch for touch in texts if touch[1]]), sheet.named_ids
    there = {touch: "" if touch[0] in named else None for touch in texts if not touch[1]}
    found = {**there, **row_texts}
    pairs = [(found.get(touch, _NOWHERE), each) for touch, each in texts.items()]
    has = [text == after for text, (before, after) in pairs if text in (before, after)]
    return sum(has) * 2 > len(has)


@dataclass(frozen=True, slots=True)
class OlderCopy:
    """The versions that a sheet lacks, because it is a restored older copy or backup."""

    versions: tuple[Version, ...] = ()
    """The oldest first; () if no copy was restored."""
    is_sure: bool = True
    """False if the edits may have been reverted by hand instead."""

    @property
    def undone(self) -> tuple[Version, ...]:
        """The versions, if the copy is certain; else ()."""
        return self.versions if self.is_sure else ()

    @property
    def doubts(self) -> tuple[Version, ...]:
        """The versions, if the copy is not certain; else ()."""
        return () if self.is_sure else self.versions


def find_older_copy(
    sheet: Sheet, versions: Sequence[Version], base: Base, carried: str = ""
) -> OlderCopy:
    """Return the older copy if the sheet is one.

    The first rule that finds a version decides: 1. the file is identical to a version's; 2. nothing
    that was written since a version is left (see `find_undone_pets`); 3. the values are those of a
    version, compared with the `base` of the last round. If several versions match, the most similar
    one counts. If a newer copy is restored after an older one, the result starts with an undone
    version, and the newer versions that are not undone follow.

    `carried` is the digest of the base that the sheet carries if the last round saw another one,
    else "". It proves before which versions the sheet was saved.
    """
    current = [each for each in versions if not each.is_undone]
    # It is unknown whether the sheet ever had a version whose round was killed. The file before it
    # is known if other versions, or complete rounds, came after it.
    known = [each for each in current if each.is_known]
    upto_known = current[: current.index(known[-1]) + 1] if known else []
    for at in reversed(range(max(0, len(upto_known) - 1), len(current))):
        # The file as the last complete round left it, or as a killed round read it.
        one = current[at]
        if sheet.digest == (one.after if one.is_known else one.before):
            is_last = at + 1 == len(current)
            return (
                OlderCopy()
                if is_last
                else judge_by_bytes(sheet, current[at:], _find_latest_base(current, base))
            )
    writes = [each for each in current if each.is_written and not each.is_state]
    for at in reversed(range(len(upto_known))):
        if current[at].before == sheet.digest:
            return judge_by_bytes(sheet, current[at:], _find_latest_base(current, base))
    undone_versions = [each for each in versions if each.is_undone]

    def since(one: Version) -> tuple[Version, ...]:
        return (one, *_select_newer(current, one))

    if undone := [each for each in undone_versions if each.before == sheet.digest]:
        return judge_by_bytes(sheet, since(undone[-1]), base)
    if carried:
        alike = [each for each in (*undone_versions, *upto_known) if each.carried == carried]
        return OlderCopy(since(_find_nearest_version(sheet, alike))) if alike else OlderCopy()
    sheet_texts = _SheetTexts.of(sheet, writes, base)
    for some in _iter_suffixes(writes):
        if (
            _may_be_from(sheet, some[0])
            and len(find_undone_pets(sheet_texts, some) or ()) >= _MIN_OLD_PETS
        ):
            older = [each for each in upto_known if each.number <= some[0].number]
            return OlderCopy(since(_find_nearest_version(sheet, older)))
    # Leave out versions that the stored base does not reflect: they start from a newer base, which
    # the sheet may have.
    like = _find_similar_versions(
        sheet, [*undone_versions, *(each for each in known if each.is_agreed)], base
    )
    return (
        _judge_by_values(sheet, since(_find_nearest_version(sheet, like)), base)
        if like
        else OlderCopy()
    )


def _find_latest_base(versions: Sequence[Version], base: Base) -> Base:
    """Return the base or, if the round of the last version was killed, that version's base, which
    contains what the round sent.
    """
    return base if versions[-1].is_known else Base.from_lines(versions[-1].base)


def _find_similar_versions(sheet: Sheet, versions: Sequence[Version], base: Base) -> list[Version]:
    """Return the versions whose values the sheet has; only those with the fewest missing rows."""
    if len(_edited_pets(sheet, base)) < _MIN_OLD_PETS:
        return []
    base = replace(base, pets=PetTable(frame=base.sheet_rows), sheet_pets={})
    like = [each for each in versions if _is_from(sheet, each, base)]
    lacking = [_count_missing_rows(sheet, each, base) for each in like]
    return [each for each, n in zip(like, lacking, strict=True) if n == min(lacking)]


def judge_by_bytes(sheet: Sheet, versions: Sequence[Version], base: Base) -> OlderCopy:
    """Return the older copy for a sheet with the bytes from before or after the first version.

    A text file gets the same bytes again if edits are reverted by hand, so a difference in only one
    pet usually does not prove an older copy.
    """
    copy = OlderCopy(tuple(versions))
    first, last = versions[0], versions[-1]
    is_left_so = first.after == sheet.digest
    older = Base.from_lines(first.base)
    changed = _find_changed_cells(older, base)
    if first.is_written and not is_left_so:
        # A value written beside an edit, such as a category's number, is not a separate change.
        agreed = _find_changed_cells(replace(older, sheet_pets={}), replace(base, sheet_pets={}))
        is_one = len(changed | agreed) == len(agreed) == 1 and all(agreed.values())
        return replace(
            copy, is_sure=bool(sheet.tab) or not is_one or bool(find_numbered_pets(versions))
        )
    written_ids = _find_written_pets(versions if last.is_known else versions[is_left_so:-1], older)
    is_sure = bool(sheet.tab) or bool(
        written_ids if last.is_known else written_ids & changed.keys()
    )
    has_lost = bool(base.ids - older.ids - find_numbered_pets(versions))
    if not changed or (not is_sure and not has_lost and len(changed) < _MIN_OLD_PETS):
        return OlderCopy()
    return replace(copy, is_sure=is_sure)


def judge_by_sent_values(
    sheet: Sheet, last: Version, base: Base, updated: frozenset[int]
) -> OlderCopy:
    """Return an uncertain older copy if the sheet has the values from before runs that came after
    the last version: the `base` contains these runs, and `updated` are their pets.

    These may be runs of a killed round, which leaves no version. If most of their pets, and at
    least two, have their former values again, the values were reverted by hand, or an older copy
    was restored and edited.
    """
    found = find_traces(sheet, Base.from_lines(last.base), base)
    older_ids = found.older_ids & updated
    is_older = len(older_ids) >= max(_MIN_OLD_PETS, len(found.current_ids & updated) + 1)
    return OlderCopy((last,), is_sure=False) if is_older else OlderCopy()


def _judge_by_values(sheet: Sheet, versions: Sequence[Version], base: Base) -> OlderCopy:
    """Return the older copy for a sheet with the values from before the first version.

    If missing rows are the only difference, a user probably removed them, unless another row lacks
    its id again. A row that lacks its id was in the older file.
    """
    first, older = versions[0], Base.from_lines(versions[0].base)
    pets = find_traces(sheet, older, base).older_ids
    if first.is_by_hand or first.is_undone or pets & _find_written_pets(versions, older):
        return OlderCopy(tuple(versions))
    lacking = find_pets_lacking_id(sheet, pets, base)
    pets -= lacking
    is_like = len(pets) >= _MIN_OLD_PETS and pets & older.ids
    has_lost_ids = bool(pets - older.ids and lacking & find_numbered_pets(versions))
    is_unsure = is_like or has_lost_ids
    return OlderCopy(tuple(versions), is_sure=False) if is_unsure else OlderCopy()


def _find_written_pets(versions: Sequence[Version], older: Base) -> set[int]:
    """Return the pets whose cells or rows the versions changed since `older`.

    For a pet that `older` lacks, only the row as a whole counts, not its cells.
    """
    return {i for i, column in find_replaced_texts(versions) if column is None or i in older.ids}


def _find_nearest_version(sheet: Sheet, versions: Iterable[Version]) -> Version:
    """Return the version whose file is most similar to the sheet, by the values that differ.

    A pet whose row lacks its id again was in the older file. Values count before missing rows,
    because a user may have removed rows.
    """
    best, *older = sorted(versions, key=lambda each: each.number, reverse=True)
    named = sheet.named_ids
    for each in older:
        newer = Base.from_lines(best.base)
        found = find_traces(sheet, Base.from_lines(each.base), newer)
        older_ids, current_ids = (
            found.older_ids - find_pets_lacking_id(sheet, found.older_ids, newer),
            found.current_ids,
        )
        if (older_ids | current_ids) & named:
            older_ids, current_ids = older_ids & named, current_ids & named
        if older_ids and len(older_ids) >= len(current_ids):
            best = each
    return best


def _edited_pets(sheet: Sheet, base: Base) -> set[int]:
    """Return the pets whose values in the sheet differ from the base."""
    rows = sheet.rows
    edited = {*(base.ids ^ sheet.named_ids)} - _find_still_unnumbered(sheet, base)
    if "id" in rows:
        masks = edited_units(rows, np.arange(len(rows)), base)
        edited |= {*ids_of(select(rows, any_unit(masks)))}
    return edited


def find_reverted(
    sheet: Sheet, versions: Sequence[Version], base: Base, columns: Collection[str]
) -> dict[int, tuple[Unit, ...]]:
    """Return the units, by pet, in which a row has an old value instead of the value in the `base`.

    An old value is from before one of the versions: it was reverted, or comes from an older copy.
    Each item of a list counts separately. Only the `columns` are compared.
    """
    edited = _edited_pets(sheet, base) & base.ids & sheet.named_ids
    if not edited or not versions:
        return {}
    last = {pet.id: pet for pet in pets_of(edited, base.sheet_rows)}
    older: dict[int, list[Pet]] = {}
    for version in versions:
        for pet in pets_of(edited, Base.from_lines(version.base).sheet_rows):
            older.setdefault(pet.id or 0, []).append(pet)
    rows = sheet.rows[has_id_in(sheet.rows, older)]
    found: dict[int, tuple[Unit, ...]] = {}
    for row in iter_rows(rows):
        pet_id, row_pet = row.pet_id or 0, build_pet(row.values)
        stated = {column for column in row.values if column in columns}
        units = tuple(
            unit
            for unit in UNITS
            if stated.intersection(COLUMNS_OF[unit])
            and _is_reverted(unit, stated, row_pet, last[pet_id], older[pet_id])
        )
        if units:
            found[pet_id] = units
    return found


def _is_reverted(
    unit: Unit, columns: Collection[str], row_pet: Pet, last: Pet, older: Sequence[Pet]
) -> bool:
    if unit in LISTS:
        current, before = _items(row_pet, unit), _items(last, unit)
        changed = current ^ before
        lists = [_items(pet, unit) for pet in older] if changed else []
        return any((item in current) == (item in each) for item in changed for each in lists)
    return any(
        not equal(row_pet, last, column) and any(equal(row_pet, pet, column) for pet in older)
        for column in COLUMNS_OF[unit]
        if column in columns
    )


def _items(pet: Pet, unit: Unit) -> frozenset[str]:
    if unit == "photo_urls":
        return frozenset(photo_keys(pet.photo_urls))
    return tag_names(pet.tags)


def find_noted_backup(sheet: Sheet, versions: Sequence[Version]) -> tuple[Version, ...]:
    """Return the versions, oldest first, that an earlier round found missing from the sheet.

    Returns () if a round has finished with the sheet or written it since, or if the file is known.
    """
    back = tuple(each for each in versions if each.is_back)
    if not back or any(sheet.digest in (each.before, each.after) for each in versions):
        return ()
    return () if _select_newer(versions, back[-1]) else back


@dataclass(frozen=True, slots=True)
class Traces:
    """The result of comparing a sheet with an older and a newer base."""

    older_ids: frozenset[int]
    """The pets whose rows have the values of the older base."""
    current_ids: frozenset[int]
    """The pets whose rows have the values of the newer base."""
    has_others: bool
    """True if a row has other values."""

    @property
    def is_newer(self) -> bool:
        """True if all values are the newer base's."""
        return not (self.older_ids or self.has_others)


def find_traces(sheet: Sheet, older: Base, newer: Base) -> Traces:
    """Compare the sheet with two bases, in the values in which these differ."""
    changed, named = _find_changed_cells(older, newer), sheet.named_ids
    new_ids, removed_ids = newer.ids - older.ids, older.ids - newer.ids
    older_ids = {*(new_ids - named - _find_still_unnumbered(sheet, newer)), *(removed_ids & named)}
    current_ids = {*(new_ids & named), *(removed_ids - named)}
    sides = [{pet.id: pet for pet in pets_of(changed, b.sheet_rows)} for b in (older, newer)]
    has_others = False
    cells = [(pet_id, c) for pet_id, some in changed.items() for c in some if c in sheet.rows]
    for (pet_id, column), text in _cell_texts(sheet, cells).items():
        texts = ["" if column is None else cell(side[pet_id], column) for side in sides]
        if text in texts:
            if texts[0] != texts[1]:
                (older_ids if text == texts[0] else current_ids).add(pet_id)
        else:
            has_others = True
    return Traces(frozenset(older_ids), frozenset(current_ids), has_others)


def find_pets_added_since(sheet: Sheet, versions: Sequence[Version]) -> frozenset[int]:
    """Return the pets in no row that are in the base of a later version, but not in the base of the
    oldest version that the sheet does not contain.

    The sheet does not contain a version if it has no value that this version or a later one wrote.
    Such a sheet is older than these pets, so their rows are not missing.
    """
    later: list[Version] = []
    for version in reversed(versions):
        if _has_written_values(sheet, [version, *later]):
            break
        later.insert(0, version)
    if not later:
        return frozenset()
    first = Base.from_lines(later[0].base)
    ids = {pet_id for each in later for pet_id in Base.from_lines(each.base).ids}
    return frozenset(ids - first.ids - sheet.named_ids)


def _select_newer(current: Iterable[Version], than: Version) -> list[Version]:
    return [each for each in current if each.number > than.number]


def _may_be_from(sheet: Sheet, version: Version) -> bool:
    """Return true if the sheet has ids, or had none before the version.

    If the id column lost its header or its cells, no row shows which pet it belongs to.
    """
    if sheet.named_ids:
        return True
    columns = Base.from_lines(version.base).columns
    return columns is not None and "id" not in columns


def _is_from(sheet: Sheet, version: Version, newer: Base) -> bool:
    """Return true if two or more pets have old values, and none has a value of the newer base only.

    Old values are those from before the version.
    """
    if not _may_be_from(sheet, version):
        return False
    older = Base.from_lines(version.base)
    changed = _find_changed_cells(older, newer)
    sides = [{pet.id: pet for pet in pets_of(changed, b.sheet_rows)} for b in (older, newer)]
    named = sheet.named_ids
    new_ids, removed_ids = newer.ids - older.ids, older.ids - newer.ids
    agreeing = {*(new_ids - _find_still_unnumbered(sheet, newer)), *(removed_ids & named)}
    cells = [(pet_id, c) for pet_id, some in changed.items() for c in some if c in sheet.rows]
    for (pet_id, column), text in _cell_texts(sheet, cells).items():
        before, after = ("" if column is None else cell(side[pet_id], column) for side in sides)
        if text != before and text == after:
            return False
        agreeing |= {pet_id} if text == before else set()
    return not new_ids & named and len(agreeing) >= _MIN_OLD_PETS


def _count_missing_rows(sheet: Sheet, version: Version, base: Base) -> int:
    """Return how many pets from before the version are in neither the base nor the sheet, less the
    number of rows without an id.
    """
    older = Base.from_lines(version.base)
    return max(0, len(older.ids - base.ids - sheet.named_ids) - _count_unnumbered(sheet))


def find_doubtful_versions(
    sheet: Sheet, versions: Sequence[Version], base: Base
) -> tuple[Version, ...]:
    """Return the versions, oldest first, that the sheet may lack; the evidence is not sufficient.

    None of their values is left in the sheet. Either only one pet has its old values or lacks its
    id again: that pet was reverted by hand, or a backup was restored and edited. Or the rows of two
    or more pets that got their ids are missing: they were removed by hand, or a backup was
    restored.
    """
    written = [each for each in versions if each.is_written and not each.is_state]
    digests = {versions[-1].after, written[-1].before, written[-1].after} if written else {""}
    if not written or sheet.digest in digests:
        return ()
    sheet_texts = _SheetTexts.of(sheet, written, base)
    for some in _iter_suffixes(written):
        is_short = _lacks_numbered_rows(sheet_texts, some)
        pets = find_undone_pets(sheet_texts, some) or frozenset()
        is_proof = len(pets) == 1 and not (some[-1].is_again and some[-1].pets == 1)
        if not is_short and is_proof and pets <= find_pets_lacking_id(sheet, pets, base):
            return tuple(some)
        if is_short or (is_proof and pets <= _pets_of(some)):
            older = [each for each in versions if each.is_known and each.number <= some[0].number]
            first = _find_nearest_version(sheet, older)
            return (first, *_select_newer(versions, first))
    return ()


def find_pets_lacking_id(sheet: Sheet, pets: Collection[int], base: Base) -> set[int]:
    """Return the given pets whose name in the base is the name of a row without an id."""
    rows = sheet.rows
    if "name" not in rows:
        return set()
    rows = select(rows, lacks_id(rows))
    names = {normalize(name) for name in unique_texts(rows, "name")} - {""}
    return {pet.id or 0 for pet in pets_of(pets, base.sheet_rows) if normalize(pet.name) in names}


def _iter_suffixes(versions: Sequence[Version]) -> Iterable[Sequence[Version]]:
    return (versions[at:] for at in range(len(versions)))


def find_changed_pets(older: Base, newer: Base) -> frozenset[int]:
    """Return the pets that differ between the bases."""
    return frozenset(_find_changed_cells(older, newer))


def _find_changed_cells(older: Base, newer: Base) -> dict[int, frozenset[Column]]:
    """Return the pets that differ between the bases, with the columns of the units that differ.

    A pet that only one base has gets no columns.
    """
    found: dict[int, frozenset[Column]] = dict.fromkeys(older.ids ^ newer.ids, frozenset())
    for pet_id, units in find_changed_units(older, newer).items():
        found[pet_id] = frozenset(column for unit in units for column in COLUMNS_OF[unit])
    return found


@dataclass(frozen=True, slots=True)
class _SheetTexts:
    """The cells of a sheet that some versions wrote."""

    columns: frozenset[str]
    named: frozenset[int]
    unnumbered: int
    """The number of rows without an id."""
    texts: Mapping[CellKey, Text]
    last: Mapping[int, Pet]
    """The pets as the sheet last had them, according to the base."""

    @classmethod
    def of(cls, sheet: Sheet, versions: Sequence[Version], base: Base) -> _SheetTexts:
        named, touches = sheet.named_ids, find_written_cells(versions)
        pets = pets_of({pet_id for pet_id, _ in touches}, base.sheet_rows)
        return cls(
            columns=frozenset(map(str, sheet.rows)),
            named=named,
            unnumbered=_count_unnumbered(sheet),
            texts=_cell_texts(sheet, [touch for touch in touches if touch[0] in named]),
            last={pet.id or 0: pet for pet in pets},
        )


def find_undone_pets(
    sheet_texts: _SheetTexts, versions: Sequence[Version], *, counts_missing: bool = False
) -> frozenset[int] | None:
    """Return the pets with a value from before the versions.

    Returns None if the sheet has any value that the versions wrote, or, in a cell that they wrote,
    the value of the base. A cell with any other value was edited, and does not count. A missing
    column does not count either. A row that got its id from a version must lack the id again or be
    missing. Rows that are only missing count if `counts_missing`; otherwise it is assumed that a
    user removed them, and the result is None if the versions changed nothing else.
    """
    changed = find_replaced_texts(versions)
    changed = {
        t: text for t, text in changed.items() if t[1] is None or t[1] in sheet_texts.columns
    }
    named, last, texts = sheet_texts.named, sheet_texts.last, sheet_texts.texts
    numbered = find_numbered_pets(versions)
    if numbered & named:
        return None
    changed = {touch: text for touch, text in changed.items() if touch[0] not in numbered}
    has_rows = counts_missing or sheet_texts.unnumbered >= len(numbered)
    if numbered and not changed and not has_rows:
        return None
    if any(
        (text is not None) != (pet_id in named) for (pet_id, c), text in changed.items() if not c
    ):
        return None
    texts_written = _find_first_and_last_texts(versions)[1]
    as_before = {pet_id for pet_id, column in changed if column is None}
    for (pet_id, column), text in changed.items():
        if column is None or pet_id not in named:
            continue
        now = texts.get((pet_id, column), text)
        if now == text:
            as_before.add(pet_id)
        elif now == texts_written[pet_id, column] or (
            pet_id in last and now == cell(last[pet_id], column)
        ):
            return None
    return frozenset([*as_before, *(numbered if has_rows else ())])


def _lacks_numbered_rows(sheet_texts: _SheetTexts, versions: Sequence[Version]) -> bool:
    """Return true if two or more rows got their ids from the versions and are missing, and nothing
    that the versions wrote is left.
    """
    numbered = len(find_numbered_pets(versions))
    return (
        numbered >= _MIN_OLD_PETS
        and sheet_texts.unnumbered < numbered
        and find_undone_pets(sheet_texts, versions, counts_missing=True) is not None
    )


def find_numbered_pets(versions: Iterable[Version]) -> set[int]:
    """Return the pets whose rows got their id from the versions."""
    return {each.pet_id for one in versions for each in one.inbound.identified if each.lacks_id}


def _pets_of(versions: Sequence[Version]) -> frozenset[int]:
    """Return the pets whose rows the versions changed, except rows that only got their id."""
    return frozenset(pet_id for pet_id, _ in find_replaced_texts(versions))


def find_pets_lacking_id_again(sheet: Sheet, versions: Sequence[Version], base: Base) -> set[int]:
    """Return the pets whose rows may again lack the ids that versions gave them, because the sheet
    may be older than these versions.

    Such a sheet has nothing that these or later versions wrote, and no newer value of the `base`.
    """
    found: set[int] = set()
    later: list[Version] = []
    for version in reversed(versions):
        later.insert(0, version)
        if _has_written_values(sheet, later):
            break
        new = find_numbered_pets([version])
        if (
            new
            and _count_unnumbered(sheet)
            and find_traces(sheet, Base.from_lines(version.base), base).current_ids
        ):
            break
        found |= new
    return found


def _has_written_values(sheet: Sheet, versions: Sequence[Version]) -> bool:
    """Return true if the sheet has any value that is new in the versions."""
    named = sheet.named_ids
    if find_numbered_pets(versions) & named:
        return True
    first, last = _find_first_and_last_texts(versions)
    changed = {touch: text for touch, text in last.items() if first[touch] != text}
    if any(
        text == "" and pet_id in named for (pet_id, column), text in changed.items() if not column
    ):
        return True
    cells = {touch: text for touch, text in changed.items() if touch[1] in sheet.rows}
    texts = _cell_texts(sheet, cells)
    return any(texts.get(touch) == text for touch, text in cells.items())


def _find_still_unnumbered(sheet: Sheet, base: Base) -> frozenset[int]:
    """Return the pets whose rows lacked their ids in the last round and may still lack them, which
    is no evidence of an older copy; empty if the sheet has fewer rows without an id.
    """
    pets = base.unnumbered - sheet.named_ids
    return pets if len(pets) <= _count_unnumbered(sheet) else frozenset()


def _count_unnumbered(sheet: Sheet) -> int:
    """Return the number of rows without an id."""
    return int(lacks_id(sheet.rows).sum()) + len(sheet.unidentified)


def find_written_cells(versions: Iterable[Version]) -> frozenset[CellKey]:
    """Return the cells and rows that the versions wrote."""
    return frozenset(touch for each in versions for touch, *_ in _iter_written(each.inbound))


def find_replaced_texts(versions: Sequence[Version]) -> dict[CellKey, Text]:
    """Return the texts before the first version, for cells with another text after the last."""
    first, last = _find_first_and_last_texts(versions)
    return {touch: text for touch, text in first.items() if last[touch] != text}


def _find_first_and_last_texts(
    versions: Sequence[Version],
) -> tuple[dict[CellKey, Text], dict[CellKey, Text]]:
    """Return the texts before the first version and after the last, for all written cells."""
    first: dict[CellKey, Text] = {}
    last: dict[CellKey, Text] = {}
    for version in versions:
        for touch, before, after in _iter_written(version.inbound):
            # A row that was added has no cells before.
            if touch in first or first.get((touch[0], None), "") is not None:
                first.setdefault(touch, before)
                last[touch] = after
    return first, last


def _iter_written(inbound: Inbound) -> Iterable[tuple[CellKey, Text, Text]]:
    for edit in inbound.edits:
        for column in edit.fields:
            yield (edit.pet.id or 0, column), edit.before.get(column, ""), cell(edit.pet, column)
    for pet in inbound.added:
        yield (pet.id or 0, None), None, ""
    for removal in inbound.removed:
        yield (removal.pet_id, None), "", None


def _cell_texts(sheet: Sheet, cells: Iterable[CellKey]) -> dict[CellKey, Text]:
    """Return the texts of the cells; rows that an error blocks are left out."""
    wanted: dict[int, set[Column]] = {}
    for pet_id, column in cells:
        if column is not None:
            wanted.setdefault(pet_id, set()).add(column)
    rows = sheet.rows
    if not wanted or "id" not in rows:
        return {}
    lines = iter_rows(rows, has_id_in(rows, wanted))
    row_pets = ((line.pet_id or 0, build_pet(line.values)) for line in lines)
    return {(pet_id, c): cell(pet, c) for pet_id, pet in row_pets for c in wanted[pet_id]}


# Waiting: a plan that exceeds a limit of the guard, stored until it is approved or obsolete.


_RELEASABLE = frozenset({"add", "update", "delete"})


def is_final(refusals: Sequence[Refusal]) -> bool:
    """Return true if no approval can release a plan with these refusals.

    Only exceeded limits on adds, updates and deletes can be released.
    """
    return any(refusal.limit not in _RELEASABLE for refusal in refusals)


def with_raised_limits(
    guard: Guard, refusals: Sequence[Refusal], counts: Mapping[str, int]
) -> Guard:
    """Return the guard with the exceeded limits raised to what `counts` need."""
    raised = {
        f"max_{each.limit}": Limit(counts[each.limit], is_share=False)
        for each in refusals
        if each.limit in _RELEASABLE
    }
    return msgspec.structs.replace(guard, **raised) if raised else guard


@dataclass(frozen=True, slots=True)
class Waiting:
    """The file of a plan for the store that waits for approval."""

    path: Path
    job: str

    def hold(self, plan: Plan, store: Store) -> str:
        """Store the plan with the limits that it needs and a note on them; return its fingerprint.

        A stored plan with the same effect stays, unless it was applied. Raises PetsyncError.
        """
        released = self._with_raised_limits(plan)
        there = self._load_plan()
        if there is not None and _is_same_plan(there, released) and not _is_used(there, store):
            return there.fingerprint
        _make_folder(self.path)
        save_plan(released, self.path)
        return released.fingerprint

    def released_plan(self, store: Store) -> str:
        """Return the fingerprint of the waiting plan if it was applied; else ""."""
        there = self._load_plan()
        return there.fingerprint if there is not None and _is_used(there, store) else ""

    def clear(self) -> None:
        """Remove the plan."""
        _remove(self.path)

    def _with_raised_limits(self, plan: Plan) -> Plan:
        refusals = plan.verdict.refusals
        counts = {"add": len(plan.adds), "update": len(plan.updates), "delete": len(plan.deletes)}
        note = released_note(self.job, describe_limits(refusals))
        noted = msgspec.structs.replace(plan, raw_notes=(note, *plan.raw_notes))
        return noted.with_guard(with_raised_limits(plan.guard, refusals, counts))

    def _load_plan(self) -> Plan | None:
        if not self.path.exists():
            return None
        try:
            return load_plan(self.path)
        except PlanError as error:
            _LOG.warning("%s; the waiting plan is ignored", error.problem)
            return None


@dataclass(frozen=True, slots=True)
class SheetWaiting:
    """Files of changes for a sheet that wait for approval or were approved.

    Approved changes stay until the base contains them.
    """

    path: Path

    def hold(self, inbound: Inbound, job: str) -> None:
        """Store the changes with the limits that they need, and a note on them.

        Stored changes with the same effect stay. Raises PetsyncError.
        """
        counts = msgspec.structs.asdict(inbound.counts)
        refusals = inbound.verdict.refusals
        note = Difference(kind="note", problem=released_note(job, describe_limits(refusals)))
        noted = msgspec.structs.replace(inbound, notes=(note, *inbound.notes))
        released = noted.with_verdict(with_raised_limits(inbound.guard, refusals, counts))
        if self._fingerprint() == released.fingerprint:
            return
        _make_folder(self.path)
        save_edits(released, self.path)

    def note_intent(self, inbound: Inbound) -> None:
        """Record that the waiting changes in `inbound` will be written now."""
        save_edits(inbound, self._intended)

    def note_written(self) -> None:
        """Record that the intended changes were written."""
        self._intended.replace(self._released)
        self.clear()

    def released_edits(self, sheet: Sheet) -> Inbound | None:
        """Return the approved changes that the sheet got and the base does not contain yet; None if
        there are none.

        For changes that were only intended, the sheet shows whether they were written; see
        `has_arrived`.
        """
        if (edits := self._load(self._released)) is not None:
            return edits
        if (intended := self._load(self._intended)) is None:
            return None
        version = Version(round="", before=intended.digest, base=(), inbound=intended)
        return intended if has_arrived(sheet, version) else None

    def forget(self) -> None:
        """Remove the approved changes: the base contains them."""
        _remove(self._released)
        _remove(self._intended)

    def _load(self, path: Path) -> Inbound | None:
        try:
            return load_edits(path) if path.exists() else None
        except PlanError as error:
            _LOG.warning("%s", error.problem)
            return None

    @property
    def _released(self) -> Path:
        return _released_path(self.path)

    @property
    def _intended(self) -> Path:
        return _intended_path(self.path)

    def clear(self) -> None:
        """Remove the waiting changes."""
        _remove(self.path)

    def _fingerprint(self) -> str:
        if not self.path.exists():
            return ""
        try:
            return load_edits(self.path).fingerprint
        except PlanError as error:
            _LOG.warning("%s; it is created again", error.problem)
            return ""


def _make_folder(path: Path) -> None:
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise PetsyncError(f"{path.parent} cannot be created: {error.strerror}") from None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise PetsyncError(f"{path} cannot be removed: {error.strerror}") from None


def _is_same_plan(one: Plan, other: Plan) -> bool:
    """Return true if two plans have the same effect for the same reasons."""
    return _without_times(one) == _without_times(other)


def _without_times(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, created="", base="", coverage=Coverage())


def _is_used(plan: Plan, store: Store) -> bool:
    return store.aio.history.journal.find_run_of_plan(plan.fingerprint) is not None
