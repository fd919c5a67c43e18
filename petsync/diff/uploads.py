"""What a journal knows of images that were uploaded, and the photos that they added to pets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from petsync.diff.history import Entry
from petsync.diff.pictures import Fate
from petsync.model import Pet

__all__ = ["Attempt", "Uploads", "added_urls"]

Key = tuple[int, str]


class Attempt(NamedTuple):
    """One upload of an earlier run; `digests` are those of the file and of what was sent. `undone`:
    the photo was taken out of the pet by an undo that stands.
    """

    run_id: str
    entry: Entry
    digests: tuple[str, ...]
    undone: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether it may have come through although nobody saw it."""
        entry = self.entry
        if entry.before is None:
            return False
        # With `after`, the pet was read once more after a request that got no answer.
        is_lost = entry.outcome == "failed" and entry.after is not None
        return entry.outcome in (None, "unknown") or is_lost


@dataclass(slots=True)
class Uploads:
    """The uploads to one store, the older ones first."""

    applied: dict[Key, Attempt] = field(default_factory=dict)
    doubts: dict[Key, Attempt] = field(default_factory=dict)
    _added: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unseen: defaultdict[int, list[frozenset[str]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> Uploads:
        """What these attempts come to."""
        uploads = cls()
        for attempt in attempts:
            uploads.take(attempt)
        return uploads

    def take(self, attempt: Attempt) -> None:
        """Take in one more attempt."""
        entry = attempt.entry
        if entry.pet_id is None:
            return
        keys = [(entry.pet_id, digest) for digest in attempt.digests if digest]
        if entry.outcome == "applied":
            self._settle(keys, attempt)
        elif attempt.is_doubtful:
            self.doubts.update(dict.fromkeys(keys, attempt))
        self._remember(entry.pet_id, attempt)

    def fate(self, picture: tuple[int, Sequence[str]], now: Pet, *, adds: bool) -> Fate:
        """What is to be done with a picture (its pet's id, its digests), the pet being as it is
        `now`. `adds` says whether the service adds an address to a pet for each upload.
        """
        if self.attempt(picture) is not None:
            return "already"
        doubt = self.doubt(picture)
        if doubt is None:
            return "new"
        if self.arrived(doubt, now):
            return "confirm"
        return "retry" if adds else "doubtful"

    def attempt(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """The upload of this picture to this pet that came through."""
        pet_id, digests = picture
        found = (self.applied.get((pet_id, digest)) for digest in digests)
        return next((each for each in found if each is not None), None)

    def last(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """The upload of this picture to this pet that tells most of it."""
        return self.attempt(picture) or self.doubt(picture)

    def doubt(self, picture: tuple[int, Sequence[str]]) -> Attempt | None:
        """The upload of this picture to this pet of which nobody saw the end."""
        pet_id, digests = picture
        found = (self.doubts.get((pet_id, digest)) for digest in digests)
        return next((each for each in found if each is not None), None)

    def arrived(self, doubt: Attempt, now: Pet) -> tuple[str, ...]:
        """The address that the pet has since such an upload was begun, and that no other upload
        added; () if there is none.
        """
        if doubt.entry.before is None or doubt.entry.pet_id is None:
            return ()
        known = self._added[doubt.entry.pet_id]
        new = (url for url in added_urls(doubt.entry.before, now) if url not in known)
        return tuple(new)[:1]

    def photos(self, pet: Pet) -> frozenset[str]:
        """Which of the pet's photos uploads added, or may have added."""
        if pet.id is None or pet.id not in self.pets():
            return frozenset()
        sure = self._added.get(pet.id, set())
        unseen = self._unseen.get(pet.id, [])
        return frozenset(
            url for url in pet.photo_urls if url in sure or any(url not in old for old in unseen)
        )

    def pets(self) -> frozenset[int]:
        """The pets to which anything was uploaded."""
        return frozenset((*self._added, *self._unseen))

    def _settle(self, keys: list[Key], attempt: Attempt) -> None:
        for key in keys:
            self.doubts.pop(key, None)
            if not attempt.undone:
                self.applied[key] = attempt

    def _remember(self, pet_id: int, attempt: Attempt) -> None:
        before, after = attempt.entry.before, attempt.entry.after
        if before is None:
            return
        if attempt.entry.outcome == "applied" and after is not None:
            self._added[pet_id].update(added_urls(before, after))
        elif attempt.entry.outcome == "applied" or attempt.is_doubtful:
            self._unseen[pet_id].append(frozenset(before.photo_urls))


def added_urls(before: Pet, after: Pet) -> tuple[str, ...]:
    """The addresses that a pet has more often than before, in its order."""
    more = Counter(after.photo_urls)
    more.subtract(before.photo_urls)
    return tuple(url for url in dict.fromkeys(after.photo_urls) if more[url] > 0)
