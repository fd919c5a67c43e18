"""Versions: what petsync wrote into a sheet, so that a backup that is put back is known as one.

A backup is the sheet as it was before something was written into it. To the base of after that, it
looks as if a person had taken all of it back; to the base of its own time it is what it is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from petsync.diff import align
from petsync.diff.agreed import named_ids
from petsync.diff.fields import cell
from petsync.diff.intake import Inbound
from petsync.diff.known import pets_of
from petsync.diff.merge import said_pet
from petsync.diff.rows import said_rows
from petsync.diff.units import COLUMNS_OF, Unit
from petsync.errors import PetsyncError
from petsync.reconcile.kept import write
from petsync.table.base import Base
from petsync.table.columns import Column
from petsync.table.parcel import ParcelError
from petsync.table.sheet import Sheet

__all__ = [
    "Version",
    "Versions",
    "arrived",
    "came_since",
    "doubtful",
    "may_lack_again",
    "moved_units",
    "numbered_by",
    "still_back",
    "traces",
    "undone",
    "written_since",
]

_LOG = logging.getLogger(__name__)
_KEPT = 10
_LEAST = 2
"""So many pets have to be as they were: one alone is what a person sets back."""

_NOWHERE = "\0"

Touch = tuple[int, Column | None]
"""A pet's cell; None for its whole row."""
Text = str | None
"""What is there; of a row "" where it is, and None where it is not."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A sheet before a round wrote into it, and what was written.

    `before` and `after` are the digests of the file, `after` "" until it is there; `base` is what
    both sides agreed on while the sheet was as before, in the lines of a base, and `runs` are the
    marks of the runs that it has. `carried` is the digest of the base that the sheet itself carried
    before, "" if it carried none or that is not known. `is_again`: the sheet was a backup that had
    been put back. `is_agreed`: the kept base knows whether it was written. `is_lost`: it was not,
    as its round was killed before, or it could not be written; `is_left`: the sheet was another
    file since. `is_undone`: a backup from before it was put back, so that the sheet does not follow
    from it. `is_back`: a round has seen that, and none has finished with the sheet since.
    `is_by_hand`: somebody had a run write into the sheet, and `round` is its id.
    """

    number: int = 0
    round: str
    before: str
    after: str = ""
    base: tuple[str, ...]
    inbound: Inbound
    is_again: bool = False
    is_agreed: bool = False
    is_lost: bool = False
    is_left: bool = False
    is_undone: bool = False
    is_back: bool = False
    is_by_hand: bool = False
    runs: tuple[str, ...] = ()
    carried: str = ""

    @property
    def is_written(self) -> bool:
        """Whether the sheet is known to have had it."""
        return bool(self.after) or (self.is_agreed and not self.is_lost)

    @property
    def pets(self) -> int:
        """How many pets were written."""
        return len({touch[0] for touch in _touches([self])[1]})


