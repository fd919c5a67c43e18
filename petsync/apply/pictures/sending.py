"""One picture: its pet read before and after, the intent on disk, and what became of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import msgspec

from petsync.apply.halt import Halt, HaltedError
from petsync.apply.pictures.cancelling import Cancelling
from petsync.apply.pictures.look import AT_A_TIME, ready
from petsync.apply.pictures.opened import UnfitError
from petsync.apply.send import cause_of
from petsync.apply.target import Target
from petsync.diff.history import Entry
from petsync.diff.pictures import Picture, Pictures
from petsync.diff.report import Cause, Outcome
from petsync.diff.uploaded import UploadedFile, result_of
from petsync.diff.uploads import Attempt, Uploads, added_urls
from petsync.errors import ApiError, AuthError, NotFoundError, PetsyncError, UnavailableError
from petsync.model import Pet

__all__ = [
    "AGAIN",
    "HOLDING",
    "NEXT",
    "ImageRecorder",
    "PictureSender",
    "UnsentError",
    "left_alone",
]

T = TypeVar("T")
NEXT = "The same command again does what is left, and nothing twice."
AGAIN = "The same command again does what is left, and finds out what became of this one."
_CANCELLED = "cancelled before it was sent"
_LOOK = "Look at the pet's photos in the store; --again uploads it once more."
HOLDING: frozenset[Cause] = frozenset(
    ("no-answer", "bad-answer", "service-error", "too-many", "cut-off", "unexpected")
)
"""Causes after which a picture may go through later, so that those behind it wait for it."""


class ImageRecorder(Protocol):
    """One upload run's part of a journal."""

    async def image(self, entry: Entry) -> None:
        """Return when it is on disk that this upload is about to be sent."""

    def image_done(self, entry: Entry) -> None:
        """What became of an upload."""

    def repeats(self, number: int, why: str) -> None:
        """Its request is sent once more, as the last attempt ended so."""

    async def flush(self) -> None:
        """Return when all that was handed over is on disk."""


def left_alone(picture: Picture) -> UploadedFile:
    """The result of a picture that there is nothing to do for."""
    if picture.fate == "doubtful":
        why = f"run {picture.run} sent it and got no answer; the service does not show what it has"
        return result_of(picture, "unknown", "no-answer", why, cure=_LOOK)
    if picture.fate == "twice":
        return result_of(picture, "skipped", "already-so", "the same picture is there twice")
    return result_of(picture, "skipped", "already-so", f"uploaded before, in run {picture.run}")


class UnsentError(Exception):
    """The picture is not sent; says what becomes of it instead."""

    def __init__(self, result: UploadedFile) -> None:
        super().__init__(result.message)
        self.result = result


