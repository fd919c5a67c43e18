"""Every file looked at: two at a time, so that only these are in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from petsync.apply.pictures.found import Candidate, content_of
from petsync.apply.pictures.opened import UnfitError, digest_of, opened
from petsync.diff.pictures import Fate, Looked, Picture, PictureOptions, PictureProblem
from petsync.diff.snapshot import Unanswered
from petsync.diff.uploads import Attempt, Uploads
from petsync.model import Pet

__all__ = ["AT_A_TIME", "decided", "examined", "ready", "with_pet"]

AT_A_TIME = 2
"""So many images are decoded at a time."""

Asked = Mapping[int, Pet | Unanswered | None]


def with_pet(
    candidates: Iterable[Candidate], pets: Asked
) -> Iterator[tuple[Candidate, Pet] | PictureProblem]:
    """Each candidate with its pet, or that there is none."""
    for one in candidates:
        pet = pets.get(one.pet_id)
        if isinstance(pet, Pet):
            yield one, pet
        elif pet is None:
            cure = "Correct the id, or add the pet first."
            yield one.problem(f"the store has no pet {one.pet_id}", cure)
        else:
            why = f"pet {one.pet_id} could not be looked up: {pet.problem}"
            yield one.problem(why, "Try again once the service answers.")


async def examined(
    members: list[tuple[Candidate, Pet]],
    options: PictureOptions,
    on_progress: Callable[[Looked], None] | None = None,
) -> list[Picture | PictureProblem]:
    """Each file decoded whole, as a picture or as the problem that it is, in their order."""
    results: dict[int, Picture | PictureProblem] = {}
    left = iter(enumerate(members))

    async def work() -> None:
        for number, (one, pet) in left:
            results[number] = await asyncio.to_thread(_examined, one, pet, options)
            if on_progress is not None:
                on_progress(Looked(len(results), len(members)))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_A_TIME):
            group.create_task(work())
    return [results[number] for number in range(len(members))]


def ready(picture: Picture, options: PictureOptions) -> bytes:
    """What is sent of a picture that was looked at before.

    Raises UnfitError where the file is another one now, OSError where it cannot be read.
    """
    path = Path(picture.path)
    content = content_of(path)
    if digest_of(content) != picture.digest:
        raise UnfitError("the file was changed since it was looked at", "Look once more.")
    if not picture.done:
        return content
    return opened(content, path.suffix, options).content


def decided(
    pictures: Iterable[Picture],
    pets: Mapping[int, Pet],
    uploads: Uploads,
    *,
    adds: bool,
    again: Uploads | None = None,
) -> list[Picture]:
    """The pictures, sorted by pet and place, with what becomes of each. `again`, where what was
    uploaded before is to be uploaded once more: what was already, by runs that were to do so and
    did not come to their end; where they have nothing left to do, all is begun anew.
    """
    members = sorted(pictures, key=lambda one: (one.pet_id, one.place, one.file))
    repeated = set(_repeated(members))
    if again is not None and all(again.attempt(_about(one)) for one in members):
        again = Uploads()
    judge = _Judge(pets, uploads, adds, again)
    return [
        msgspec.structs.replace(one, fate="twice") if at in repeated else judge.told(one)
        for at, one in enumerate(members)
    ]


@dataclass(frozen=True, slots=True)
class _Judge:
    pets: Mapping[int, Pet]
    uploads: Uploads
    adds: bool
    again: Uploads | None

    def told(self, picture: Picture) -> Picture:
        """The picture with its fate, and the run that decides it."""
        about = _about(picture)
        if self.again is None:
            return self._as(picture, self._fate(self.uploads, picture), self.uploads.last(about))
        fate = self._fate(self.again, picture)
        if fate in ("already", "confirm", "retry"):
            return self._as(picture, fate, self.again.last(about))
        earlier = self.uploads.last(about)
        return self._as(picture, "again" if earlier else "new", earlier)

    def _fate(self, uploads: Uploads, picture: Picture) -> Fate:
        return uploads.fate(_about(picture), self.pets[picture.pet_id], adds=self.adds)

    def _as(self, picture: Picture, fate: Fate, earlier: Attempt | None) -> Picture:
        run = "" if earlier is None else earlier.run_id
        return msgspec.structs.replace(picture, fate=fate, run=run)


def _about(picture: Picture) -> tuple[int, tuple[str, str]]:
    return picture.pet_id, (picture.digest, picture.sent_digest)


def _repeated(members: Iterable[Picture]) -> Iterator[int]:
    """The places of those that are the same as one before them, for the same pet."""
    seen: set[tuple[int, str]] = set()
    for at, one in enumerate(members):
        keys = {(one.pet_id, one.digest), (one.pet_id, one.sent_digest)}
        if seen & keys:
            yield at
        else:
            seen |= keys


def _examined(one: Candidate, pet: Pet, options: PictureOptions) -> Picture | PictureProblem:
    try:
        content = content_of(one.path)
        found = opened(content, one.path.suffix, options)
    except UnfitError as error:
        return one.problem(error.problem, error.cure)
    except OSError as error:
        return one.problem(f"it cannot be read: {error.strerror}")
    except MemoryError:
        return one.problem("there is not enough memory for it", "Scale it in an image program.")
    return Picture(
        pet_id=one.pet_id,
        pet=pet.name or "",
        file=one.file,
        path=str(one.path),
        source=one.source,
        row=one.row,
        place=one.place,
        size=len(content),
        format=found.format,
        width=found.width,
        height=found.height,
        frames=found.frames,
        digest=found.digest,
        metadata=one.metadata,
        done=found.done,
        saved=found.saved,
        sent_size=len(found.content),
        sent_digest=found.sent_digest,
        sent_width=found.sent_width,
        sent_height=found.sent_height,
    )
