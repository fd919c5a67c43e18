"""The options for reading a sheet, with their documentation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Annotated, Any, Self, TypedDict

import msgspec

from petsync._options import Option
from petsync.errors import SettingsError
from petsync.table.columns import CLEAR
from petsync.table.rules import SheetRule, check_rules

__all__ = ["STATUSES", "ReadKeywords", "ReadOptions", "SheetKeywords"]


STATUSES = ("available", "pending", "sold")


class ReadKeywords(TypedDict, total=False):
    """The keywords of `Store.read`: fields of ReadOptions. The value None means the default."""

    tab: Annotated[
        str | None,
        Option(
            help="The worksheet to read.",
            default="the exported one, else the first with a known header",
            metavar="TAB",
            flag="sheet",
        ),
    ]
    mapping: Annotated[
        Mapping[str, str] | None,
        Option(
            help="Map a header of the sheet to a column, such as Tiername=name.",
            metavar="HEADER=COLUMN",
            flag="column",
        ),
    ]
    encoding: Annotated[
        str | None,
        Option(help="The encoding of a CSV file, such as cp1252.", default="utf-8", metavar="NAME"),
    ]
    corrections: Annotated[
        Mapping[str, str] | None,
        Option(
            help="Read another text instead of the one in the file: of a cell, Pets!C107=sold, or "
            "of all cells of a column with the same text, status:reserved=pending.",
            metavar="CELL=TEXT",
            flag="correct",
        ),
    ]
    known_statuses: Annotated[
        Collection[str], Option(help="Further valid statuses, in this spelling.")
    ]
    rules: Annotated[
        Sequence[SheetRule] | None,
        Option(help="Rules of your own for the rows, in addition to petsync's (`docs/rules.md`)."),
    ]


class SheetKeywords(ReadKeywords, total=False):
    """The keywords of `read_sheet`: the fields of ReadOptions. The value None means the default."""

    defaults: Annotated[
        Mapping[str, str] | None,
        Option(help="A mapping for headers that the file may lack."),
    ]
    statuses: Annotated[Sequence[str], Option(help="The valid statuses.")]
    clear: Annotated[str, Option(help="A cell with this text empties the field.")]


_MAPPINGS = {
    "mapping": '{"Nr": "id"}',
    "defaults": '{"Nr": "id"}',
    "corrections": '{"Pets!C107": "sold"}',
}
"""The options that are mappings of texts, each with an example."""


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for reading a file as a sheet."""

    tab: str | None = None
    """The worksheet; None is the exported one, else the first with a known header."""
    mapping: Mapping[str, str] = {}
    """The column for each header. The headers must exist in the file."""
    defaults: Mapping[str, str] = {}
    """The column for each header. The file may lack the headers."""
    statuses: Sequence[str] = STATUSES
    """The valid statuses."""
    known_statuses: Collection[str] = ()
    """Further valid statuses."""
    any_status: bool = False
    """Whether every other status is valid, too."""
    clear: str = CLEAR
    """A cell with this text empties the field."""
    corrections: Mapping[str, str] = {}
    """Texts to read instead of those in the file, by cell address, or by column and text."""
    encoding: str | None = None
    """The encoding of a CSV file; None is UTF-8."""
    rules: Sequence[SheetRule] = ()
    """The user's own rules for the rows."""

    def __post_init__(self) -> None:
        for name, example in _MAPPINGS.items():
            given: object = getattr(self, name)
            # A Series of pandas is a mapping too.
            items = getattr(given, "items", None)
            pairs = items() if callable(items) else ((0, 0),)
            if not all(isinstance(text, str) for pair in pairs for text in pair):
                raise SettingsError(
                    f"{name} is {str(given)[:60]}; it must be a mapping of texts",
                    hint=f"For example {name}={example}.",
                )
        for name in ("statuses", "known_statuses"):
            # A single text is one status, not its letters.
            if isinstance(value := getattr(self, name), str):
                msgspec.structs.force_setattr(self, name, (value,))
        if not isinstance(self.tab, str | None):
            raise SettingsError(
                f"tab is {self.tab!r}, not the name of a worksheet", hint='For example tab="Pets".'
            )
        if not isinstance(self.rules, Sized) or self.rules:
            msgspec.structs.force_setattr(self, "rules", check_rules(self.rules))

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Self:
        """Return the options for these keywords. A keyword whose value is None gets its default."""
        return cls(**{name: value for name, value in keywords.items() if value is not None})

    @property
    def columns(self) -> dict[str, str]:
        """`defaults` and `mapping` together; `mapping` takes precedence."""
        return {**self.defaults, **self.mapping}
