"""Rounds: what one reconciliation made, job by job."""

from __future__ import annotations

import msgspec
import pandas as pd

from petsync._show import as_html, as_text
from petsync.diff.round import Counts, Round, exit_code_of
from petsync.diff.round_report import RoundReport

__all__ = ["Rounds"]


class Rounds(tuple[RoundReport, ...]):
    """The rounds of one reconciliation, in the configuration's order, as a tuple."""

    __slots__ = ()

    @property
    def exit_code(self) -> int:
        """That of the round that a person should hear of first; 0 where there is none."""
        return exit_code_of(told.round.exit_code for told in self)

    def to_frame(self) -> pd.DataFrame:
        """The rounds with the fields of `Round`, one a row; `started` is a moment in UTC, and
        `to_store` and `to_sheet` are numbers of pets.
        """
        rows = [_row(told.round) for told in self]
        frame = pd.DataFrame(rows, columns=list(Round.__struct_fields__))
        return frame.assign(started=pd.to_datetime(frame["started"], utc=True, format="ISO8601"))

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _row(round_: Round) -> dict[str, object]:
    row = msgspec.structs.asdict(round_)
    return {k: v.total if isinstance(v, Counts) else v for k, v in row.items()}