@dataclass(frozen=True, slots=True)
class Versions:
    """The last ones of a sheet, a file each."""

    folder: Path

    def all(self) -> tuple[Version, ...]:
        """They, oldest first. One that cannot be read is left out."""
        found = (self._read(path) for path in sorted(self.folder.glob("*.json")))
        return tuple(each for each in found if each is not None)

    def keep(self, version: Version) -> Version:
        """Keep one more, on the disk when this returns; the oldest goes, and one that was not
        written and starts from the same file. Raises PetsyncError.
        """
        last = [each for each in self.all()[-1:] if not each.is_written]
        numbers = [int(path.stem) for path in self.folder.glob("[0-9]*.json")]
        numbered = msgspec.structs.replace(version, number=max(numbers, default=0) + 1)
        self.put(numbered)
        # What both sides agree on of one file only grows.
        again = [each.number for each in last if each.before == version.before]
        self.forget(again or sorted(numbers)[: 1 - _KEPT])
        return numbered

    def agree(self, sheet: Sheet, *, has_ids_by_hand: bool = False) -> None:
        """The kept base has by now what was written. Of a version whose round was killed, the sheet
        as this round has read it tells whether it was, as `arrived` does. Raises PetsyncError.
        """
        for version in self.all():
            now = version
            if not now.is_agreed:
                has_it = bool(now.after) or arrived(sheet, now, has_ids_by_hand=has_ids_by_hand)
                now = msgspec.structs.replace(now, is_agreed=True, is_lost=not has_it)
            if now.is_lost and not now.is_left and sheet.digest != now.before:
                now = msgspec.structs.replace(now, is_left=True)
            if now is not version:
                self.put(now)

    def back(self, versions: Collection[Version]) -> None:
        """Remember, on the disk when this returns, that the sheet is from before these, and from
        before no others. Raises PetsyncError.
        """
        numbers = {each.number for each in versions}
        for version in self.all():
            if version.is_back != (version.number in numbers):
                self.put(msgspec.structs.replace(version, is_back=not version.is_back))

    def undo(self, versions: Iterable[Version], digest: str) -> None:
        """Mark these as undone, and remove every undone one that starts from the sheet as it is
        now, which has this digest. Raises PetsyncError.
        """
        self.back(())
        for version in versions:
            self.put(msgspec.structs.replace(version, is_undone=True, is_back=False))
        known = (each for each in self.all() if each.is_undone)
        self.forget(each.number for each in known if each.before == digest)

    def put(self, version: Version) -> None:
        """Write one that has its number. Raises PetsyncError."""
        write(self._path(version.number), msgspec.json.encode(version))

    def forget(self, numbers: Iterable[int]) -> None:
        """These count no more."""
        for number in numbers:
            path = self._path(number)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise PetsyncError(f"{path} cannot be removed: {error.strerror}") from None

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}.json"

    def _read(self, path: Path) -> Version | None:
        try:
            version = msgspec.json.decode(path.read_bytes(), type=Version)
            Base.from_lines(version.base)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, ParcelError) as error:
            _LOG.warning("%s cannot be read, and is passed over: %s", path, error)
            return None
        return version


def arrived(sheet: Sheet, version: Version, *, has_ids_by_hand: bool = False) -> bool:
    """Whether the sheet has what was to be written: its round may have been killed before. It is
    written as a whole, so that most of it tells, whatever a person has edited since; a column that
    is missing tells nothing, and neither do ids of rows where a run by hand may have written them.
    """
    if sheet.digest in (version.before, version.after):
        return sheet.digest == version.after
    texts = {touch: after for touch, before, after in _written(version.inbound) if before != after}
    texts = {t: text for t, text in texts.items() if t[1] is None or t[1] in sheet.frame}
    if not has_ids_by_hand:
        texts |= {(pet_id, None): "" for pet_id in numbered_by([version])}
    said, named = _said(sheet, [touch for touch in texts if touch[1]]), named_ids(sheet)
    there = {touch: "" if touch[0] in named else None for touch in texts if not touch[1]}
    found = {**there, **said}
    has = [found.get(touch, _NOWHERE) == text for touch, text in texts.items()]
    return sum(has) * 2 > len(has)


