"""Upload images: several pets at a time, each pet one after the other, under a journal."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import msgspec

from petsync.apply.engine import StoppedError, Stopper, Target, cause_of
from petsync.apply.journal import Journal
from petsync.errors import (
    ApiError,
    AuthError,
    NotFoundError,
    PetsyncError,
    PlanError,
    SettingsError,
    UnavailableError,
)
from petsync.images.inspect import AT_A_TIME, UnfitError, ready
from petsync.models import Pet
from petsync.plan.report import Cause, Entry, Outcome, PastRun, has_left, taken_back
from petsync.plan.uploads import (
    Attempt,
    FileProgress,
    Picture,
    Pictures,
    UploadedFile,
    UploadProgress,
    UploadReport,
    Uploads,
    added_urls,
    result_of,
    result_of_problem,
)

__all__ = [
    "AGAIN",
    "HOLDING",
    "NEXT",
    "ImageRecorder",
    "PictureSender",
    "UnsentError",
    "UploadCanceller",
    "UploadOptions",
    "begun_again",
    "left_alone",
    "rebuild_uploaded",
    "run",
    "uploads_to",
    "without_run",
]


# UploadCanceller: pictures of an upload that are not wanted any more, while it is under way.


class UploadCanceller:
    """Names the pictures of one upload that are to be left out, by their numbers in `items`. What
    was not sent yet is not sent; a request that is on its way is cut, and the pet then says
    whether it came through. Can be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: set[int] = set()
        self._hear: Callable[[int], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def cancel(self, number: int) -> None:
        """Leave this picture out. Returns at once."""
        with self._lock:
            self._numbers.add(number)
            if self._loop is not None and not self._loop.is_closed() and self._hear is not None:
                self._loop.call_soon_threadsafe(self._hear, number)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def listen(self, hear: Callable[[int], object]) -> None:
        """Call the function on the running loop with each picture from now on."""
        with self._lock:
            self._loop, self._hear = asyncio.get_running_loop(), hear


# One picture: its pet read before and after, the intent on disk, and what became of it.


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
        return result_of(picture, "unchanged", "already-so", "the same picture is there twice")
    return result_of(picture, "unchanged", "already-so", f"uploaded before, in run {picture.run}")


class UnsentError(Exception):
    """The picture is not sent; says what becomes of it instead."""

    def __init__(self, result: UploadedFile) -> None:
        super().__init__(result.message)
        self.result = result


@dataclass(slots=True, kw_only=True)
class PictureSender:
    """Uploads single pictures of `pictures.items`, by their numbers. AuthError, UnavailableError,
    StoppedError and what the recorder raises stop the run.

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
    halt: Stopper
    on_wire: set[int]
    on_sent: Callable[[int, int], None]
    on_again: Callable[[int, str], None]
    cancelling: UploadCanceller
    items: tuple[Picture, ...] = ()
    begun: float = field(default_factory=time.monotonic)
    _decoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))
    _cut: dict[int, Callable[[], object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = self.pictures.items

    def cancel(self, number: int) -> None:
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
        await self._record_intent(entry)
        result = self._record_unsent(entry) if self.halt.why or number in self.cancelling else None
        result = result or await self._upload(number, entry, content)
        self.on_wire.discard(number)
        return result

    async def _record_intent(self, entry: Entry) -> None:
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
            done = await self._confirm_arrived(number, doubt, before)
            if done is not None:
                return done, before, b""
            before = await self.halt.soon(self._pet(picture))
        return None, before, await self.halt.soon(self._content(picture))

    async def _cuttable(self, number: int, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work. Raises UnsentError where the picture is cancelled meanwhile."""
        if number in self.cancelling:
            work.close()
            raise self._build_cancelled_error(number)
        task = asyncio.ensure_future(work)
        self._cut[number] = task.cancel
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_cut(number):
                raise self._build_cancelled_error(number) from None
            raise
        finally:
            del self._cut[number]

    def _is_cut(self, number: int) -> bool:
        """Whether a person wants this picture left out, and nobody the whole run."""
        task = asyncio.current_task()
        outer = task is not None and task.cancelling() > 0
        return number in self.cancelling and not outer and not self.halt.why

    def _build_cancelled_error(self, number: int) -> UnsentError:
        return UnsentError(result_of(self.items[number], "not sent", "not-begun", _CANCELLED))

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
            raise UnsentError(result_of(picture, "unchanged", "already-so", why))
        return None if picture.fate == "again" else self.earlier.doubt(about)

    async def _confirm_arrived(self, number: int, doubt: Attempt, now: Pet) -> UploadedFile | None:
        """The result of a picture that an earlier run uploaded without seeing it; None where it
        is proved that it did not. Raises UnsentError where nothing tells.
        """
        picture = self.items[number]
        urls = self.earlier.find_arrived_urls(doubt, now)
        if not urls and self.adds and (wait := self._wait(doubt.entry)) > 0:
            await self.halt.soon(asyncio.sleep(wait))
            urls = self.earlier.find_arrived_urls(doubt, await self.halt.soon(self._pet(picture)))
        if not urls:
            if not self.adds:
                raise UnsentError(left_alone(msgspec.structs.replace(picture, run=doubt.run_id)))
            return None
        before = doubt.entry.before or now
        after = msgspec.structs.replace(before, photo_urls=(*before.photo_urls, *urls))
        entry = self._entry(number, before)
        await self.recorder.image(entry)
        why = f"uploaded in run {doubt.run_id}, as the store has its photo"
        return self._record_result(entry, "applied", "confirmed", why, after=after, urls=urls)

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

    async def _upload(self, number: int, entry: Entry, content: bytes) -> UploadedFile:
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
        except StoppedError:
            return self._record_unsent(entry)
        except (AuthError, UnavailableError) as error:
            if not error.may_have_happened:
                self.halt.stop(str(error))
                return self._told_failed(entry, error)
            raise
        except ApiError as error:
            if not error.may_have_happened:
                return self._told_failed(entry, error)
            return await self._check_outcome(entry, error)
        return await self._after(entry, len(content))

    async def _after(self, entry: Entry, sent: int) -> UploadedFile:
        """The result of an upload that the service says is done."""
        try:
            now = await self._read_pet(entry)
        except ApiError as error:
            why = f"uploaded; the photo's address could not be read: {error.message}"
            return self._record_result(entry, "applied", "", why, sent=sent)
        urls = () if entry.before is None or now is None else added_urls(entry.before, now)
        return self._record_result(entry, "applied", "", "", after=now, urls=urls, sent=sent)

    async def _check_outcome(self, entry: Entry, error: ApiError) -> UploadedFile:
        """No answer came: the pet itself says what happened, if anything does."""
        now: Pet | None = None
        try:
            now = await self._read_pet(entry)
            if now is not None and entry.before is not None:
                urls = added_urls(entry.before, now)
                if urls:
                    why = "confirmed by the photo that the pet has since"
                    return self._record_result(
                        entry, "applied", "confirmed", why, after=now, urls=urls
                    )
        except ApiError:
            return self._record_result(entry, "unknown", cause_of(error), error.message, cure=AGAIN)
        if not self.adds:
            return self._record_result(entry, "unknown", cause_of(error), error.message, cure=_LOOK)
        return self._record_result(
            entry, "failed", cause_of(error), error.message, after=now, cure=AGAIN
        )

    async def _cut_off(self, entry: Entry) -> UploadedFile:
        """The result of a picture that was cancelled on its way: the pet says whether it came
        through all the same.
        """
        try:
            now = await self._read_pet(entry)
        except ApiError:
            now = None
        if now is not None and entry.before is not None and (urls := added_urls(entry.before, now)):
            why = "it had come through before it could be cancelled"
            return self._record_result(entry, "applied", "confirmed", why, after=now, urls=urls)
        why = "cancelled on its way, and the pet does not show it"
        return self._record_result(
            entry, "unknown", "cut-off", why, cure=AGAIN if self.adds else _LOOK
        )

    async def _read_pet(self, entry: Entry) -> Pet | None:
        return None if entry.pet_id is None else await self.target.get(entry.pet_id)

    def _record_unsent(self, entry: Entry) -> UploadedFile:
        if not self.halt.why:
            return self._record_result(entry, "not sent", "not-begun", _CANCELLED)
        why = f"not uploaded: {self.halt.why.splitlines()[0]}"
        return self._record_result(entry, "not sent", "not-begun", why, cure=NEXT)

    def _told_failed(self, entry: Entry, error: ApiError) -> UploadedFile:
        result = self.build_failed(entry.number, error)
        return self._record_result(entry, "failed", result.cause, result.message, cure=result.cure)

    def build_failed(self, number: int, error: ApiError) -> UploadedFile:
        """The result of a picture that was surely not uploaded."""
        if isinstance(error, NotFoundError):
            gone = "the pet is gone from the store"
            return result_of(self.items[number], "failed", "gone", gone)
        cause = cause_of(error)
        cure = NEXT if cause in HOLDING else error.hint
        return result_of(self.items[number], "failed", cause, error.message, cure=cure)

    def _record_result(
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


# Uploads carried out: each pet's pictures one after the other, several pets at a time.
#
# An upload is the one change that cannot be sent twice without harm, and that has no id to be
# found by. So its pet is read before and after it: what tells that it came through is the address
# that the service added.


_CUT = "under way when the run was stopped"
_EVERY = 0.1
_MOST = 64


class UploadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`concurrency` pets at a time. Times are in seconds: a stopped run waits `grace` for uploads
    that are on their way, and an earlier upload that got no answer is sent again once `settle` has
    passed since then (after a crash, since this run began) and the pet still has no new photo.
    Raises SettingsError.
    """

    concurrency: int = 4
    settle: float = 30.0
    grace: float = 1.5

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or not 1 <= self.concurrency <= _MOST:
            raise SettingsError(f"concurrency is {self.concurrency!r}; it must be 1 to {_MOST}")
        if not 0 <= self.settle <= 3600:
            raise SettingsError(f"settle is {self.settle!r}; it must be seconds from 0 to 3600")


async def run(
    pictures: Pictures,
    target: Target,
    recorder: ImageRecorder,
    earlier: Uploads,
    *,
    run_id: str,
    started: str,
    adds: bool,
    options: UploadOptions,
    on_progress: Callable[[UploadProgress], None] | None = None,
    on_file: Callable[[FileProgress], None] | None = None,
    cancelling: UploadCanceller | None = None,
) -> UploadReport:
    """Upload what is to be uploaded, and report on every file.

    `earlier` is what earlier runs did; `adds` whether the service adds an address to a pet for
    each upload. What stops the whole run leaves the rest `not sent`; `stopped` says why. `on_file`
    is told of each picture alone, and those that are `cancelling` are left out.
    """
    begun = time.monotonic()
    unwanted = cancelling or UploadCanceller()
    engine = _Engine(
        pictures, target, recorder, earlier, adds, options, unwanted, on_progress, on_file
    )
    stopped = await engine.run()
    return _report(pictures, run_id, started, time.monotonic() - begun, engine.results(), stopped)


def without_run(pictures: Pictures, *, started: str) -> UploadReport:
    """The report where there is nothing to upload."""
    return _report(pictures, "", started, 0.0, {}, "")


def _report(
    pictures: Pictures,
    run_id: str,
    started: str,
    seconds: float,
    results: dict[int, UploadedFile],
    stopped: str,
) -> UploadReport:
    of_items = iter(results.values())
    told = [
        next(of_items) if picture.is_item else left_alone(picture) for picture in pictures.pictures
    ]
    return UploadReport(
        run_id=run_id,
        store=pictures.store,
        source=pictures.source,
        started=started,
        seconds=round(seconds, 3),
        results=(*told, *map(result_of_problem, pictures.problems)),
        ignored=pictures.ignored,
        stopped=stopped,
    )


class _Engine:
    def __init__(
        self,
        pictures: Pictures,
        target: Target,
        recorder: ImageRecorder,
        earlier: Uploads,
        adds: bool,
        options: UploadOptions,
        cancelling: UploadCanceller,
        on_progress: Callable[[UploadProgress], None] | None,
        on_file: Callable[[FileProgress], None] | None,
    ) -> None:
        self._items, self._bytes = pictures.items, pictures.total_bytes
        self._target, self._recorder = target, recorder
        self._options, self._on_progress, self._on_file = options, on_progress, on_file
        self._cancelling = cancelling
        self._results: dict[int, UploadedFile] = {}
        self._on_wire: set[int] = set()
        self._halt = Stopper(options.grace, self._on_wire)
        self._sender = PictureSender(
            pictures=pictures,
            target=target,
            recorder=recorder,
            earlier=earlier,
            adds=adds,
            settle=options.settle,
            halt=self._halt,
            on_wire=self._on_wire,
            on_sent=self._on_sent,
            on_again=self._on_again,
            cancelling=cancelling,
        )
        self._sent: Counter[int] = Counter()
        self._attempts: Counter[int] = Counter()
        self._problems = self._bytes_sent = 0
        self._told_at = 0.0

    async def run(self) -> str:
        """Work to the end or to a stop; why it stopped, "" if it did not."""
        self._cancelling.listen(self._sender.cancel)
        await self._halt.run_to_end(self._work())
        return self._halt.why

    def results(self) -> dict[int, UploadedFile]:
        """A result for each picture, by its number; those that were not begun are `not sent`."""
        why = f"not begun: {self._halt.why.splitlines()[0]}" if self._halt.why else "not begun"
        results = {}
        for number, picture in enumerate(self._items):
            rest = result_of(picture, "not sent", "not-begun", why, cure=NEXT)
            if number in self._on_wire:
                rest = result_of(picture, "unknown", "cut-off", _CUT, cure=AGAIN)
            results[number] = self._results.get(number, rest)
        return results

    async def _work(self) -> None:
        try:
            groups = iter(self._groups())
            async with asyncio.TaskGroup() as group:
                for _ in range(self._options.concurrency):
                    self._halt.watch(group.create_task(self._worker(groups)))
            await self._recorder.flush()
        except PetsyncError as error:
            self._halt.stop(str(error))

    def _groups(self) -> Iterable[list[int]]:
        """The numbers of each pet's pictures, in their order."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for number, picture in enumerate(self._items):
            groups[picture.pet_id].append(number)
        return groups.values()

    async def _worker(self, groups: Iterator[list[int]]) -> None:
        for numbers in groups:
            holder: UploadedFile | None = None
            for number in numbers:
                if self._halt.why:
                    return
                self._halt.at(number)
                holder = holder or self._holding(number)
                if holder is None:
                    await self._one(number)
                    holder = self._holding(number)
                else:
                    self._hold(number, holder)

    def _holding(self, number: int) -> UploadedFile | None:
        result = self._results.get(number)
        if result is None or result.outcome not in ("failed", "unknown"):
            return None
        if number in self._cancelling:
            return None
        return result if result.cause in HOLDING else None

    def _hold(self, number: int, holder: UploadedFile) -> None:
        why = f"held back, as {holder.file} comes before it and did not come through"
        cure = "The same command again uploads both, in their order."
        picture = self._items[number]
        self._end(number, result_of(picture, "not sent", "held-back", why, cure=cure))

    async def _one(self, number: int) -> None:
        self._tell_of(number)
        try:
            self._end(number, await self._sender.send(number))
            await self._recorder.flush()
        except UnsentError as reason:
            self._end(number, reason.result)
        except StoppedError:
            return
        except PetsyncError as error:
            self._stop(number, error)
        except Exception as error:  # noqa: BLE001 - one picture's surprise must not lose the report
            self._halt.stop(f"unexpected: {error!r}")

    def _stop(self, number: int, error: PetsyncError) -> None:
        """End the run after the uploads under way; this one has the result that it can have."""
        self._halt.stop(str(error))
        if not isinstance(error, ApiError) or error.may_have_happened:
            return
        self._on_wire.discard(number)
        self._results[number] = self._sender.build_failed(number, error)

    # Progress ----------------------------------------------------------------------------------

    def _end(self, number: int, result: UploadedFile) -> None:
        self._results[number] = result
        self._problems += result.outcome in ("failed", "unknown")
        if self._items[number].fate != "confirm":
            self._count(number, self._items[number].sent_size)
        self._tell_of(number, result=result)
        self._tell()

    def _on_again(self, number: int, why: str) -> None:
        self._attempts[number] += 1
        self._tell_of(number, why=why)

    def _on_sent(self, number: int, sent: int) -> None:
        self._tell_of(number, sent)
        self._count(number, sent)
        now = time.monotonic()
        if now - self._told_at >= _EVERY:
            self._told_at = now
            self._tell()

    def _count(self, number: int, sent: int) -> None:
        """So many bytes of a picture have gone out; an attempt anew takes none back."""
        self._bytes_sent += max(sent - self._sent[number], 0)
        self._sent[number] = max(sent, self._sent[number])

    def _tell_of(
        self, number: int, sent: int = 0, *, why: str = "", result: UploadedFile | None = None
    ) -> None:
        if self._on_file is None:
            return
        self._on_file(
            FileProgress(
                number=number,
                sent=sent,
                total=self._items[number].sent_size,
                attempt=self._attempts[number] + 1,
                why=why,
                result=result,
            )
        )

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        self._on_progress(
            UploadProgress(
                sent=self._bytes_sent,
                total=self._bytes,
                done=len(self._results),
                files=len(self._items),
                problems=self._problems,
                traffic=self._target.traffic,
            )
        )


# The uploads of earlier runs, as a journal has them.


def uploads_to(journal: Journal, store: str) -> Uploads:
    """What the journal knows of uploads to a store; what an undo took back is not there any more.
    Raises PetsyncError for one that is damaged.
    """
    runs = journal.runs(store)
    return _of(journal, runs, [run for run in runs if run.kind == "upload"])


def begun_again(journal: Journal, store: str, source: str) -> Uploads:
    """What was done so far of the pictures of this source that somebody asked to be uploaded
    `again`: by the newest runs of it, as far back as none of them came to its end.
    """
    runs = journal.runs(store)
    return _of(journal, runs, list(_iter_unfinished(journal, runs, source)))


def _of(journal: Journal, runs: Sequence[PastRun], chosen: Sequence[PastRun]) -> Uploads:
    back = taken_back(runs, journal.entries)
    attempts = (
        Attempt(*told, undone=told[1].pet_id in back.get(run.run_id, ()))
        for run in reversed(chosen)
        for told in _iter_upload_entries(journal, run.run_id)
    )
    return Uploads.of(attempts)


def _iter_unfinished(journal: Journal, runs: Sequence[PastRun], source: str) -> Iterator[PastRun]:
    for run in runs:
        if run.kind != "upload" or run.source != source:
            continue
        if not (has_left(run) and _is_again(journal.payload(run.run_id))):
            return
        yield run


def _is_again(payload: bytes) -> bool:
    try:
        return Pictures.from_json(payload).options.again
    except PlanError:
        return False


def _iter_upload_entries(
    journal: Journal, run_id: str
) -> Iterator[tuple[str, Entry, tuple[str, ...]]]:
    files = _files(journal.payload(run_id))
    for entry in journal.entries(run_id):
        file = files[entry.number] if entry.number < len(files) else ""
        yield run_id, entry, (entry.digest, file)


def _files(payload: bytes) -> Sequence[str]:
    """The digests of the files that a run was begun with, by number."""
    try:
        return [picture.digest for picture in Pictures.from_json(payload).pictures]
    except PlanError:
        # Another version's: what was sent is known all the same.
        return ()


# An upload's report made anew, from what its run was begun with and what its journal knows.


def rebuild_uploaded(past: PastRun, pictures: Pictures, entries: Iterable[Entry]) -> UploadReport:
    """What became of each file that the run was to upload. What was left alone from the start, as
    it was uploaded before or had a problem, is not in the journal, and not in this report.
    """
    known = {entry.number: entry for entry in entries}
    told = (_result(one, known.get(number)) for number, one in enumerate(pictures.pictures))
    return UploadReport(
        run_id=past.run_id,
        store=past.store,
        source=past.source,
        started=past.started,
        seconds=past.seconds,
        results=tuple(told),
        stopped=past.stopped if past.state == "stopped" else "",
    )


def _result(picture: Picture, entry: Entry | None) -> UploadedFile:
    if entry is None:
        why = "nothing was sent for it in this run"
        return result_of(picture, "not sent", "not-begun", why, cure=NEXT)
    if entry.outcome is None:
        why = "begun, and nobody knows yet whether it was done"
        return result_of(picture, "unknown", "cut-off", why, cure=AGAIN)
    done = entry.outcome == "applied"
    return result_of(
        picture,
        entry.outcome,
        entry.cause,
        entry.message,
        cure="" if done else NEXT if entry.outcome == "not sent" else AGAIN,
        urls=_urls(entry) if done else (),
        sent=picture.sent_size if done and entry.cause != "confirmed" else 0,
    )


def _urls(entry: Entry) -> tuple[str, ...]:
    if entry.before is None or entry.after is None:
        return ()
    return added_urls(entry.before, entry.after)
