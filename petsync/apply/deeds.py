"""Deeds: what a run did to each pet, put together from its journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from petsync.diff.fields import differing
from petsync.diff.history import Entry
from petsync.diff.report import Cause, Outcome
from petsync.model import Pet
from petsync.table.columns import Column

__all__ = ["Deed", "deeds_of"]

_DONE: frozenset[tuple[Outcome | None, Cause]] = frozenset(
    {
        ("failed", "not-as-sent"),
        ("conflict", "not-as-sent"),
        ("unknown", "unverified"),
        ("failed", "overwrote"),
    }
)
"""What counts as done, besides `applied`: the service took it, and made something else of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What a run did to one pet. `before` and `after` are the pet then, None where there was none
    or nobody knows; `pet_id` is None where the service did not say which id it gave. `urls` are
    the addresses that an upload added. `is_settled` is False where nobody knows whether it was
    done. `is_renumbered`: the service gave the pet another id than it was to have; `is_assigned`:
    it gave one to a pet that was to have none.
    """

    kind: Literal["add", "update", "delete", "upload"]
    pet_id: int | None
    row: int | None
    source: str
    fields: tuple[Column, ...]
    before: Pet | None
    after: Pet | None
    urls: frozenset[str] = frozenset()
    is_settled: bool = True
    is_renumbered: bool = False
    is_assigned: bool = False

    @property
    def was(self) -> Pet:
        """The pet before; empty where there was none."""
        return self.before or _NOBODY

    @property
    def left(self) -> Pet:
        """The pet as the run left it; empty where it left none."""
        return self.after or _NOBODY

    @property
    def is_forgotten(self) -> bool:
        """Whether the journal lacks what is needed to take it back."""
        needed = {"add": [self.after], "delete": [self.before]}
        return None in needed.get(self.kind, [self.before, self.after])

    @property
    def is_image(self) -> bool:
        """Whether it is an upload of which all is known."""
        return self.kind == "upload" and self.is_settled and not self.is_forgotten

    @property
    def name(self) -> str:
        """The pet's name as it is best known."""
        return self.left.name or self.was.name or ""


_NOBODY = Pet()


def deeds_of(entries: Iterable[Entry]) -> Iterator[Deed]:
    """What was done, or may have been, in the order of the entries; several images of one pet are
    one deed, at the place of the first. What was surely not done is left out.
    """
    done = [_deed(entry) for entry in entries if _may_be_done(entry)]
    images = _together(deed for deed in done if deed.is_image)
    for deed in done:
        if not deed.is_image:
            yield deed
        elif (joined := images.pop(deed.pet_id, None)) is not None:
            yield joined


def _may_be_done(entry: Entry) -> bool:
    return entry.outcome in ("applied", "unknown", None) or _is_done(entry)


def _is_done(entry: Entry) -> bool:
    return entry.outcome == "applied" or (entry.outcome, entry.cause) in _DONE


def _deed(entry: Entry) -> Deed:
    assigned = entry.assigned_id
    fields, kind = entry.fields, entry.kind
    if kind == "add" and entry.before is not None and entry.after is not None:
        # It took the place of a pet: taken back, that pet is as it was.
        fields, kind = differing(entry.after, entry.before), "update"
    return Deed(
        kind=kind,
        pet_id=entry.pet_id if assigned is None else assigned,
        row=entry.row,
        source=entry.source,
        fields=fields,
        before=entry.before,
        after=entry.after,
        urls=_added(entry) if entry.kind == "upload" else frozenset(),
        is_settled=_is_done(entry),
        is_renumbered=entry.cause == "another-id",
        is_assigned=entry.pet_id is None and assigned is not None,
    )


def _added(entry: Entry) -> frozenset[str]:
    """The addresses that an upload brought."""
    if entry.before is None or entry.after is None:
        return frozenset()
    return frozenset(entry.after.photo_urls) - frozenset(entry.before.photo_urls)


def _together(uploads: Iterable[Deed]) -> dict[int | None, Deed]:
    """One deed for each pet: from before the first of its images to after the last."""
    pets: dict[int | None, Deed] = {}
    for deed in uploads:
        first = pets.get(deed.pet_id)
        pets[deed.pet_id] = (
            deed
            if first is None
            else replace(first, after=deed.after or first.after, urls=first.urls | deed.urls)
        )
    return pets
