"""The guard: limits for a plan, checked before anything is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from numbers import Real
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec

from petsync._display import count
from petsync._options import Option, reject_unknown
from petsync._terms import in_python
from petsync.errors import SettingsError
from petsync.models import as_int64

__all__ = [
    "CAPACITY_CURE",
    "NO_GUARD",
    "Guard",
    "GuardKeywords",
    "Limit",
    "Refusal",
    "UndoKeywords",
    "UpdateKeywords",
    "Verdict",
    "guard_from",
    "raise_limits",
    "refuse_over_capacity",
]


_Kind = Literal["add", "update", "delete"]
_LIMITS = ("max_delete", "max_update", "max_add")
_SMALL_UPDATES = 10
"""The number of updates that a share always allows, because 30 % of three pets would be 0."""
_SMALL_NAMESAKES = 10
"""The maximum number of adds with the name of a pet that is in no row, if the limit is a share."""


class Limit(msgspec.Struct, frozen=True):
    """A maximum number of pets, or a maximum share of the store."""

    value: float
    """The number, or the share from 0 to 1."""
    is_share: bool = True
    """True for a share."""
    at_least: int = 0
    """The minimum that a share allows. If it is above 0, an empty store has no limit."""

    def __post_init__(self) -> None:
        most = 1.0 if self.is_share else float(10**12)
        value: object = self.value
        number = float(value) if isinstance(value, Real) else math.nan
        if not 0 <= number <= most:
            raise SettingsError(
                f"Limit({self.value!r}, is_share={self.is_share}) is not a limit",
                hint="A share is between 0 and 1; ten pets are Limit(10, is_share=False).",
            )
        # Convert to float, as a file returns it, so that a plan that is loaded and saved again has
        # the same bytes.
        msgspec.structs.force_setattr(self, "value", number)

    @classmethod
    def parse(cls, value: object, option: str) -> Limit:
        """Return the limit for a text such as `10%` or `25`, or for a number of pets.

        `option` is the limit's name in error messages: a keyword, or a command-line option with its
        hyphens. Raises SettingsError for an invalid limit.
        """
        is_text = isinstance(value, str) or as_int64(value) is not None
        text = str(value) if is_text else ""
        match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*(%?)\s*", text, re.ASCII)
        if match is None or (not match[2] and "." in match[1]):
            is_flag = option.startswith("-")
            share = f"{option} 10%" if is_flag else f'{option}="10%"'
            raise SettingsError(
                f"{option}: {value!r} is neither a number of pets nor a percentage",
                hint=f"Write, for example, {option}{' ' if is_flag else '='}25 or {share}.",
            )
        number = float(match[1])
        if match[2] and number > 100:
            raise SettingsError(f"{option}: {value!r} is more than 100 %")
        return cls(number / 100 if match[2] else number, bool(match[2]))

    def allows(self, total: int, at_least: int) -> int:
        """Return the number of pets that the limit allows for a store of `total` pets. A share
        allows at least `at_least` pets.
        """
        share = int(self.value * total + 1e-9)
        return max(share, at_least, self.at_least) if self.is_share else int(self.value)

    def is_free(self, total: int) -> bool:
        """Return true if any number is allowed, because the store is empty."""
        return self.is_share and not total and self.at_least > 0

    def __str__(self) -> str:
        return f"{self.value * 100:g} %" if self.is_share else f"{self.value:g}"


def _limit_option(what: str, default: str) -> Option:
    return Option(help=f"The maximum number of {what}.", default=default, metavar="N|P%")


class UpdateKeywords(TypedDict, total=False):
    """The limit of a plan that only updates, as a keyword: a field of Guard."""

    max_update: Annotated[Limit | int | str | None, _limit_option("updates", "30%, or 10")]


class UndoKeywords(TypedDict, total=False):
    """The limits of an undo as keywords: fields of Guard."""

    max_update: Annotated[
        Limit | int | str | None, _limit_option("updates", "as many as the run updated")
    ]
    max_delete: Annotated[
        Limit | int | str | None, _limit_option("deletes", "as many as the run added")
    ]
    max_add: Annotated[
        Limit | int | str | None, _limit_option("adds", "as many as the run deleted")
    ]
    allow_empty: Annotated[
        bool,
        Option(
            help="Permit an undo that deletes every pet, even if the run did not begin with an "
            "empty store."
        ),
    ]


class GuardKeywords(UpdateKeywords, total=False):
    """All limits of a plan as keywords: the fields of Guard; None is the default."""

    max_delete: Annotated[
        Limit | int | str | None, _limit_option("deletes", "10%, or 1; never all")
    ]
    max_add: Annotated[
        Limit | int | str | None,
        _limit_option("adds", "50%, or 100; any number into an empty store"),
    ]
    allow_empty: Annotated[
        bool, Option(help="Permit an empty sheet, or a plan that deletes every pet.")
    ]
    allow_shifted: Annotated[
        bool, Option(help="Permit a column that was sorted or shifted without its rows.")
    ]
    sentinels: Annotated[
        Iterable[int] | None,
        Option(
            help="Refuse the plan if this pet is missing, would change, or has changed since the "
            "export.",
            metavar="ID",
            flag="sentinel",
        ),
    ]


class _Total(NamedTuple):
    """The number of pets in the store."""

    pets: int
    is_least: bool
    """True if it is the least possible number."""

    def __str__(self) -> str:
        pets = count(self.pets, "pet")
        return f"at least {pets}" if self.is_least else pets


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a plan."""

    max_delete: Limit = Limit(0.10)
    """The limit of deletes: by default 10 % of the store and at least 1."""
    max_update: Limit = Limit(0.30)
    """The limit of updates: by default 30 % of the store and at least 10."""
    max_add: Limit | None = Limit(0.50, at_least=100)
    """The limit of adds: by default 50 % of the store and at least 100. None for no limit.

    If more than 10 adds have the name of a pet that is in no row, the plan passes only if this
    limit is None or a number, not a share.
    """
    allow_empty: bool = False
    """True to allow deleting every pet, a sheet without rows, and deletes if every row of the sheet
    has an error.
    """
    allow_shifted: bool = False
    """True to allow updates that sort or shift a column without its rows."""
    sentinels: tuple[int, ...] = ()
    """The ids of pets that must be in the snapshot.

    Neither the plan nor any change since the export may touch them; otherwise, the guard refuses
    the plan.
    """

    def __post_init__(self) -> None:
        for name in _LIMITS:
            limit = getattr(self, name)
            if not isinstance(limit, Limit) and (limit is not None or name != "max_add"):
                raise SettingsError(
                    f"Guard({name}={limit!r}) is not a Limit",
                    hint="Write, for example, Limit(0.1) for a tenth, or "
                    "Limit(10, is_share=False).",
                )
        for name in ("allow_empty", "allow_shifted"):
            allows = getattr(self, name)
            if not isinstance(allows, bool):
                raise SettingsError(f"{name} is {allows!r}; it must be True or False")
        given: object = self.sentinels
        ids = tuple(map(as_int64, given)) if isinstance(given, Iterable) else (None,)
        if None in ids:
            raise SettingsError(
                f"the sentinels {given!r} are not ids of pets, which are 64-bit integers",
                hint="Give the ids of the pets: --sentinel 7, in Python sentinels=[7].",
            )
        msgspec.structs.force_setattr(self, "sentinels", ids)

    def judge(
        self,
        *,
        pets: int,
        rows: int,
        adds: int,
        updates: int,
        deletes: int,
        namesakes: int = 0,
        shifted: Collection[str] = (),
        moved_ids: str = "",
        sentinels: Iterable[Refusal] = (),
        is_least: bool = False,
    ) -> Verdict:
        """Return the verdict on a plan, with a refusal for each limit that it breaks.

        `pets` is the number of pets in the store; with `is_least`, their minimum number. `rows` is
        the number of the sheet's rows or, if pets are deleted, of its rows without errors.
        `namesakes` is the number of adds with the name of a pet that is in no row. The `shifted`
        columns were moved without their rows; if `id` is one of them, `moved_ids` are the number
        and the addresses of these ids. `sentinels` are the refusals because of sentinels.
        """
        total = _Total(pets, is_least)
        sentences = [
            self._refuse_empty(rows),
            self._adds(adds, namesakes, total),
            self._over("update", updates, total, self.max_update, _SMALL_UPDATES),
            self._over("delete", deletes, total, self.max_delete, 1),
            self._refuse_everything(total, deletes),
            self._refuse_shifted(shifted, moved_ids),
        ]
        return Verdict(refusals=(*(refusal for refusal in sentences if refusal), *sentinels))

    def _refuse_empty(self, rows: int) -> Refusal | None:
        if rows or self.allow_empty:
            return None
        return Refusal("empty", "the sheet has no row that can be used", "--allow-empty")

    def needs_count(self, *, adds: int, updates: int, deletes: int) -> bool:
        """Return true if a verdict on these numbers depends on the number of pets in the store."""
        of_share = (
            (self.max_add, adds > (self.max_add.at_least if self.max_add else 0)),
            (self.max_update, updates > _SMALL_UPDATES),
        )
        return deletes > 0 or any(many and limit and limit.is_share for limit, many in of_share)

    def _adds(self, adds: int, namesakes: int, total: _Total) -> Refusal | None:
        limit = self.max_add
        if limit is None or not limit.is_share:
            return self._over("add", adds, total, limit, 0)
        if not limit.is_free(total.pets) and (over := self._over("add", adds, total, limit, 0)):
            return over
        if namesakes <= _SMALL_NAMESAKES:
            return None
        problem = (
            f"{namesakes:,} of {adds:,} adds have the name of a pet that is in no row: "
            "their rows may have lost their ids"
        )
        return Refusal("add", problem, f"--max-add {adds}")

    def _refuse_shifted(self, shifted: Collection[str], moved_ids: str) -> Refusal | None:
        if not shifted or self.allow_shifted:
            return None
        problems = []
        if "id" in shifted:
            problems.append(f"the ids of {moved_ids} were exchanged or moved without the rows")
        columns = [column for column in shifted if column != "id"]
        if columns:
            those = "column {} was" if len(columns) == 1 else "columns {} were"
            names = ", ".join(columns)
            problems.append(f"the {those.format(names)} sorted or shifted without the rows")
        return Refusal("shifted", "; ".join(problems), "--allow-shifted")

    def _over(
        self, kind: _Kind, number: int, total: _Total, limit: Limit | None, least: int
    ) -> Refusal | None:
        if limit is None or number <= (allowed := limit.allows(total.pets, least)):
            return None
        over = "is" if number == 1 else "are"
        share = f" ({allowed:,} of {total})" if limit.is_share else ""
        problem = f"{count(number, kind)} {over} more than --max-{kind} {limit} allows{share}"
        return Refusal(kind, problem, f"--max-{kind} {number}")

    def _refuse_everything(self, total: _Total, deletes: int) -> Refusal | None:
        pets = total.pets
        if not deletes or deletes < pets or self.allow_empty:
            return None
        these = "the only pet" if pets == 1 else f"every one of the {pets:,} pets"
        if total.is_least:
            these = f"{count(deletes, 'pet')} of a store with {total}"
        return Refusal("everything", f"{these} would be deleted", "--allow-empty")


