"""Guard: the limits that a plan must keep, judged before anything is sent."""

from __future__ import annotations

import re

import msgspec

from petsync.errors import SettingsError

__all__ = ["Guard", "Limit", "Verdict"]

_SMALL_UPDATES = 10
"""So many updates are always within a share: 30 % of three pets would be none."""


class Limit(msgspec.Struct, frozen=True):
    """A number of pets, or a share of the store (0 to 1) where `is_share`."""

    value: float
    is_share: bool = True

    def __post_init__(self) -> None:
        most = 1.0 if self.is_share else float(10**12)
        if not isinstance(self.value, int | float) or not 0 <= self.value <= most:
            raise SettingsError(
                f"Limit({self.value!r}, is_share={self.is_share}) is no limit",
                hint="A share is between 0 and 1; ten pets are Limit(10, is_share=False).",
            )

    @classmethod
    def parse(cls, text: str, option: str) -> Limit:
        """`10%` or `25`. Raises SettingsError that names the option."""
        match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*(%?)\s*", text, re.ASCII)
        if match is None or (not match[2] and "." in match[1]):
            raise SettingsError(
                f"{option}: {text!r} is neither a number of pets nor a percentage",
                hint=f"Write, say, {option} 25 or {option} 10%.",
            )
        number = float(match[1])
        if match[2] and number > 100:
            raise SettingsError(f"{option}: {text!r} is more than 100 %")
        return cls(number / 100 if match[2] else number, bool(match[2]))

    def allows(self, total: int, at_least: int) -> int:
        """How many of `total` pets the limit lets through."""
        return max(int(self.value * total + 1e-9), at_least) if self.is_share else int(self.value)

    def __str__(self) -> str:
        return f"{self.value * 100:g} %" if self.is_share else f"{self.value:g}"


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """The limits: deletes 10 % of the store and never everything, updates 30 %, adds free."""

    max_delete: Limit = Limit(0.10)
    max_update: Limit = Limit(0.30)
    max_add: Limit | None = None
    allow_empty: bool = False

    def __post_init__(self) -> None:
        for name in ("max_delete", "max_update", "max_add"):
            limit = getattr(self, name)
            if not isinstance(limit, Limit) and (limit is not None or name != "max_add"):
                raise SettingsError(
                    f"Guard({name}={limit!r}) is no Limit",
                    hint="Write, say, Limit(0.1) for a tenth, or Limit(10, is_share=False).",
                )

    def judge(self, *, pets: int, rows: int, adds: int, updates: int, deletes: int) -> Verdict:
        """The verdict on a plan for a store of `pets`, made from a sheet of `rows`."""
        said = [
            self._empty(rows),
            self._over("add", adds, pets, self.max_add, 0),
            self._over("update", updates, pets, self.max_update, _SMALL_UPDATES),
            self._over("delete", deletes, pets, self.max_delete, 1),
            self._everything(pets, deletes),
        ]
        return Verdict(refusals=tuple(text for text in said if text))

    def _empty(self, rows: int) -> str:
        if rows or self.allow_empty:
            return ""
        return "the sheet has no row that can be used; --allow-empty says that this is meant"

    def _over(self, kind: str, count: int, pets: int, limit: Limit | None, least: int) -> str:
        if limit is None or count <= limit.allows(pets, least):
            return ""
        return (
            f"{count} {kind}s are more than --max-{kind} {limit} lets through "
            f"({limit.allows(pets, least)} of {pets} pets)"
        )

    def _everything(self, pets: int, deletes: int) -> str:
        if not deletes or deletes < pets or self.allow_empty:
            return ""
        return f"every one of the {pets} pets would be deleted; --allow-empty says that it is meant"


class Verdict(msgspec.Struct, frozen=True):
    """What the guard says: no refusals, and the plan may be applied."""

    refusals: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the plan keeps every limit."""
        return not self.refusals
