"""The options of plans and pictures, with their documentation and their checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict, get_args

import msgspec

from petsync._options import Option, reject_unknown
from petsync.errors import SettingsError
from petsync.plan.guard import NO_GUARD, Guard, GuardKeywords, guard_from
from petsync.table.columns import COLUMNS, COLUMNS_OF, UNITS, Column, Unit

__all__ = [
    "JOB_WINNER",
    "MATCHABLE",
    "NEEDED",
    "OWNABLE",
    "OWNERS",
    "SEND_SHEET",
    "UNSENT",
    "CompareKeywords",
    "MergeOptions",
    "Owner",
    "PictureKeywords",
    "PictureOptions",
    "PlanKeywords",
    "PlanOptions",
    "Scope",
    "Side",
    "check_owners",
    "plan_options_from",
]


Side = Literal["store", "sheet"]
"""A side that can win a field that both changed to different values."""
Owner = Literal["sheet", "store", "both", "never"]
"""Who owns a field. "sheet": the sheet's value is sent. "store": the store's value counts, and
nothing is sent. "both": the side that changed it since the export. "never": nothing is written on
either side.
"""
OWNERS: tuple[Owner, ...] = get_args(Owner)
OWNABLE: Mapping[str, Unit] = {
    **{column: unit for unit, columns in COLUMNS_OF.items() for column in columns},
    "tag_ids": "tags",
}
"""The columns that can have an owner, with their fields. Columns of one field have one owner."""
UNSENT: tuple[Owner, ...] = ("store", "never")
"""The owners with which the sheet's value of a field is never sent."""
NEEDED: tuple[Unit, ...] = ("name", "status")
"""The fields that a new pet gets from its row, whoever owns them: no query finds a pet without
them.
"""
Scope = Literal["auto", "rows", "all"]
"""Which pets a plan reads."""
MATCHABLE: tuple[Column, ...] = tuple(column for column in COLUMNS if column != "id")
"""The columns by which a row can be matched with its pet."""
SEND_SHEET = '--on-conflict sheet, in Python on_conflict="sheet"'
"""How messages name the option with which the sheet wins."""
JOB_WINNER = "on_conflict"
"""How messages name the option of a job that says which side wins."""


class CompareKeywords(TypedDict, total=False):
    """The fields of PlanOptions as keywords."""

    two_way: Annotated[
        bool, Option(help="Compare only with the store: ignore the base of an exported sheet.")
    ]
    delete_missing: Annotated[bool, Option(help="Delete the pets that no row of the sheet names.")]
    match_on: Annotated[
        str | Iterable[Column],
        Option(
            help="Find the pet of a row without an id by this column, such as name.",
            metavar="COLUMN",
            choices=MATCHABLE,
        ),
    ]
    on_conflict: Annotated[
        Side,
        Option(
            help="Whose value to use for a field that both sides changed since the export.",
            default="store",
        ),
    ]
    owners: Annotated[
        Mapping[str, Owner],
        Option(
            help="Who owns a column. The value of its owner, sheet or store, counts and is never "
            "overwritten; both: the side that changed it; never: neither side is written.",
            default="both",
            metavar="COLUMN=OWNER",
            flag="owner",
        ),
    ]
    scope: Annotated[
        Scope,
        Option(
            help="Which pets to read: the store's lists (all), only the pets whose ids the sheet "
            "names, one by one (rows), or these if the lists are long and the changes are the same "
            "(auto).",
            default="auto",
        ),
    ]