CAPACITY_CURE = (
    "Add fewer pets, or delete some first. If the service keeps more pets, set `capacity` under "
    "[service] in petsync.toml (0: no limit)."
)
"""The advice for a plan that is refused because of the service's capacity."""


def refuse_over_capacity(adds: int, pets: int, capacity: int | None) -> Iterator[Refusal]:
    """Yield the refusal of adds beyond the service's capacity, because the service would drop other
    pets for them.
    """
    if capacity is None or not adds or pets + adds <= capacity:
        return
    overflow = pets + adds - max(pets, capacity)
    dropped = "the oldest pet" if overflow == 1 else f"the {overflow:,} oldest pets"
    changes = f"{adds:,} add{'' if adds == 1 else 's'} to {pets:,} pets"
    problem = f"{changes} would make the service drop {dropped}: it keeps {capacity:,}"
    yield Refusal("capacity", problem)


class Refusal(msgspec.Struct, frozen=True):
    """A limit that a plan breaks."""

    limit: Literal[
        "empty", "add", "update", "delete", "everything", "shifted", "sentinel", "capacity"
    ]
    """The limit's stable name."""
    problem: str
    """The problem."""
    override: str = ""
    """The command-line option that allows the plan, "" if none does."""
    of_store: bool = False
    """True if the problem concerns only the store, so that every part of the plan has it too."""

    @property
    def cure(self) -> str:
        """What allows the plan, in a shell and in Python; "" if nothing does."""
        way = f"{self.override} (in Python {self.keyword}) would allow it"
        return way if self.override else ""

    @property
    def keyword(self) -> str:
        """`override` as a keyword in Python, such as `max_delete=25`; "" if nothing allows the
        plan.
        """
        name, _, most = self.override.removeprefix("--").partition(" ")
        return f"{name.replace('-', '_')}={most or True}" if name else ""

    @property
    def text(self) -> str:
        """The problem and the cure, in a shell and in Python."""
        return f"{self.problem}: {self.cure}" if self.override else self.problem

    def __str__(self) -> str:
        return in_python(self.text)

    def __repr__(self) -> str:
        return f"Refusal({self.limit!r}, {str(self)!r})"


