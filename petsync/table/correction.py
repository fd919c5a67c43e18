"""Correction: a cell read as another text than the file has; Suggestion: one that can be made."""

from __future__ import annotations

import msgspec

__all__ = ["Correction", "Suggestion"]


class Correction(msgspec.Struct, frozen=True):
    """A cell that was read as `after`, while the file says `before`. `address`, `row` and `column`
    are as a finding has them. What a spreadsheet program shows for a number, a date or an error is
    its text here; "" is a blank cell.
    """

    address: str
    row: int
    column: str
    before: str
    after: str


class Suggestion(msgspec.Struct, frozen=True):
    """What a cell with findings may be meant to hold: `after`, in place of `before` (of which the
    first 200 characters are given).

    It `is_sure` where the cell is read as that already, and only its spelling changes; else it is a
    guess, which a person has to confirm. `rule` is the finding's.
    """

    address: str
    row: int
    column: str
    before: str
    after: str
    rule: str
    is_sure: bool