class PlanKeywords(CompareKeywords, GuardKeywords, total=False):
    """The keywords of `Store.plan` and `Store.why`: the fields of PlanOptions and of Guard."""


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the comparison of sheet and store. Raises SettingsError for invalid values."""

    delete_missing: bool = False
    """True if pets that no row names are to be deleted."""
    match_on: tuple[Column, ...] = ()
    """The columns by which a row without an id is matched with its pet. The name of one column is
    converted to a tuple.
    """
    two_way: bool = False
    """True if the base in the sheet is ignored."""
    on_conflict: Side = "store"
    """The side that wins a field that both changed to different values since the export."""
    owners: Mapping[Unit, Owner] = {}
    """The owners of fields, except "both". A column's name is converted to its field's."""
    scope: Scope = "auto"
    """The pets that are read: "all", those that the "rows" name, or "auto" for the cheaper way with
    the same changes.
    """

    def __post_init__(self) -> None:
        for flag in ("delete_missing", "two_way"):
            if type(value := getattr(self, flag)) is not bool:
                raise SettingsError(f"{flag} is {value!r}; it must be True or False")
        given: Any = self.match_on
        if not isinstance(given, Iterable):
            raise SettingsError(
                f"match_on is {given!r}; it must be a list of columns",
                hint='For example match_on=["name"].',
            )
        names = (given,) if isinstance(given, str) else tuple(given)
        for name in names:
            if name not in MATCHABLE:
                raise SettingsError(
                    f"match_on: {name!r} is not a column to match on",
                    hint=f"Valid columns: {', '.join(MATCHABLE)}.",
                )
        msgspec.structs.force_setattr(self, "match_on", names)
        if not (isinstance(self.on_conflict, str) and self.on_conflict in get_args(Side)):
            raise SettingsError(
                f"on_conflict is {self.on_conflict!r}; it must be 'store' or 'sheet'"
            )
        msgspec.structs.force_setattr(self, "owners", check_owners(self.owners))
        if not (isinstance(self.scope, str) and self.scope in get_args(Scope)):
            raise SettingsError(f"scope is {self.scope!r}; it must be 'auto', 'rows' or 'all'")
        needs_all = {"delete_missing": self.delete_missing, "match_on": bool(self.match_on)}
        if self.scope == "rows" and any(needs_all.values()):
            options = [
                f"--{name.replace('_', '-')} (in Python {name})"
                for name, is_set in needs_all.items()
                if is_set
            ]
            raise SettingsError(
                f'{" and ".join(options)} cannot apply to --scope rows (in Python scope="rows"), '
                "which reads only the pets that rows name",
                hint='Leave it out, or read every pet: --scope all, in Python scope="all".',
            )

    @property
    def unsent_units(self) -> frozenset[Unit]:
        """The fields whose values in the sheet are never sent."""
        return _units_of(self.owners, UNSENT)

    @property
    def never_units(self) -> frozenset[Unit]:
        """The fields that are written on neither side."""
        return _units_of(self.owners, ["never"])

    @property
    def sheet_wins(self) -> bool:
        """True if the sheet's value is sent for a field that both sides changed."""
        return self.on_conflict == "sheet"

    def with_winner(self, winner: Side) -> PlanOptions:
        """Return the options with another side that wins."""
        return msgspec.structs.replace(self, on_conflict=winner)


class MergeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for a reconciliation, which can change the sheet and the store."""

    delete_missing: bool = False
    """True if pets that are missing on one side are to be deleted on the other side."""
    match_on: tuple[Column, ...] = ()
    """The columns by which a row without an id is matched with its pet."""
    on_conflict: Literal["ask", "store", "sheet"] = "ask"
    """The side that wins a field that both changed to different values. "ask": neither side wins,
    and both keep their values.
    """
    owners: Mapping[Unit, Owner] = {}
    """The owners of fields, except "both"."""
    holds_deletes: bool = False
    """True if nothing is deleted although it is asked for, because the base may be outdated."""

    @property
    def unsent_units(self) -> frozenset[Unit]:
        """The fields whose values in the sheet are never sent."""
        return _units_of(self.owners, UNSENT)

    @property
    def unwritten_units(self) -> frozenset[Unit]:
        """The fields whose values in the store are never written into the sheet."""
        return _units_of(self.owners, ("sheet", "never"))

    @property
    def sheet_wins(self) -> bool:
        """True if the store takes the sheet's value of a field that both changed."""
        return self.on_conflict == "sheet"

    @property
    def store_wins(self) -> bool:
        """True if the sheet takes the store's value of a field that both changed."""
        return self.on_conflict == "store"

    @property
    def keeps_both(self) -> bool:
        """True if both sides keep their value of a field that both changed."""
        return self.on_conflict == "ask"

    def without_deletes(self) -> MergeOptions:
        """Return the options with which nothing is deleted as missing."""
        return msgspec.structs.replace(
            self, delete_missing=False, holds_deletes=self.delete_missing
        )

    def for_plan(self, *, two_way: bool) -> PlanOptions:
        """Return the options of the plan for the store."""
        return PlanOptions(
            delete_missing=self.delete_missing,
            match_on=self.match_on,
            two_way=two_way,
            on_conflict="sheet" if self.sheet_wins else "store",
            owners=self.owners,
            scope="all",
        )