def undone(
    sheet: Sheet, versions: Sequence[Version], base: Base, carried: str = ""
) -> tuple[Version, ...]:
    """Those of the versions that the sheet does not have any more, oldest first: it is a backup
    that was put back. First the one whose file it is again; else the one since which everything
    that was written is as before, or from before which the sheet is, as the `base` of the last
    round tells. () where the sheet is no such backup.

    A version that is undone already is found where a newer backup is put back after an older one;
    then it is followed by those that are not undone and newer.

    `carried` is the digest of the base that the sheet carries, where the last round saw another
    one, else "". It shows without doubt before which versions the sheet was saved.
    """
    current = [each for each in versions if not each.is_undone]
    # Of one that was cut off nobody knows whether it ever was in the sheet.
    written = [each for each in current if each.is_written]
    known = [each for each in current if each.is_written or each.is_left]
    if current and sheet.digest in (current[-1].after, *(each.after for each in known[-1:])):
        return ()
    # The file of before one that was cut off is known all the same, if others came after it, or
    # whole rounds.
    last = current.index(known[-1]) if known else -1
    for at in reversed(range(last + 1)):
        if current[at].before == sheet.digest:
            is_meant = not carried and _is_meant(known[-1], sheet, base)
            return () if is_meant else tuple(current[at:])
    if any(sheet.digest == each.before for each in current):
        return ()  # its round died before it wrote
    gone = [each for each in versions if each.is_undone]
    same = [each for each in gone if each.before == sheet.digest][-1:]
    if carried and not same:
        # Of several, the oldest: what was sent later is then no edit that was taken back.
        same = [each for each in (*gone, *current[: last + 1]) if each.carried == carried]
        same = sorted(same, key=lambda each: each.number)[:1]
    elif not same:
        if some := next((some for some in _since(written) if _is_undone(sheet, some)), ()):
            return tuple(some)
        like = [each for each in reversed(gone) if _is_from(sheet, each, base)]
        same = [min(like, key=lambda each: _lacking(sheet, each, base))] if like else []
    return tuple(each for one in same for each in (one, *_newer(current, one)))


def still_back(sheet: Sheet, versions: Sequence[Version]) -> tuple[Version, ...]:
    """The versions, oldest first, from before which an earlier round saw the sheet to be, where no
    round has finished with it, or written into it, since; () where it is a file that is known.
    """
    back = tuple(each for each in versions if each.is_back)
    if not back or any(sheet.digest in (each.before, each.after) for each in versions):
        return ()
    return () if _newer(versions, back[-1]) else back


@dataclass(frozen=True, slots=True)
class Traces:
    """How a sheet is beside two bases: the pets of which it says what the older one says (`then`),
    those of which it says what the newer one says (`now`), and whether it says anything else.
    """

    then: frozenset[int]
    now: frozenset[int]
    has_others: bool

    @property
    def is_newer(self) -> bool:
        """Whether it says what the newer base says, and nothing else."""
        return not (self.then or self.has_others)


def traces(sheet: Sheet, then: Base, base: Base) -> Traces:
    """How the sheet is beside what was agreed on then, and by now, wherever that differs."""
    moved, named = _moved(then, base), named_ids(sheet)
    came, went = base.ids - then.ids, then.ids - base.ids
    older, newer = {*(came - named), *(went & named)}, {*(came & named), *(went - named)}
    was, now = ({pet.id: pet for pet in pets_of(moved, each.said_frame)} for each in (then, base))
    has_others = False
    cells = [(pet_id, c) for pet_id, some in moved.items() for c in some if c in sheet.frame]
    for (pet_id, column), text in _said(sheet, cells).items():
        texts = ["" if column is None else cell(side[pet_id], column) for side in (was, now)]
        if text in texts:
            if texts[0] != texts[1]:
                (older if text == texts[0] else newer).add(pet_id)
        else:
            has_others = True
    return Traces(frozenset(older), frozenset(newer), has_others)


def came_since(sheet: Sheet, versions: Sequence[Version]) -> frozenset[int]:
    """The pets that are in no row, and were in none before the oldest of the versions either: a
    sheet that may be from before any of them does not lack their rows.
    """
    first = Base.from_lines(versions[0].base)
    ids = {pet_id for each in versions for pet_id in Base.from_lines(each.base).ids}
    return frozenset(ids - first.ids - named_ids(sheet))


def _newer(current: Iterable[Version], than: Version) -> list[Version]:
    return [each for each in current if each.number > than.number]