def raise_limits(refusals: Iterable[Refusal]) -> str:
    """Return the advice to raise the limits and plan again, with the keywords to use in Python."""
    keywords = sorted({each.keyword for each in refusals} - {""})
    return f"raise the limit (in Python {', '.join(keywords)}) and plan again"


class Verdict(msgspec.Struct, frozen=True):
    """The guard's verdict. A plan without refusals may be applied."""

    refusals: tuple[Refusal, ...] = ()
    """The limits that the plan breaks."""

    @property
    def ok(self) -> bool:
        """True if the plan is within all limits."""
        return not self.refusals


NO_GUARD = Guard()
"""The default guard."""


def guard_from(
    keywords: Mapping[str, Any],
    guard: object = NO_GUARD,
    *,
    known: type = GuardKeywords,
    function: str = "plan",
) -> Guard:
    """Return a guard with the limits in the keywords, or the given guard if none is set. `known` is
    the TypedDict of the valid keywords.

    Raises SettingsError for an invalid limit, for a `guard` of another type, and for single limits
    in addition to a guard; TypeError for an unknown keyword of the `function`.
    """
    reject_unknown(keywords, function, known)
    if not isinstance(guard, Guard):
        raise SettingsError(
            f"guard is {guard!r}, not a Guard", hint="Leave it out, or give Guard(…)."
        )
    given = {
        name: value
        for name, value in keywords.items()
        if value is not None and (name in _LIMITS or not _is_default(value))
    }
    if guard is not NO_GUARD and given:
        raise SettingsError(
            f"guard and {', '.join(given)} are both given",
            hint="Give all limits in the guard, or each of them as a keyword without a guard.",
        )
    for name in _LIMITS:
        if name in given and not isinstance(given[name], Limit):
            given[name] = Limit.parse(given[name], name)
    return Guard(**given) if given else guard


def _is_default(value: object) -> bool:
    """Return true for False and for no sentinels."""
    return value is False or (isinstance(value, Sized) and len(value) == 0)