def _units_of(owners: Mapping[Unit, Owner], wanted: Collection[Owner]) -> frozenset[Unit]:
    """Return the fields with one of the wanted owners."""
    return frozenset(unit for unit, owner in owners.items() if owner in wanted)


def check_owners(given: object) -> dict[Unit, Owner]:
    """Return the owners of fields, without fields of both sides, in the table's order. `given` has
    the owners of columns.

    Raises SettingsError for an unknown column or owner, and for two owners of one field.
    """
    if not isinstance(given, Mapping):
        raise SettingsError(
            f"owners is {given!r}; it must be a mapping of columns",
            hint='For example owners={"status": "store"}.',
        )
    named: dict[Unit, tuple[str, Owner]] = {}
    for column, owner in given.items():
        unit = OWNABLE.get(column) if isinstance(column, str) else None
        if unit is None:
            raise SettingsError(
                f"owners: {column!r} is not a column that can have an owner",
                hint=f"Valid columns: {', '.join(OWNABLE)}.",
            )
        if owner not in OWNERS:
            raise SettingsError(
                f"owners: {column} is {owner!r}; it must be {', '.join(map(repr, OWNERS))}"
            )
        first, other = named.setdefault(unit, (column, owner))
        if other != owner:
            raise SettingsError(
                f"owners: {first} is {other!r} and {column} is {owner!r}, but both are one field",
                hint=f"Give only {unit} an owner.",
            )
    return {unit: named[unit][1] for unit in UNITS if unit in named and named[unit][1] != "both"}


def plan_options_from(
    keywords: PlanKeywords, guard: object = NO_GUARD, *, function: str = "plan"
) -> tuple[PlanOptions, Guard]:
    """Return the options and the guard with the values of the keywords.

    Raises SettingsError for an invalid value, and for single limits in addition to a `guard`;
    TypeError for an unknown keyword of the `function`.
    """
    reject_unknown(keywords, function, PlanKeywords)
    limits: dict[str, Any] = {n: value for n, value in keywords.items() if value is not None}
    own = {name: limits.pop(name) for name in PlanOptions.__struct_fields__ if name in limits}
    return PlanOptions(**own), guard_from(limits, guard)


class PictureKeywords(TypedDict, total=False):
    """The keywords of `Store.pictures` and `Store.pictures_of`: the fields of PictureOptions."""

    keep_metadata: Annotated[
        bool, Option(help="Send the files with their metadata, such as the location of a photo.")
    ]
    max_side: Annotated[
        int | None,
        Option(
            help="Scale down pictures whose longer side has more pixels than this.",
            metavar="N",
            least=1,
            most=65_535,
        ),
    ]
    max_bytes: Annotated[
        int,
        Option(
            help="The maximum size of a file in bytes, on the command line also as 800K or 10M.",
            default="10M",
            metavar="SIZE",
        ),
    ]
    max_pixels: Annotated[
        int,
        Option(
            help="The maximum number of pixels of a picture.",
            default="50,000,000",
            metavar="N",
            least=1,
        ),
    ]
    again: Annotated[bool, Option(help="Upload pictures again that were uploaded before.")]


class PictureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the processing of pictures, and their limits.

    Raises SettingsError for a limit that is not a whole number of at least 1.
    """

    keep_metadata: bool = False
    """True to keep the metadata in the files."""
    max_side: int | None = None
    """The maximum width and height in pixels, None to keep the size."""
    max_bytes: int = 10 * 1024 * 1024
    """The maximum size in bytes of an uploaded file."""
    max_pixels: int = 50_000_000
    """The maximum number of pixels of all frames together."""
    again: bool = False
    """True to upload pictures again that petsync has already uploaded."""

    def __post_init__(self) -> None:
        for name in ("max_side", "max_bytes", "max_pixels"):
            value = getattr(self, name)
            if name == "max_side" and value is None:
                continue
            if type(value) is not int or value < 1:
                raise SettingsError(f"{name} is {value!r}; it must be a whole number of at least 1")