def _is_from(sheet: Sheet, version: Version, base: Base) -> bool:
    """Whether the sheet says what both sides had agreed on before the version, of two pets or more
    and of all pets of which the base says something else.
    """
    then = Base.from_lines(version.base)
    moved = _moved(then, base)
    pets = {pet.id: pet for pet in pets_of(moved, then.said_frame)}
    named = named_ids(sheet)
    came, went = base.ids - then.ids, then.ids - base.ids
    agreeing = {*came, *(went & named)}
    cells = [(pet_id, c) for pet_id, some in moved.items() for c in some if c in sheet.frame]
    for (pet_id, column), text in _said(sheet, cells).items():
        was = "" if column is None else cell(pets[pet_id], column)
        if text != was and text:
            return False
        agreeing |= {pet_id} if text == was else set()
    return not came & named and len(agreeing) >= _LEAST


def _lacking(sheet: Sheet, version: Version, base: Base) -> int:
    """How many rows the sheet lacks of those that it had before the version."""
    then = Base.from_lines(version.base)
    return max(0, len(then.ids - base.ids - named_ids(sheet)) - _unnumbered(sheet))


def doubtful(sheet: Sheet, versions: Sequence[Version]) -> tuple[Version, ...]:
    """Those of the versions, oldest first, of which all that was written is as before, where that
    is one pet alone: a person set it back, or put a backup back and edited it.
    """
    versions = [each for each in versions if each.is_written]
    if not versions or sheet.digest in (versions[-1].before, versions[-1].after):
        return ()
    for some in _since(versions):
        pets = undone_pets(sheet, some)
        if (
            pets is not None
            and len(pets) == 1
            and pets == _pets_of(some)
            and not (some[-1].is_again and some[-1].pets == 1)
        ):
            return tuple(some)
    return ()


def _since(versions: Sequence[Version]) -> Iterable[Sequence[Version]]:
    return (versions[at:] for at in range(len(versions)))


def _is_meant(last: Version, sheet: Sheet, base: Base) -> bool:
    """Whether one pet alone is set back for the second time: whoever does it twice means it, unless
    more has been agreed on since.
    """
    is_second = last.is_again and last.before == sheet.digest and last.pets < _LEAST
    return is_second and len(_moved(Base.from_lines(last.base), base)) < _LEAST


def _moved(then: Base, base: Base) -> dict[int, frozenset[Column]]:
    """The pets in which the two differ, with the columns of the units in which they do; none for a
    pet that one of them lacks.
    """
    found: dict[int, frozenset[Column]] = dict.fromkeys(then.ids ^ base.ids, frozenset())
    for pet_id, units in moved_units(then, base).items():
        found[pet_id] = frozenset(column for unit in units for column in COLUMNS_OF[unit])
    return found


def moved_units(then: Base, base: Base) -> dict[int, tuple[Unit, ...]]:
    """The units in which the pets of both differ, by pet."""
    frame, now = then.said_frame, base.said_frame
    places = align.positions(frame["id"], now)
    at = np.flatnonzero(places >= 0)
    ids = frame["id"].to_numpy()[at].tolist()
    found: dict[int, tuple[Unit, ...]] = {}
    for unit, mask in align.differences(frame, at, now, places[at]).items():
        for n in np.flatnonzero(mask):
            found[ids[n]] = (*found.get(ids[n], ()), unit)
    return found


def _is_undone(sheet: Sheet, versions: Sequence[Version]) -> bool:
    return len(undone_pets(sheet, versions) or ()) >= _LEAST


def undone_pets(sheet: Sheet, versions: Sequence[Version]) -> frozenset[int] | None:
    """The pets of which the versions wrote anything, where all of that is as before; else None. A
    column that is missing says nothing of it, and a row that got its id lacks it again, or is not
    there: where that is so of such rows alone, a person took them out.
    """
    moved = written_since(versions)
    moved = {t: text for t, text in moved.items() if t[1] is None or t[1] in sheet.frame}
    named = named_ids(sheet)
    numbered = numbered_by(versions)
    if numbered & named:
        return None
    moved = {touch: text for touch, text in moved.items() if touch[0] not in numbered}
    has_rows = _unnumbered(sheet) >= len(numbered)
    if numbered and not moved and not has_rows:
        return None
    if any((text is not None) != (pet_id in named) for (pet_id, c), text in moved.items() if not c):
        return None
    cells = {touch: text for touch, text in moved.items() if touch[1] is not None}
    if not {pet_id for pet_id, _ in cells} <= named:
        return None
    said = _said(sheet, cells)
    if any(said.get(touch, text) != text for touch, text in cells.items()):
        return None
    return frozenset([*(pet_id for pet_id, _ in moved), *(numbered if has_rows else ())])