@dataclass(slots=True, kw_only=True)
class PictureSender:
    """Uploads single pictures of `pictures.items`, by their numbers. AuthError, UnavailableError,
    HaltedError and what the recorder raises stop the run.

    `earlier` is what earlier runs did; `adds` whether the service adds an address to a pet for each
    upload. `on_wire` are the pictures whose request may be on its way just now. `on_again` is told
    of a picture's further attempt, and why; those that are `cancelling` are left out.
    """

    pictures: Pictures
    target: Target
    recorder: ImageRecorder
    earlier: Uploads
    adds: bool
    settle: float
    halt: Halt
    on_wire: set[int]
    on_sent: Callable[[int, int], None]
    on_again: Callable[[int, str], None]
    cancelling: Cancelling
    items: tuple[Picture, ...] = ()
    begun: float = field(default_factory=time.monotonic)
    _decoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))
    _cut: dict[int, Callable[[], object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = self.pictures.items

    def cancelled(self, number: int) -> None:
        """Cut what is under way for this picture."""
        self._cut.get(number, lambda: None)()

    async def send(self, number: int) -> UploadedFile:
        """What became of the picture. Raises UnsentError where it is not sent."""
        picture = self.items[number]
        done, before, content = await self._cuttable(number, self._made_ready(number, picture))
        if done is not None:
            return done
        entry = self._entry(number, before)
        # From here on it ends in peace: an intent that nothing follows would be a doubt for ever.
        self.on_wire.add(number)
        await self._intended(entry)
        result = self._unsent(entry) if self.halt.why or number in self.cancelling else None
        result = result or await self._uploaded(number, entry, content)
        self.on_wire.discard(number)
        return result

    async def _intended(self, entry: Entry) -> None:
        try:
            await self.recorder.image(entry)
        except PetsyncError:
            self.on_wire.discard(entry.number)
            raise

    def _entry(self, number: int, before: Pet) -> Entry:
        picture = self.items[number]
        return Entry(
            number=number,
            kind="upload",
            row=picture.row,
            source=picture.source,
            pet_id=picture.pet_id,
            before=before,
            digest=picture.sent_digest,
        )

    async def _made_ready(
        self, number: int, picture: Picture
    ) -> tuple[UploadedFile | None, Pet, bytes]:
        """The result of a picture that has one already, its pet, and what is to be sent."""
        before = await self.halt.soon(self._pet(picture))
        doubt = self._doubt(picture)
        if doubt is not None:
            done = await self._arrived(number, doubt, before)
            if done is not None:
                return done, before, b""
            before = await self.halt.soon(self._pet(picture))
        return None, before, await self.halt.soon(self._content(picture))

    async def _cuttable(self, number: int, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work. Raises UnsentError where the picture is cancelled meanwhile."""
        if number in self.cancelling:
            work.close()
            raise self._unwanted(number)
        task = asyncio.ensure_future(work)
        self._cut[number] = task.cancel
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_cut(number):
                raise self._unwanted(number) from None
            raise
        finally:
            del self._cut[number]

    def _is_cut(self, number: int) -> bool:
        """Whether a person wants this picture left out, and nobody the whole run."""
        task = asyncio.current_task()
        outer = task is not None and task.cancelling() > 0
        return number in self.cancelling and not outer and not self.halt.why

    def _unwanted(self, number: int) -> UnsentError:
        return UnsentError(result_of(self.items[number], "skipped", "not-begun", _CANCELLED))

    # Before it is sent -------------------------------------------------------------------------

    async def _pet(self, picture: Picture) -> Pet:
        """The pet as it is now."""
        try:
            now = await self.target.get(picture.pet_id)
        except (AuthError, UnavailableError):
            raise
        except ApiError as error:
            raise UnsentError(
                result_of(picture, "failed", cause_of(error), error.message, cure=NEXT)
            ) from None
        if now is None:
            raise UnsentError(
                result_of(picture, "failed", "gone", "the pet is gone from the store")
            )
        return now

    def _doubt(self, picture: Picture) -> Attempt | None:
        """What is open of an earlier upload. Raises UnsentError where that one came through."""
        about = (picture.pet_id, (picture.digest, picture.sent_digest))
        done = self.earlier.attempt(about)
        # The same pictures may be handed over twice, and are asked for again once.
        asked_again = self.pictures.options.again
        if done is not None and not (asked_again and done.entry.intended <= self.pictures.created):
            why = f"uploaded before, in run {done.run_id}"
            raise UnsentError(result_of(picture, "skipped", "already-so", why))
        return None if picture.fate == "again" else self.earlier.doubt(about)

    async def _arrived(self, number: int, doubt: Attempt, now: Pet) -> UploadedFile | None:
        """The result of a picture that an earlier run uploaded without seeing it; None where it
        is proved that it did not. Raises UnsentError where nothing tells.
        """
        picture = self.items[number]
        urls = self.earlier.arrived(doubt, now)
        if not urls and self.adds and (wait := self._wait(doubt.entry)) > 0:
            await self.halt.soon(asyncio.sleep(wait))
            urls = self.earlier.arrived(doubt, await self.halt.soon(self._pet(picture)))
        if not urls:
            if not self.adds:
                raise UnsentError(left_alone(msgspec.structs.replace(picture, run=doubt.run_id)))
            return None
        before = doubt.entry.before or now
        after = msgspec.structs.replace(before, photo_urls=(*before.photo_urls, *urls))
        entry = self._entry(number, before)
        await self.recorder.image(entry)
        why = f"uploaded in run {doubt.run_id}, as the store has its photo"
        return self._told(entry, "applied", "confirmed", why, after=after, urls=urls)

    def _wait(self, entry: Entry) -> float:
        """Seconds until an upload that got no answer is no longer expected to come through."""
        since = time.monotonic() - self.begun
        if entry.outcome is not None:
            ago = datetime.now(UTC) - datetime.fromisoformat(entry.intended)
            since = max(ago.total_seconds() - entry.seconds, since)
        # Nobody wrote down when the last request of a killed process went out.
        return self.settle - since

    async def _content(self, picture: Picture) -> bytes:
        try:
            async with self._decoding:
                return await asyncio.to_thread(ready, picture, self.pictures.options)
        except UnfitError as error:
            why, cure = error.problem, error.cure
        except OSError as error:
            why, cure = f"it cannot be read: {error.strerror}", ""
        raise UnsentError(result_of(picture, "failed", "changed-since", why, cure=cure))

    # Once it is sent ---------------------------------------------------------------------------

    async def _uploaded(self, number: int, entry: Entry, content: bytes) -> UploadedFile:
        picture = self.items[number]

        async def again(error: ApiError) -> None:
            self.halt.check()
            self.recorder.repeats(number, error.message)
            self.on_again(number, error.message)

        sending = self.target.upload(
            picture.pet_id,
            content,
            filename=_name(picture),
            metadata=picture.metadata,
            again=again,
            on_sent=lambda sent: self.on_sent(number, sent),
        )
        try:
            await self._cuttable(number, sending)
        except UnsentError:
            return await self._cut_off(entry)
        except HaltedError:
            return self._unsent(entry)
        except (AuthError, UnavailableError) as error:
            if not error.may_have_happened:
                self.halt.stop(str(error))
                return self._told_failed(entry, error)
            raise
        except ApiError as error:
            if not error.may_have_happened:
                return self._told_failed(entry, error)
            return await self._settled(entry, error)
        return await self._after(entry, len(content))

    async def _after(self, entry: Entry, sent: int) -> UploadedFile:
        """The result of an upload that the service says is done."""
        try:
            now = await self._read(entry)
        except ApiError as error:
            why = f"uploaded; the photo's address could not be read: {error.message}"
            return self._told(entry, "applied", "", why, sent=sent)
        urls = () if entry.before is None or now is None else added_urls(entry.before, now)
        return self._told(entry, "applied", "", "", after=now, urls=urls, sent=sent)

    async def _settled(self, entry: Entry, error: ApiError) -> UploadedFile:
        """No answer came: the pet itself says what happened, if anything does."""
        now: Pet | None = None
        try:
            now = await self._read(entry)
            if now is not None and entry.before is not None:
                urls = added_urls(entry.before, now)
                if urls:
                    why = "confirmed by the photo that the pet has since"
                    return self._told(entry, "applied", "confirmed", why, after=now, urls=urls)
        except ApiError:
            return self._told(entry, "unknown", cause_of(error), error.message, cure=AGAIN)
        if not self.adds:
            return self._told(entry, "unknown", cause_of(error), error.message, cure=_LOOK)
        return self._told(entry, "failed", cause_of(error), error.message, after=now, cure=AGAIN)

    async def _cut_off(self, entry: Entry) -> UploadedFile:
        """The result of a picture that was cancelled on its way: the pet says whether it came
        through all the same.
        """
        try:
            now = await self._read(entry)
        except ApiError:
            now = None
        if now is not None and entry.before is not None and (urls := added_urls(entry.before, now)):
            why = "it had come through before it could be cancelled"
            return self._told(entry, "applied", "confirmed", why, after=now, urls=urls)
        why = "cancelled on its way, and the pet does not show it"
        return self._told(entry, "unknown", "cut-off", why, cure=AGAIN if self.adds else _LOOK)

    async def _read(self, entry: Entry) -> Pet | None:
        return None if entry.pet_id is None else await self.target.get(entry.pet_id)

    def _unsent(self, entry: Entry) -> UploadedFile:
        if not self.halt.why:
            return self._told(entry, "skipped", "not-begun", _CANCELLED)
        why = f"not uploaded: {self.halt.why.splitlines()[0]}"
        return self._told(entry, "skipped", "not-begun", why, cure=NEXT)

    def _told_failed(self, entry: Entry, error: ApiError) -> UploadedFile:
        result = self.failed(entry.number, error)
        return self._told(entry, "failed", result.cause, result.message, cure=result.cure)

    def failed(self, number: int, error: ApiError) -> UploadedFile:
        """The result of a picture that was surely not uploaded."""
        if isinstance(error, NotFoundError):
            gone = "the pet is gone from the store"
            return result_of(self.items[number], "failed", "gone", gone)
        cause = cause_of(error)
        cure = NEXT if cause in HOLDING else error.hint
        return result_of(self.items[number], "failed", cause, error.message, cure=cure)

    def _told(
        self,
        entry: Entry,
        outcome: Outcome,
        cause: Cause,
        message: str,
        *,
        after: Pet | None = None,
        urls: tuple[str, ...] = (),
        cure: str = "",
        sent: int = 0,
    ) -> UploadedFile:
        """The result, once the journal knows it too."""
        done = msgspec.structs.replace(
            entry, outcome=outcome, cause=cause, message=message, after=after
        )
        self.recorder.image_done(done)
        picture = self.items[entry.number]
        return result_of(picture, outcome, cause, message, cure=cure, urls=urls, sent=sent)


def _name(picture: Picture) -> str:
    """The file's name alone, as the service is told it."""
    return picture.file.replace("\\", "/").rpartition("/")[2] or "image"