def numbered_by(versions: Iterable[Version]) -> set[int]:
    """The pets whose rows got their id by the versions."""
    return {each.pet_id for one in versions for each in one.inbound.identified if each.lacks_id}


def _pets_of(versions: Sequence[Version]) -> frozenset[int]:
    """The pets of which the versions changed anything but an id."""
    return frozenset(pet_id for pet_id, _ in written_since(versions))


def may_lack_again(sheet: Sheet, versions: Sequence[Version]) -> set[int]:
    """The pets whose rows got their id by the versions, if the sheet may be a backup from before:
    nothing that was written then or later stands in it.
    """
    found: set[int] = set()
    later: list[Version] = []
    for version in reversed(versions):
        later.insert(0, version)
        if _stands(sheet, later):
            break
        found |= numbered_by([version])
    return found


def _stands(sheet: Sheet, versions: Sequence[Version]) -> bool:
    """Whether the sheet has anything that the versions wrote, and that was not there before."""
    named = named_ids(sheet)
    if numbered_by(versions) & named:
        return True
    first, last = _touches(versions)
    moved = {touch: text for touch, text in last.items() if first[touch] != text}
    if any(
        text == "" and pet_id in named for (pet_id, column), text in moved.items() if not column
    ):
        return True
    cells = {touch: text for touch, text in moved.items() if touch[1] in sheet.frame}
    said = _said(sheet, cells)
    return any(said.get(touch) == text for touch, text in cells.items())


def _unnumbered(sheet: Sheet) -> int:
    """How many rows lack an id."""
    lacking = sheet.frame["id"].isna().sum() if "id" in sheet.frame else len(sheet.frame)
    return int(lacking) + len(sheet.unidentified)


def written_since(versions: Sequence[Version]) -> dict[Touch, Text]:
    """What was there before the first version, wherever the last one left something else."""
    first, last = _touches(versions)
    return {touch: text for touch, text in first.items() if last[touch] != text}


def _touches(versions: Sequence[Version]) -> tuple[dict[Touch, Text], dict[Touch, Text]]:
    """What was there before the first of them, and after the last, wherever any has written."""
    first: dict[Touch, Text] = {}
    last: dict[Touch, Text] = {}
    for version in versions:
        for touch, before, after in _written(version.inbound):
            # The cells of a row that came are not there where the row is not.
            if touch in first or first.get((touch[0], None), "") is not None:
                first.setdefault(touch, before)
                last[touch] = after
    return first, last


def _written(inbound: Inbound) -> Iterable[tuple[Touch, Text, Text]]:
    for edit in inbound.edits:
        for column in edit.fields:
            yield (edit.pet.id or 0, column), edit.before.get(column, ""), cell(edit.pet, column)
    for pet in inbound.added:
        yield (pet.id or 0, None), None, ""
    for gone in inbound.removed:
        yield (gone.pet_id, None), "", None


def _said(sheet: Sheet, cells: Iterable[Touch]) -> dict[Touch, Text]:
    """What the cells say; nothing of rows that an error blocks."""
    wanted: dict[int, set[Column]] = {}
    for pet_id, column in cells:
        if column is not None:
            wanted.setdefault(pet_id, set()).add(column)
    if "id" not in sheet.frame:
        return {}
    rows = sheet.frame[sheet.frame["id"].isin(list(wanted))]
    lines = said_rows(rows, np.full(len(rows), -1, dtype=np.intp))
    said = ((line.pet_id or 0, said_pet(line.said)) for line in lines)
    return {(pet_id, c): cell(pet, c) for pet_id, pet in said for c in wanted[pet_id]}
